"""Clients over HTTP: their names, their leases, and when they are taken to be gone."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from mcp.server.context import ServerRequestContext
from mcp_types import ClientCapabilities as Capabilities
from mcp_types import Implementation, InitializeRequestParams

from understudy.contracts import limits
from understudy.surfaces.mcp.desk import Desk
from understudy.surfaces.mcp.guests import Guests
from understudy.surfaces.mcp.holds import Policy
from understudy.surfaces.mcp.keeper import Keeper, now_ms
from understudy.surfaces.mcp.visit import Held, Passing

MODERN, LEGACY = "2026-07-28", "2025-11-25"
HELD = Held("us-1", "ada", "lease-1", 1, 3_600)
pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Keeping(Passing):
    kept: list[Held] = field(default_factory=list)

    def keep(self, held: Held) -> None:
        self.kept.append(held)


@dataclass
class Reception:
    """A reception that writes down who came and who went."""

    here: dict[str, Keeping] = field(default_factory=dict)
    heard: list[str] = field(default_factory=list)
    gone: list[Keeping] = field(default_factory=list)

    def arrive(self, visit_id: str, name: str, wish: dict[str, Any]) -> Keeping:
        assert wish == {"keep": "heartbeat", "onLeave": "expire"}
        self.heard.append(name)
        return self.here.setdefault(visit_id, Keeping(name))

    def leave(self, caller: Keeping, connection: object) -> None:
        self.gone.append(caller)


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass
class _Asked:
    headers: dict[str, str]


@dataclass
class _Session:
    client_params: InitializeRequestParams | None


async def asked(
    guests: Guests, version: str, within: Callable[[], Any], client: str = "tool", **headers: str
) -> Any:  # noqa: ANN401
    """What `within` says while a request of this client is served."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    params = InitializeRequestParams(
        protocol_version=version,
        capabilities=Capabilities(),
        client_info=Implementation(name=client, version="1"),
    )
    ctx = ServerRequestContext(
        session=cast("Any", _Session(params)),
        lifespan_context=None,
        protocol_version=version,
        method="tools/call",
        params={},
        request=cast("Any", _Asked(given)),
    )

    async def call_next(_: ServerRequestContext[Any, Any]) -> dict[str, Any]:
        return {"said": within()}

    answer = await guests.greet(ctx, call_next)
    assert isinstance(answer, dict)
    return answer["said"]


async def test_a_name_is_the_one_in_the_header() -> None:
    guests = Guests(Reception())
    for version in (MODERN, LEGACY):
        assert await asked(guests, version, lambda: guests.name, understudy_agent=" ada ") == "ada"


async def test_nobody_else_has_the_name_of_a_session() -> None:
    guests = Guests(Reception())
    one, again, other = [
        await asked(guests, LEGACY, lambda: guests.name, mcp_session_id=each) for each in "aab"
    ]
    assert one == again != other
    assert one.startswith("tool-")


async def test_whoever_gives_no_name_is_somebody_new_each_time() -> None:
    guests = Guests(Reception())
    names = {await asked(guests, MODERN, lambda: guests.name) for _ in range(16)}
    assert len(names) == 16


async def test_the_modern_era_cannot_invent_a_session() -> None:
    reception = Reception()
    guests = Guests(reception)
    await asked(guests, MODERN, lambda: guests.name, mcp_session_id="invented")
    assert reception.heard == []


async def test_a_repeated_request_of_a_session_has_the_same_key() -> None:
    guests = Guests(Reception())

    async def key(rpc_id: str | int, version: str = LEGACY, **headers: str) -> str:
        told: str = await asked(guests, version, lambda: guests.request_id(rpc_id), **headers)
        return told

    assert await key(1, mcp_session_id="a") == await key(1, mcp_session_id="a")
    keys = [await key(each, mcp_session_id=session) for each in (1, "1", 2) for session in "ab"]
    assert len(set(keys)) == 6
    assert await key(1, MODERN, understudy_agent="ada") != await key(
        1, MODERN, understudy_agent="ada"
    )
    assert all(len(each) <= limits.NAME_LENGTH_MAX for each in keys)


async def test_leases_of_who_is_met_again_are_kept_and_others_are_not() -> None:
    reception = Reception()
    guests = Guests(reception)
    await asked(guests, MODERN, lambda: guests.keep(HELD), understudy_agent="ada")
    await asked(guests, LEGACY, lambda: guests.keep(HELD), mcp_session_id="a")
    await asked(guests, MODERN, lambda: guests.keep(HELD))
    assert [each.kept for each in reception.here.values()] == [[HELD], [HELD]]


async def test_a_guest_is_gone_after_its_time_and_not_while_a_stream_is_open() -> None:
    reception, clock = Reception(), Clock()
    guests = Guests(reception, clock=clock, idle_seconds=10)
    await asked(guests, LEGACY, lambda: None, mcp_session_id="quiet")
    await asked(guests, LEGACY, lambda: None, mcp_session_id="open")
    with guests.serving({"mcp-session-id": "open"}):
        clock.now = 10
        guests.sweep()
        assert reception.gone == []
        clock.now = 11
        guests.sweep()
        assert len(reception.gone) == 1
    clock.now = 21
    guests.sweep()
    assert len(reception.gone) == 1  # from the end of its stream on
    clock.now = 22
    guests.sweep()
    assert len(reception.gone) == 2


async def test_an_agent_with_a_name_is_here_while_any_stream_of_it_is_open() -> None:
    reception, clock = Reception(), Clock()
    guests = Guests(reception, clock=clock, idle_seconds=10)
    with guests.serving({"mcp-session-id": "a", "understudy-agent": "ada"}):
        await asked(guests, MODERN, lambda: None, understudy_agent="ada")
        clock.now = 11
        guests.sweep()
    assert (reception.heard, reception.gone) == (["ada", "ada"], [])


async def test_a_guest_that_ends_its_session_is_gone_at_once() -> None:
    reception = Reception()
    guests = Guests(reception)
    await asked(guests, LEGACY, lambda: None, mcp_session_id="a")
    guests.left("a")
    guests.left("never here")
    assert len(reception.gone) == 1


async def test_a_crowd_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HTTP_GUESTS_MAX", 4)
    reception = Reception()
    guests = Guests(reception)
    for number in range(8):
        name = f"agent-{number}"
        assert await asked(guests, MODERN, lambda: guests.name, understudy_agent=name) == name
    assert len(reception.here) == 4


async def test_the_gateways_keeper_keeps_what_a_guest_holds_and_gives_nothing_back(
    tmp_path: Path,
) -> None:
    keeper = Keeper(Desk(tmp_path), Policy(grace_ms=0))
    guests = Guests(keeper)
    await asked(guests, LEGACY, lambda: guests.keep(HELD), mcp_session_id="a")
    await asked(guests, MODERN, lambda: guests.keep(HELD), understudy_agent="ada")
    assert keeper.holds == 2
    guests.left("a")
    (gone,) = [each for each in keeper.visits.values() if each.stay.is_over(now_ms())]
    assert (gone.stay.policy.on_leave, gone.stay.policy.keep) == ("expire", "heartbeat")
    assert gone.stay.due(now_ms() + HELD.ttl_seconds * 500, is_awake=True) == []
