"""What must be true of a state directory after its authority was killed, and after a new start."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw
import orjson

from tests.faults.load import Load, Step
from tests.surfaces.process import Dispatch, encoded, journal_rows, report_of

_TABLES = ("issue", "dependency", "lease", "sublease", "instance", "fiber", "watermark")
_TRAJECTORY = "harness_trajectory.jsonl"


def prove(state_dir: Path, load: Load, heard: Sequence[bytes]) -> list[bytes]:
    """Nothing acknowledged is lost, nothing is there by half, and everything goes on.

    `heard` are the answers to the first steps of the load; those to all steps come back.
    """
    rows = journal_rows(state_dir)
    assert len(heard) <= len(rows) <= len(load.steps)
    assert list(heard) == [_marked(row) for row in rows[: len(heard)]]
    _prove_whole(rows, load.steps)
    _prove_evidence(state_dir, rows, len(heard))

    load.probe()
    answers = _ask_again(state_dir, load.steps)
    rows_after = journal_rows(state_dir)
    assert rows_after[: len(rows)] == rows, "a row that was committed changed"
    assert len(rows_after) == len(load.steps), "a request was lost, or taken twice"
    assert answers == [_marked(row) for row in rows_after]
    _prove_whole(rows_after, load.steps)
    _prove_answers(answers, load.steps)
    _prove_projections(state_dir, len(load.steps))
    return answers


def pump(running: Dispatch, steps: Sequence[Step], window: int) -> list[bytes]:
    """Send some steps, hear their answers, and so on; the answers until the process dies."""
    heard: list[bytes] = []
    for start in range(0, len(steps), window):
        sent = steps[start : start + window]
        running.send(*(step.request for step in sent))
        for _ in sent:
            line = running.line()
            if not line:
                return heard
            heard.append(line)
    return heard


def _ask_again(state_dir: Path, steps: Sequence[Step]) -> list[bytes]:
    with Dispatch(state_dir) as running:
        running.write(encoded(step.request for step in steps))
        running.send({"action": "issue.check"})
        assert running.finish() == 0, running.complaint()
        *answers, check = running.rest()
    assert orjson.loads(check)["sound"] is True
    return answers


def _prove_whole(rows: Sequence[tuple[Any, ...]], steps: Sequence[Step]) -> None:
    """The rows are the first requests, each once, in order and without a gap."""
    epochs = [row[1] for row in rows]
    assert epochs == sorted(epochs)
    for number, (row, step) in enumerate(zip(rows, steps, strict=False), start=1):
        assert row[0] == number
        request = orjson.loads(row[2])
        assert (request["action"], request["payload"]) == (step.request["action"], step.payload)
        assert orjson.loads(row[3])["effect"]["seq"] == number


def _prove_evidence(state_dir: Path, rows: Sequence[tuple[Any, ...]], heard: int) -> None:
    """A caller that heard an answer finds its evidence; there is none without a row."""
    path = state_dir / _TRAJECTORY
    lines = path.read_bytes().split(b"\n")[:-1] if path.exists() else []
    assert heard <= len(lines) <= len(rows)
    for line, row in zip(lines, rows, strict=False):
        assert orjson.loads(line)["effect"] == orjson.loads(row[3])["effect"]


def _prove_answers(answers: Sequence[bytes], steps: Sequence[Step]) -> None:
    """Each request got its due; each grant of a term has a fence greater than all before it."""
    fence = 0
    for line, step in zip(answers, steps, strict=True):
        answer = orjson.loads(line)
        assert (answer["result"] == "accepted") is step.granted, answer
        if answer["action"] == "issue.claim":
            granted = answer["issue"]["lease"]["fence"]
            assert granted > fence
            fence = granted


def _prove_projections(state_dir: Path, rows: int) -> None:
    """Replay and trajectory agree; the tables are those that a rebuild makes."""
    assert report_of("replay", "--state-dir", state_dir)["rows"] == rows
    assert report_of("verify", "--state-dir", state_dir)["rows"] == rows
    trajectory = (state_dir / _TRAJECTORY).read_bytes()
    copy = state_dir.with_name(state_dir.name + "-copy")
    shutil.copytree(state_dir, copy)
    try:
        assert report_of("rebuild", "--state-dir", copy)["rows"] == rows
        assert (copy / _TRAJECTORY).read_bytes() == trajectory
        assert _tables(state_dir) == _tables(copy)
        assert _tables(copy)["watermark"] == [(1, rows)]
    finally:
        shutil.rmtree(copy)


def _tables(state_dir: Path) -> dict[str, list[tuple[Any, ...]]]:
    db = apsw.Connection(str(state_dir / "tables.db"))
    try:
        return {
            name: sorted(db.execute(f"SELECT * FROM {name}").fetchall(), key=repr)
            for name in _TABLES
        }
    finally:
        db.close()


def _marked(row: tuple[Any, ...]) -> bytes:
    """The answer of a row as its caller hears it, with the number of the request in front."""
    response: bytes = row[3]
    return b'{"id":%d,' % row[0] + response[1:]
