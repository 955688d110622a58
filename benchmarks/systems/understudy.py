"""Our sidecar, started as users start it, with its default settings and its own client.

Every measurement gets a fresh state directory, copied from one that was filled by the authority
itself; the sidecar starts on it before the clock does. In lockstep a client asks and waits; with a
window it hands the whole window to `ask_for`, which is the fastest way that the public client has,
and reads of an answer what a worker needs: whether it was accepted, and the fence. Each answer is
durable, with its row of evidence.
"""

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import orjson
import psycopg

from benchmarks.systems.postgres import SETTINGS
from benchmarks.systems.system import TTL_SECONDS, Refused, names
from tests.services import postgres
from tests.services.server import Server
from tests.services.shared import url_of
from understudy.authority import Office, Unavailable, create_state_dir
from understudy.authority.service.client import Client, ClientCall
from understudy.contracts import Door, limits, parse

PROGRAM = Path(sys.executable).with_name("understudy")
_BORN = "2026-01-01T00:00:00Z"


class Sidecar:
    """`understudy authority serve`."""

    name = "Understudy sidecar"
    evidence = "journal row, chained"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._templates: dict[int, Path] = {}
        self._state_dir = folder / "state"
        self._server: Server | None = None

    def prepare(self, count: int) -> None:
        self.stop()
        if count not in self._templates:
            self._templates[count] = self._folder / f"template-{count}"
            fill(self._templates[count], count)
        shutil.rmtree(self._state_dir, ignore_errors=True)
        shutil.copytree(self._templates[count], self._state_dir)
        self._server = serve(self._state_dir, self._folder / "log")

    def connect(self, owner: str) -> "Worker":
        return Worker(self._state_dir, owner)

    def stop(self) -> None:
        if self._server is not None:
            self._server.stop()
            self._server = None


class Shared(Sidecar):
    """The same, with its journal in PostgreSQL: a server set up as for the peers there."""

    name = "Understudy on PostgreSQL"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._opened = ExitStack()
        self._url = url_of(self._opened.enter_context(postgres.running(folder / "pg", SETTINGS)))
        self._schema = f"understudy_bench_{os.getpid()}"

    def prepare(self, count: int) -> None:
        super().stop()
        self._drop()
        shutil.rmtree(self._state_dir, ignore_errors=True)
        fill(self._state_dir, count, f"{self._url}&schema={self._schema}")
        self._server = serve(self._state_dir, self._folder / "log")

    def stop(self) -> None:
        super().stop()
        self._drop()
        self._opened.close()

    def _drop(self) -> None:
        with psycopg.connect(self._url, autocommit=True) as db:
            db.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")


class _Lease(msgspec.Struct):
    fence: int


class _Issue(msgspec.Struct):
    lease: _Lease | None = None


class _Answer(msgspec.Struct):
    result: str
    diagnostic: str = ""
    issue: _Issue | None = None


_decode = msgspec.json.Decoder(_Answer).decode


class Worker:
    def __init__(self, state_dir: Path, owner: str) -> None:
        self._client, self._owner = Client(state_dir, "mcp"), owner

    def claim(self, keys: Sequence[str]) -> list[int]:
        answers = self._accepted("issue.claim", keys, {"leaseTtlSeconds": TTL_SECONDS})
        leases = [answer.issue.lease for answer in answers if answer.issue is not None]
        return [lease.fence for lease in leases if lease is not None]

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        self._accepted("issue.lease_renew", keys, {"leaseTtlSeconds": TTL_SECONDS}, fences)
        return list(fences)

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        self._accepted("issue.close", keys, {}, fences)

    def close(self) -> None:
        self._client.close()

    def _accepted(
        self,
        action: str,
        keys: Sequence[str],
        asked: dict[str, Any],
        fences: Sequence[int] | None = None,
    ) -> list[_Answer]:
        calls = []
        for at, key in enumerate(keys):
            payload = {"id": key, "assignee": self._owner, "leaseId": f"lease-{key}", **asked}
            if fences is not None:
                payload["fence"] = fences[at]
            calls.append(ClientCall(action, payload))
        answers = self._client.ask_for(_decode, calls)
        for answer in answers:
            if answer.result != "accepted":
                raise Refused(answer.diagnostic)
        return answers


def serve(state_dir: Path, log: Path) -> Server:
    """A sidecar of this state directory that answers."""
    server = Server([PROGRAM, "authority", "serve", "--state-dir", state_dir], log)
    server.wait_for(lambda: answers(state_dir))
    return server


def fill(state_dir: Path, count: int, url: str | None = None) -> None:
    """A state directory with so many open issues, as an import makes them."""
    create_state_dir(state_dir, "bench", url)
    with Office(state_dir) as office:
        for lines in _imports(count):
            for answer in office.submit([parse(lines, Door("cli"))]):
                _refuse_rejected(answer)


def _imports(count: int) -> Iterator[bytes]:
    keys = iter(names(count))
    while batch := list(islice(keys, limits.IMPORT_RECORDS_MAX)):
        records = [
            {"id": key, "title": "work", "created_at": _BORN, "updated_at": _BORN} for key in batch
        ]
        yield orjson.dumps({"action": "issue.import", "payload": {"records": records}})


def _refuse_rejected(answer: bytes) -> None:
    value = orjson.loads(answer)
    if value["result"] != "accepted":
        raise Refused(value["diagnostic"])


def answers(state_dir: Path) -> bool:
    try:
        Client(state_dir, "mcp").close()
    except Unavailable:
        return False
    return True
