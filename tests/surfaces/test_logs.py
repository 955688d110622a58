"""`understudy logs`: what commands printed, as it is kept, and while they print it."""

import os
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.patience import PATIENCE_SECONDS
from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, commanded, environment, understudy


@pytest.fixture
def folder(state_dir: Path, call: Run) -> Path:
    assert call("issue", "add", "work", "--id", "x").code == 0
    return state_dir


def executed(folder: Path, *words: str) -> int:
    return understudy("exec", "x", "-q", "--state-dir", folder, "--", *words).returncode


def test_the_newest_attempt_is_shown(call: Run, folder: Path) -> None:
    assert executed(folder, "sh", "-c", "echo one; exit 75") == 75
    assert executed(folder, "sh", "-c", "echo two; exit 3") == 3
    assert call("logs", "x").out == "two\n"
    assert call("logs", "x", "--attempt", 1).out == "one\n"
    assert call("logs", "x", "--attempt", 2, "-f").out == "two\n", "it has ended, and so do we"


def test_programs_learn_what_there_is(call: Run, folder: Path) -> None:
    assert executed(folder, "sh", "-c", "echo one; exit 75") == 75
    assert executed(folder, "sh", "-c", "echo more; kill -9 $$") == 137
    first, second = call("logs", "x", "--json").json["attempts"]
    assert (first["attempt"], first["bytes"], first["running"]) == (1, 4, False)
    assert first["record"]["outcome"] == "handed_back"
    assert (second["attempt"], second["bytes"], second["bytesDropped"]) == (2, 5, 0)
    assert second["record"]["command"]["kind"] == "signal"
    assert Path(second["log"]).read_bytes() == b"more\n"
    (only,) = call("logs", "x", "--attempt", 1, "--json").json["attempts"]
    assert only == first


def test_what_is_missing_is_said(call: Run, folder: Path) -> None:
    assert executed(folder, "sh", "-c", "echo begin; head -c 9000000 /dev/zero; echo end") == 0
    done = commanded("logs", "x", "--state-dir", folder)
    (row,) = call("logs", "x", "--json").json["attempts"]
    marker = b"\n[... %d bytes are not kept ...]\n" % row["bytesDropped"]
    head, found, tail = done.stdout.partition(marker)
    assert found == marker
    assert head.startswith(b"begin\n")
    assert tail.endswith(b"end\n")
    assert len(head) + len(tail) + row["bytesDropped"] == row["bytes"] == 9_000_010


def test_what_is_not_there_is_not_found(call: Run, folder: Path) -> None:
    said = call("logs", "x")
    assert (said.code, said.out, said.err) == (3, "", "error: issue x: no output is kept\n")
    assert executed(folder, "true") == 0
    said = call("logs", "x", "--attempt", 9)
    assert (said.code, said.err) == (
        3,
        "error: issue x: no output of attempt 9 is kept; there is 1\n",
    )
    refused = call("logs", "nope", "--json")
    assert (refused.code, refused.json["result"]) == (3, "rejected")
    for words in (["--attempt", "0"], ["-f", "--json"]):
        assert call("logs", "x", *words).code == 2


@pytest.mark.parametrize("issue", ["../../../etc", "..", ".", "a/b", "%2e", "ü"])
def test_a_hostile_name_leads_nowhere(call: Run, folder: Path, issue: str) -> None:
    (folder / "1.log").write_text("secret")
    (folder.parent / "1.log").write_text("secret")
    said = call("logs", issue)
    assert (said.code, said.out) == (3, "")


def test_output_is_followed_while_it_is_written(folder: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    words = ("sh", "-c", f"echo one; read word < {gate}; echo two; exit 4")
    with subprocess.Popen(
        [UNDERSTUDY, "exec", "x", "-q", "--state-dir", folder, "--", *words],
        env=environment(),
        stdout=subprocess.PIPE,
    ) as running:
        assert running.stdout is not None
        assert running.stdout.readline() == b"one\n"
        with subprocess.Popen(
            [UNDERSTUDY, "logs", "x", "-f", "--state-dir", folder],
            env=environment(),
            stdout=subprocess.PIPE,
        ) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"one\n"
            said = orjson.loads(commanded("logs", "x", "--state-dir", folder, "--json").stdout)
            assert (said["attempts"][0]["running"], said["attempts"][0]["record"]) == (True, None)
            gate.write_text("go\n")
            assert follower.stdout.read() == b"two\n"
            assert follower.wait(PATIENCE_SECONDS) == 0
        assert running.wait(PATIENCE_SECONDS) == 4


def test_a_reader_that_has_seen_enough_may_leave(folder: Path) -> None:
    assert executed(folder, "seq", "100000") == 0
    with subprocess.Popen(
        [UNDERSTUDY, "logs", "x", "--state-dir", folder],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as reader:
        assert reader.stdout is not None
        assert reader.stderr is not None
        assert reader.stdout.readline() == b"1\n"
        reader.stdout.close()
        assert b"Traceback" not in reader.stderr.read()
