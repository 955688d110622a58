"""Our sidecar, started as users start it, with its default settings and its own client.

Every measurement gets a fresh state directory, copied from one that was filled by the authority
itself; the sidecar starts on it before the clock does. In lockstep a client asks and waits; with a
window it hands the whole window to `ask_many`, which is the fastest way that the public client has.
Each answer is durable, with its row of evidence.
"""

import shutil
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from benchmarks.systems.system import TTL_SECONDS, Refused, names
from tests.services.server import Server
from understudy.authority import Office, Unavailable, create_state_dir
from understudy.authority.client import Call, Client
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


class Worker:
    def __init__(self, state_dir: Path, owner: str) -> None:
        self._client, self._owner = Client(state_dir, "mcp"), owner

    def claim(self, keys: Sequence[str]) -> list[int]:
        asked = {"leaseTtlSeconds": TTL_SECONDS}
        answers = self._accepted([Call("issue.claim", self._lease(key) | asked) for key in keys])
        return [answer["issue"]["lease"]["fence"] for answer in answers]

    def renew(self, keys: Sequence[str], fences: Sequence[int]) -> list[int]:
        asked = {"leaseTtlSeconds": TTL_SECONDS}
        held = [
            self._lease(key) | {"fence": fence} for key, fence in zip(keys, fences, strict=True)
        ]
        self._accepted([Call("issue.lease_renew", holder | asked) for holder in held])
        return list(fences)

    def complete(self, keys: Sequence[str], fences: Sequence[int]) -> None:
        held = [
            self._lease(key) | {"fence": fence} for key, fence in zip(keys, fences, strict=True)
        ]
        self._accepted([Call("issue.close", holder) for holder in held])

    def close(self) -> None:
        self._client.close()

    def _lease(self, key: str) -> dict[str, Any]:
        """What the holder shows, but for the fence."""
        return {"id": key, "assignee": self._owner, "leaseId": f"lease-{key}"}

    def _accepted(self, calls: list[Call]) -> list[dict[str, Any]]:
        answers = self._client.ask_many(calls)
        for answer in answers:
            if answer["result"] != "accepted":
                raise Refused(answer["diagnostic"])
        return answers


def serve(state_dir: Path, log: Path) -> Server:
    """A sidecar of this state directory that answers."""
    server = Server([PROGRAM, "authority", "serve", "--state-dir", state_dir], log)
    server.wait_for(lambda: answers(state_dir))
    return server


def fill(state_dir: Path, count: int) -> None:
    """A state directory with so many open issues, as an import makes them."""
    create_state_dir(state_dir, "bench")
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
