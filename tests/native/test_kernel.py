"""C against the reference: the same lines, and every byte of what comes of them.

`make worlds` takes walks of more than 100,000 requests in all.
"""

import os
from typing import Any

import orjson
import pytest

from tests.fakes.desk import START_MS, Time
from tests.fakes.journal import MemoryJournal
from tests.fakes.policy import passed, policy
from tests.native.walk import Walk
from understudy.authority.engine.engine import Authority
from understudy.authority.engine.ffi import Kernel, KernelStop
from understudy.authority.engine.native_engine import NativeAuthority
from understudy.authority.law.image import dump
from understudy.authority.law.state import check_invariants
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import line as step_line
from understudy.authority.views.trajectory import written
from understudy.contracts import canonical, limits, parse
from understudy.contracts.requests.request import Door
from understudy.contracts.requests.shapes import Transport

STEPS = 3_000
SEEDS = int(os.environ.get("UNDERSTUDY_WALKS", "4"))


class Pair:
    """Both, over journals of their own, with one time."""

    def __init__(self) -> None:
        self.law_journal, self.native_journal = MemoryJournal(), MemoryJournal()
        self.time = Time()
        self.law = Authority(self.law_journal, self.time.clock())
        self.native = NativeAuthority(self.native_journal, self.time.clock())

    def submit(self, lines: list[tuple[bytes, Door]]) -> list[bytes]:
        wanted, wanted_rows = self.law.submit([parse(data, door) for data, door in lines])
        proposal = self.native.propose_lines([(door, [data]) for data, door in lines])
        found = b"".join(written(step).data for step in proposal.steps)
        assert found == b"".join(map(step_line, wanted_rows))
        answers, rows = self.native._submitted(proposal)
        assert answers == wanted
        assert rows == wanted_rows
        assert self.native.head == self.law.head
        assert self.native.garbage_count == self.law.garbage_count
        return answers

    def ask(self, action: str, door: Transport = "mcp", /, **payload: object) -> dict[str, Any]:
        line = canonical.encode({"action": action, "payload": payload})
        answer: dict[str, Any] = orjson.loads(self.submit([(line, Door(door))])[0])
        return answer

    def hot(self, action: str, door: Transport = "mcp", /, **payload: object) -> dict[str, Any]:
        """As `ask`, for what C must have decided."""
        before = self.native.hot_count
        answer = self.ask(action, door, **payload)
        assert self.native.hot_count == before + 1, self.native._stop
        return answer

    def cold(self, stop: KernelStop, action: str, /, **payload: object) -> dict[str, Any]:
        """As `ask`, for what the reference must have decided, and for this reason."""
        before = self.native.hot_count
        answer = self.ask(action, **payload)
        assert self.native.hot_count == before
        assert self.native._stop is stop
        return answer

    def prove(self) -> None:
        assert dump(self.native.state) == dump(self.law.state)
        check_invariants(self.native.state)
        assert self.native_journal.disk.rows == self.law_journal.disk.rows
        assert self.native_journal.disk.saved == self.law_journal.disk.saved


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_walk_gives_the_same_bytes(seed: int) -> None:
    pair, walk = Pair(), Walk(seed)
    batch: list[tuple[bytes, Door]] = []
    for line in walk.lines(STEPS):
        batch.append(line)
        if walk.random.random() < 0.3:
            for answer in pair.submit(batch):
                walk.heard(answer)
            batch = []
    pair.submit(batch)
    pair.prove()
    assert replay(pair.native_journal).mismatch is None
    assert pair.native.hot_count > STEPS // 4


# --- one by one ---------------------------------------------------------------------------------


@pytest.fixture
def pair() -> Pair:
    """Issues in every state that C looks at; `held` is ada's for a minute, with fence 9."""
    pair = Pair()
    for issue_id in ("free", "held", "shut", "stuck", "late", "needs", "needed", "lent"):
        pair.ask("issue.add", "cli", id=issue_id, title=issue_id, labels=["x"])
    pair.hot("issue.claim", id="held", assignee="ada", leaseId="L", leaseTtlSeconds=60)
    pair.hot("issue.close", id="shut")
    pair.ask("issue.update", "cli", id="stuck", status="blocked")
    pair.ask("dep.add", "cli", id="needs", dependsOnId="needed")
    pair.ask("issue.add", "cli", id="eves", title="eves", assignee="eve")
    return pair


HOLDER = {"id": "held", "assignee": "ada", "leaseId": "L", "fence": 9}
GUARDS: list[tuple[str, dict[str, object], str | None]] = [
    ("issue.lease_renew", HOLDER | {"id": "none"}, "lease_not_found"),
    ("issue.lease_renew", HOLDER | {"id": "shut"}, "lease_issue_closed"),
    ("issue.lease_renew", HOLDER | {"id": "free"}, "lease_missing"),
    ("issue.lease_renew", HOLDER | {"fence": None}, "lease_fence_missing"),
    ("issue.lease_renew", HOLDER | {"fence": 10}, "lease_fence_unknown"),
    ("issue.lease_renew", HOLDER | {"fence": 8}, "lease_fence_stale"),
    ("issue.lease_renew", HOLDER | {"fence": 0}, "lease_fence_stale"),
    ("issue.lease_renew", HOLDER | {"assignee": "bob"}, "lease_owner_mismatch"),
    ("issue.lease_renew", HOLDER | {"leaseId": "M"}, "lease_id_mismatch"),
    ("issue.lease_renew", HOLDER | {"leaseId": None}, "lease_id_mismatch"),
    ("issue.lease_renew", HOLDER | {"leaseId": " "}, "lease_id_mismatch"),
    ("issue.lease_renew", HOLDER | {"assignee": " "}, "lease_invalid_assignee"),
    ("issue.lease_renew", HOLDER | {"leaseTtlSeconds": 29}, "lease_invalid_ttl"),
    ("issue.lease_renew", HOLDER | {"leaseTtlSeconds": 30}, None),
    ("issue.lease_renew", HOLDER | {"leaseTtlSeconds": 86_400}, None),
    ("issue.lease_renew", HOLDER | {"leaseTtlSeconds": 86_401}, "lease_invalid_ttl"),
    ("issue.lease_renew", HOLDER | {"leaseExpiresAt": "soon"}, "lease_invalid_expires_at"),
    ("issue.lease_renew", HOLDER | {"leaseExpiresAt": "2027-01-15T08:00:29.999Z"},
     "lease_invalid_expires_at"),
    ("issue.lease_renew", HOLDER | {"leaseExpiresAt": "2027-01-15T08:00:30Z"}, None),
    ("issue.lease_renew", HOLDER | {"leaseExpiresAt": "2027-01-16T08:00:00Z"}, None),
    ("issue.lease_renew", HOLDER | {"leaseExpiresAt": "2027-01-16T08:00:00.001Z"},
     "lease_invalid_expires_at"),
    ("issue.lease_renew", HOLDER | {"leaseExpiresAt": "x", "leaseTtlSeconds": 60},
     "lease_binding_ambiguous"),
    ("issue.lease_renew", HOLDER | {"assignee": " ada "}, None),
    ("issue.lease_release", HOLDER, None),
    ("issue.lease_release", HOLDER | {"fence": 8}, "lease_fence_stale"),
    ("issue.close", HOLDER | {"reason": 'with "care"'}, None),
    ("issue.close", HOLDER | {"assignee": None}, "lease_owner_mismatch"),
    ("issue.close", {"id": "held"}, "lease_fence_missing"),
    ("issue.close", {"id": "free"}, None),
    ("issue.close", {"id": "free", "assignee": "ada", "leaseId": ""}, None),
    ("issue.close", {"id": "free", "leaseId": "L"}, "lease_missing"),
    ("issue.close", {"id": "free", "fence": 0}, "lease_missing"),
    ("issue.claim", {"id": "free", "assignee": "ada"}, None),
    ("issue.claim", {"id": "free"}, "lease_invalid_assignee"),
    ("issue.claim", {"id": "none", "assignee": "ada"}, "lease_not_found"),
    ("issue.claim", {"id": "shut", "assignee": "ada"}, "lease_issue_closed"),
    ("issue.claim", {"id": "stuck", "assignee": "ada"}, "lease_issue_blocked"),
    ("issue.claim", {"id": "eves", "assignee": "ada"}, "lease_contention_active"),
    ("issue.claim", {"id": "eves", "assignee": "eve"}, None),
    ("issue.claim", {"id": "held", "assignee": "bob"}, "lease_contention_active"),
    ("issue.claim", {"id": "held", "assignee": "ada"}, None),
    ("issue.claim", {"id": "held", "assignee": "ada", "fence": 8}, "lease_fence_stale"),
    ("issue.claim", {"id": "held", "assignee": "ada", "fence": 10}, "lease_fence_unknown"),
    ("issue.claim", {"id": "free", "assignee": "Z\u00f6e", "leaseId": " mine "}, None),
    ("issue.claim", {"id": "free", "assignee": "__\u00f6_"}, None),
]  # fmt: skip


@pytest.mark.parametrize(("action", "payload", "refusal"), GUARDS)
@pytest.mark.parametrize("request_id", [None, "r1"])
def test_every_guard_is_hot_and_the_same(
    pair: Pair, action: str, payload: dict[str, object], refusal: str | None, request_id: str | None
) -> None:
    given = payload if request_id is None else payload | {"requestId": request_id}
    ends_beyond_ascii = str(given.get("assignee", "")).strip()[-1:] > "\x7f"
    answer = (
        pair.cold(KernelStop.TEXT, action, **given)
        if ends_beyond_ascii
        else pair.hot(action, **given)
    )
    assert answer["failureClasses"] == ([refusal] if refusal else [])
    pair.prove()


def test_on_the_tick_of_its_deadline_a_lease_holds_and_one_later_it_does_not(pair: Pair) -> None:
    pair.time.passes(60_000)
    assert pair.hot("issue.claim", id="held", assignee="bob")["result"] == "rejected"
    pair.time.passes(1)
    answer = pair.hot("issue.lease_renew", **HOLDER)
    assert answer["failureClasses"] == ["lease_stale"]
    answer = pair.hot("issue.claim", id="free", assignee="bob")
    assert answer["leaseProjection"]["staleIssueIds"] == ["held"]
    answer = pair.hot("issue.claim", id="held", assignee="bob")
    assert answer["leaseProjection"]["staleCount"] == 0
    assert answer["issue"]["attempts"] == 2
    pair.prove()


@pytest.mark.parametrize(
    ("stop", "action", "payload"),
    [
        (KernelStop.ACTION, "issue.show", {"id": "free"}),
        (KernelStop.MEMBER, "issue.close", {"id": "free", "color": "red"}),
        (KernelStop.MEMBER, "issue.close", {"id": None}),
        (KernelStop.MEMBER, "issue.close", {}),
        (KernelStop.MEMBER, "issue.close", HOLDER | {"subleaseId": "s"}),
        (KernelStop.MEMBER, "issue.claim", {"id": "free", "assignee": None}),
        (KernelStop.MEMBER, "issue.claim", {"id": "free", "assignee": "ada", "fence": -1}),
        (
            KernelStop.MEMBER,
            "issue.claim",
            {"id": "free", "assignee": "ada", "leaseTtlSeconds": "9"},
        ),
        (KernelStop.MEMBER, "issue.lease_release", HOLDER | {"leaseTtlSeconds": 60}),
        (KernelStop.MEMBER, "issue.lease_release", HOLDER | {"handedBack": True}),
        (KernelStop.TEXT, "issue.claim", {"id": "-free", "assignee": "ada"}),
        (KernelStop.TEXT, "issue.claim", {"id": "x" * 129, "assignee": "ada"}),
        (KernelStop.TEXT, "issue.claim", {"id": "free", "assignee": "x" * 65}),
        (KernelStop.TEXT, "issue.claim", {"id": "free", "assignee": 'a"b'}),
        (KernelStop.TEXT, "issue.claim", {"id": "free", "assignee": "a\x7fb"}),
        (KernelStop.TEXT, "issue.claim", {"id": "free", "assignee": "ada\u3000"}),
        (KernelStop.TEXT, "issue.claim", {"id": "free", "assignee": "ada", "leaseId": "x" * 225}),
        (KernelStop.TEXT, "issue.close", {"id": "free", "reason": "x" * 1025}),
        (KernelStop.TEXT, "issue.close", {"id": "free", "requestId": ""}),
        (KernelStop.TEXT, "issue.close", {"id": "free", "requestId": "x" * 257}),
        (KernelStop.WAITING, "issue.claim", {"id": "needs", "assignee": "ada"}),
        (KernelStop.WAITING, "issue.close", {"id": "needed"}),
    ],
)
def test_what_is_not_plainly_hot_is_cold(
    pair: Pair, stop: KernelStop, action: str, payload: dict[str, object]
) -> None:
    pair.cold(stop, action, **payload)
    pair.prove()


def test_names_that_just_fit_are_hot(pair: Pair) -> None:
    pair.hot("issue.claim", id="free", assignee="x" * 64, leaseId="y" * 224)
    pair.hot("issue.claim", id="late", assignee="x" * 64)
    pair.ask("issue.add", "cli", id="n" * 128, title="t")
    pair.hot("issue.claim", id="n" * 128, assignee="x" * 64)
    pair.hot("issue.close", id="needs", reason="z" * 1024, requestId="r" * 256)
    pair.prove()


def test_lines_that_just_fit_are_hot(pair: Pair) -> None:
    line = canonical.encode({"action": "issue.close", "payload": {"id": "free"}})
    before = pair.native.hot_count
    pair.submit([(line.ljust(16_385), Door("mcp"))])
    assert (pair.native.hot_count, pair.native._stop) == (before, KernelStop.LINE)
    pair.submit([(line.ljust(16_384), Door("mcp"))])
    assert pair.native.hot_count == before + 1


def test_doors_that_are_too_weak_are_cold(pair: Pair) -> None:
    weak: tuple[Transport, ...] = ("cli", "local-repl")
    for door in weak:
        assert pair.ask("issue.lease_renew", door, **HOLDER)["result"] == "rejected"
        assert pair.native._stop is KernelStop.DOOR
        pair.hot("issue.claim", door, id="held", assignee="ada")
    pair.hot("issue.lease_renew", "coordinator", **HOLDER)


def test_a_request_id_is_hot_once(pair: Pair) -> None:
    first = pair.hot("issue.close", id="free", requestId="r")
    assert pair.cold(KernelStop.REPEAT, "issue.close", id="free", requestId="r") == first
    answer = pair.cold(KernelStop.REPEAT, "issue.close", id="late", requestId="r")
    assert answer["failureClasses"] == ["request_id_conflict"]
    pair.ask("issue.add", "cli", id="later", title="t", requestId="s")
    pair.cold(KernelStop.REPEAT, "issue.close", id="late", requestId="s")


def test_what_hangs_on_a_lease_makes_it_cold(pair: Pair) -> None:
    pair.ask("instance.open", **HOLDER, instanceId="i")
    pair.cold(KernelStop.ISSUE, "issue.lease_renew", **HOLDER)
    pair.ask("instance.close", **HOLDER, instanceId="i")
    pair.hot("issue.lease_renew", **HOLDER)
    pair.ask("sublease.grant", **HOLDER, holder="sub", capabilityScope=["issue.close"])
    pair.cold(KernelStop.ISSUE, "issue.close", **HOLDER)
    pair.prove()


def test_a_torn_record_is_cold_and_others_see_it(pair: Pair) -> None:
    pair.ask("issue.update", **HOLDER, newAssignee="eve")
    answer = pair.hot("issue.claim", id="free", assignee="bob")
    assert answer["leaseProjection"]["contendedIssueIds"] == ["held"]
    pair.cold(KernelStop.ISSUE, "issue.lease_renew", **HOLDER)
    pair.hot("issue.lease_renew", **HOLDER)
    pair.prove()


def test_a_closed_blocker_lets_the_other_go(pair: Pair) -> None:
    pair.cold(KernelStop.WAITING, "issue.close", id="needed")
    pair.hot("issue.claim", id="needs", assignee="ada")
    pair.prove()


def test_a_strict_policy_makes_everything_cold(pair: Pair) -> None:
    pair.ask("policy.set", "cli", mutation="instruction-linked")
    pair.cold(KernelStop.POLICY, "issue.close", id="free")


def test_the_last_event_of_a_millisecond_is_hot_and_the_next_is_not(pair: Pair) -> None:
    for each in (pair.law, pair.native):
        each._clock._counter = limits.COUNTER_MAX - 1
    pair.ask("issue.add", "cli", id="tick", title="t")
    pair.cold(KernelStop.CLOCK, "issue.claim", id="tick", assignee="ada")
    pair.hot("issue.claim", id="free", assignee="ada")


def test_as_many_stale_leases_as_an_answer_lists_are_hot() -> None:
    pair = Pair()
    for number in range(66):
        pair.ask("issue.add", "cli", id=f"i-{number}", title="t")
    for number in range(65):
        pair.hot("issue.claim", id=f"i-{number}", assignee="ada", leaseTtlSeconds=30)
    pair.time.passes(30_001)
    answer = pair.hot("issue.claim", id="i-64", assignee="ada", leaseTtlSeconds=30)  # its own
    assert answer["leaseProjection"]["staleCount"] == 64
    answer = pair.hot("issue.claim", id="i-65", assignee="ada", leaseTtlSeconds=30)
    assert len(answer["leaseProjection"]["staleIssueIds"]) == 64
    pair.time.passes(30_001)
    pair.cold(KernelStop.PROJECTION, "issue.claim", id="i-0", assignee="ada")
    pair.hot("issue.close", id="none")
    pair.prove()


def test_rows_that_do_not_fit_into_one_room_fill_two() -> None:
    pair = Pair()
    moment = "2027-01-15T08:00:00Z"
    for number in range(60):
        record = {"id": f"i-{number}", "title": "\u00e9" * 60_000}
        record |= {"created_at": moment, "updated_at": moment}
        pair.ask("issue.import", "cli", records=[record])
    claims = [
        canonical.encode(
            {"action": "issue.claim", "id": 7, "payload": {"id": f"i-{number}", "assignee": "ada"}}
        )
        for number in range(60)
    ]
    before = pair.native.hot_count
    pair.submit([(line, Door("mcp")) for line in claims])
    assert pair.native.hot_count == before + 60
    pair.prove()


def test_a_start_from_a_journal_goes_on_where_it_ended(pair: Pair) -> None:
    pair.hot("issue.claim", id="free", assignee="bob", requestId="r")
    pair.law.snapshot()
    pair.native.snapshot()
    pair.hot("issue.close", id="late")
    pair.law = Authority(pair.law_journal, pair.time.clock())
    pair.native = NativeAuthority(pair.native_journal, pair.time.clock())
    pair.ask("issue.add", "cli", id="new", title="t")  # the first writer takes over
    pair.hot("issue.lease_renew", **HOLDER)
    pair.hot("issue.close", id="new")
    pair.cold(KernelStop.REPEAT, "issue.claim", id="free", assignee="bob", requestId="r")
    pair.prove()


@pytest.mark.parametrize("method", ["put_issue", "dispatch"])
def test_without_memory_the_reference_decides_alone(
    pair: Pair, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise MemoryError

    pair.hot("issue.claim", id="late", assignee="ada", requestId="r")
    monkeypatch.setattr(Kernel, method, fails)
    pair.ask("issue.claim", id="late", assignee="bob")
    pair.ask("issue.add", "cli", id="new", title="t")
    for number in range(3):
        pair.ask("issue.claim", id="new", assignee="ada", requestId=f"r{number}")
    assert pair.native._kernel is None
    pair.prove()


def test_requests_and_lines_may_take_turns(pair: Pair) -> None:
    for number in range(4):
        line = canonical.encode(
            {"action": "issue.claim", "payload": {"id": "free", "assignee": "ada"}}
        )
        answers, _ = pair.native.submit([parse(line, Door("mcp"))])
        assert answers == pair.law.submit([parse(line, Door("mcp"))])[0]
        pair.hot("issue.claim", id="late", assignee="ada", requestId=f"r{number}")
    pair.prove()


def test_the_walks_begin_when_the_desk_opens() -> None:
    assert Walk(0).now_ms == START_MS


def test_an_issue_is_the_references_while_it_has_fibers_and_orphans() -> None:
    pair = Pair()
    pair.ask("issue.add", id="a", title="t")
    lease = pair.hot("issue.claim", id="a", assignee="ada")["issue"]["lease"]
    held = {"id": "a", "assignee": "ada", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    pair.ask("fiber.spawn", **held, taskRef="t", fiberId="f")
    assert pair.cold(KernelStop.ISSUE, "issue.close", **held)["failureClasses"] == [
        "fiber_scope_open"
    ]
    pair.cold(KernelStop.ISSUE, "issue.lease_renew", **held)
    answer = pair.cold(KernelStop.ISSUE, "issue.lease_release", **held)
    assert answer["orphanedFibers"] == ["f"]
    for who in ("ada", "bob"):  # a term of its own each; the second has forgotten the orphan
        lease = pair.ask("issue.claim", id="a", assignee=who)["issue"]["lease"]
        held = {"id": "a", "assignee": who, "leaseId": lease["leaseId"], "fence": lease["fence"]}
        orphaned = pair.ask("fiber.join", **held, fiberId="f")["failureClasses"]
        assert orphaned == ["fiber_orphaned" if who == "ada" else "fiber_not_found"]
        pair.ask("issue.lease_release", **held)
    pair.hot("issue.close", id="a")
    pair.prove()


def test_where_closing_requires_a_witness_closing_alone_is_cold() -> None:
    pair = Pair()
    for issue_id in ("a", "b"):
        pair.ask("issue.add", id=issue_id, title="t")
    pair.ask("policy.set", "cli", checks=policy(closeRequires="witness"))
    pair.ask("issue.add", id="c", title="t")
    for issue_id in ("a", "b", "c"):
        lease = pair.hot("issue.claim", id=issue_id, assignee="ada")["issue"]["lease"]
        held = {"id": issue_id, "assignee": "ada"}
        held |= {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        pair.hot("issue.lease_renew", **held)
        refused = pair.cold(KernelStop.WAITING, "issue.close", **held)
        assert refused["failureClasses"] == ["issue_close_unattested"]
    paths = {"changedPaths": ["a.txt"], "results": passed("lint")}
    witness = pair.ask("required.witness", "cli", **paths, **held)["witness"]
    pair.ask("required.witness_decide", witness=witness)
    assert pair.cold(KernelStop.WAITING, "issue.close", **held)["result"] == "accepted"
    pair.ask("policy.set", "cli", checks=policy())
    pair.hot("issue.close", id="a", assignee="ada", fence=5, leaseId="other")
    pair.prove()
