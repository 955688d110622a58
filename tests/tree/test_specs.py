"""A tree that makes jobs of specs and hands them out: `understudy up --specs`."""

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, add, kill, prove, statuses
from understudy.actors.tree import RUN_FOLDER
from understudy.authority import Office, open_journal
from understudy.authority.service.client import Client

pytestmark = pytest.mark.timeout(120)


def submit(state_dir: Path, spec_id: str, count: int, **links: str) -> None:
    """A spec of so many steps; `s1="s0"` says that s1 waits for s0."""
    steps = [
        {"stepKey": f"s{number}", "kind": "k", "dependsOn": [links[key]] if key in links else []}
        for number in range(count)
        for key in [f"s{number}"]
    ]
    with Office(state_dir) as office:
        answer = office.ask("spec.submit", {"specId": spec_id, "steps": steps})
    assert answer["result"] == "accepted", answer["diagnostic"]


def files(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*")} if folder.exists() else set()


def accepted(state_dir: Path, action: str) -> list[dict[str, Any]]:
    with open_journal(state_dir, read_only=True) as journal:
        answers = [orjson.loads(row.response) for row in journal.read()]
    return [each for each in answers if (each["action"], each["result"]) == (action, "accepted")]


def prove_once(state_dir: Path, jobs: int) -> None:
    """Every job was made once and dispatched once, and the evidence is whole."""
    made = Counter(
        job for each in accepted(state_dir, "spec.materialize") for job in each["created"]
    )
    sent = Counter(each["job"]["jobId"] for each in accepted(state_dir, "dispatch.complete"))
    assert made == sent
    assert len(made) == made.total() == jobs
    prove(state_dir)


def test_jobs_are_made_and_written_beside_workers_and_all_are_waited_for(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "i1")
    submit(state_dir, "a", 100)
    submit(state_dir, "b", 3, s1="s0", s2="s1")
    with Up(state_dir, "--exec", "true", "--specs", "--until-done", cwd=tmp_path) as up:
        assert up.wait() == 0, up.complaint()
        assert "job files in" in up.complaint()
    found = files(state_dir / "job-files")
    assert found == {f"a+s{number}.json" for number in range(100)} | {"b+s0.json"}
    assert not (tmp_path / "runtime").exists(), "nothing is left where it was started"
    with Office(state_dir) as office:
        shown = office.ask("spec.show", {"specId": "b"})["spec"]
    assert shown["state"] == "materialized"
    assert [each["state"] for each in shown["steps"]] == ["pending", "waiting", "waiting"]
    assert len(accepted(state_dir, "dispatch.complete")) == 101
    assert statuses(state_dir) == {"i1": "closed"}


def test_a_tree_alone_says_what_it_does_heals_and_is_not_harmed_by_frozen_cells(
    state_dir: Path, tmp_path: Path
) -> None:
    submit(state_dir, "a", 1)
    folder = tmp_path / "blocked" / "jobs"
    folder.parent.write_text("in the way")
    words = ("--specs", "--job-files", folder, "--ttl", "30")  # a killed one may die with a lease
    with Up(state_dir, *words) as up, up_client(up) as client:
        eventually(lambda: _told(up))
        line = understudy("status", "--state-dir", state_dir).stdout.decode()
        for word in ("1 jobs made of 1 specs", "0 jobs dispatched", "files not written"):
            assert word in line
        assert "workers busy" not in line
        drawn = understudy("tree", "--state-dir", state_dir).stdout.decode()
        for word in ("chain_runner", "job_dispatcher", "move away the file that is in its place"):
            assert word in drawn
        folder.parent.unlink()

        before = {name: up.pid_of(name) for name in ("chain_runner", "job_dispatcher")}
        for pid in before.values():
            kill(pid)
        eventually(lambda: _are_new(up, before))
        eventually(lambda: _is_dispatched(client, "a"))

        frozen = up.pid_of("job_dispatcher")
        kill(frozen, signal.SIGSTOP)
        steps = [{"stepKey": "s0", "kind": "k"}, {"stepKey": "s1", "kind": "k"}]
        _ask(client, "spec.submit", specId="b", steps=steps)
        eventually(lambda: _spec(client, "b")["state"] == "materialized")
        assert files(folder) == {"a+s0.json"}
        kill(frozen, signal.SIGCONT)
        eventually(lambda: _is_dispatched(client, "b"))
        eventually(lambda: up.picture()["specs"]["dispatcher"]["jobs"] >= 2)  # since its start
        assert report_of("down", "--state-dir", state_dir)["left"] == []
        assert up.wait() == 0, up.complaint()
        assert "not written" in up.complaint()
    assert len(files(folder)) == 3
    assert {each["job"]["jobId"] for each in accepted(state_dir, "dispatch.release")} == {"a:s0"}
    prove_once(state_dir, 3)


def test_what_a_killed_dispatcher_has_told_is_told_by_up_that_did_not_look(
    state_dir: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "blocked" / "jobs"
    folder.parent.write_text("in the way")
    with Up(state_dir, "--specs", "--job-files", folder) as up, up_client(up) as client:
        before = {"job_dispatcher": up.pid_of("job_dispatcher")}
        up.halt()
        _ask(client, "spec.submit", specId="a", steps=[{"stepKey": "s0", "kind": "k"}])
        reports = state_dir / RUN_FOLDER / "reports.jsonl"
        eventually(lambda: "not written" in reports.read_text())
        folder.parent.unlink()  # the next dispatcher has nothing to tell
        kill(before["job_dispatcher"])
        up.wake()
        eventually(lambda: _are_new(up, before))
        drawn = understudy("tree", "--state-dir", state_dir).stdout.decode()
        assert "not written" in drawn
        assert report_of("down", "--state-dir", state_dir)["left"] == []
        assert up.wait() == 0, up.complaint()
        told = reports.read_text().count('"what": "not written"')
        assert up.complaint().count("not written") == told, "each is told once"


@contextmanager
def up_client(up: Up) -> Iterator[Client]:
    """A connection to a tree that is up."""
    up.ready()
    with Client(up.state_dir, "cli") as client:
        yield client


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--exec", "true", "--job-files", "d"], "--job-files is for trees with --specs"),
        (["--mcp", "--until-done"], "with workers, or with --specs"),
        ([], "--mcp or --web"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(
    state_dir: Path, words: list[str], said: str
) -> None:
    done = understudy("up", *words, "--state-dir", state_dir)
    assert done.returncode == 2
    assert said in done.stderr.decode()


def _are_new(up: Up, before: dict[str, int]) -> bool:
    tree = {each["id"]: each for each in (up.look() or {}).get("tree", [])}
    return all(
        name in tree and tree[name]["state"] == "running" and tree[name]["pid"] not in (None, pid)
        for name, pid in before.items()
    )


def _ask(client: Client, action: str, **payload: Any) -> dict[str, Any]:
    answer = client.ask(action, payload)
    assert answer["result"] == "accepted", answer["diagnostic"]
    return answer


def _spec(client: Client, spec_id: str) -> dict[str, Any]:
    spec: dict[str, Any] = _ask(client, "spec.show", specId=spec_id)["spec"]
    return spec


def _is_dispatched(client: Client, spec_id: str) -> bool:
    return all("dispatched" in each for each in _spec(client, spec_id)["steps"])


def _told(up: Up) -> list[dict[str, Any]]:
    specs = (up.look() or {}).get("specs") or {}
    reports: list[dict[str, Any]] = specs.get("dispatcher", {}).get("reports", [])
    return reports
