"""Every way that two workers, two issues and a clock can go, until nothing new comes up.

A state is what can make a difference: who holds each issue and whether the lease is live, and
whether what a worker remembers of it is the lease of now or one of before. From each of them
everything is tried, and held against the register by which clients' logs are judged.
"""

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from tests.fakes.desk import START_MS, asked
from tests.fakes.mutant import break_rule
from tests.faults.register import Heard, Kind, Op, Register, step
from understudy.authority.law import lease
from understudy.authority.law.decide import decide
from understudy.authority.law.image import dump, load
from understudy.authority.law.outcome import Accepted, Refused
from understudy.authority.law.state import State, apply, check_invariants
from understudy.contracts.records.records import Stamp, issue_resource
from understudy.contracts.requests.request import Request

WORKERS = ("ada", "bob")
TTL_SECONDS = 30
ACTIONS: dict[str, Kind] = {
    "issue.lease_renew": "renew",
    "issue.lease_release": "release",
    "issue.update": "update",
    "issue.close": "close",
}
Memory = dict[tuple[str, str], dict[str, Any]]  # what a worker was given for an issue


@dataclass(frozen=True)
class World:
    """Where one way has led."""

    image: bytes
    seq: int
    now_ms: int
    memory: Memory
    registers: dict[str, Register]

    def key(self) -> Hashable:
        """What can make a difference from now on."""
        state = load(self.image)
        order = tuple(sorted(self.deadlines().items(), key=lambda each: each[1]))
        sooner = tuple(issue for issue, _ in order), len({ms for _, ms in order})
        return sooner, *(self._issue_key(state, issue) for issue in self.registers)

    def deadlines(self) -> dict[str, int]:
        """Of the leases that hold."""
        leases = ((issue, register.term) for issue, register in self.registers.items())
        found = {issue: int(term.earliest_ms) for issue, term in leases if term is not None}
        return {issue: ms for issue, ms in found.items() if ms >= self.now_ms}

    def _issue_key(self, state: State, issue: str) -> Hashable:
        held = state.leases.get(issue_resource(issue))
        left_ms = held.deadline_ms - self.now_ms if held else 0
        age = [mark for mark in (0, 1, TTL_SECONDS * 1000) if mark <= left_ms]
        shown = (self.memory.get((worker, issue)) for worker in WORKERS)
        known = tuple(each and held is not None and each["fence"] == held.fence for each in shown)
        return state.issues[issue].status, held and held.owner, len(age), known


def begin(issues: tuple[str, ...]) -> World:
    state, seq = State(), 0
    for seq, issue in enumerate(issues, start=1):
        outcome = _decided(state, "issue.add", {"id": issue, "title": "t"}, seq, START_MS)
        assert isinstance(outcome, Accepted)
        apply(state, outcome.changes)
    return World(dump(state), seq, START_MS, {}, {issue: Register() for issue in issues})


def moves(world: World) -> Iterator[World]:
    """Everything that can happen next."""
    for deadline_ms in set(world.deadlines().values()):  # to the last tick, and past it
        yield replace(world, now_ms=deadline_ms)
        yield replace(world, now_ms=deadline_ms + 1)
    for issue in world.registers:
        yield _moved(world, "break", "issue.lease_break", {"id": issue, "reason": "r"}, "op")
        for worker in WORKERS:
            claim = {"id": issue, "assignee": worker, "leaseTtlSeconds": TTL_SECONDS}
            yield _moved(world, "claim", "issue.claim", claim, worker)
            holder = world.memory.get((worker, issue))
            for action, kind in ACTIONS.items() if holder else ():
                more = {"leaseTtlSeconds": TTL_SECONDS} if kind == "renew" else {}
                yield _moved(world, kind, action, {**(holder or {}), **more}, worker)


def _moved(world: World, kind: Kind, action: str, payload: dict[str, Any], who: str) -> World:
    """Ask the authority and the register; they must agree, and a refusal must change nothing."""
    state, seq = load(world.image), world.seq + 1
    outcome = _decided(state, action, payload, seq, world.now_ms)
    issue, memory = payload["id"], world.memory
    held = outcome.body["issue"].get("lease") if isinstance(outcome, Accepted) else None
    deadline_ms = held and round(datetime.fromisoformat(held["expiresAt"]).timestamp() * 1000)
    failure = outcome.reason.wire if isinstance(outcome, Refused) else None
    heard = Heard(failure, (world.now_ms, 0), outcome.fence, None, deadline_ms)
    ttl_ms = payload.get("leaseTtlSeconds", 0) * 1000
    op = Op(kind, who, seq, seq, heard, payload.get("fence"), ttl_ms)
    after = list(step(world.registers[issue], op))
    assert len(after) == 1, (world.registers[issue], op)
    if isinstance(outcome, Accepted):
        apply(state, outcome.changes)
        check_invariants(state)
    _assert_same(state, issue, after[0])
    if kind == "claim" and held is not None:
        given = {"id": issue, "assignee": who, "leaseId": held["leaseId"], "fence": held["fence"]}
        memory = memory | {(who, issue): given}
    return World(dump(state), seq, world.now_ms, memory, world.registers | {issue: after[0]})


def _assert_same(state: State, issue: str, register: Register) -> None:
    held, term = state.leases.get(issue_resource(issue)), register.term
    assert (held is None) is (term is None)
    if held is not None and term is not None:
        assert (held.owner, held.fence) == (term.owner, term.fence)
        assert term.earliest_ms <= held.deadline_ms <= term.latest_ms
    assert (state.issues[issue].status == "closed") is register.closed


def _decided(
    state: State, action: str, payload: dict[str, Any], seq: int, now_ms: int
) -> Accepted | Refused:
    request = asked(action, payload)
    assert isinstance(request, Request)
    outcome = decide(state, request, Stamp(seq, now_ms, 0, "n1"))
    assert isinstance(outcome, Accepted | Refused)
    return outcome


def explore(issues: tuple[str, ...]) -> int:
    """Go everywhere; how many states there are."""
    first = begin(issues)
    seen, waiting = {first.key()}, deque([first])
    while waiting:
        for world in moves(waiting.popleft()):
            if world.key() not in seen:
                seen.add(world.key())
                waiting.append(world)
    return len(seen)


@pytest.mark.parametrize(("issues", "states"), [(("x",), 19), (("x", "y"), 505)])
def test_whatever_two_workers_do_one_of_them_holds_each_issue(
    issues: tuple[str, ...], states: int
) -> None:
    assert explore(issues) == states, "it went everywhere"


@pytest.mark.parametrize(
    ("where", "right", "wrong"),
    [
        ("fenced", "shown.fence < lease.fence", "False"),
        ("fenced", "stamp.wall_ms > deadline_ms", "stamp.wall_ms >= deadline_ms"),
        ("fenced", "lease is None", "False"),
        ("is_live", "stamp.wall_ms <= lease.deadline_ms", "stamp.wall_ms < lease.deadline_ms"),
        ("_obstacle", "lease.owner != assignee", "False"),
        ("grant", "fence=turn.stamp.seq", "fence=1"),
        ("break_lease", "lease is None", "False"),
        (
            "release",
            "_drop(",
            "_put(turn, turn.state.issues[request.id], extend(turn, lease, 0)) or (",
        ),
    ],
)
def test_a_broken_rule_is_met_on_the_way(
    monkeypatch: pytest.MonkeyPatch, where: str, right: str, wrong: str
) -> None:
    break_rule(monkeypatch, lease, where, right, wrong)
    with pytest.raises((AssertionError, AttributeError, KeyError)):
        explore(("x",))
