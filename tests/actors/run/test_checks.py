"""Checks on real processes: that they end, that nothing of them is left, and what is said then."""

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.actors.litter import TROUBLE, Mark
from tests.patience import eventually
from understudy.actors.process.guard import descendants
from understudy.actors.process.guard.spool import HEAD_BYTES, PIECE_BYTES, PIECES_MAX
from understudy.actors.run import checks
from understudy.actors.run.checks import log_folder, run_checks, write_artifact
from understudy.contracts import verdict

pytestmark = pytest.mark.skipif(not descendants.LINUX, reason="elsewhere there is the group alone")


@pytest.fixture
def mark() -> Iterator[Mark]:
    mark = Mark()
    yield mark
    assert mark.alive() == []


def check(*command: object, check_id: str = "c", seconds: int = 60) -> dict[str, Any]:
    words = [str(word) for word in command]
    return {"checkId": check_id, "command": words, "timeoutSeconds": seconds}


def script(text: str, **more: Any) -> dict[str, Any]:
    return check(sys.executable, "-I", "-S", "-c", text, **more)


def one(wanted: dict[str, Any], tmp_path: Path, mark: Mark, **more: Any) -> dict[str, Any]:
    (result,) = run_checks([wanted], tmp_path, logs=tmp_path / "logs", env=mark.env, **more)
    return result


@pytest.fixture(autouse=True)
def logs(tmp_path: Path) -> Path:
    (tmp_path / "logs").mkdir()
    return tmp_path / "logs"


@pytest.mark.parametrize(
    ("text", "end", "classes"),
    [
        ("", ("passed", 0), []),
        ("raise SystemExit(3)", ("failed", 3), ["check_failed"]),
        ("import os; os.kill(os.getpid(), 11)", ("signalled", 139), ["flaky_execution"]),
    ],
)
def test_a_check_ends_as_its_command_does(
    tmp_path: Path, mark: Mark, text: str, end: tuple[str, int], classes: list[str]
) -> None:
    result = one(script(text), tmp_path, mark)
    assert (result["status"], result["exitCode"]) == end
    assert verdict([result])["failureClasses"] == classes


@pytest.mark.parametrize(
    ("word", "code"), [("no-such-command-at-all", 127), ("/etc/passwd", 126), ("/etc", 126)]
)
def test_a_command_that_is_not_there_is_no_verdict_on_the_work(
    tmp_path: Path, mark: Mark, word: str, code: int
) -> None:
    result = one(check(word), tmp_path, mark)
    assert (result["status"], result["exitCode"]) == ("unavailable", code)
    assert verdict([result])["operationalFailureClasses"] == ["executor_unavailable"]


@pytest.mark.parametrize("kind", ["sleep", "deaf", "daemons", "tree"])
def test_whatever_does_not_end_is_ended_in_time_with_all_its_descendants(
    tmp_path: Path, mark: Mark, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(checks, "GRACE_MS", 100)
    wanted = check(sys.executable, "-I", "-S", TROUBLE, kind, seconds=2)
    result = one(wanted, tmp_path, mark)
    assert result["status"] == "timed_out"
    assert verdict([result])["operationalFailureClasses"] == ["gate_timeout"]
    assert mark.alive() == []


def test_a_check_that_leaves_a_daemon_behind_leaves_nothing(tmp_path: Path, mark: Mark) -> None:
    result = one(check(sys.executable, "-I", "-S", TROUBLE, "leaver"), tmp_path, mark)
    assert (result["status"], result["exitCode"]) == ("failed", 3)
    assert mark.alive() == []


def test_output_is_kept_within_bounds_and_bound_by_a_digest(
    tmp_path: Path, mark: Mark, logs: Path
) -> None:
    size = HEAD_BYTES + PIECE_BYTES * (PIECES_MAX + 3)
    text = f"import os\nfor _ in range({size} // 4096): os.write(1, b'x' * 4096)"
    result = one(script(text), tmp_path, mark)
    assert (result["status"], result["outputBytes"]) == ("passed", size)
    kept = sum(path.stat().st_size for path in logs.iterdir())
    assert HEAD_BYTES < kept <= HEAD_BYTES + PIECE_BYTES * PIECES_MAX
    again = one(script("print('other')"), tmp_path, mark)
    assert result["outputDigest"] != again["outputDigest"]
    assert again["outputDigest"] == one(script("print('other')"), tmp_path, mark)["outputDigest"]


def test_a_run_that_is_called_off_ends_what_runs_and_starts_nothing_more(
    tmp_path: Path, mark: Mark, logs: Path
) -> None:
    called_off = threading.Event()
    wanted = [
        script("print('fine')", check_id="a"),
        check(sys.executable, "-I", "-S", TROUBLE, "sleep", check_id="b"),
        script("open('ran', 'w')", check_id="c"),
    ]
    found: list[dict[str, Any]] = []
    more = {"logs": logs, "env": mark.env, "cancelled": called_off.is_set}
    runner = threading.Thread(target=lambda: found.extend(run_checks(wanted, tmp_path, **more)))  # type: ignore[arg-type]  # members by name
    runner.start()
    log = logs / "b.log"
    eventually(lambda: log.exists() and b"up" in log.read_bytes())
    called_off.set()
    runner.join()
    assert [each["status"] for each in found] == ["passed", "cancelled", "cancelled"]
    assert not (tmp_path / "ran").exists()
    assert verdict(found)["failureClasses"] == ["check_cancelled"]


def test_progress_is_told_before_and_after_each_check(tmp_path: Path) -> None:
    heard: list[tuple[int, int, str | None, str]] = []
    run_checks(
        [script("", check_id="a"), script("raise SystemExit(1)", check_id="b")],
        tmp_path,
        on_progress=lambda done, count, result, name: heard.append(
            (done, count, result["status"] if result else None, name)
        ),
    )
    assert heard == [
        (0, 2, None, "a"), (1, 2, "passed", "a"), (1, 2, None, "b"), (2, 2, "failed", "b"),
    ]  # fmt: skip


def test_a_check_runs_in_the_working_tree(tmp_path: Path, mark: Mark) -> None:
    one(script("open('here', 'w')"), tmp_path, mark)
    assert (tmp_path / "here").exists()


def test_only_the_newest_runs_keep_their_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "LOGS_KEPT_MAX", 2)
    for name in ("a", "b", "a", "c"):
        folder = log_folder(tmp_path, "instruction", name)
        (folder / "x.log").write_text("x")
    kept = {path.name for path in folder.parent.iterdir()}
    assert kept == {"instruction-a", "instruction-c"}


def test_an_artifact_is_written_whole_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "i-1.json"
    for value in (1, 2):
        write_artifact(path, {"value": value})
        assert orjson.loads(path.read_bytes()) == {"value": value}
    assert [each.name for each in path.parent.iterdir()] == ["i-1.json"]
