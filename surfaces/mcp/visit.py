"""Who is calling: the name, the idempotency keys and the leases of one client of the MCP server.

The server tells a visit what its client came to hold and what it laid down again. Whoever made
the visit renews what is held while the client lives; renewal is never the model's burden.
"""

import uuid
from dataclasses import dataclass
from typing import Protocol

from ...actors.leasing import Family, HeldLease


@dataclass(frozen=True, slots=True)
class Held:
    """A lease that a client claimed, with all that its renewal needs."""

    name: str  # of the issue or job
    owner: str
    lease_id: str
    fence: int
    ttl_seconds: int
    instruction: str | None = None  # that it was claimed under, where the policy asks for one
    family: Family = "issue"

    @property
    def resource(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def lease(self) -> HeldLease:
        """As those who ask for more of it, or give it back, want it."""
        proof = (self.name, self.owner, self.lease_id, self.fence)
        return HeldLease(*proof, family=self.family)


class Visit(Protocol):
    """What the server asks of, and tells to, whoever carries its client's connection."""

    @property
    def name(self) -> str:
        """Who calls: the assignee of a claim that names none."""

    def request_id(self, rpc_id: str | int) -> str:
        """A key that is the same when the same JSON-RPC request is delivered again."""

    def keep(self, held: Held) -> None:
        """It was claimed: renew it while the client lives."""

    def drop(self, resource: str, fence: int) -> None:
        """It was closed, released, handed over or lost: renew it no more."""


@dataclass(frozen=True, slots=True)
class Passing:
    """A visit that keeps nothing, for clients without a live connection.

    Its leases run until their deadline. Nothing tells two deliveries of one request apart from
    two requests, so every delivery has a key of its own.
    """

    name: str

    def request_id(self, rpc_id: str | int) -> str:  # noqa: ARG002
        return uuid.uuid4().hex

    def keep(self, held: Held) -> None:
        pass

    def drop(self, resource: str, fence: int) -> None:
        pass
