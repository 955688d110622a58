"""A gateway with everything it offers: the socket, HTTP where it is asked for, and long calls."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from ....actors.agents import HttpCallers, KeepPolicy, SidecarOwner, TaskRunner
from ...web.serve import ConsoleAddress, serve_console
from ..tasks.tasks import Tasks
from .assembly import assemble, mounted
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


async def serve_all(offer: Offer, announce: Callable[[str], None]) -> None:
    """Serve until told to stop; without a tree, the sidecar is looked after here."""
    runner = TaskRunner()
    mount = mounted(offer.mount) if offer.mount else None
    address = offer.http

    async def http(stopping: asyncio.Event) -> None:
        assert address is not None
        callers = HttpCallers(gateway.keeper)
        server = assemble(
            gateway.link, callers, Tasks(runner, lambda: callers.owner), mount, offer.tools
        )
        await serve_http(address, server, callers, stopping, announce)

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
            link, caller, Tasks(runner, lambda: caller.name), mount, tools
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
    await serve(gateway, authority or nullcontext())


async def _nothing() -> None:
    """A tree's gateway has no sidecar to lay down."""
