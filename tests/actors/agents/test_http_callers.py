"""Clients over HTTP: their names, their leases, and when they are taken to be gone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.limits import stands_on
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.actors.agents.caller import PassingCaller
from understudy.actors.agents.holds import KeepPolicy
from understudy.actors.agents.http_callers import HttpCallers
from understudy.actors.agents.keeper import LeaseKeeper
from understudy.actors.leasing.work_kind import HeldLease
from understudy.actors.process.guard.descendants import now_ms
from understudy.contracts import limits

MODERN, LEGACY = "modern", "legacy"
LEASE = HeldLease("us-1", "ada", "lease-1", 1)
TTL_MS = 3_600_000


@dataclass(frozen=True)
class Keeping(PassingCaller):
    kept: list[HeldLease] = field(default_factory=list)

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None = None
    ) -> None:
        self.kept.append(lease)


@dataclass
class Reception:
    """A reception that writes down who came and who went."""

    here: dict[str, Keeping] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    gone: list[Keeping] = field(default_factory=list)
    terms: dict[str, Any] = field(default_factory=dict)

    def arrive(self, caller_id: str, name: str, wish: dict[str, Any]) -> Keeping:
        assert wish == {"keep": "heartbeat", "onLeave": "expire"}
        self.heard.append(name)
        return self.here.setdefault(caller_id, Keeping(name))

    def leave(self, caller: Keeping, connection: object) -> None:
        self.gone.append(caller)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def asked(
    callers: HttpCallers, era: str, within: Callable[[], Any], client: str = "tool", **headers: str
) -> Any:
    """What `within` says while a request of this client is served."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    with callers.calling(given, client, has_sessions=era == LEGACY):
        return within()


def test_a_name_is_the_one_in_the_header() -> None:
    callers = HttpCallers(Reception())
    for era in (MODERN, LEGACY):
        assert asked(callers, era, lambda: callers.name, understudy_agent=" ada ") == "ada"


def test_no_other_caller_has_the_name_of_a_session() -> None:
    callers = HttpCallers(Reception())
    one, again, other = [
        asked(callers, LEGACY, lambda: callers.name, mcp_session_id=each) for each in "aab"
    ]
    assert one == again != other
    assert one.startswith("tool-")


def test_a_caller_that_gives_no_name_is_a_new_one_each_time() -> None:
    callers = HttpCallers(Reception())
    names = {asked(callers, MODERN, lambda: callers.name) for _ in range(16)}
    assert len(names) == 16


def test_the_modern_era_cannot_invent_a_session() -> None:
    reception = Reception()
    callers = HttpCallers(reception)
    asked(callers, MODERN, lambda: callers.name, mcp_session_id="invented")
    assert reception.heard == []


def test_a_repeated_request_of_a_session_has_the_same_key() -> None:
    callers = HttpCallers(Reception())

    def key(rpc_id: str | int, era: str = LEGACY, **headers: str) -> str:
        told: str = asked(callers, era, lambda: callers.request_id(rpc_id), **headers)
        return told

    assert key(1, mcp_session_id="a") == key(1, mcp_session_id="a")
    keys = [key(each, mcp_session_id=session) for each in (1, "1", 2) for session in "ab"]
    assert len(set(keys)) == 6
    assert key(1, MODERN, understudy_agent="ada") != key(1, MODERN, understudy_agent="ada")
    assert all(len(each) <= limits.NAME_LENGTH_MAX for each in keys)


def test_leases_of_who_is_met_again_are_kept_and_others_are_not() -> None:
    reception = Reception()
    callers = HttpCallers(reception)
    asked(callers, MODERN, lambda: callers.keep(LEASE, TTL_MS, now_ms()), understudy_agent="ada")
    asked(callers, LEGACY, lambda: callers.keep(LEASE, TTL_MS, now_ms()), mcp_session_id="a")
    asked(callers, MODERN, lambda: callers.keep(LEASE, TTL_MS, now_ms()))
    assert [each.kept for each in reception.here.values()] == [[LEASE], [LEASE]]


def test_a_guest_is_gone_after_its_time_and_not_while_a_stream_is_open() -> None:
    reception, clock = Reception(), Clock()
    callers = HttpCallers(reception, clock=clock, idle_seconds=10)
    asked(callers, LEGACY, lambda: None, mcp_session_id="quiet")
    asked(callers, LEGACY, lambda: None, mcp_session_id="open")
    with callers.serving({"mcp-session-id": "open"}):
        clock.now = 10
        callers.sweep()
        assert reception.gone == []
        clock.now = 11
        callers.sweep()
        assert len(reception.gone) == 1
    clock.now = 21
    callers.sweep()
    assert len(reception.gone) == 1  # from the end of its stream on
    clock.now = 22
    callers.sweep()
    assert len(reception.gone) == 2


def test_an_agent_with_a_name_is_here_while_any_stream_of_it_is_open() -> None:
    reception, clock = Reception(), Clock()
    callers = HttpCallers(reception, clock=clock, idle_seconds=10)
    with callers.serving({"mcp-session-id": "a", "understudy-agent": "ada"}):
        asked(callers, MODERN, lambda: None, understudy_agent="ada")
        clock.now = 11
        callers.sweep()
    assert (reception.heard, reception.gone) == (["ada", "ada"], [])


def test_a_guest_that_ends_its_session_is_gone_at_once() -> None:
    reception = Reception()
    callers = HttpCallers(reception)
    asked(callers, LEGACY, lambda: None, mcp_session_id="a")
    callers.end_session("a")
    callers.end_session("never here")
    assert len(reception.gone) == 1


@stands_on("HTTP_GUESTS_MAX")
def test_a_crowd_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_GUESTS_MAX", 4)
    reception = Reception()
    callers = HttpCallers(reception)
    for number in range(8):
        name = f"agent-{number}"
        assert asked(callers, MODERN, lambda: callers.name, understudy_agent=name) == name
    assert len(reception.here) == 4


def test_the_gateways_keeper_keeps_what_a_guest_holds_and_gives_nothing_back(
    tmp_path: Path,
) -> None:
    keeper = LeaseKeeper(AuthorityLink(tmp_path), KeepPolicy(grace_ms=0))
    callers = HttpCallers(keeper)
    asked(callers, LEGACY, lambda: callers.keep(LEASE, TTL_MS, now_ms()), mcp_session_id="a")
    asked(callers, MODERN, lambda: callers.keep(LEASE, TTL_MS, now_ms()), understudy_agent="ada")
    assert keeper.holds == 2
    callers.end_session("a")
    (gone,) = [each for each in keeper.callers.values() if each.holds.is_over(now_ms())]
    assert (gone.holds.policy.on_leave, gone.holds.policy.keep) == ("expire", "heartbeat")
    assert gone.holds.renewable(now_ms(), is_awake=True) == []
