"""Handlers in Python: how they are found, what they are given, and what their end means."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.process import environment
from understudy.actors import handlers
from understudy.actors.handlers import HAND_BACK, NOT_FOUND, IssueWork, JobWork, find, handler
from understudy.actors.run.artifacts import read_artifacts
from understudy.contracts.records.job import snapshot_id


def worked(work: IssueWork) -> None: ...


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


def ended(tmp_path: Path, source: str, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The end of `trade:work`, with this source, for an issue."""
    (tmp_path / "trade.py").write_text(source)
    lease = {"ISSUE": "a", "ASSIGNEE": "w", "LEASE": "l", "FENCE": "7", "STATE_DIR": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-m", "understudy.actors.handlers", *words, "trade:work"],
        input=json.dumps({"title": "t"}).encode(),
        env=environment(**{f"UNDERSTUDY_{name}": value for name, value in lease.items()}),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize("define", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("pass", 0),
        ("raise HandBack('later')", HAND_BACK),
        ("1 / 0", 1),
        ("raise SystemExit(3)", 3),
        ("return True", 1),
    ],
)
def test_the_end_of_a_handler_is_an_exit_code(
    tmp_path: Path, define: str, body: str, code: int
) -> None:
    source = (
        "from understudy.actors.handlers import HandBack\n"
        f"{define} work(job):\n"
        "    assert (job.issue_id, job.fence, job.issue['title']) == ('a', 7, 't')\n"
        "    print('ran')\n"
        f"    {body}\n"
    )
    found = ended(tmp_path, source)
    assert (found.returncode, found.stdout) == (code, b"ran\n"), found.stderr
    if code == 1 and "return" in body:
        assert b"a handler of an issue returns None, not bool" in found.stderr


@pytest.mark.parametrize(
    "source",
    [
        "import functools\nasync def f(n, job): print('ran')\nwork = functools.partial(f, 1)\n",
        "class W:\n    async def __call__(self, job): print('ran')\nwork = W()\n",
        "async def f(job): print('ran')\ndef work(job): return f(job)\n",
    ],
)
def test_whatever_is_awaitable_is_awaited(tmp_path: Path, source: str) -> None:
    found = ended(tmp_path, source)
    assert (found.returncode, found.stdout, found.stderr) == (0, b"ran\n", b"")


def test_a_generator_is_no_success_of_an_issue(tmp_path: Path) -> None:
    found = ended(tmp_path, "def work(job):\n    yield 1\n")
    assert found.returncode == 1
    assert b"returns None, not generator" in found.stderr


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("work = 3\n", b"no handler trade:work"),
        ("import nowhere\n", b"No module named 'nowhere'"),
        ("raise SystemExit(0)\n", b"SystemExit"),
        ("async def work(job):\n    yield 1\n", b"async generator"),
        (
            "class W:\n    async def __call__(self, job):\n        yield 1\nwork = W()\n",
            b"async gen",
        ),
    ],
)
@pytest.mark.parametrize("words", [(), ("--check",)])
def test_what_cannot_be_run_is_said_before_anything_runs(
    tmp_path: Path, source: str, said: bytes, words: tuple[str, ...]
) -> None:
    found = ended(tmp_path, source, *words)
    assert found.returncode == NOT_FOUND
    assert said in found.stderr


def test_a_check_runs_nothing(tmp_path: Path) -> None:
    found = ended(tmp_path, "def work(job): print('ran')\n", "--check")
    assert (found.returncode, found.stdout) == (0, b"")


def test_the_names_of_before_still_name_the_same() -> None:
    assert (handlers.Job, handlers.Work) == (IssueWork, JobWork)


def left_by(
    tmp_path: Path, body: str, define: str = "def"
) -> tuple[int, bytes, list[dict[str, object]]]:
    """What a handler of a job leaves: its exit code, its errors and its artefacts."""
    (tmp_path / "trade.py").write_text(f"{define} work(work):\n    {body}\n")
    path = tmp_path / "artifacts"
    told = {"JOB": "a", "KIND": "k", "WORKER": "w", "LEASE": "l", "FENCE": "7"}
    told |= {"STATE_DIR": str(tmp_path), "ARTIFACTS": str(path)}
    late = {"artifacts": [{"artifactId": "x", "artifactType": "late"}]}
    found = subprocess.run(
        [sys.executable, "-m", "understudy.actors.handlers", "trade:work"],
        input=json.dumps({"payload": {"p": 1}, "quarantined": late}).encode(),
        env=environment(**{f"UNDERSTUDY_{name}": value for name, value in told.items()}),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    lines = path.read_text().splitlines() if path.exists() else []
    return found.returncode, found.stderr, [json.loads(line) for line in lines]


def test_a_handler_of_a_job_names_what_it_produced(tmp_path: Path) -> None:
    body = "assert (work.job_id, work.kind, work.fence, work.payload) == ('a', 'k', 7, {'p': 1});"
    body += (
        " work.artifact('i', 't', modelId='m'); work.adopt(); work.snapshot('m', 'p', b'o', '2')"
    )
    code, said, lines = left_by(tmp_path, body)
    assert code == 0, said
    plain, late, _ = lines
    assert plain == {"artifactId": "i", "artifactType": "t", "modelId": "m"}
    assert late == {"artifactId": "x", "artifactType": "late"}
    *_, snapshot = read_artifacts(tmp_path / "artifacts", "a")
    assert (snapshot.source_job, snapshot.model_version) == ("a", "2")
    assert snapshot.artifact_id == snapshot_id(snapshot), "the authority will take it"


@pytest.mark.parametrize("define", ["def", "async def"])
def test_what_a_handler_of_a_job_returns_are_artefacts(tmp_path: Path, define: str) -> None:
    one = {"artifactId": "i", "artifactType": "t"}
    assert left_by(tmp_path, f"return {one}", define)[2] == [one]
    (tmp_path / "artifacts").unlink()
    assert left_by(tmp_path, f"return [{one}, {one}]")[2] == [one, one]
    (tmp_path / "artifacts").unlink()
    code, said, lines = left_by(tmp_path, "return ['x']", define)
    assert (code, lines) == (1, [])
    assert b"a handler returns artefacts, not str" in said
