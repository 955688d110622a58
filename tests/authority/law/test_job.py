"""Jobs at one desk: what vectors cannot show, because it is about any order or any number."""

import time
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.fakes.desk import START_MS, Desk, asked
from tests.long import tried
from tests.together import together
from understudy.authority.journal.journal import operations
from understudy.authority.law.decide import decide
from understudy.authority.law.image import dump, load
from understudy.authority.law.jobs.oplog import fold, image
from understudy.authority.law.outcome import JobPut
from understudy.authority.law.state import State, apply, check_invariants
from understudy.contracts import (
    CallerStamp,
    JobRecord,
    Operation,
    Request,
    Roster,
    SignedOperation,
    Stamp,
    is_signed_by,
    sign,
)

JOBS = ("a", "b", "c")
WORKERS = ("ann", "bob", "n1")
CAPABILITIES = ["job.schedule", "job.claim", "job.complete"]

# --- any life at all ------------------------------------------------------------------------------

Move = tuple[str, dict[str, Any], int]


def batches() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Operations of two nodes, now and then under one stamp."""
    author = st.sampled_from(["ann", "bob"])
    claim = st.fixed_dictionaries({"jobId": st.sampled_from(JOBS)})
    deps = st.lists(st.sampled_from([f"complete/{each}" for each in JOBS]), max_size=1)
    schedule = st.fixed_dictionaries(
        {"jobId": st.sampled_from(JOBS), "kind": st.just("k.x"), "causalDeps": deps}
    )
    kinds = st.tuples(st.just("ClaimWork"), claim) | st.tuples(st.just("ScheduleJob"), schedule)
    return st.lists(
        st.builds(
            lambda who, at, what: {
                "kind": what[0],
                "author": who,
                "stamp": {"wallMs": at, "counter": 0, "node": who},
                "payload": what[1],
            },
            author,
            st.integers(0, 6),
            kinds,
        ),
        max_size=4,
    )


def moves() -> st.SearchStrategy[Move]:
    """Something that a caller might ask about one of three jobs, and how much later."""
    job, worker = st.sampled_from(JOBS), st.sampled_from(WORKERS)
    deps = st.lists(st.sampled_from([f"complete/{each}" for each in JOBS]), max_size=2, unique=True)
    named = {"jobId": job, "worker": worker}
    payloads = st.one_of(
        st.tuples(
            st.just("job.schedule"),
            st.fixed_dictionaries({"jobId": job, "kind": st.sampled_from(["k.x", "k.y"])},
                                  optional={"causalDeps": deps,
                                            "priority": st.integers(0, 3),
                                            "delayMs": st.sampled_from([0, 1, 30_000]),
                                            "timeoutMs": st.just(30_000)}),
        ),
        st.tuples(
            st.just("limit.set"),
            st.fixed_dictionaries({"kind": st.sampled_from(["k.", "k.x"])},
                                  optional={"concurrency": st.integers(0, 2),
                                            "ratePerMinute": st.sampled_from([1, 2, 60_000])}),
        ),
        st.tuples(st.just("limit.clear"), st.fixed_dictionaries({"kind": st.just("k.")})),
        st.tuples(
            st.just("schedule.set"),
            st.fixed_dictionaries({"scheduleId": st.just("s"), "everyMs": st.just(30_000),
                                   "startMs": st.just(START_MS), "job": st.just({"kind": "k.x"}),
                                   "missed": st.sampled_from(["skip", "all"])}),
        ),
        st.tuples(
            st.just("schedule.fire"),
            st.fixed_dictionaries({"scheduleId": st.just("s"),
                                   "dueMs": st.sampled_from([START_MS + turn * 30_000
                                                             for turn in range(5)])}),
        ),
        st.tuples(st.just("schedule.clear"), st.fixed_dictionaries({"scheduleId": st.just("s")})),
        st.tuples(st.sampled_from(["node.register", "node.unregister"]),
                  st.fixed_dictionaries({"node": worker})),
        st.tuples(
            st.just("job.claim"),
            st.fixed_dictionaries({**named, "leaseDurationMs": st.just(30_000)}),
        ),
        st.tuples(st.sampled_from(["job.complete", "job.yield", "job.renew"]),
                  st.fixed_dictionaries(named)),
        st.tuples(st.just("job.expire"), st.fixed_dictionaries(named)),
        st.tuples(
            st.just("route.set"),
            st.fixed_dictionaries({"kind": st.sampled_from(["k.", "k.x"])},
                                  optional={"route": worker}),
        ),
        st.tuples(st.just("coordinator.designate"), st.fixed_dictionaries({"node": worker})),
        st.tuples(st.just("job.admit"), st.fixed_dictionaries({"operations": batches()})),
    )  # fmt: skip
    return st.tuples(payloads, st.sampled_from([0, 1, 30_000, 30_001])).map(
        lambda both: (*both[0], both[1])
    )


def lived(life: list[Move]) -> Desk:
    """A desk after a life. Holders show what they were given, as far as they are holders."""
    desk = Desk()
    for action, payload, later_ms in life:
        desk.time.passes(later_ms)
        lease = desk.authority.state.leases.get(f"job/{payload.get('jobId')}")
        job = desk.authority.state.lane.jobs.get(payload.get("jobId", ""))
        held = {"leaseId": lease.lease_id, "fence": lease.fence} if lease else {}
        match action:
            case "job.renew":
                desk.ask("job.claim", **payload, **held)
            case "job.expire":
                fence = job.fence if job else 0
                desk.ask(
                    action, **payload, claim=job.claim if job and job.claim else "x", fence=fence
                )
            case "job.complete" | "job.yield":
                desk.ask(action, **payload, **held)
            case str() if action.startswith(("route.", "coordinator.", "limit.", "schedule.")):
                desk.ask(action, "cli", **payload)
            case "node.register":
                desk.ask(action, "cli", **payload, capabilities=CAPABILITIES)
            case "node.unregister":
                desk.ask(action, "cli", **payload)
            case _:
                desk.ask(action, **payload)
    return desk


def test_a_job_that_has_become_due_and_is_limited_is_not_forgotten() -> None:
    desk = Desk()
    desk.grant("limit.set", "cli", kind="k", ratePerMinute=1)
    for job_id, delay_ms in (("a", 0), ("b", 5)):
        desk.grant("job.schedule", jobId=job_id, kind="k", delayMs=delay_ms)
    lease = desk.grant("job.claim", jobId="a", worker="ann")["job"]["lease"]
    held = {"worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    desk.grant("job.complete", jobId="a", **held)
    desk.time.passes(5)
    found = desk.grant("job.roster")
    assert (found["count"], found["limited"]) == (0, ["k"])
    assert found["claimableMs"] == START_MS + 60_000
    assert desk.grant("job.roster", query="delayed")["count"] == 0


@tried(60)
@given(st.lists(moves(), max_size=40))
def test_any_life_keeps_the_invariants_replays_and_starts_again(life: list[Move]) -> None:
    desk = lived(life)
    check_invariants(desk.authority.state)
    desk.prove()


@tried(60)
@given(st.lists(moves(), max_size=40), st.randoms(use_true_random=False))
def test_operations_fold_to_the_same_roster_in_any_order_and_number(
    life: list[Move], rng: Random
) -> None:
    desk = lived(life)
    log = list(operations(desk.journal))
    delivered = log + rng.choices(log, k=len(log)) if log else []
    rng.shuffle(delivered)
    folded, once = fold(delivered), fold(log)
    assert folded.digest == once.digest
    assert folded.refused == ()
    # A scheduled job that waits is not applied yet; what is applied is what the authority has.
    waiting = {op_id.removeprefix("schedule/") for op_id in folded.waiting}
    entries = image(desk.authority.state)
    assert {key: one for key, one in entries.items() if key not in waiting} == folded.entries
    lane = desk.authority.state.lane
    assert waiting == {job_id for _, job_id in lane.waiting if lane.missing(lane.jobs[job_id])}


@tried(30)
@given(st.lists(moves(), max_size=30), st.randoms(use_true_random=False))
def test_a_part_of_the_log_waits_for_the_rest(life: list[Move], rng: Random) -> None:
    log = list(operations(lived(life).journal))
    part = [each for each in log if rng.random() < 0.7]
    folded = fold(part)
    shuffled = part[:]
    rng.shuffle(shuffled)
    assert fold(shuffled).digest == folded.digest
    known = {each.op_id for each in part}
    for op_id, missing in folded.waiting.items():
        assert missing, op_id
        assert any(each not in known or each in folded.waiting for each in missing)


# --- logs that cannot be --------------------------------------------------------------------------


def an_operation(op_id: str, at: int, *deps: str, **body: object) -> Operation:
    job_id = op_id.split("/")[1]
    return Operation(
        op_id=op_id,
        kind="ScheduleJob",
        author="n1",
        stamp=CallerStamp(at, 0, "n1"),
        causal_deps=deps,
        body={"jobId": job_id, "kind": "k", **body},
    )


def test_two_operations_in_one_place_count_for_nothing() -> None:
    one, other = an_operation("schedule/a", 1), an_operation("schedule/b", 1)
    later = an_operation("schedule/c", 2)
    for log in ([one, other, later], [later, other, one, other]):
        folded = fold(log)
        assert folded.refused == ("schedule/a", "schedule/b")
        assert set(folded.entries) == {"c"}


def test_two_operations_with_one_id_count_for_nothing() -> None:
    one, other = an_operation("schedule/a", 1), an_operation("schedule/a", 1, kind="other")
    assert fold([one, other]).refused == ("schedule/a",)
    assert fold([other, one]).digest == fold([one, other]).digest


def test_a_circle_is_cut_at_its_last_operation_and_what_hangs_on_it_waits() -> None:
    circle = [
        an_operation("schedule/a", 1, "schedule/b"),
        an_operation("schedule/b", 2, "schedule/a"),
    ]
    tail = an_operation("schedule/c", 3, "schedule/a")
    folded = fold([tail, *circle])
    assert folded.refused == ("schedule/b",)
    assert folded.waiting == {"schedule/a": ("schedule/b",), "schedule/c": ("schedule/a",)}


# --- the batch ------------------------------------------------------------------------------------


def test_a_batch_is_decided_without_a_touch_of_the_state() -> None:
    desk = Desk()
    for job_id in JOBS:
        desk.grant("job.schedule", jobId=job_id, kind="k")
    stamps = ({"wallMs": START_MS - place, "counter": 0, "node": "ann"} for place in range(1, 9))
    batch = [
        {"kind": "ClaimWork", "author": "ann", "stamp": next(stamps), "payload": {"jobId": "a"}},
        {"kind": "ScheduleJob", "author": "ann", "stamp": next(stamps),
         "payload": {"jobId": "d", "kind": "k", "causalDeps": ["complete/e"]}},
        {"kind": "ScheduleJob", "author": "ann", "stamp": next(stamps),
         "payload": {"jobId": "e", "kind": "k"}},
    ]  # fmt: skip
    request = asked("job.admit", {"operations": batch})
    assert isinstance(request, Request)
    state = desk.authority.state
    before = dump(state)
    stamp = Stamp(4, START_MS, 9, "n1")
    outcome = decide(state, request, stamp)
    assert dump(state) == before
    check_invariants(state)
    assert decide(state, request, stamp) == outcome


@pytest.mark.parametrize("seed", range(5))
def test_operations_come_to_the_same_in_whatever_order_and_however_often(seed: int) -> None:
    """Batches are delivered in any order, and again; no stamp is used for two things."""
    dice = Random(seed)
    sent = [
        {"kind": "ScheduleJob", "author": node,
         "stamp": {"wallMs": START_MS - 99 + at, "counter": 0, "node": node},
         "payload": {"jobId": f"{node}{at}", "kind": "k"}}
        for node in ("ann", "bob") for at in range(12)
    ]  # fmt: skip
    rosters = set()
    for _ in range(3):
        desk = Desk()
        order = dice.sample(sent, len(sent)) + dice.sample(sent, 6)
        for start in range(0, len(order), 5):
            answer = desk.grant("job.admit", operations=order[start : start + 5])
            assert {each["result"] for each in answer["operations"]} == {"accepted"}
        assert answer["changed"] is False, "all of it came before"
        other = dice.choice(sent) | {"payload": {"jobId": "other", "kind": "k"}}
        assert desk.refusal("job.admit", operations=[other]) == "operation_stamp_conflict"
        state = desk.authority.state
        assert dump(load(dump(state))) == dump(state)
        shown = [(job.job_id, job.author, job.state) for job in state.lane.jobs.values()]
        rosters.add((str(sorted(shown)), str(sorted(state.lane.authors.items()))))
    assert len(rosters) == 1


def test_a_claim_that_comes_late_and_again_is_not_granted_again() -> None:
    desk = Desk()
    desk.grant("job.schedule", jobId="a", kind="k")
    stamp = {"wallMs": START_MS - 9, "counter": 0, "node": "ann"}
    claim = {"kind": "ClaimWork", "author": "ann", "stamp": stamp, "payload": {"jobId": "a"}}
    lease = desk.grant("job.admit", operations=[claim])["operations"][0]["job"]["lease"]
    held = {"worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    desk.grant("job.yield", jobId="a", **held)
    more = desk.grant("job.claim", jobId="a", worker="bob")["job"]["lease"]
    desk.grant("job.yield", jobId="a", worker="bob", leaseId=more["leaseId"], fence=more["fence"])
    again = desk.grant("job.admit", operations=[claim])
    assert (again["changed"], again["operations"][0]["job"]["state"]) == (False, "pending")


def test_a_signature_covers_every_member() -> None:
    from nacl.signing import SigningKey

    secret = SigningKey.generate()
    public = secret.verify_key.encode().hex()
    stamp = CallerStamp(1, 2, "ann")
    bare = SignedOperation(kind="ClaimWork", author="ann", stamp=stamp, payload={"jobId": "a"})
    signed = sign(bare, secret.encode().hex())
    assert is_signed_by(signed, public)
    assert not is_signed_by(bare, public)
    for member, value in (
        ("kind", "YieldWork"), ("author", "bob"), ("stamp", CallerStamp(1, 3, "ann")),
        ("payload", {"jobId": "b"}), ("signature", "zz"),
    ):  # fmt: skip
        assert not is_signed_by(replace(signed, **{member: value}), public), member
    assert not is_signed_by(signed, "00")


# --- many jobs ------------------------------------------------------------------------------------


def a_lane(count: int) -> State:
    """Jobs of ten kinds; every other one waits."""
    state = State()
    apply(state, [
        JobPut(JobRecord(
            job_id=f"j{place}", kind=f"k.{place % 10}", author="n1", scheduled_seq=place + 1,
            scheduled_ms=place, last_op=f"schedule/j{place}",
            causal_deps=("complete/never",) if place % 2 else (),
        ))
        for place in range(count)
    ])  # fmt: skip
    return state


def cost(work: Callable[[], object], calls: int = 200) -> float:
    """The least that some calls of it took, of several tries."""

    def once() -> float:
        start = time.process_time()
        for _ in range(calls):
            work()
        return time.process_time() - start

    return min(once() for _ in range(7))


@pytest.fixture
def lanes() -> tuple[State, State]:
    return a_lane(1_000), a_lane(100_000)


@together(
    "payload",
    [
        {"query": "pending", "kind": "k.4", "limit": 8},
        {"query": "pending", "kind": "k.", "worker": "ann", "limit": 8},
        {"query": "waiting", "limit": 8},
        {"query": "overdue", "limit": 8},
    ],
    ids=lambda payload: "-".join(map(str, payload.values())),
)
def test_a_page_of_the_roster_costs_the_same_among_many_jobs(
    lanes: tuple[State, State], payload: dict[str, Any]
) -> None:
    request = asked("job.roster", payload)
    assert isinstance(request, Request)
    assert isinstance(request.payload, Roster)
    stamp = Stamp(1, START_MS, 0, "n1")
    few, many = lanes
    ratio = cost(lambda: decide(many, request, stamp)) / cost(lambda: decide(few, request, stamp))
    assert ratio < 5, "a hundred times as many jobs"


def test_pages_follow_each_other_without_a_gap() -> None:
    state = a_lane(500)
    stamp = Stamp(1, START_MS, 0, "n1")
    for query in ("pending", "waiting"):
        found: list[str] = []
        more: dict[str, Any] = {}
        while True:
            request = asked("job.roster", {"query": query, "limit": 7, **more})
            assert isinstance(request, Request)
            body = decide(state, request, stamp).body
            found += [each["jobId"] for each in body["jobs"]]
            if "cursor" not in body:
                break
            more = {"cursor": body["cursor"]}
        assert len(found) == len(set(found)) == 250
