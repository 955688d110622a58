"""Serves a state directory over HTTP with the suite's fixtures mounted: `stand.py STATE_DIR`."""

import asyncio
import sys
from pathlib import Path

from understudy.surfaces.mcp.assembly import assemble, mounted
from understudy.surfaces.mcp.desk import Desk
from understudy.surfaces.mcp.guests import Guests
from understudy.surfaces.mcp.http import Address, serve_http
from understudy.surfaces.mcp.tasks import Tasks
from understudy.surfaces.mcp.works import Works


async def main(state_dir: Path, mount: str | None, port: int) -> None:
    desk = await Desk.open(state_dir)
    guests = Guests()
    tasks = Tasks(Works(), lambda: guests.owner)
    server = assemble(desk, guests, tasks, mounted(mount) if mount else None)
    await serve_http(
        Address(port=port), server, guests, asyncio.Event(), lambda url: print(url, flush=True)
    )


asyncio.run(main(Path(sys.argv[1]), "tests.mcp.outside.fixtures:mount", int(sys.argv[2])))
