"""A small repository with a state directory in it, and git as a person would call it."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from understudy.actors.descent.repository import Repository, survey


class Place:
    """A repository on branch main, with an ignored state directory."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.state_dir = top / ".premath"

    def git(self, *words: str | Path, cwd: Path | None = None) -> str:
        done = subprocess.run(["git", *words], cwd=cwd or self.top, check=True, capture_output=True)
        return os.fsdecode(done.stdout).removesuffix("\n")

    def write(self, **files: str) -> None:
        for name, text in files.items():
            (self.top / name).write_text(text)

    def commit(self, text: str = "more") -> str:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", text)
        return self.git("rev-parse", "HEAD")

    def survey(self, **options: Any) -> Repository:
        return survey(self.top, self.state_dir, **options)


@pytest.fixture(autouse=True)
def plain_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting of the user who runs the tests."""
    home = tmp_path / "home"
    home.mkdir()
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(home / ".gitconfig"))
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n"
        '[protocol "file"]\n\tallow = always\n'
    )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    top = tmp_path / "repository"
    top.mkdir()
    made = Place(top)
    made.git("init", "--quiet")
    made.state_dir.mkdir()
    (made.state_dir / ".gitignore").write_text("*\n")
    made.write(one="1\n", two="2\n", **{".gitignore": "*.o\n"})
    made.commit("start")
    return made
