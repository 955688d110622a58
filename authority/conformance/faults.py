"""Vectors about damage: what is broken on purpose, and which failure class that must give.

A vector names a fault, and a probe that must notice it. Faults of a resting state directory are
inflicted before the probe starts; faults of a running authority between its start and a request.
"""

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import apsw
import orjson

from ...contracts import BY_WIRE, Door, Reason, canonical, check, documents, limits, parse
from ..engine.engine import Authority
from ..journal.journal import Unavailable
from ..journal.relay_message import Errand
from ..journal.sqlite import SqliteJournal
from ..journal.state_files import JOURNAL, TRAJECTORY
from ..service import client, sidecar
from ..service import local as offices
from ..service.local import Office
from ..views.replay import replay
from ..views.trajectory import verify
from . import databases
from .scene import make_state, play, proof, scratch
from .served import Served
from .verdicts import copy_documents

_LATER_MS = 5_000_000
_PROBE = {
    "action": "issue.add",
    "now": _LATER_MS,
    "payload": {"id": "probe", "title": "Probe", "description": "x" * 20_000},
}
_ROW = re.compile(r"\b(?:row|line) (\d+)")


@dataclass(frozen=True, slots=True)
class Seen:
    """What a probe saw: the reason, and the row that it names."""

    reason: Reason | None = None
    row: int | None = None


@contextmanager
def swapped(module: ModuleType, name: str, value: object) -> Iterator[None]:
    """Put something else in the place of a module's member, for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


def inflict(body: Mapping[str, Any]) -> dict[str, Any]:
    """Play the scene, break what the vector says, and look; files are files, of any writer."""
    with scratch() as folder:
        state_dir = Path(folder) / "state"
        make_state(state_dir)
        play(body, "reference", state_dir)
        seen = _look(body, state_dir)
    return {"failureClasses": [seen.reason.wire] if seen.reason else [], "row": seen.row}


def _look(body: Mapping[str, Any], state_dir: Path) -> Seen:
    name = body["fault"]
    if name in RUNNING:
        return _submitted(RUNNING[name], state_dir)
    with RESTING[name](state_dir, body):
        return PROBES[body["probe"]](state_dir)


# --- probes -------------------------------------------------------------------------------------


def _probe_start(state_dir: Path) -> Seen:
    """Open the authority, write a row, and let everything prove itself."""
    try:
        with Office(state_dir, writable=True) as office:
            office.submit([parse(canonical.encode(_PROBE), Door("mcp", frozen_clock=True))])
    except Unavailable as error:
        return _seen(error.reason, str(error))
    _, _, problems = proof(state_dir)
    assert not problems, problems
    return Seen()


def _probe_replay(state_dir: Path) -> Seen:
    journal = SqliteJournal(state_dir / JOURNAL, read_only=True)
    try:
        replayed = replay(journal)
    except Unavailable as error:
        return _seen(error.reason, str(error))
    finally:
        journal.close()
    return _seen(replayed.reason, replayed.mismatch)


def _probe_verify(state_dir: Path) -> Seen:
    journal = SqliteJournal(state_dir / JOURNAL, read_only=True)
    try:
        _, problem = verify(state_dir / TRAJECTORY, journal)
    finally:
        journal.close()
    return _seen(Reason.TRAJECTORY_MISMATCH if problem else None, problem)


def _submitted(fault: Callable[[Office], int], state_dir: Path) -> Seen:
    """Break a running authority; its next request, and every one after, must be refused alike."""
    request = parse(canonical.encode(_PROBE), Door("mcp", frozen_clock=True))
    office = Office(state_dir, writable=True)
    try:
        rows = fault(office)
        seen = [_refusal(office, request) for _ in range(2)]
    finally:
        office.close()
    assert seen[0] == seen[1], "the authority recovered without being started again"
    assert _probe_replay(state_dir) == Seen(), "what is there does not replay"
    assert _last_seq(state_dir) == rows, f"the journal does not end with row {rows}"
    assert _probe_start(state_dir) == Seen(), "a new authority cannot go on"
    return seen[0]


def _last_seq(state_dir: Path) -> int:
    journal = SqliteJournal(state_dir / JOURNAL, read_only=True)
    try:
        return journal.last_seq()
    finally:
        journal.close()


def _refusal(office: Office, request: Any) -> Seen:
    try:
        office.submit([request])
    except Unavailable as error:
        return Seen(error.reason)
    return Seen()


def _seen(reason: Reason | None, text: str | None) -> Seen:
    match = _ROW.search(text or "") if reason else None
    return Seen(reason, int(match[1]) if match else None)


def _probe_client(state_dir: Path) -> Seen:
    """Talk to the sidecar of the state directory."""
    try:
        with client.Client(state_dir, "mcp", retry_seconds=0) as connection:
            answer = orjson.loads(connection.relay([canonical.encode(_PROBE)])[0])
    except Unavailable as error:
        return Seen(error.reason)
    return Seen(BY_WIRE[answer["failureClasses"][0]] if answer["failureClasses"] else None)


def _probe_errand(state_dir: Path) -> Seen:
    """Be asked as a standby, and ask the authority of the state directory."""
    errand = Errand([(Door("mcp", frozen_clock=True), canonical.encode(_PROBE))], 0)
    databases.carry(errand, state_dir)
    answer = orjson.loads(errand.run(0, 1))
    return Seen(BY_WIRE[answer["failureClasses"][0]] if answer["failureClasses"] else None)


PROBES: dict[str, Callable[[Path], Seen]] = {
    "client": _probe_client,
    "errand": _probe_errand,
    "start": _probe_start,
    "replay": _probe_replay,
    "verify": _probe_verify,
}

# --- faults of a running authority --------------------------------------------------------------


def _disk_full(office: Office) -> int:
    assert isinstance(office.journal, SqliteJournal)
    database = office.journal._db  # noqa: SLF001 - the limit belongs to this connection
    database.pragma("max_page_count", database.pragma("page_count"))
    return office.authority.head.seq


def _deposed(office: Office) -> int:
    """Another authority takes the epoch after we have written with ours."""
    first = dict(_PROBE, payload={"id": "first", "title": "First"})
    office.submit([parse(canonical.encode(first), Door("mcp", frozen_clock=True))])
    stranger = SqliteJournal(office.state_dir / JOURNAL)
    stranger.acquire_epoch()
    stranger.close()
    return office.authority.head.seq


def _overtaken(office: Office) -> int:
    """Another authority appends a row that we have not seen."""
    stranger = SqliteJournal(office.state_dir / JOURNAL)
    theirs = dict(_PROBE, payload={"id": "theirs", "title": "Theirs"})
    authority = Authority(stranger)
    authority.submit([parse(canonical.encode(theirs), Door("mcp", frozen_clock=True))])
    stranger.close()
    return authority.head.seq


def _write_lock_held(office: Office) -> int:
    """Another program sits in a transaction on the database itself."""
    assert isinstance(office.journal, SqliteJournal)
    office.journal._db.set_busy_timeout(0)  # noqa: SLF001 - as above
    stranger = apsw.Connection(str(office.state_dir / JOURNAL))
    stranger.execute("BEGIN IMMEDIATE")
    close = office.close

    def let_go() -> None:
        stranger.close()
        close()

    office.close = let_go  # type: ignore[method-assign]  # one office, for one fault
    return office.authority.head.seq


RUNNING: dict[str, Callable[[Office], int]] = {
    "disk_full": _disk_full,
    "epoch_taken": _deposed,
    "row_of_another": _overtaken,
    "write_lock_held": _write_lock_held,
}

# --- faults of a resting state directory --------------------------------------------------------

Fault = Callable[[Path, Mapping[str, Any]], AbstractContextManager[None]]


def _damage(change: Callable[[Path, Mapping[str, Any]], None]) -> Fault:
    def inflicted(state_dir: Path, body: Mapping[str, Any]) -> AbstractContextManager[None]:
        change(state_dir, body)
        return nullcontext()

    return inflicted


@contextmanager
def _lock_held(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
    handle = os.open(state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with swapped(limits, "LOCK_WAIT_MS", 5):
            yield
    finally:
        os.close(handle)


@contextmanager
def _contract_drifts(_: Path, body: Mapping[str, Any]) -> Iterator[None]:
    with scratch() as folder:
        root = Path(folder)
        copy_documents(root)
        path = root / body.get("document", documents.CONTRACT)
        path.write_bytes(path.read_bytes() + b"\n")
        with swapped(offices, "startup_check", partial(check.startup_check, root)):
            yield


@_damage
def _lock_left_behind(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / "lock").write_text("999999999\n")


@_damage
def _state_dir_gone(state_dir: Path, _: Mapping[str, Any]) -> None:
    shutil.rmtree(state_dir)


@_damage
def _lock_is_folder(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / "lock").unlink(missing_ok=True)
    (state_dir / "lock").mkdir()


@_damage
def _journal_is_folder(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / JOURNAL).unlink()
    (state_dir / JOURNAL).mkdir()


@_damage
def _journal_is_text(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / JOURNAL).write_text("this is no database\n" * 500)


@_damage
def _journal_is_empty(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / JOURNAL).write_bytes(b"")


@_damage
def _journal_is_foreign(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / JOURNAL).unlink()
    with apsw.Connection(str(state_dir / JOURNAL)) as database:
        database.execute("CREATE TABLE journal (seq INTEGER PRIMARY KEY)")
    database.close()


@_damage
def _table_overwritten(state_dir: Path, body: Mapping[str, Any]) -> None:
    """Flip every bit of the page that a table begins with."""
    database = apsw.Connection(str(state_dir / JOURNAL))
    query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
    page = database.execute(query, (body["table"],)).get
    size = database.pragma("page_size")
    database.pragma("wal_checkpoint(truncate)")
    database.close()
    data = bytearray((state_dir / JOURNAL).read_bytes())
    start = (page - 1) * size
    data[start : start + size] = bytes(byte ^ 0xFF for byte in data[start : start + size])
    (state_dir / JOURNAL).write_bytes(data)


@_damage
def _row_edited(state_dir: Path, body: Mapping[str, Any]) -> None:
    """Change a column by SQL; texts and blobs by replacing a part of them."""
    column, value = body["column"], body["value"]
    query = f"UPDATE journal SET {column} = ? WHERE seq = ?"
    if isinstance(value, list):
        kind = "TEXT" if column in ("node", "digest", "state_digest") else "BLOB"
        part = f"CAST(replace(CAST({column} AS TEXT), ?, ?) AS {kind})"
        query = f"UPDATE journal SET {column} = {part} WHERE seq = ?"
    values = value if isinstance(value, list) else [value]
    database = apsw.Connection(str(state_dir / JOURNAL))
    database.execute(query, (*values, body["at"]))
    database.close()


@_damage
def _row_deleted(state_dir: Path, body: Mapping[str, Any]) -> None:
    database = apsw.Connection(str(state_dir / JOURNAL))
    database.execute("DELETE FROM journal WHERE seq = ?", (body["at"],))
    database.close()


@_damage
def _snapshot_taken(state_dir: Path, _: Mapping[str, Any]) -> None:
    journal = SqliteJournal(state_dir / JOURNAL)
    Authority(journal).snapshot()
    journal.close()


@_damage
def _snapshot_edited(state_dir: Path, body: Mapping[str, Any]) -> None:
    """Change the image or the place of a snapshot of the whole journal."""
    journal = SqliteJournal(state_dir / JOURNAL)
    Authority(journal).snapshot()
    journal.close()
    database = apsw.Connection(str(state_dir / JOURNAL))
    if body["column"] == "seq":
        database.execute("UPDATE snapshot SET seq = ?", (body["value"],))
    else:
        old, new = body["value"]
        part = "CAST(replace(CAST(image AS TEXT), ?, ?) AS BLOB)"
        database.execute(f"UPDATE snapshot SET image = {part}", (old, new))
    database.close()


def _on_lines(change: Callable[[list[bytes], Mapping[str, Any]], list[bytes]]) -> Fault:
    """A fault of the trajectory: its lines, changed."""

    def rewritten(state_dir: Path, body: Mapping[str, Any]) -> None:
        path = state_dir / TRAJECTORY
        path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True), body)))

    return _damage(rewritten)


@_on_lines
def _line_edited(lines: list[bytes], body: Mapping[str, Any]) -> list[bytes]:
    old, new = (part.encode() for part in body["value"])
    index = body["at"] - 1
    assert old in lines[index], "the line does not hold what is to be edited"
    return [*lines[:index], lines[index].replace(old, new), *lines[index + 1 :]]


@_on_lines
def _line_dropped(lines: list[bytes], body: Mapping[str, Any]) -> list[bytes]:
    index = body["at"] - 1
    return lines[:index] + lines[index + 1 :]


@_on_lines
def _lines_swapped(lines: list[bytes], body: Mapping[str, Any]) -> list[bytes]:
    index = body["at"] - 1
    return [*lines[:index], lines[index + 1], lines[index], *lines[index + 2 :]]


@_on_lines
def _line_repeated(lines: list[bytes], _: Mapping[str, Any]) -> list[bytes]:
    return [*lines, lines[-1]]


@_on_lines
def _line_torn(lines: list[bytes], _: Mapping[str, Any]) -> list[bytes]:
    return [*lines[:-1], lines[-1][: len(lines[-1]) // 2]]


@_on_lines
def _line_is_garbage(lines: list[bytes], _: Mapping[str, Any]) -> list[bytes]:
    return [*lines[:-1], b"this is no step\n"]


@_damage
def _trajectory_gone(state_dir: Path, _: Mapping[str, Any]) -> None:
    (state_dir / TRAJECTORY).unlink()


@contextmanager
def _nobody_serves(_: Path, __: Mapping[str, Any]) -> Iterator[None]:
    yield


@contextmanager
def _other_protocol(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
    with closing(Served(state_dir)), swapped(client, "PROTOCOL", sidecar.PROTOCOL + 1):
        yield


@contextmanager
def _queue_full(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
    with closing(Served(state_dir)), swapped(limits, "QUEUE_MAX", 0):
        yield


@contextmanager
def _somebody_serves(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
    with closing(Served(state_dir)):
        yield


RESTING: dict[str, Fault] = databases.FAULTS | {
    "nobody_serves": _nobody_serves,
    "other_protocol": _other_protocol,
    "queue_full": _queue_full,
    "somebody_serves": _somebody_serves,
    "contract_drifts": _contract_drifts,
    "journal_is_empty": _journal_is_empty,
    "journal_is_folder": _journal_is_folder,
    "journal_is_foreign": _journal_is_foreign,
    "journal_is_text": _journal_is_text,
    "lock_held": _lock_held,
    "lock_is_folder": _lock_is_folder,
    "lock_left_behind": _lock_left_behind,
    "row_deleted": _row_deleted,
    "row_edited": _row_edited,
    "snapshot_edited": _snapshot_edited,
    "snapshot_taken": _snapshot_taken,
    "state_dir_gone": _state_dir_gone,
    "table_overwritten": _table_overwritten,
    "trajectory_gone": _trajectory_gone,
    "trajectory_line_dropped": _line_dropped,
    "trajectory_line_edited": _line_edited,
    "trajectory_line_is_garbage": _line_is_garbage,
    "trajectory_line_repeated": _line_repeated,
    "trajectory_line_torn": _line_torn,
    "trajectory_lines_swapped": _lines_swapped,
}
