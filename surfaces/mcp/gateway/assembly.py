"""Puts a server together: what the product offers, its extensions, and what tests mount."""

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

from mcp.server.extension import Extension
from mcp.server.lowlevel import Server

from ....actors.agents import AgentCaller, AuthorityLink
from ..tasks.tasks import Tasks
from .call_spans import CallSpans
from .server import build

Mount = Callable[[Tasks, AuthorityLink], Sequence[Extension]]


@runtime_checkable
class Attached(Protocol):
    """An extension that also wraps methods of the server itself."""

    def attach(self, server: Server[Any]) -> None: ...


def assemble(
    link: AuthorityLink,
    caller: AgentCaller,
    tasks: Tasks,
    mount: Mount | None = None,
    tools: str = "all",
    *,
    spans: CallSpans | None = None,
) -> Server[Any]:
    """The server of one client. `mount` may put extensions around our own."""
    extensions = (tasks,) if mount is None else mount(tasks, link)
    server = build(link, caller, extensions, tools, spans)
    for each in extensions:
        if isinstance(each, Attached):
            each.attach(server)
    return server


def mounted(text: str) -> Mount:
    """The function that `MODULE:FUNCTION` names."""
    module, _, name = text.partition(":")
    mount: Mount = getattr(importlib.import_module(module), name)
    return mount
