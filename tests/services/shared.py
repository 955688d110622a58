"""One PostgreSQL for all tests of a run, and an empty journal in it for each test that asks.

Nothing that these tests show hangs on a disk, so the server does not wait for it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.services.postgres import running
from tests.services.server import Missing, private_folder
from tests.services.wire import Wire
from understudy.authority.journal.journal_url import parsed

SETTINGS = {"fsync": "off", "max_connections": "100", "shared_buffers": "32MB"}


@contextmanager
def database() -> Iterator["Database"]:
    """A server for as long as the block lasts; a test without one is skipped, or fails."""
    with (
        excused(),
        private_folder(Path("/var/tmp")) as folder,
        running(folder / "pg", SETTINGS) as conninfo,
    ):
        yield Database(conninfo)


@contextmanager
def excused() -> Iterator[None]:
    """A test whose server is missing is skipped, and fails where servers are required."""
    try:
        yield
    except Missing as error:
        if "UNDERSTUDY_REQUIRE_SERVICES" in os.environ:
            pytest.fail(str(error))
        pytest.skip(str(error))


class Database:
    """Gives out URLs of journals that are not made yet."""

    def __init__(self, conninfo: str) -> None:
        self._conninfo = conninfo
        self._numbers = count(1)

    def url(self) -> str:
        """A schema of our own, on this server."""
        return f"{url_of(self._conninfo)}&schema={self._name()}"

    def _name(self) -> str:
        return f"s{os.getpid()}_{next(self._numbers)}"

    @property
    def socket(self) -> Path:
        """Where the server listens."""
        found = conninfo_to_dict(self._conninfo)
        return Path(str(found["host"])) / f".s.PGSQL.{found.get('port', 5432)}"

    def through(self, wire: Wire, url: str) -> str:
        """The same journal, by way of a wire."""
        found = conninfo_to_dict(self._conninfo)
        where = f"{found['user']}@127.0.0.1:{wire.port}/{found['dbname']}"
        return f"postgresql://{where}?schema={parsed(url).schema}"

    def connect(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(self._conninfo, autocommit=True)

    def reset(self, url: str) -> None:
        """Make a journal as if it was new, which is quicker than a new one."""
        with self.connect() as db:
            db.execute(f"SET search_path = {parsed(url).schema}")
            db.execute("SET session_replication_role = replica")  # no triggers
            db.execute("DELETE FROM journal; DELETE FROM snapshot; DELETE FROM epoch_start")
            db.execute("UPDATE head SET epoch = 0, holder = NULL")
            db.execute("SELECT clear_tables(); UPDATE watermark SET seq = 0")

    def drop(self, url: str) -> None:
        with self.connect() as db:
            db.execute(f"DROP SCHEMA IF EXISTS {parsed(url).schema} CASCADE")


@cache
def url_of(conninfo: str) -> str:
    """A connection string as a URL."""
    if "://" in conninfo:
        return conninfo if "?" in conninfo else f"{conninfo}?"
    parts = dict(each.split("=", 1) for each in conninfo.split())
    name = parts.pop("dbname", "postgres")
    members = "&".join(f"{key}={quote(value, safe='')}" for key, value in parts.items())
    return f"postgresql:///{name}?{members}"
