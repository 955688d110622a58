"""What stands around a payload: through which door, at what time, with which rights."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ... import limits
from .atoms import Mark, Name, Ref


class CallerStamp(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The caller's hybrid logical clock; the authority's clock moves past it, within bounds."""

    wall_ms: Annotated[int, Meta(ge=0, le=limits.WALL_MS_MAX)]
    counter: Annotated[int, Meta(ge=0, le=limits.COUNTER_MAX)]
    node: Name


class AgentPass(
    Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True
):
    """Which agent asks, in the words of the gateway that serves it, and what it was granted."""

    name: Mark
    grants: Annotated[tuple[Name, ...], Meta(max_length=limits.CAPABILITIES_MAX)] = ()
    held_max: Annotated[int, Meta(ge=1, le=limits.MCP_HOLDS_MAX)] | None = None


Transport = Literal["local-repl", "cli", "mcp", "coordinator"]
STRENGTH: dict[str, int] = {"local-repl": 0, "cli": 1, "mcp": 2, "coordinator": 3}


class Context(
    Struct,
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
):
    """Through which door, under which policy, with which rights."""

    transport: Transport | None = None
    escalated_from: Transport | None = None  # the weaker door that handed the request on
    policy_digest: Name | None = None
    instruction_ref: Ref | None = None
    capability_claims: Annotated[tuple[Name, ...], Meta(max_length=limits.CAPABILITIES_MAX)] = ()
    stamp: CallerStamp | None = None
    agent: AgentPass | None = None  # at the agents' door, which says it of everything
