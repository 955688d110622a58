"""An authority beside a repository, and legs that run under its leases, as `exec` runs them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.actors.descent.conftest import Place
from understudy.actors.descent import worktree
from understudy.actors.descent.leg import LegSettings
from understudy.actors.descent.repository import locate
from understudy.actors.descent.worktree import Worktree
from understudy.actors.run.runner import Outcome, Runner, Task
from understudy.authority.journal.state_dir import create_state_dir
from understudy.authority.service.open import open_authority

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    place: Place

    def ask(self, action: str, payload: Document) -> Document:
        with open_authority(self.place.state_dir, "coordinator") as authority:
            return authority.ask(action, payload)

    def add(self, issue_id: str, **members: object) -> None:
        payload = {"id": issue_id, "title": f"work on {issue_id}", **members}
        assert self.ask("issue.add", payload)["result"] == "accepted"

    def issue(self, issue_id: str = "x") -> Document:
        found: Document = self.ask("issue.show", {"id": issue_id})["issue"]
        return found

    def sections(self) -> list[Document]:
        found: list[Document] = self.ask("descent.show", {"target": "main"})["sections"]
        return found

    def run(self, script: str, issue_id: str = "x", **settings: Any) -> Outcome:
        """A shell script under a lease on the issue, and in a worktree."""
        leg = LegSettings(folder=str(self.place.top), target="main", **settings)
        words = (*leg.words(), "/bin/sh", "-c", script)
        task = Task(
            issue_id,
            "ada",
            words,
            ttl_seconds=90,
            grace_ms=30_000,  # a busy machine is slow to put away
            record_on_stdin=True,
            has_worktree=True,
        )
        return Runner(task, self.ask, self.place.state_dir).run()

    def refs(self, kind: str) -> dict[str, str]:
        """Short names and commits: of `aside`, `section`."""
        below = f"refs/understudy/{kind}/"
        said = self.place.git("for-each-ref", "--format=%(refname) %(objectname)", below)
        rows = (line.split(" ") for line in said.splitlines())
        return {name.removeprefix(below): commit for name, commit in rows}

    def kept(self) -> dict[str, str]:
        """What is left of all holders, once worktrees of legs that were killed are set aside."""
        for each in self.worktrees():
            worktree.remove(each)
        return self.refs("section") | self.refs("aside")

    def worktrees(self) -> list[Worktree]:
        return worktree.list_worktrees(locate(self.place.top, self.place.state_dir))

    def file(self, commit: str, path: str) -> str:
        return self.place.git("show", f"{commit}:{path}")

    def paths(self) -> list[Path]:
        """Of worktrees that are there."""
        return sorted(each for each in self.place.state_dir.glob("worktrees/*/*") if each.is_dir())

    def branches(self) -> str:
        return self.place.git("branch", "--format=%(refname:short)")


@pytest.fixture
def bench(place: Place) -> Bench:
    create_state_dir(place.state_dir, "local")
    made = Bench(place)
    made.add("x")
    return made


def said(outcome: Outcome) -> str:
    assert outcome.log is not None
    return outcome.log.read_text()


def record(path: Path) -> Document:
    """What a command was given on its standard input."""
    found: Document = orjson.loads(path.read_bytes())
    return found
