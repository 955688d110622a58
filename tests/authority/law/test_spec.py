"""Specs under any interleaving of runners, dispatchers and workers, held against a small model.

Everybody remembers what it was once given and shows it again, in time or long after: so there are
zombies of every kind.
"""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.authority.law.test_job import cost
from tests.fakes.desk import START_MS, asked
from tests.long import tried
from understudy.authority.law.decide import decide
from understudy.authority.law.image import dump, load
from understudy.authority.law.jobs.oplog import fold, image
from understudy.authority.law.outcome import Accepted, JobPut, LeasePut, OperationAdmitted, SpecPut
from understudy.authority.law.state import State, apply, check_invariants
from understudy.contracts import (
    JobRecord,
    Lease,
    Operation,
    Reason,
    Request,
    Spec,
    Stamp,
    Step,
    limits,
    step_job,
)

SPECS = ("s", "t")
ACTORS = ("ann", "bob", "cat")
TTL_MS = 30_000

Steps = list[dict[str, Any]]
Move = tuple[str, str, str, int, int]  # what, by whom, on which spec, which step, how much later


def dags() -> st.SearchStrategy[Steps]:
    """Steps that depend on steps, in any order of the document."""
    edges = st.lists(st.sets(st.integers(0, 3), max_size=3), min_size=1, max_size=5)

    def steps(found: list[set[int]]) -> Steps:
        return [
            {
                "stepKey": f"k:{place}",
                "kind": "k",
                "dependsOn": [f"k:{each}" for each in sorted(before) if each < place],
            }
            for place, before in enumerate(found)
        ]

    return edges.map(steps).flatmap(st.permutations)


def lives() -> st.SearchStrategy[list[Move]]:
    what = st.sampled_from([
        "claim", "claim", "renew", "make", "make", "make", "release", "take", "take", "retake",
        "mark", "mark", "drop", "work", "finish", "finish", "yield", "expire",
    ])  # fmt: skip
    later = st.sampled_from([0, 0, 0, 1, TTL_MS, TTL_MS + 1])
    move = st.tuples(
        what, st.sampled_from(ACTORS), st.sampled_from(SPECS), st.integers(0, 4), later
    )
    return st.lists(move, max_size=60)


class World:
    """A state, its clock, what everybody remembers, and what the model says must be."""

    def __init__(self, documents: dict[str, Steps]) -> None:
        self.state, self.seq, self.wall_ms = State(), 0, START_MS
        self.documents = documents
        self.memory: dict[tuple[str, str], dict[str, Any]] = {}  # (who, resource) -> shown
        self.held: dict[str, tuple[str, int, int]] = {}  # resource -> owner, fence, deadline
        self.fences: dict[int, tuple[str, str]] = {}
        self.made: list[str] = []
        self.marked: list[str] = []
        self.log: list[Operation] = []
        for spec_id, steps in documents.items():
            assert isinstance(self.ask("spec.submit", specId=spec_id, steps=steps), Accepted)

    def ask(self, action: str, **payload: object) -> Any:
        self.seq += 1
        outcome = self.probe(action, **payload)
        for change in outcome.changes:
            if isinstance(change, OperationAdmitted):
                self.log.append(change.operation)
        apply(self.state, outcome.changes)
        return outcome

    def probe(self, action: str, **payload: object) -> Any:
        """What would be said; nothing becomes of it."""
        request = asked(action, payload)
        assert isinstance(request, Request), request
        return decide(self.state, request, Stamp(self.seq, self.wall_ms, self.seq, "n1"))

    def holds(self, who: str, resource: str) -> bool:
        """By the model: whether what this one remembers is the lease that is live."""
        owner, fence, deadline_ms = self.held.get(resource, ("", 0, -1))
        shown = self.memory.get((who, resource), {})
        return (owner, fence) == (who, shown.get("fence")) and self.wall_ms <= deadline_ms

    def claimed(self, who: str, resource: str, outcome: Any, lease: dict[str, Any]) -> None:
        """A grant or a renewal, by the model."""
        owner, fence, deadline_ms = self.held.get(resource, ("", 0, -1))
        is_live = self.wall_ms <= deadline_ms
        if is_live:
            assert (owner, fence) == (who, lease["fence"]), "a live lease changed hands"
        else:
            assert lease["fence"] == self.seq > fence, "an old fence was given out again"
        known = self.fences.setdefault(lease["fence"], (resource, who))
        assert known == (resource, who), "one fence, two holders"
        self.held[resource] = (who, lease["fence"], self.wall_ms + TTL_MS)
        self.memory[who, resource] = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        assert outcome.fence == lease["fence"]

    def step(self, move: Move) -> None:
        what, who, spec_id, place, later_ms = move
        self.wall_ms += later_ms
        steps = self.documents[spec_id]
        key = steps[place % len(steps)]["stepKey"]
        if what in ("claim", "renew", "make", "release"):
            self._run(what, who, spec_id, key)
        elif what in ("take", "retake", "mark", "drop"):
            self._hand_on(what, who, step_job(spec_id, key))
        else:
            self._work(what, who, step_job(spec_id, key))

    def _run(self, what: str, who: str, spec_id: str, key: str) -> None:
        resource = f"spec/{spec_id}"
        shown = self.memory.get((who, resource), {})
        named = {"specId": spec_id, "runner": who}
        is_done = self.state.lane.specs[spec_id].created == len(self.documents[spec_id])
        may = self.holds(who, resource) and not is_done
        if what in ("claim", "renew"):
            fence = {"fence": shown["fence"]} if what == "renew" and shown else {}
            said = self.ask("spec.claim", **named, leaseDurationMs=TTL_MS, **fence)
            is_free = self.wall_ms > self.held.get(resource, ("", 0, -1))[2]
            expected = may if fence else is_free and not is_done
            assert isinstance(said, Accepted) is expected, said
            if expected:
                self.claimed(who, resource, said, said.body["spec"]["lease"])
        elif what == "release":
            said = self.ask("spec.release", **named, **shown)
            assert isinstance(said, Accepted) is may, said
            if may:
                del self.held[resource]
        else:
            said = self.ask("spec.materialize", **named, **shown, stepKeys=[key])
            assert isinstance(said, Accepted) is may, "a runner without the lease made a job"
            if may:
                self._made(said, step_job(spec_id, key), spec_id)

    def _made(self, said: Accepted, job_id: str, spec_id: str) -> None:
        existed = job_id in self.made
        assert said.body["created"] == ([] if existed else [job_id])
        assert said.body["existing"] == ([job_id] if existed else [])
        self.made += said.body["created"]
        if said.body["spec"]["state"] == "materialized":
            del self.held[f"spec/{spec_id}"]

    def _hand_on(self, what: str, who: str, job_id: str) -> None:
        resource = f"dispatch/{job_id}"
        shown = self.memory.get((who, resource), {})
        named = {"jobId": job_id, "dispatcher": who}
        job = self.state.lane.jobs.get(job_id)
        is_over = job is None or job.completed_ms is not None or job_id in self.marked
        may = self.holds(who, resource) and not is_over
        if what in ("take", "retake"):
            fence = {"fence": shown["fence"]} if what == "retake" and shown else {}
            said = self.ask("dispatch.claim", **named, leaseDurationMs=TTL_MS, **fence)
            if isinstance(said, Accepted):
                assert not is_over, "what is over was handed on again"
                self.claimed(who, resource, said, said.body["job"]["dispatchLease"])
            else:
                assert not (fence and may), said
        elif what == "mark":
            said = self.ask("dispatch.complete", **named, **shown, file="f", digest=who)
            if isinstance(said, Accepted) and said.body["changed"]:
                assert may, "a dispatcher without the lease marked a job"
                self.marked.append(job_id)
                del self.held[resource]
            else:
                assert not may, said
        else:
            said = self.ask("dispatch.release", **named, **shown)
            assert isinstance(said, Accepted) is may, said
            if may:
                del self.held[resource]

    def _work(self, what: str, who: str, job_id: str) -> None:
        lease = self.state.leases.get(f"job/{job_id}")
        job = self.state.lane.jobs.get(job_id)
        named = {"jobId": job_id, "worker": who}
        held = {"leaseId": lease.lease_id, "fence": lease.fence} if lease else {}
        match what:
            case "work":
                self.ask("job.claim", **named, leaseDurationMs=TTL_MS)
            case "expire" if job is not None and job.claim:
                self.ask("job.expire", **named, claim=job.claim, fence=job.fence)
            case "finish" | "yield":
                verb = "job.complete" if what == "finish" else "job.yield"
                if isinstance(self.ask(verb, **named, **held), Accepted) and what == "finish":
                    self.held.pop(f"dispatch/{job_id}", None)
            case _:
                pass

    def check(self) -> None:
        check_invariants(self.state)
        assert dump(load(dump(self.state))) == dump(self.state)
        lane = self.state.lane
        assert sorted(self.made) == sorted(lane.jobs), "each step has exactly one job"
        assert len(self.made) == len(set(self.made))
        assert len(self.marked) == len(set(self.marked)), "each is handed on at most once"
        assert {key for key, job in lane.jobs.items() if job.dispatched} == set(self.marked)
        live = {key for key, lease in self.state.leases.items() if not key.startswith("job/")}
        assert live == self.held.keys()
        self._check_pages()
        folded = fold(self.log)
        assert folded.specs.keys() == lane.specs.keys()
        assert not folded.refused
        seen = image(self.state)
        assert all(seen[key] == entry for key, entry in folded.entries.items())

    def _check_pages(self) -> None:
        """The rosters list what a claim of a new worker would get, and nothing else."""
        listed = self.probe("spec.list", limit=limits.ROSTER_PAGE_MAX).body["specs"]
        granted = [
            spec_id
            for spec_id in self.documents
            if isinstance(self.probe("spec.claim", specId=spec_id, runner="new"), Accepted)
        ]
        assert [each["specId"] for each in listed] == granted
        listed = self.probe("dispatch.roster", limit=limits.ROSTER_PAGE_MAX).body["jobs"]
        dispatchable = {
            job_id
            for job_id in self.state.lane.jobs
            if isinstance(self.probe("dispatch.claim", jobId=job_id, dispatcher="new"), Accepted)
        }
        assert {each["jobId"] for each in listed} == dispatchable


@tried(60)
@given(dags(), dags(), lives())
def test_any_interleaving_makes_each_job_once_and_hands_it_on_once(
    one: Steps, two: Steps, life: list[Move]
) -> None:
    world = World({"s": one, "t": two})
    for at, move in enumerate(life):
        world.step(move)
        if at % 8 == 0:
            world.check()
    world.check()


def test_the_model_can_lose(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that lets a zombie through is noticed."""
    from understudy.authority.law import lease, term

    def blind(held: Any, shown: Any, stamp: Any, name: str) -> Any:
        found = lease.fenced(held, shown, stamp, name)
        is_stale = not isinstance(found, Lease) and found.reason is Reason.FENCE_STALE
        return held if is_stale else found

    world = World({"s": [{"stepKey": "k:0", "kind": "k"}, {"stepKey": "k:1", "kind": "k"}]})
    for move in (("claim", "ann", "s", 0, 0), ("claim", "bob", "s", 0, TTL_MS + 1)):
        world.step(move)
    monkeypatch.setattr(term, "fenced", blind)
    with pytest.raises(AssertionError, match="without the lease"):
        world.step(("make", "ann", "s", 0, 0))


@tried(60)
@given(dags())
def test_whatever_the_order_a_spec_can_be_worked_off(steps: Steps) -> None:
    world = World({"s": steps})
    world.step(("claim", "ann", "s", 0, 0))
    for place in range(len(steps)):
        world.step(("make", "ann", "s", place, 0))
    order: list[str] = []
    while page := world.probe("dispatch.roster").body["jobs"]:
        job_id = page[0]["jobId"]
        order.append(job_id)
        place = [step_job("s", each["stepKey"]) for each in steps].index(job_id)
        for what in ("take", "mark", "work", "finish"):
            world.step((what, "bob", "s", place, 0))
    world.check()
    assert sorted(order) == sorted(world.made), "none is left out"
    for each in steps:
        after = order.index(step_job("s", each["stepKey"]))
        assert all(order.index(step_job("s", key)) < after for key in each["dependsOn"])


@given(st.lists(st.sets(st.integers(0, 5), max_size=3), min_size=1, max_size=6))
def test_a_circle_is_refused_with_steps_that_really_form_one(edges: list[set[int]]) -> None:
    steps = [
        {
            "stepKey": f"k{place}",
            "kind": "k",
            "dependsOn": [f"k{each}" for each in sorted(after) if each != place],
        }
        for place, after in enumerate(edges)
    ]
    needed = {step["stepKey"]: set(step["dependsOn"]) for step in steps}
    request = asked("spec.submit", {"specId": "s", "steps": steps})
    assert isinstance(request, Request)
    said = decide(State(), request, Stamp(1, START_MS, 0, "n1"))
    if any(not keys <= needed.keys() for keys in needed.values()):
        assert said.reason is Reason.SPEC_STEP_DEPENDENCY
        return
    left = dict(needed)
    while free := [key for key, keys in left.items() if not keys & left.keys()]:
        for key in free:
            del left[key]
    assert isinstance(said, Accepted) is not bool(left)
    if not isinstance(said, Accepted):
        assert said.reason is Reason.SPEC_STEP_CYCLE
        walk = said.detail.partition(": ")[2].split(" -> ")
        assert walk[0] == walk[-1]
        assert all(after in needed[key] for key, after in pairwise(walk))


# --- many -----------------------------------------------------------------------------------------


def a_lane(count: int) -> State:
    """Specs and their jobs: of four one is leased and live, one leased and lapsed."""
    state = State()
    for place in range(count):
        name = f"s{place}"
        steps = (Step(step_key="a", kind="k"), Step(step_key="b", kind="k"))
        spec = Spec(
            spec_id=name, author="n", digest="d", steps=steps, created=1,
            submitted_seq=place + 1, submitted_ms=place,
        )  # fmt: skip
        job = JobRecord(
            job_id=f"{name}:a", kind="k", author="n", scheduled_seq=place + 1, scheduled_ms=place,
            last_op="x", spec_id=name, step_key="a",
        )  # fmt: skip
        apply(state, [SpecPut(spec), JobPut(job)])
        if place % 4 < 2:
            deadline_ms = START_MS + 1 if place % 4 else START_MS - 1
            apply(state, [
                LeasePut(Lease(
                    resource=resource, lease_id="l", owner="o", fence=place + 1, ttl_ms=1,
                    granted_ms=0, deadline_ms=deadline_ms,
                ))
                for resource in (f"spec/{name}", f"dispatch/{name}:a")
            ])  # fmt: skip
    return state


def test_a_page_costs_the_same_among_many_specs_and_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LAPSED_SCAN_MAX", 32)
    few, many = a_lane(500), a_lane(10_000)
    stamp = Stamp(1, START_MS, 0, "n1")
    for action in ("spec.list", "dispatch.roster"):
        request = asked(action, {"limit": 8})
        assert isinstance(request, Request)

        def page(state: State, request: Request = request) -> object:
            return decide(state, request, stamp)

        ratio = cost(lambda: page(many), 20) / cost(lambda: page(few), 20)
        assert ratio < 5, f"{action} among twenty times as many"


def test_pages_follow_each_other_without_a_gap() -> None:
    state, stamp = a_lane(200), Stamp(1, START_MS, 0, "n1")
    for action, member, name in (
        ("spec.list", "specs", "specId"),
        ("dispatch.roster", "jobs", "jobId"),
    ):
        found: list[str] = []
        more: dict[str, Any] = {}
        while True:
            request = asked(action, {"limit": 7, **more})
            assert isinstance(request, Request)
            body = decide(state, request, stamp).body
            found += [each[name] for each in body[member]]
            if "cursor" not in body:
                break
            more = {"cursor": body["cursor"]}
        assert len(found) == len(set(found)) == 150, "all but those that are held"
        assert found == sorted(found, key=lambda each: int(each[1:].partition(":")[0]))
