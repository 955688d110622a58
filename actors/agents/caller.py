"""Who is calling: the name, the idempotency keys and the leases of one client of a door.

The door tells the caller what its client came to hold and what it laid down again. The keeper
renews what is held while the client lives; renewal is never the model's burden.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..leasing import HeldLease


class AgentCaller(Protocol):
    """What a door asks of, and tells to, the one who stands for its client."""

    @property
    def name(self) -> str:
        """Who calls: the assignee of a claim that names none."""

    @property
    def is_named(self) -> bool:
        """Whether it is met again under its name; one that is not says under which it claimed."""

    @property
    def terms(self) -> Mapping[str, Any]:
        """What its operator granted it and how much it may hold, as `AgentPass` has them."""

    @property
    def asks_person(self) -> bool:
        """Whether its client may be asked for what a person there says."""

    def request_id(self, rpc_id: str | int) -> str:
        """A key that is the same when the same JSON-RPC request is delivered again."""

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None = None
    ) -> None:
        """It was granted, as asked for then: renew it while the client lives.

        So it is under the instruction that it was claimed under, where the policy asks for one.
        """

    def drop(
        self, resource: str, fence: int, owner: str | None = None, lease_id: str | None = None
    ) -> None:
        """It was closed, released, handed over or lost: renew it no more.

        A refusal concerns the lease of the owner and the id that the refused request has shown.
        """


@dataclass(frozen=True, slots=True)
class PassingCaller:
    """A caller for whom nothing is kept, for clients without a live connection.

    Its leases run until their deadline. Nothing tells two deliveries of one request apart from
    two requests, so every delivery has a key of its own.
    """

    name: str
    terms: Mapping[str, Any] = field(default_factory=dict)
    is_named: bool = False
    asks_person: bool = False

    def request_id(self, rpc_id: str | int) -> str:  # noqa: ARG002 - as the protocol has it
        return uuid.uuid4().hex

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None = None
    ) -> None:
        pass

    def drop(
        self, resource: str, fence: int, owner: str | None = None, lease_id: str | None = None
    ) -> None:
        pass
