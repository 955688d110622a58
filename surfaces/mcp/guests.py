"""Who calls over HTTP, where there is no process to watch: a visit that is told by the request.

    Understudy-Agent: NAME   that agent, whichever era it speaks
    Mcp-Session-Id           a client of the handshake era, for as long as its session lives
    neither                  somebody who is not met again; its leases run until their deadline

G1  Two clients never share a name that they did not both choose.
G2  A lease is renewed while its guest calls or keeps a stream open, and left to expire after that.
"""

import hashlib
import json
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from starlette.requests import Request

from ...contracts import limits
from .visit import Held, Passing, Visit

AGENT_HEADER = "understudy-agent"
SESSION_HEADER = "mcp-session-id"
_WISH = {"keep": "heartbeat", "onLeave": "expire"}
_ID_LENGTH = 32
_PROGRAM_MAX = 64  # of what a client calls itself


class Reception(Protocol):
    """Who renews what guests hold; `arrive` is said again whenever one is heard of."""

    def arrive(self, visit_id: str, name: str, wish: dict[str, Any]) -> Visit: ...

    def leave(self, caller: Any, connection: object) -> None: ...  # noqa: ANN401


@dataclass(slots=True)
class _Guest:
    """Somebody who is met again."""

    visit_id: str
    name: str
    visit: Visit
    heard: float


@dataclass(frozen=True, slots=True)
class _Caller:
    """Who the current request is from."""

    name: str
    visit: Visit
    owner: str  # of tasks; empty for whoever gave no name
    session: str | None


class Guests:
    """The visit of whoever the current request is from."""

    def __init__(
        self,
        reception: Reception | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        idle_seconds: float = limits.HTTP_SESSION_IDLE_SECONDS,
    ) -> None:
        self._reception, self._clock, self._idle_seconds = reception, clock, idle_seconds
        self._guests: dict[str, _Guest] = {}
        self._streams: Counter[str] = Counter()  # requests that are being served, by guest
        self._caller: ContextVar[_Caller] = ContextVar("caller")

    # --- the visit --------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._caller.get().name

    @property
    def owner(self) -> str:
        """Whose tasks these are. Without a name, knowing a task's id is what owns it."""
        return self._caller.get().owner

    def request_id(self, rpc_id: str | int) -> str:
        """In a session a JSON-RPC id is used once; elsewhere it says nothing."""
        caller = self._caller.get()
        if caller.session is None:
            return f"http-{secrets.token_hex(_ID_LENGTH // 2)}"
        return f"http-{_digest(json.dumps([caller.session, rpc_id]))}"

    def keep(self, held: Held) -> None:
        self._caller.get().visit.keep(held)

    def drop(self, resource: str, fence: int) -> None:
        self._caller.get().visit.drop(resource, fence)

    # --- requests ---------------------------------------------------------------------------------

    async def greet(
        self, ctx: ServerRequestContext[Any, Request], call_next: CallNext
    ) -> HandlerResult:
        """Middleware of the server: find out who calls."""
        token = self._caller.set(self._met(ctx))
        try:
            return await call_next(ctx)
        finally:
            self._caller.reset(token)

    def _met(self, ctx: ServerRequestContext[Any, Request]) -> _Caller:
        headers = ctx.request.headers if ctx.request is not None else {}
        session = None
        if ctx.protocol_version not in MODERN_PROTOCOL_VERSIONS:  # the others have none
            session = headers.get(SESSION_HEADER)
        agent, key = _agent(headers), _key(_agent(headers), session)
        params = ctx.session.client_params
        program = "" if params is None else params.client_info.name.strip()[:_PROGRAM_MAX]
        if agent is not None:
            return _Caller(agent, self._visit(key, agent), agent, session)
        if session is not None:
            name = f"{program or 'agent'}-{_digest(key)[:8]}"  # G1
            return _Caller(name, self._visit(key, name), _digest(key), session)
        name = f"{program or 'agent'}-{secrets.token_hex(4)}"  # G1
        return _Caller(name, Passing(name), "", None)

    def _visit(self, key: str, name: str) -> Visit:
        guest = self._guests.get(key)
        if guest is not None:
            self._heard(guest)
            return guest.visit
        if len(self._guests) >= limits.HTTP_GUESTS_MAX:
            self.sweep()
        if len(self._guests) >= limits.HTTP_GUESTS_MAX:
            return Passing(name)
        visit_id = _digest(key)
        guest = _Guest(visit_id, name, self._arrive(visit_id, name), self._clock())
        self._guests[key] = guest
        return guest.visit

    def _heard(self, guest: _Guest) -> None:
        guest.heard, guest.visit = self._clock(), self._arrive(guest.visit_id, guest.name)

    def _arrive(self, visit_id: str, name: str) -> Visit:
        return self._reception.arrive(visit_id, name, _WISH) if self._reception else Passing(name)

    # --- sessions ---------------------------------------------------------------------------------

    @contextmanager
    def serving(self, headers: Mapping[str, str]) -> Iterator[None]:
        """A request with these headers is being served; its stream may stay open for hours."""
        key = _key(_agent(headers), headers.get(SESSION_HEADER))  # a guest may be met only later
        self._streams[key] += 1
        try:
            yield
        finally:
            self._streams[key] -= 1
            if not self._streams[key]:
                del self._streams[key]
            if key in self._guests:
                self._guests[key].heard = self._clock()

    def left(self, session: str) -> None:
        """The client has ended its session."""
        self._leave(_key(None, session))

    def sweep(self) -> None:
        """Say of those who are here that they are, and forget those who have gone (G2)."""
        for key, guest in list(self._guests.items()):
            if key in self._streams:
                self._heard(guest)
            elif self._clock() > guest.heard + self._idle_seconds:
                self._leave(key)

    def _leave(self, key: str) -> None:
        guest = self._guests.pop(key, None)
        if guest is not None and self._reception is not None:
            self._reception.leave(guest.visit, None)


def _agent(headers: Mapping[str, str]) -> str | None:
    return headers.get(AGENT_HEADER, "").strip()[: limits.NAME_LENGTH_MAX] or None


def _key(agent: str | None, session: str | None) -> str:
    return f"session {session}" if agent is None else f"agent {agent}"


def _digest(text: str) -> str:
    """It stands for a secret in names and evidence."""
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
