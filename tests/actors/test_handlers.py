"""Handlers in Python: how they are found, what they are given, and what their end means."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.process import environment
from understudy.actors import handlers
from understudy.actors.handlers import HAND_BACK, Job, find, handler


def worked(job: Job) -> None: ...


def test_a_handler_is_found_by_module_and_name() -> None:
    assert find("os.path:join") is __import__("os").path.join


def test_a_decorated_handler_is_found_by_its_name_and_taken_once() -> None:
    handler("tests.decorated")(worked)
    try:
        assert find("tests.decorated") is worked
        with pytest.raises(ValueError, match="twice"):
            handler("tests.decorated")(worked)
    finally:
        del handlers._registered["tests.decorated"]


def test_an_entry_point_is_found_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "trade-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: trade\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[understudy.handlers]\nbuild = trade:build\n")
    (tmp_path / "trade.py").write_text("def build(job): return None\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert find("build").__module__ == "trade"


@pytest.mark.parametrize("name", ["nobody", "os.path:nothing", "os:name"])
def test_what_is_no_handler_is_named(name: str) -> None:
    with pytest.raises(LookupError, match=f"no handler {name}"):
        find(name)


@pytest.mark.parametrize(
    ("body", "code"),
    [("pass", 0), ("raise HandBack('later')", HAND_BACK), ("1 / 0", 1), ("raise SystemExit(3)", 3)],
)
def test_the_end_of_a_handler_is_an_exit_code(tmp_path: Path, body: str, code: int) -> None:
    (tmp_path / "trade.py").write_text(
        "from understudy.actors.handlers import HandBack\n"
        "def work(job):\n"
        "    assert (job.issue_id, job.fence, job.issue['title']) == ('a', 7, 't')\n"
        f"    {body}\n"
    )
    lease = {"ISSUE": "a", "ASSIGNEE": "w", "LEASE": "l", "FENCE": "7", "STATE_DIR": str(tmp_path)}
    found = subprocess.run(
        [sys.executable, "-m", "understudy.actors.handlers", "trade:work"],
        input=json.dumps({"title": "t"}).encode(),
        env=environment(**{f"UNDERSTUDY_{name}": value for name, value in lease.items()}),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert found.returncode == code, found.stderr
