"""Completion of what people and models type: ids of issues and leases, names of trajectories."""

from typing import Any

from mcp_types import CompleteRequestParams, PromptReference

from ....actors.agents import AgentDoor
from ....contracts import limits
from .prompts import ARGUMENTS
from .resources import asked

_TRAJECTORIES = ("latest", "failed")


async def completed(door: AgentDoor, params: CompleteRequestParams) -> dict[str, Any]:
    """The values that begin with what was typed; none for what takes any value."""
    if isinstance(params.ref, PromptReference):
        kind = ARGUMENTS.get(params.ref.name, {}).get(params.argument.name)
    else:
        kind = params.ref.uri.partition("://")[0]
    typed = params.argument.value
    values = [value for value in await _values(door, kind) if value.startswith(typed)]
    shown = values[: limits.MCP_PAGE_MAX]
    more = {"total": len(values), "hasMore": len(values) > len(shown)}
    return {"completion": {"values": shown} | more}


async def _values(door: AgentDoor, kind: str | None) -> list[str]:
    match kind:
        case "issue":
            return await _issues(door)
        case "lease":
            answer = await asked(door, "issue.lease_projection", {})
            return [each["id"] for each in answer["items"]]
        case "trajectory":
            return [*_TRAJECTORIES, *await _issues(door)]
        case _:
            return []


async def _issues(door: AgentDoor) -> list[str]:
    return [each["id"] for each in (await asked(door, "issue.list", {}))["issues"]]
