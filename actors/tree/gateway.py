"""The door for agents as a child of the tree: a process that serves MCP, watched by its socket.

What is run is the plan's to say, since doors live above this room. It is started last, and again
whenever it dies or falls silent: its clients wait for the next one, and lose nothing.
"""

import socket
import struct
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority.service import sockets
from ..otp import ChildSpec, Start
from ..process.port import Command
from ..process.portchild import Health, PortChild
from .plan import Plan

NAME: Final = "gateway"
SOCKET: Final = "mcp.sock"  # in the state directory
LOG: Final = "gateway.log"
_QUESTION = b"#look\n"
_HEALTH_MS = 2_000  # between two looks whether it answers
_SILENCE_SECONDS = 2
_START_MS = 30_000  # it imports much
_STOP_GRACE_MS = 10_000  # it answers what it has taken in
_LINE_BYTES_MAX = 65_536


def child(plan: Plan) -> ChildSpec:
    """The gateway of a plan that asks for one."""
    command = Command(plan.door, log=plan.run_dir / LOG, grace_ms=_STOP_GRACE_MS)
    health = Health(partial(answers, plan.state_dir), every_ms=_HEALTH_MS, start_ms=_START_MS)
    return ChildSpec(
        NAME,
        Start(PortChild, (command, health), NAME),
        shutdown=_STOP_GRACE_MS + 5_000,
        start_timeout_ms=_START_MS + 5_000,
    )


def answers(state_dir: Path) -> bool:
    """Whether a gateway is there that says so itself."""
    return "pid" in look(state_dir)


def look(state_dir: Path) -> dict[str, Any]:
    """What the gateway says of itself, or why it does not."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            # Python's own timeout would give up at once where many are in line before us.
            channel.setsockopt(socket.SOL_SOCKET, option, struct.pack("ll", _SILENCE_SECONDS, 0))
        try:
            sockets.connect(channel, state_dir, SOCKET)
            channel.sendall(_QUESTION)
            with channel.makefile("rb") as file:
                found: dict[str, Any] = orjson.loads(file.readline(_LINE_BYTES_MAX))
        except (OSError, orjson.JSONDecodeError) as error:
            return {"missing": str(error)}
    return found
