"""A gateway with everything it offers: the socket, HTTP where it is asked for, and long calls."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ....actors.agents import HttpCallers, KeepPolicy, SidecarOwner, TaskRunner
from ....actors.run import span_sender
from ...web.serve import ConsoleAddress, serve_console
from ..tasks.tasks import Tasks
from .assembly import assemble, mounted
from .call_spans import CallSpans
from .gateway import Gateway, House, serve
from .http import Address, serve_http


@dataclass(frozen=True, slots=True)
class Offer:
    """What an operator wants of a gateway."""

    state_dir: Path
    run_dir: Path
    policy: KeepPolicy = field(default_factory=KeepPolicy)
    house: House = "alone"
    linger_seconds: float | None = None
    http: Address | None = None
    console: ConsoleAddress | None = None
    tools: str = "core"  # for clients that say nothing else
    mount: str | None = None  # `MODULE:FUNCTION`, for tests: what is mounted beside our own
    send: span_sender.Send | None = None  # where spans of calls go, if traces are wanted


async def serve_all(offer: Offer, announce: Callable[[str], None]) -> None:
    """Serve until told to stop; without a tree, the sidecar is looked after here."""
    runner = TaskRunner()
    spans = CallSpans(offer.state_dir, offer.send) if offer.send else None
    mount = mounted(offer.mount) if offer.mount else None
    address = offer.http

    async def http(stopping: asyncio.Event) -> None:
        assert address is not None
        callers = HttpCallers(gateway.keeper)
        server = assemble(
            gateway.link,
            callers,
            Tasks(runner, lambda: callers.owner),
            mount,
            offer.tools,
            spans=spans,
        )
        await serve_http(address, server, callers, stopping, announce, state_dir=offer.state_dir)

    async def console(stopping: asyncio.Event) -> None:
        assert offer.console is not None
        step_back = authority.step_back if authority is not None else _nothing
        await serve_console(
            offer.console,
            offer.state_dir,
            offer.run_dir,
            stopping,
            announce=lambda link: announce(f"a console at {link.partition('/enter')[0]}"),
            make_room=step_back,
        )

    async def long_calls(stopping: asyncio.Event) -> None:
        await stopping.wait()
        await runner.close()

    gateway = Gateway(
        offer.state_dir,
        lambda link, caller, tools: assemble(
            link, caller, Tasks(runner, lambda: caller.name), mount, tools, spans=spans
        ),
        policy=offer.policy,
        house=offer.house,
        linger_seconds=offer.linger_seconds,
        tools=offer.tools,
        beside=[
            long_calls,
            *([http] if address is not None else []),
            *([console] if offer.console is not None else []),
        ],
    )
    alone = offer.house == "alone"
    authority = SidecarOwner(offer.state_dir, offer.run_dir) if alone else None
    try:
        await serve(gateway, authority or nullcontext())
    finally:
        if spans is not None:
            await asyncio.to_thread(spans.close)


async def _nothing() -> None:
    """A tree's gateway has no sidecar to lay down."""
