"""Agents as they are launched, line by line, and the gateway that serves them."""

import os
import socket
from pathlib import Path
from typing import Any, Self

import orjson

from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, Dialogue, Program
from understudy.actors.tree import gateway

HANDSHAKE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}

LISTEN = {"notifications": {"resourceSubscriptions": ["mesh://ready"]}, "_meta": {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}}  # fmt: skip


class Agent(Dialogue):
    """A running `understudy mcp`, spoken to as clients of the handshake era do."""

    def __init__(self, state_dir: Path, *words: str) -> None:
        super().__init__([UNDERSTUDY, "mcp", "--state-dir", state_dir, *words])
        self._count = 0

    def greet(self) -> Self:
        assert "result" in self.rpc("initialize", HANDSHAKE)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self

    def rpc(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """One request, and its answer; what else is said meanwhile is passed over."""
        mark = self.post(method, params)
        while (answer := self.answer()).get("id") != mark:
            assert "id" not in answer, answer
        return answer

    def post(self, method: str, params: dict[str, Any] | None = None) -> int:
        """One request, whose answer is read later."""
        self._count += 1
        request = {"jsonrpc": "2.0", "id": self._count, "method": method, "params": params or {}}
        self.send(request)
        return self._count

    def call(self, tool: str, /, **arguments: object) -> dict[str, Any]:
        """What a tool answers, as structure."""
        answer = self.rpc("tools/call", {"name": tool, "arguments": arguments})
        assert "result" in answer, answer
        found: dict[str, Any] = answer["result"]["structuredContent"]
        return found

    def take(self, **arguments: object) -> dict[str, Any]:
        """Work, with what shows that we hold it."""
        found = self.call("work_next", leaseTtlSeconds=30, **arguments)
        assert found["found"], found
        return proof(found)


class Door(Program):
    """A running `understudy gateway`."""

    def __init__(self, state_dir: Path, *words: str) -> None:
        self.state_dir = state_dir
        super().__init__([UNDERSTUDY, "gateway", "--state-dir", state_dir, *words])

    def ready(self) -> Self:
        eventually(lambda: self.process.poll() is not None or self.look().get("pid") == self.pid)
        assert self.process.poll() is None, self.last_words()
        return self

    def look(self) -> dict[str, Any]:
        return gateway.look(self.state_dir)


class Wire:
    """A bare connection to the gateway's socket."""

    def __init__(self, state_dir: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = os.open(state_dir, os.O_RDONLY | os.O_DIRECTORY)
        try:
            self.socket.connect(f"/proc/self/fd/{folder}/mcp.sock")
        finally:
            os.close(folder)
        self.socket.settimeout(60)
        self._file = self.socket.makefile("rb")

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def ask(self, mark: object, method: str, params: dict[str, Any] | None = None) -> None:
        request = {"jsonrpc": "2.0", "id": mark, "method": method, "params": params or {}}
        self.write(orjson.dumps(request) + b"\n")

    def line(self) -> bytes:
        return self._file.readline()

    def answer(self) -> dict[str, Any]:
        value: dict[str, Any] = orjson.loads(self.line())
        return value

    def close(self) -> None:
        self._file.close()
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def proof(found: dict[str, Any]) -> dict[str, Any]:
    """What shows that one holds the lease in an answer."""
    lease = found["issue"]["lease"]
    return {
        "id": found["issue"]["id"],
        "assignee": lease["owner"],
        "leaseId": lease["leaseId"],
        "fence": lease["fence"],
    }
