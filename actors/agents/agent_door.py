"""The agents' door: what one agent asks of the authority, and what it is shown of the answers.

    tool, resource --> AgentDoor --> link --> authority
                         | says which agent asks, what it was granted, and how much it may hold
                         \\ leaves out lease ids and fences of what others hold

The authority is what refuses; nothing is secret here that would let an agent pass for another.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...contracts import Reason
from .authority_link import AuthorityLink, refusal
from .caller import AgentCaller
from .changes import Changes
from .worktrees import AgentWorktrees

_PROOFS = frozenset(
    {"leaseId", "parentLeaseId", "subleaseId", "revokedSubleaseId", "newSubleaseId"}
    | {"fence", "fenceToken", "claim"}
)
_OPAQUE = frozenset({"payload", "inputs", "metadata"})  # documents of users, whatever is in them
_HOLDERS = ("owner", "leaseOwner", "holder", "worker", "by")
_ROLES = ("assignee", "worker", "runner", "dispatcher")
_DOORS_OWN = frozenset({"agent", "escalatedFrom"})  # of a context
_REF = re.compile(r"lease://.+/(\d+)")
_CURRENT = re.compile(r", current \d+")


class AgentDoor:
    """Asks for one agent. Its answers are the authority's, without the proofs of others."""

    def __init__(self, link: AuthorityLink, caller: AgentCaller) -> None:
        self._link, self._caller = link, caller

    @property
    def state_dir(self) -> Path:
        return self._link.state_dir

    @property
    def changes(self) -> Changes:
        return self._link.changes

    @property
    def worktrees(self) -> AgentWorktrees:
        return self._link.worktrees

    async def ask(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        """The answer to a read; `Unavailable` is raised while no authority serves."""
        answer = await self._link.ask(action, payload, self._context({}, payload))
        return self.shown(answer, payload)

    async def answer(
        self, action: str, payload: dict[str, Any], context: object = None
    ) -> dict[str, Any]:
        """The answer to anything, with what the agent itself says of the context."""
        return await self._answer(self._link, action, payload, context, {})

    async def vouch(
        self, action: str, payload: dict[str, Any], context: object = None
    ) -> dict[str, Any]:
        """As `answer`, through the coordinator's door: for what this process itself vouches for."""
        link = AuthorityLink(self.state_dir, "coordinator")
        try:
            return await self._answer(link, action, payload, context, {"escalatedFrom": "mcp"})
        finally:
            await link.close()

    async def in_person(
        self, action: str, payload: dict[str, Any], context: object = None
    ) -> dict[str, Any]:
        """As `answer`, for what a person said whom the client has asked; it is no agent's word."""
        given = dict(context) if isinstance(context, Mapping) else {}
        known = {name: value for name, value in given.items() if name not in _DOORS_OWN}
        return self.shown(await self._link.answer(action, payload, known or None), payload)

    async def _answer(
        self,
        link: AuthorityLink,
        action: str,
        payload: dict[str, Any],
        context: object,
        more: dict[str, Any],
    ) -> dict[str, Any]:
        given = {} if context is None else context
        if not isinstance(given, Mapping) or _DOORS_OWN & given.keys():
            detail = "context: it says what only a door can say, or is no object"
            return refusal(action, Reason.REQUEST_INVALID, detail)
        answer = await link.answer(action, payload, self._context({**given, **more}, payload))
        return self.shown(answer, payload)

    def _context(self, given: dict[str, Any], payload: Mapping[str, Any]) -> dict[str, Any]:
        return given | {"agent": {"name": self._name(payload), **self._caller.terms}}

    def _name(self, payload: Mapping[str, Any]) -> str:
        """Who asks: a caller that has another name each time says which one its claim was under."""
        if not self._caller.is_named and payload.get("fence") is not None:
            said = [payload[role] for role in _ROLES if isinstance(payload.get(role), str)]
            return str(said[0]) if said and said[0].strip() else self._caller.name
        return self._caller.name

    def shown(
        self, record: dict[str, Any], sent: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """What the agent may see: all but the proofs that are not its own, nor sent by itself."""
        known = set(_proofs(dict(sent or {})))
        own = self._name(sent or {}).strip()
        for each in _records(record):
            is_own = any(each.get(name) == own for name in _HOLDERS)
            if is_own or each.get("state") == "stale":  # one that has lapsed proves nothing
                known.update(_proofs(each))
        for each in _records(record):
            if each.get("parentLeaseId") in known:  # it lent that itself
                known.update(_proofs(each))
        proofs = {proof for each in _records(record) for proof in _proofs(each)}
        shown: dict[str, Any] = _without(record, known, {*filter(_is_text, proofs - known)})
        return shown


def _records(value: object) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
        value = [each for name, each in value.items() if name not in _OPAQUE]
    if isinstance(value, list):
        for each in value:
            yield from _records(each)


def _proofs(record: dict[str, Any]) -> list[object]:
    return [record[name] for name in _PROOFS & record.keys() if _is_plain(record[name])]


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _without(value: Any, known: set[object], foreign: set[object]) -> Any:
    """A value without the proofs that are not known, also where they have another name."""
    if isinstance(value, list):
        kept_items = (each for each in value if not _is_foreign_ref(each, known))
        return [_without(each, known, foreign) for each in kept_items]
    if not isinstance(value, dict):
        return value
    kept = {
        name: each if name in _OPAQUE else _without(each, known, foreign)
        for name, each in value.items()
        if not _is_plain(each) or (each not in foreign and (name not in _PROOFS or each in known))
    }
    if "witnessRefs" in kept and "fence" in value:
        kept.setdefault("fence", None)  # evidence says that there is one, or none to be seen
    if "diagnostic" in kept:
        kept["diagnostic"] = _CURRENT.sub("", kept["diagnostic"])
    return kept


def _is_foreign_ref(value: object, known: set[object]) -> bool:
    found = _REF.fullmatch(value) if isinstance(value, str) else None
    return found is not None and int(found[1]) not in known
