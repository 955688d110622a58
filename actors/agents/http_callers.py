"""Who calls over HTTP, where there is no process to watch: a caller that the request names.

    Understudy-Agent: NAME   that agent, whichever era it speaks
    Mcp-Session-Id           a client of the handshake era, for as long as its session lives
    neither                  a caller that is not met again; its leases run until their deadline

G1  Two clients never share a name that they did not both choose.
G2  A lease is renewed while its holder calls or keeps a stream open, and left to expire after that.
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

from ...contracts import limits
from ..leasing import HeldLease
from .caller import AgentCaller, PassingCaller

AGENT_HEADER = "understudy-agent"
SESSION_HEADER = "mcp-session-id"
_WISH = {"keep": "heartbeat", "onLeave": "expire"}
_ID_LENGTH = 32
_PROGRAM_MAX = 64  # of what a client calls itself


class Reception(Protocol):
    """Who renews what callers hold; `arrive` is said again whenever one is heard of."""

    @property
    def terms(self) -> dict[str, Any]: ...

    def arrive(self, caller_id: str, name: str, wish: dict[str, Any]) -> AgentCaller: ...

    def leave(self, caller: Any, connection: object) -> None: ...


@dataclass(slots=True)
class _Known:
    """A caller that is met again."""

    caller_id: str
    name: str
    caller: AgentCaller
    heard: float


@dataclass(frozen=True, slots=True)
class _Current:
    """Who the current request is from."""

    caller: AgentCaller
    name: str
    owner: str  # of tasks; empty where the request gives no name
    session: str | None


class HttpCallers:
    """All callers over HTTP; as an `AgentCaller`, the one whom the current request is from."""

    def __init__(
        self,
        reception: Reception | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        idle_seconds: float = limits.HTTP_SESSION_IDLE_SECONDS,
    ) -> None:
        self._reception, self._clock, self._idle_seconds = reception, clock, idle_seconds
        self._known: dict[str, _Known] = {}
        self._streams: Counter[str] = Counter()  # requests that are being served, by caller
        self._current: ContextVar[_Current] = ContextVar("caller")

    # --- the caller -------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self._current.get().name

    @property
    def owner(self) -> str:
        """Whose tasks these are. Without a name, knowing a task's id is what owns it."""
        return self._current.get().owner

    @property
    def is_named(self) -> bool:
        return bool(self._current.get().owner)

    @property
    def terms(self) -> Mapping[str, Any]:
        return self._current.get().caller.terms

    @property
    def asks_person(self) -> bool:
        """What calls here is a program with a token; nothing says that a person is near."""
        return False

    def request_id(self, rpc_id: str | int) -> str:
        """In a session a JSON-RPC id is used once; elsewhere it says nothing."""
        session = self._current.get().session
        if session is None:
            return f"http-{secrets.token_hex(_ID_LENGTH // 2)}"
        return f"http-{_digest(json.dumps([session, rpc_id]))}"

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None = None
    ) -> None:
        self._current.get().caller.keep(lease, ttl_ms, asked_ms, instruction)

    def drop(
        self, resource: str, fence: int, owner: str | None = None, lease_id: str | None = None
    ) -> None:
        self._current.get().caller.drop(resource, fence, owner, lease_id)

    # --- requests ---------------------------------------------------------------------------------

    @contextmanager
    def calling(
        self, headers: Mapping[str, str], program: str, *, has_sessions: bool
    ) -> Iterator[None]:
        """A request with these headers is answered, of a client that calls itself `program`.

        A session counts in the era that has some.
        """
        session = headers.get(SESSION_HEADER) if has_sessions else None
        token = self._current.set(self._met(_agent(headers), session, program))
        try:
            yield
        finally:
            self._current.reset(token)

    def _met(self, agent: str | None, session: str | None, program: str) -> _Current:
        key = _key(agent, session)
        if agent is not None:
            return _Current(self._caller(key, agent), agent, agent, session)
        kind = program.strip()[:_PROGRAM_MAX] or "agent"
        if session is not None:
            name = f"{kind}-{_digest(key)[:8]}"  # G1
            return _Current(self._caller(key, name), name, _digest(key), session)
        name = f"{kind}-{secrets.token_hex(4)}"  # G1
        return _Current(self._passing(name), name, "", None)

    def _caller(self, key: str, name: str) -> AgentCaller:
        known = self._known.get(key)
        if known is not None:
            self._hear(known)
            return known.caller
        if len(self._known) >= limits.HTTP_GUESTS_MAX:
            self.sweep()
        if len(self._known) >= limits.HTTP_GUESTS_MAX:
            return self._passing(name)
        caller_id = _digest(key)
        caller = self._arrive(caller_id, name)
        self._known[key] = _Known(caller_id, name, caller, self._clock())
        return caller

    def _passing(self, name: str) -> PassingCaller:
        return PassingCaller(name, {} if self._reception is None else self._reception.terms)

    def _hear(self, known: _Known) -> None:
        known.heard, known.caller = self._clock(), self._arrive(known.caller_id, known.name)

    def _arrive(self, caller_id: str, name: str) -> AgentCaller:
        if self._reception is None:
            return self._passing(name)
        return self._reception.arrive(caller_id, name, _WISH)

    # --- sessions ---------------------------------------------------------------------------------

    @contextmanager
    def serving(self, headers: Mapping[str, str]) -> Iterator[None]:
        """A request with these headers is being served; its stream may stay open for hours."""
        key = _key(_agent(headers), headers.get(SESSION_HEADER))  # a caller may be met only later
        self._streams[key] += 1
        try:
            yield
        finally:
            self._streams[key] -= 1
            if not self._streams[key]:
                del self._streams[key]
            if key in self._known:
                self._known[key].heard = self._clock()

    def end_session(self, session: str) -> None:
        """The client has ended its session."""
        self._leave(_key(None, session))

    def sweep(self) -> None:
        """Say of those who are here that they are, and forget those who have gone (G2)."""
        for key, known in list(self._known.items()):
            if key in self._streams:
                self._hear(known)
            elif self._clock() > known.heard + self._idle_seconds:
                self._leave(key)

    def _leave(self, key: str) -> None:
        known = self._known.pop(key, None)
        if known is not None and self._reception is not None:
            self._reception.leave(known.caller, None)


def _agent(headers: Mapping[str, str]) -> str | None:
    return headers.get(AGENT_HEADER, "").strip()[: limits.NAME_LENGTH_MAX] or None


def _key(agent: str | None, session: str | None) -> str:
    return f"session {session}" if agent is None else f"agent {agent}"


def _digest(text: str) -> str:
    """It stands for a secret in names and evidence."""
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_LENGTH]
