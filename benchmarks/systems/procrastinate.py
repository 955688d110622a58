"""Procrastinate, where it is installed: the calls that its worker makes, by the SQL that it ships.

Its worker would add its own loop around them, so this is kinder than it is. A worker fetches
whatever is next, gives a sign of life for itself, and finishes the job; none of that is fenced, so
it is shown as another kind of work.
"""

import importlib
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.systems.postgres import SETTINGS
from benchmarks.systems.system import Refused
from tests.services.postgres import running
from tests.services.server import Missing

_SCHEMA = "understudy_procrastinate"
_DEFER = """
INSERT INTO procrastinate_jobs (queue_name, task_name)
SELECT 'work', 'i' || n FROM generate_series(0, %s - 1) AS n
"""


class Jobs:
    name = "Procrastinate"
    evidence = "event rows"

    def __init__(self, folder: Path) -> None:
        try:
            self._tables = importlib.import_module(
                "procrastinate.schema"
            ).SchemaManager.get_schema()
        except ImportError as error:
            raise Missing(f"{error}; `pip install procrastinate` beside the lock") from error
        self._opened = ExitStack()
        self._url = self._opened.enter_context(running(folder, SETTINGS))
        self._db = self._opened.enter_context(_connected(self._url))

    def prepare(self, count: int) -> None:
        self._db.execute(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")
        self._db.execute(f"CREATE SCHEMA {_SCHEMA}")
        self._db.execute(self._tables.replace("%%", "%"), prepare=False)
        self._db.execute(_DEFER, (count,))
        self._db.execute("VACUUM (ANALYZE) procrastinate_jobs")

    def connect(self, owner: str) -> "Worker":  # noqa: ARG002 - a worker has a number
        return Worker(_connected(self._url))

    def stop(self) -> None:
        self._db.execute(f"DROP SCHEMA IF EXISTS {_SCHEMA} CASCADE")
        self._opened.close()


class Worker:
    def __init__(self, db: psycopg.Connection[Any]) -> None:
        self._db = db
        self._number = self._one("SELECT procrastinate_register_worker_v1()")

    def claim(self, keys: Sequence[str]) -> list[int]:
        fetch = "SELECT id FROM procrastinate_fetch_job_v2(NULL, %s)"
        return [self._one(fetch, self._number) for _ in keys]

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        for _ in keys:
            self._db.execute("SELECT procrastinate_update_heartbeat_v1(%s)", (self._number,))
        return list(fences)

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:  # noqa: ARG002 - it has no fences
        for number in fences:
            finish = "SELECT procrastinate_finish_job_v1(%s, 'succeeded', false)"
            self._db.execute(finish, (number,))

    def close(self) -> None:
        self._db.close()

    def _one(self, query: str, *values: object) -> int:
        found = self._db.execute(query, values).fetchone()
        if found is None or found[0] is None:
            raise Refused("there is no job left")
        return int(found[0])


def _connected(url: str) -> psycopg.Connection[Any]:
    db = psycopg.connect(url, autocommit=True, prepare_threshold=0)
    db.execute(f"SET search_path = {_SCHEMA}")
    return db
