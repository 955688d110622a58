"""The way from agents to the authority: one connection to the sidecar, for all of them."""

import asyncio
from pathlib import Path
from typing import Any, Self

from ...authority import Unavailable
from ...authority.service import client
from ...contracts import Reason, Transport, host_actions
from .changes import Changes
from .worktrees import AgentWorktrees


class AuthorityLink:
    """Asks the sidecar of a state directory, through one door.

    A sidecar that is started again is found again; what was in flight is asked once more, under
    the same request id. `Unavailable` is raised while none serves.
    """

    def __init__(self, state_dir: Path, transport: Transport = "mcp") -> None:
        self.state_dir = state_dir
        self._transport = transport
        self.changes = Changes(state_dir, self.ask)
        self.worktrees = AgentWorktrees(state_dir)
        self._client: client.AsyncClient | None = None
        self._opening = asyncio.Lock()

    @classmethod
    async def open(cls, state_dir: Path) -> Self:
        """A link to a sidecar that runs."""
        link = cls(state_dir)
        await link._connected()
        return link

    async def ask(
        self, action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request, and its answer; any number may be in flight."""
        asked = await self._connected()
        try:
            answer = await asked.ask(action, payload, context)
        except client.Unreachable:
            if self._client is asked:  # it has given up for good; the next question begins anew
                self._client = None
                await asked.close()
            raise
        if host_actions()[action].mutates:
            self.changes.nudge()
        return answer

    async def answer(
        self, action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """As `ask`; a refusal where no sidecar serves, or the payload is no JSON."""
        try:
            return await self.ask(action, payload, context)
        except Unavailable as error:
            return refusal(action, error.reason, str(error))
        except ValueError as error:
            return refusal(action, Reason.REQUEST_INVALID, str(error))

    async def close(self) -> None:
        """Hang up. What is in flight is cancelled."""
        self.changes.close()
        if self._client is not None:
            await self._client.close()
            self._client = None

    async def _connected(self) -> client.AsyncClient:
        if self._client is not None:
            return self._client
        async with self._opening:
            if self._client is None:
                fresh = client.AsyncClient(self.state_dir, self._transport)
                self._client = await fresh.__aenter__()
            return self._client


def refusal(action: str, reason: Reason, diagnostic: str) -> dict[str, Any]:
    """What is said where no authority could say it."""
    return {
        "action": action,
        "result": "rejected",
        "failureClasses": [reason.wire],
        "diagnostic": diagnostic,
    }
