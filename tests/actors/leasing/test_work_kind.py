"""The words of each kind of work: what they build is what the authority takes."""

from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from tests.fakes.desk import Time, asked
from tests.fakes.journal import Disk, MemoryJournal
from understudy.actors.leasing import WORK, Ask, Family, HeldLease, WorkKind, for_worker
from understudy.authority.engine.engine import Authority
from understudy.contracts import FAILURES, ends_lease

TTL_MS = 90_000
KINDS = [WORK[family] for family in get_args(Family)]
STEP = {"stepKey": "x", "kind": "k"}


class World:
    """An authority with one piece of work of every kind, whose name is `a`."""

    def __init__(self) -> None:
        self.time = Time()
        self.authority = Authority(MemoryJournal(Disk()), self.time.clock())
        self.says(("issue.add", {"id": "a", "title": "a"}))
        self.says(("spec.submit", {"specId": "a", "steps": [STEP]}))
        self.says(("job.schedule", {"jobId": "a", "kind": "k"}))

    def says(self, ask: Ask) -> dict[str, Any]:
        (answer,), _ = self.authority.submit([asked(*ask, door="coordinator")])
        found: dict[str, Any] = orjson.loads(answer)
        return found

    def name_of(self, kind: WorkKind) -> str:
        """Of something that can be claimed; what is dispatched is the job of a spec's step."""
        if kind.family != "dispatch":
            return "a"
        spec = WORK["spec"]
        held = spec.held(spec.shown(self.says(spec.claim("a", "ada", None))))
        ask = (spec.completes, spec.proof(held) | {"stepKeys": ["x"]})
        return str(self.says(ask)["created"][0])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.family)
def test_work_is_taken_extended_shown_and_given_back(kind: WorkKind) -> None:
    world = World()
    name = world.name_of(kind)
    granted = world.says(kind.claim(name, "ada", TTL_MS))
    held = kind.held(kind.shown(granted))
    assert (held.name, held.owner, held.fence) == (name, "ada", granted["seq"])
    assert (held.family, held.resource) == (kind.family, f"{kind.family}/{name}")
    assert kind.ttl_ms(granted) == TTL_MS
    world.time.passes(1_000)
    proof = {"leaseId": held.lease_id, "fence": held.fence}
    for more in (kind.renewal(held, TTL_MS), kind.claim(name, "ada", TTL_MS, proof)):
        extended = world.says(more)
        assert extended["result"] == "accepted", extended
        assert kind.held(kind.shown(extended)) == held, "the same term"
        assert kind.ttl_ms(extended) == TTL_MS
    assert kind.held(kind.shown(world.says(kind.look(name)))) == held
    assert world.says(kind.release(held, "r" * 9_999))["result"] == "accepted"
    lost = world.says(kind.renewal(held, TTL_MS))
    assert ends_lease(lost["failureClasses"][0])


@pytest.mark.parametrize("family", ["issue", "job"])
def test_who_finished_work_is_told_and_that_it_is_settled(family: Family) -> None:
    world, kind = World(), WORK[family]
    held = kind.held(kind.shown(world.says(kind.claim("a", "ada", None))))
    assert kind.finished_by(kind.shown(world.says(kind.look("a")))) is None
    assert world.says(kind.completion(held))["result"] == "accepted"
    assert kind.finished_by(kind.shown(world.says(kind.look("a")))) == "ada"
    (failure,) = world.says(kind.renewal(held, TTL_MS))["failureClasses"]
    assert failure in kind.settled


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.family)
def test_what_settles_work_is_a_class_that_there_is(kind: WorkKind) -> None:
    assert kind.settled <= {each.wire for each in FAILURES.values()}
    # A branch is never done with: there is always more to glue.
    assert any(map(ends_lease, kind.settled)) == (kind.family != "glue")


def test_only_a_completion_that_has_something_to_say_of_it_names_what_was_produced() -> None:
    held = HeldLease("a", "ada", "l", 7, family="job")
    assert "outputArtifacts" not in WORK["job"].completion(held)[1]
    assert WORK["job"].completion(held, ())[1]["outputArtifacts"] == []


def test_a_command_is_told_what_it_works_on_and_nothing_of_other_work() -> None:
    issue = HeldLease("a", "ada", "l", 7)
    job = HeldLease("b", "w1", "m", 8, family="job", kind="k")
    common = {"UNDERSTUDY_SOCKET": "/s/authority.sock", "UNDERSTUDY_STATE_DIR": "/s"}
    assert issue.environment(Path("/s")) == common | {
        "UNDERSTUDY_ISSUE": "a",
        "UNDERSTUDY_ASSIGNEE": "ada",
        "UNDERSTUDY_LEASE": "l",
        "UNDERSTUDY_FENCE": "7",
    }
    told = job.environment(Path("/s"))
    assert told == common | {
        "UNDERSTUDY_JOB": "b",
        "UNDERSTUDY_WORKER": "w1",
        "UNDERSTUDY_KIND": "k",
        "UNDERSTUDY_LEASE": "m",
        "UNDERSTUDY_FENCE": "8",
    }
    kept = {*common, "UNDERSTUDY_LEASE", "UNDERSTUDY_FENCE"}
    secrets = {"UNDERSTUDY_HTTP_TOKEN": "t", "UNDERSTUDY_JOURNAL": "postgresql://u:p@h/d"}
    assert for_worker(told | issue.environment(Path("/s")) | secrets).keys() == kept
    assert (issue.title, job.title) == ("a", "job/b")
