"""Clients of the MCP server in tests: a visit that remembers, and both eras over both carriers."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from mcp import Client
from mcp.server import Server
from mcp.shared.memory import create_client_server_memory_streams
from mcp_types import CallToolResult

from understudy.actors.agents.authority_link import AuthorityLink
from understudy.actors.leasing.work_kind import HeldLease
from understudy.surfaces.mcp.gateway.server import build

ERAS = ("modern", "modern over streams", "legacy")


@dataclass
class Guest:
    """A visit that writes down what it is told."""

    name: str = "ada-1"
    key: str = field(default_factory=lambda: uuid.uuid4().hex)  # of this connection
    kept: list[HeldLease] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)  # ttl_ms and asked_ms of each
    is_named: bool = True
    asks_person: bool = True
    terms: dict[str, Any] = field(default_factory=dict)  # what its operator granted it
    dropped: list[tuple[str, int]] = field(default_factory=list)

    def request_id(self, rpc_id: str | int) -> str:
        return f"{self.key}/{rpc_id}"

    def keep(
        self, lease: HeldLease, ttl_ms: int, asked_ms: int, instruction: str | None = None
    ) -> None:
        self.kept.append(lease)
        self.spans.append((ttl_ms, asked_ms))

    def drop(
        self, resource: str, fence: int, owner: str | None = None, lease_id: str | None = None
    ) -> None:
        for each in self.kept:
            shown = owner in (None, each.owner) and lease_id in (None, each.lease_id)
            if shown and (each.resource, each.fence) == (resource, fence):
                self.dropped.append((resource, fence))
                return


def connect(
    desk: AuthorityLink, guest: Guest, era: str = "modern", *, tools: str = "all", **options: Any
) -> Client:
    """A client of a server of its own."""
    server = build(desk, guest, tools=tools)
    match era:
        case "modern":
            return Client(server, **options)
        case "legacy":
            return Client(server, mode="legacy", **options)
        case _:
            return Client(_streams(server), **options)


@asynccontextmanager
async def _streams(server: Server[Any]) -> AsyncIterator[Any]:
    """A pair of streams with the server at its far end, as a socket would have it."""
    async with (
        create_client_server_memory_streams() as (near, far),
        anyio.create_task_group() as group,
    ):
        group.start_soon(server.run, *far, server.create_initialization_options())
        yield near
        group.cancel_scope.cancel()


def said(result: CallToolResult) -> dict[str, Any]:
    """The structured content of a call that was granted."""
    assert not result.is_error, result.content
    answer: dict[str, Any] = result.structured_content
    return answer


def refused(result: CallToolResult) -> str:
    """The first failure class of a call that was not."""
    assert result.is_error, result.structured_content
    wire: str = result.structured_content["failureClasses"][0]
    return wire


def text(result: CallToolResult) -> str:
    """What a model reads that gets no structured content."""
    return "\n".join(block.text for block in result.content if block.type == "text")
