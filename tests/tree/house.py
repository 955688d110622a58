"""A tree as people start it, and what can be seen of it from outside."""

import os
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import UNDERSTUDY, Program, Serve, report_of
from understudy.actors.otp.carriers.process import process_id
from understudy.actors.tree import control
from understudy.actors.tree.plan import RUN_FOLDER


class Up(Program):
    """`understudy up`, in the foreground. Leaving the block kills it, and it leaves nothing."""

    def __init__(self, state_dir: Path, *words: str | Path, **options: Any) -> None:
        self.state_dir = state_dir
        super().__init__([UNDERSTUDY, "up", "--state-dir", state_dir, *words], **options)

    def ready(self) -> "Up":
        eventually(lambda: self.process.poll() is not None or self.is_up())
        assert self.process.poll() is None, self.last_words()
        return self

    def is_up(self) -> bool:
        found = self.look()
        return found is not None and found["pid"] == self.pid

    def look(self) -> dict[str, Any] | None:
        """The picture, or None where no tree draws one just now."""
        try:
            return control.ask(self.state_dir / RUN_FOLDER, {"ask": "picture"}, 10.0)
        except control.NoTree:
            return None

    def picture(self) -> dict[str, Any]:
        found = self.look()
        assert found is not None, self.last_words()
        return found

    def terms(self) -> list[dict[str, Any]]:
        found = self.look() or {}
        terms: list[dict[str, Any]] = found.get("dispatcher", {}).get("terms", [])
        return terms

    def job_terms(self) -> list[dict[str, Any]]:
        found = (self.look() or {}).get("jobs") or {}
        terms: list[dict[str, Any]] = found.get("terms", [])
        return terms

    def pid_of(self, name: str) -> int:
        """Of a cell of the tree."""
        (child,) = [each for each in self.picture()["tree"] if each["id"] == name]
        pid: int = child["pid"]
        return pid

    def left(self, system: str) -> list[int]:
        return [each.pid for each in process_id.members(system)]


def add(state_dir: Path, *titles: str, **links: str) -> list[str]:
    """Issues; `b=a` says that b waits for a."""
    for title in titles:
        report_of("issue", "add", title, "--id", title, "--state-dir", state_dir)
    for name, on in links.items():
        report_of("dep", "add", name, on, "--state-dir", state_dir)
    return list(titles)


def schedule(state_dir: Path, jobs: Iterable[dict[str, Any]]) -> None:
    """Jobs, many at a time."""
    from understudy.authority.service.client import Client, ClientCall

    calls = [ClientCall("job.schedule", each) for each in jobs]
    with Serve(state_dir) as serve:
        serve.ready()
        with Client(state_dir, "cli", retry_seconds=PATIENCE_SECONDS) as client:
            for start in range(0, len(calls), 500):
                answers = client.ask_many(calls[start : start + 500])
                assert all(each["result"] == "accepted" for each in answers)


def job(state_dir: Path, job_id: str) -> dict[str, Any]:
    found: dict[str, Any] = report_of("job", "show", job_id, "--state-dir", state_dir)["job"]
    return found


def issues(state_dir: Path) -> dict[str, dict[str, Any]]:
    listed = report_of("issue", "list", "--state-dir", state_dir)
    return {each["id"]: each for each in listed["issues"]}


def statuses(state_dir: Path) -> dict[str, str]:
    return {name: issue["status"] for name, issue in issues(state_dir).items()}


def prove(state_dir: Path) -> None:
    """The evidence is whole, and decides the same again."""
    assert report_of("verify", "--state-dir", state_dir)["result"] == "accepted"
    assert report_of("replay", "--state-dir", state_dir)["result"] == "accepted"


def rows(state_dir: Path) -> Iterator[dict[str, Any]]:
    """The trajectory, row by row."""
    for line in (state_dir / "harness_trajectory.jsonl").read_bytes().splitlines():
        yield orjson.loads(line)


def accepted(state_dir: Path, action: str) -> dict[str, int]:
    """How often an action was accepted, by issue."""
    found: dict[str, int] = {}
    for row in rows(state_dir):
        if row["action"] == action and row["resultClass"] == "accepted":
            found[row["issueId"]] = found.get(row["issueId"], 0) + 1
    return found


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    os.kill(pid, number)
