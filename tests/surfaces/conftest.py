"""A state directory, and the command line inside this process, with its output at hand."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from understudy.authority.journal.state_dir import create_state_dir
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.session import run


@dataclass(frozen=True, slots=True)
class Said:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object that stands alone on stdout."""
        assert self.out.count("\n") == 1, self.out
        assert self.out.endswith("\n")
        value = orjson.loads(self.out)
        assert isinstance(value, dict)
        return value


Run = Callable[..., Said]
TORN_HOLDER = ("--assignee", "tim", "--lease-id", "lease-t", "--fence", "1")


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "local")
    return folder


@dataclass(frozen=True, slots=True)
class Scene:
    """Work in every situation: `a` is free, `b` for `a`, `w` is held, `t` is contended."""

    run: Run
    holder: tuple[str, ...]  # of `w`, as options
    torn_holder: tuple[str, ...]  # of `t`
    fence: int


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the user who runs the tests, and no state directory but the test's own."""
    for name in ("ASSIGNEE", "FENCE", "ISSUE", "JOB", "LEASE", "STATE_DIR", "FAILPOINT", "WORKER"):
        monkeypatch.delenv(f"UNDERSTUDY_{name}", raising=False)
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def bare(capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Run a command in this process, without naming a state directory."""

    def said(*arguments: object) -> Said:
        capsysbinary.readouterr()
        code = run(cli, [str(argument) for argument in arguments])
        out, err = capsysbinary.readouterr()
        return Said(int(code), out.decode(), err.decode())

    return said


@pytest.fixture
def call(bare: Run, state_dir: Path) -> Run:
    """Run a command in this process, on the test's state directory."""

    def said(*arguments: object) -> Said:
        return bare(*arguments, "--state-dir", state_dir)

    return said


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test that sets the scene leaves it for the others; leases last an hour."""
    return tmp_path_factory.mktemp("stage") / "state"


@pytest.fixture
def scene(call: Run, state_dir: Path, tmp_path: Path, stage: Path) -> Scene:
    """A state directory with some of everything in it."""
    if stage.exists():
        shutil.rmtree(state_dir)
        shutil.copytree(stage, state_dir)
    else:
        _set(call, tmp_path)
        shutil.copytree(state_dir, stage)
    lease = call("issue", "show", "w", "--json").json["issue"]["lease"]
    holder = ("--assignee", "ada", "--lease-id", "lease-w", "--fence", str(lease["fence"]))
    return Scene(call, holder, TORN_HOLDER, lease["fence"])


def _set(call: Run, tmp_path: Path) -> None:
    record = {"id": "t", "title": "torn", "status": "open", "lease": {
        "lease_id": "lease-t", "owner": "tim",
        "acquired_at": "2026-01-01T00:00:00Z", "expires_at": "2199-01-01T00:00:00Z",
    }}  # fmt: skip
    (tmp_path / "torn.jsonl").write_bytes(orjson.dumps(record) + b"\n")
    for arguments in (
        ["import", tmp_path / "torn.jsonl"],
        ["issue", "add", "first", "--id", "a", "--label", "red", "--priority", "1"],
        ["issue", "add", "second", "--id", "b"],
        ["dep", "add", "b", "a"],
        ["issue", "add", "held", "--id", "w", "--description", "what is to be done"],
    ):
        assert call(*arguments).code == 0
    claim = call("issue", "claim", "w", "--assignee", "ada", "--lease-id", "lease-w", "--json").json
    fence = claim["issue"]["lease"]["fence"]
    holder = ("--assignee", "ada", "--lease-id", "lease-w", "--fence", str(fence))
    for arguments in (
        ["sublease", "grant", "w", "--holder", "sub", "--scope", "issue.update",
         "--new-sublease-id", "s1", *holder],
        ["instance", "open", "w", "tree1", "--worktree-ref", "/trees/1", *holder],
    ):  # fmt: skip
        assert call(*arguments).code == 0
    spawn = ("fiber", "spawn", "t", *TORN_HOLDER)
    assert call(*spawn, "--task", "lint", "--fiber-id", "f1").code == 0
    assert call(*spawn, "--task", "one file", "--fiber-id", "f2", "--parent", "f1").code == 0
    assert call("issue", "handover", "t", *TORN_HOLDER, "--summary", "half").code == 0
    mine = ("--worker", "tim", "--instruction-ref", "instr-1")
    assert call("harness", "session", "write", *mine, "--issue", "t", "--summary", "half").code == 0
    assert call("harness", "feature", "write", "f", *mine, "--status", "in_progress").code == 0
    for arguments in (  # the last three rows
        ["job", "schedule", "j", "--kind", "k.x"],
        ["job", "schedule", "p", "--kind", "k.x", "--payload", '{"n": 1}'],
        ["job", "claim", "j", "--worker", "ada"],
    ):
        assert call(*arguments).code == 0
