"""The trajectory: the journal's evidence as JSON lines, for people and other programs.

It is a projection. The journal is the truth, and what is missing here is filled in from there; a
last line that a crash cut off is cut away first. Lines are canonical JSON, one LF each.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import orjson

from ...contracts import STEP_KIND, Reason, canonical, evidence_routes, factor, rfc3339
from ..journal import private
from ..journal.chain import chain_effect
from ..journal.failpoint import failpoint
from ..journal.journal import GENESIS, Journal, Row, Steps, Unavailable
from ..law.workers.history import step_id

_TAIL_BYTES = 65_536  # more than a line; a longer last line is found by reading further back
_RUN_BYTES = 4 * 1_048_576  # written between two flushes, and a step more
_DOUBT_BYTES = 2 * _RUN_BYTES  # looked at again after a crash


def line(row: Row) -> bytes:
    """The trajectory's line for a row; a row without exactly one route to Ev is refused."""
    try:
        response = orjson.loads(row.response)
        return _step(row, response["effect"], response.get("step"))
    except (ValueError, LookupError, TypeError) as error:
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {row.seq}: its answer") from error


def _step(row: Row, effect: dict[str, Any], reported: dict[str, Any] | None) -> bytes:
    step: dict[str, Any] = {
        "schema": 1,
        "stepKind": STEP_KIND,
        "stepId": step_id(row.node, row.seq, effect["action"]),
        "action": effect["action"],
        "resultClass": effect["resultClass"],
        "witnessRefs": effect["witnessRefs"],
        "lineageRefs": [effect["prev"]],
        "finishedAt": rfc3339.record_text(row.wall_ms),
        "effect": effect,
        "digest": row.digest,
    }
    if reported is not None:
        step["step"] = reported  # in the words of the worker
    if effect["issueId"] is not None:
        step["issueId"] = effect["issueId"]
    if effect["instructionRef"] is not None:
        step["instructionRefs"] = [effect["instructionRef"]]
    route = factor(step, evidence_routes())
    if isinstance(route, Reason):
        raise Unavailable(route, f"row {row.seq}")
    return canonical.encode(step | {"route": route}) + b"\n"


class Trajectory:
    """Appends what the journal has and the file has not.

    The file stays open: a process that has used up its files can still write its evidence.
    """

    def __init__(self, path: Path, last_seq: int, doubted_by: Journal | None = None) -> None:
        """A writer that may have lost power doubts the end of the file, and brings the journal."""
        self.path = path
        if doubted_by is not None and path.exists():
            _cut_unsound(path, doubted_by)
        self._seq: int | None = _mend(path)
        _refuse_rewound(path, self._seq, last_seq)
        self._is_behind = self._seq < last_seq
        self._file = open(path, "ab", buffering=0, opener=private.opener)  # noqa: SIM115 - `close`

    def follow(self, journal: Journal, fresh: Sequence[Row | Steps]) -> int:
        """Bring the file up to the journal; what is fresh is at hand, the rest is read.

        Returns the number of its last row.
        """
        seq = self.seq
        if fresh:
            self._is_behind = _first_seq(fresh[0]) != seq + 1
        if fresh or self._is_behind:
            steps = journal.read(seq) if self._is_behind else fresh
            self._seq = self._append(seq, map(written, steps))
        return self.seq

    @property
    def seq(self) -> int:
        """The number of the last row that the file shows."""
        if self._seq is None:
            self._seq = _mend(self.path)
        return self._seq

    def close(self) -> None:
        self._file.close()

    def _append(self, last_seq: int, steps: Iterable[Steps]) -> int:
        self._seq, self._is_behind = None, True  # until it is known how much of it is there
        try:
            for run in _runs(steps):
                self._write(b"".join(step.data for step in run))
                last_seq = run[-1].last_seq
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._is_behind = False
        return last_seq

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[self._file.write(rest) :]
        failpoint("trajectory.written")
        os.fsync(self._file.fileno())
        failpoint("trajectory.synced")


def _runs(steps: Iterable[Steps]) -> Iterator[list[Steps]]:
    run: list[Steps] = []
    size = 0
    for step in steps:
        run.append(step)
        size += len(step.data)
        if size >= _RUN_BYTES:
            yield run
            run, size = [], 0
    if run:
        yield run


def _first_seq(step: Row | Steps) -> int:
    return step.first_seq if isinstance(step, Steps) else step.seq


def last_seq(step: Row | Steps) -> int:
    """The number of the row that a step ends with."""
    return step.last_seq if isinstance(step, Steps) else step.seq


def written(step: Row | Steps) -> Steps:
    """A step as its line."""
    return step if isinstance(step, Steps) else Steps(step.seq, step.seq, line(step))


def rewrite(path: Path, journal: Journal) -> int:
    """Write the whole trajectory anew, beside the old one, and put it in its place."""
    fresh = path.with_suffix(".new")
    count = 0
    with open(fresh, "wb", opener=private.opener) as file:
        for row in journal.read():
            file.write(line(row))
            count += 1
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    return count


def verify(path: Path, journal: Journal) -> tuple[int, str | None]:
    """Hold the file against the journal: how many rows agree, and what is wrong with the next."""
    lines = _lines(path)
    seen, prev = 0, GENESIS
    for row in journal.read():
        found = next(lines, None)
        if found is None:
            behind = "the next command that writes fills it in, or `understudy rebuild`"
            return seen, f"row {row.seq} is missing; {behind}"
        problem = _problem(found, row, prev)
        if problem is not None:
            return seen, f"row {row.seq}: {problem}"
        seen, prev = seen + 1, row.digest
    if next(lines, None) is not None:
        return seen, f"line {seen + 1} stands behind the journal's last row"
    return seen, None


def _problem(found: bytes, row: Row, prev: str) -> str | None:
    try:
        effect = orjson.loads(found)["effect"]
        digest = chain_effect(effect)
        chained = effect["prev"]
    except (ValueError, LookupError, TypeError):
        return "the line is no step of ours"
    if digest != row.digest:
        return f"its envelope has the digest {digest}, the journal {row.digest}"
    if chained != prev:
        return f"it is chained to {chained} and follows {prev}"
    return None if found == line(row) else "its bytes differ from the journal's"


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists():
        with path.open("rb") as file:
            yield from file


def last_line_seq(path: Path) -> int | None:
    """The number of the last whole line; None where it is none of ours. Only look: another process
    may be writing, and mends what is torn or unsound."""
    return _end(path)[0]


def _refuse_rewound(path: Path, seq: int, last_seq: int) -> None:
    if seq > last_seq:
        # The journal lost rows that were answered; going on would give out fences again.
        detail = f"{path} knows row {seq}, the journal ends with row {last_seq}"
        raise Unavailable(Reason.TRAJECTORY_MISMATCH, detail)


def _mend(path: Path) -> int:
    """Cut off a torn last line; the sequence number of the line that is then last."""
    seq, whole_bytes = _end(path)
    if seq is None:
        raise Unavailable(Reason.TRAJECTORY_MISMATCH, f"{path}: its last line")
    if path.exists() and path.stat().st_size > whole_bytes:
        os.truncate(path, whole_bytes)
    return seq


def _end(path: Path) -> tuple[int | None, int]:
    """The number of the last whole line, if it is one of ours, and where that line ends."""
    if not path.exists():
        return 0, 0
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        tail, start = b"", size
        while start > 0 and tail.rstrip(b"\n").count(b"\n") < 2:
            start = max(0, start - _TAIL_BYTES)
            file.seek(start)
            tail = file.read(size - start)
    whole = tail[: tail.rfind(b"\n") + 1]
    last = whole.rstrip(b"\n").rpartition(b"\n")[2]
    return _seq_of(last + b"\n") if last else 0, start + len(whole)


def _cut_unsound(path: Path, journal: Journal) -> None:
    """Cut the file where bytes are missing: of what was not flushed, a power cut leaves any part.

    That is near the end, and such bytes are no JSON. Lines that are, and are not the journal's,
    are evidence, and stop the start.
    """
    with path.open("r+b") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _DOUBT_BYTES))
        if file.tell() > 0:
            file.readline()
        rows: Iterator[Row] | None = None
        sound = file.tell()
        for found in file:
            seq = _seq_of(found)
            if seq is None:
                file.truncate(sound)
                return
            rows = rows or journal.read(seq - 1)
            row = next(rows, None)
            if row is None or found != line(row):
                raise Unavailable(Reason.TRAJECTORY_MISMATCH, f"{path}: line of row {seq}")
            sound += len(found)


def _seq_of(found: bytes) -> int | None:
    try:
        seq = orjson.loads(found)["effect"]["seq"]
    except (ValueError, LookupError, TypeError):
        return None
    return seq if isinstance(seq, int) and found.endswith(b"\n") else None
