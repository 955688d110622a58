"""The hooks of `docs/hooks.md`, as they stand there, in a real repository."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, environment

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"


class Repository:
    """A clone with both hooks, and the repository that it pushes to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "clone"
        self.env = {
            "PATH": f"{UNDERSTUDY.parent}:{os.environ['PATH']}",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_CONFIG_NOSYSTEM": "1",
            **{f"GIT_{who}_{what}": "ada@example.org"
               for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        }  # fmt: skip
        self._run(folder, ["git", "init", "-q", "--bare", "far"])
        self._run(folder, ["git", "clone", "-q", "far", "clone"])
        for name in ("pre-commit", "pre-push"):
            shape = rf"```sh\n(#!/bin/sh\n# {name}: .*?)```"
            (script,) = re.findall(shape, PAGE.read_text(), re.DOTALL)
            path = self.folder / ".git" / "hooks" / name
            path.write_text(script)
            path.chmod(0o755)

    def git(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        return self._run(self.folder, ["git", *words], **env)

    def commit(self, name: str, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        (self.folder / name).write_text(name)
        assert self.git("add", name).returncode == 0
        return self.git("commit", "-q", "-m", name, *words, **env)

    def _run(self, folder: Path, words: list[str], **env: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=folder, env=environment(**self.env, **env), check=False,
            capture_output=True, text=True,
        )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def worker(call: Run, state_dir: Path, assignee: str) -> dict[str, str]:
    """What a worker is started with."""
    answer = call("issue", "claim", "x", "--assignee", assignee, "--json").json
    return {
        "UNDERSTUDY_ISSUE": "x",
        "UNDERSTUDY_FENCE": str(answer["issue"]["lease"]["fence"]),
        "UNDERSTUDY_STATE_DIR": str(state_dir),
    }


@pytest.fixture
def ada(call: Run, state_dir: Path) -> dict[str, str]:
    assert call("issue", "add", "work", "--id", "x").code == 0
    return worker(call, state_dir, "ada")


def test_people_are_not_asked(repository: Repository) -> None:
    assert repository.commit("a").returncode == 0
    pushed = repository.git("push", "-q", "origin", "HEAD:main")
    assert pushed.returncode == 0, pushed.stderr


def test_a_worker_commits_and_pushes_while_its_fence_is_current(
    call: Run, repository: Repository, ada: dict[str, str]
) -> None:
    done = repository.commit("a", **ada)
    assert done.returncode == 0, done.stderr
    assert repository.git("push", "-q", "origin", "HEAD:main", **ada).returncode == 0
    assert call("issue", "break", "x", "--reason", "it is gone").code == 0
    late = repository.commit("b", **ada)
    assert late.returncode != 0
    assert "lease_missing" in late.stderr
    assert "x is no longer yours; nothing is committed" in late.stderr
    assert repository.git("log", "--oneline").stdout.count("\n") == 1
    assert repository.commit("b").returncode == 0
    refused = repository.git("push", "-q", "origin", "HEAD:main", **ada)
    assert refused.returncode != 0
    assert "nothing is pushed" in refused.stderr
    assert repository.git("log", "--oneline", "origin/main").stdout.count("\n") == 1


def test_a_worker_on_a_job_commits_while_its_fence_is_current(
    call: Run, state_dir: Path, repository: Repository
) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    answer = call("job", "claim", "j", "--worker", "ada", "--json").json
    lease = answer["job"]["lease"]
    own = {"UNDERSTUDY_JOB": "j", "UNDERSTUDY_STATE_DIR": str(state_dir)}
    own["UNDERSTUDY_FENCE"] = str(lease["fence"])
    done = repository.commit("a", **own)
    assert done.returncode == 0, done.stderr
    proof = ("--worker", "ada", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
    assert call("job", "complete", "j", *proof).code == 0
    late = repository.commit("b", **own)
    assert late.returncode != 0
    assert "job_completed" in late.stderr
    assert "j is no longer yours; nothing is committed" in late.stderr


def test_a_zombie_s_commit_is_not_pushed_by_its_successor(
    call: Run, state_dir: Path, repository: Repository, ada: dict[str, str]
) -> None:
    first = repository.commit("a", "--trailer", f"Fence: {ada['UNDERSTUDY_FENCE']}", **ada)
    assert first.returncode == 0, first.stderr
    assert call("issue", "break", "x", "--reason", "it is gone").code == 0
    bob = worker(call, state_dir, "bob")
    refused = repository.git("push", "-q", "origin", "HEAD:main", **bob)
    assert refused.returncode != 0
    words = (
        f"made under fence {ada['UNDERSTUDY_FENCE']}, the current one is {bob['UNDERSTUDY_FENCE']}"
    )
    assert words in refused.stderr
    assert repository.git("update-ref", "-d", "HEAD").returncode == 0
    done = repository.commit("b", "--trailer", f"Fence: {bob['UNDERSTUDY_FENCE']}", **bob)
    assert done.returncode == 0, done.stderr
    for branch in ("HEAD:main", "HEAD:refs/heads/other", ":refs/heads/other"):
        pushed = repository.git("push", "-q", "origin", branch, **bob)
        assert pushed.returncode == 0, pushed.stderr


def test_a_command_under_exec_commits(call: Run, state_dir: Path, repository: Repository) -> None:
    assert call("issue", "add", "work", "--id", "x").code == 0
    (repository.folder / "a").write_text("a")
    script = 'git add a && git commit -q -m a --trailer "Fence: $UNDERSTUDY_FENCE"'
    words = [str(UNDERSTUDY), "exec", "x", "--state-dir", str(state_dir), "--", "sh", "-c", script]
    done = repository._run(repository.folder, words)
    assert done.returncode == 0, done.stderr
    fence = repository.git("log", "--format=%(trailers:key=Fence,valueonly)").stdout.strip()
    assert fence == "2"


def test_the_script_stops_at_the_guard(
    call: Run, tmp_path: Path, repository: Repository, ada: dict[str, str]
) -> None:
    (script,) = re.findall(r"```sh\n(set -e\n.*?)```", PAGE.read_text(), re.DOTALL)
    for name in ("make", "deploy"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> done\n')
        path.chmod(0o755)
    search = f"{tmp_path}:{repository.env['PATH']}"
    env = environment(**(repository.env | {"PATH": search}), **ada)
    assert subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, check=False).returncode == 0
    assert call("issue", "break", "x", "--reason", "it is gone").code == 0
    assert subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, check=False).returncode == 6
    lines = ["make release", f"deploy --fence {ada['UNDERSTUDY_FENCE']}", "make release"]
    assert (tmp_path / "done").read_text().splitlines() == lines
