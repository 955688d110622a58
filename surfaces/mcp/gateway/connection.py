"""One client on the gateway's socket: lines in, messages to its server, lines out.

    socket -> line -> message -> inbox -> server        in the event loop; no thread, no copy
           <- line <-        <- outbox <-

The SDK's own standard-stream transport hops between threads three times a call, which is most of
what a call costs; its servers take any two streams, and these are over an asyncio transport.

    I1  A line, the requests in flight and the output that is not read are bounded.
    I2  A line that is no message is refused, and the next one is read as if nothing had been.
    I3  Who hangs up still hears the answers to what it asked, for a moment.
"""

import asyncio
import contextlib
import secrets
from collections import deque
from typing import TYPE_CHECKING, Any, Final, Self, cast

import anyio
import mcp_types as types
import orjson
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

from ....actors.agents import KeptCaller, now_ms
from ....actors.otp import identity
from ....authority.service import sockets
from ....contracts import limits
from .. import wire
from ..tools.catalogue import UnknownTool, chosen

if TYPE_CHECKING:
    from .gateway import Gateway

_GOODBYE_SECONDS: Final = 1.5
_MARK_BYTES_MAX: Final = 17  # of `#` and the number of a request
_NAME_DEFAULT = "agent"


class ServerInbox:
    """What a server reads: messages in order, and an end."""

    def __init__(self) -> None:
        self._messages: deque[SessionMessage] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._is_over = False

    def put(self, message: SessionMessage) -> None:
        self._messages.append(message)
        self._wake()

    def end(self) -> None:
        self._is_over = True
        self._wake()

    async def receive(self) -> SessionMessage | Exception:
        while not self._messages:
            if self._is_over:
                raise anyio.EndOfStream
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        return self._messages.popleft()

    async def aclose(self) -> None:
        self.end()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.end()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)


class ServerOutbox:
    """What a server writes to."""

    def __init__(self, connection: "AgentConnection") -> None:
        self._connection = connection

    async def send(self, item: SessionMessage, /) -> None:
        self._connection.write(item.message)

    async def aclose(self) -> None:
        pass  # the connection is closed when its server has ended

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass


class AgentConnection(asyncio.Protocol):
    """A client: a pump that says hello first, or anybody who speaks MCP."""

    def __init__(self, gateway: "Gateway") -> None:
        self.inbox = ServerInbox()
        self.caller: KeptCaller | None = None
        self.tools = gateway.tools
        self._gateway = gateway
        self._rest = b""
        self._skipping = False  # inside a line that is too long
        self._is_pump = self._is_served = self._is_leaving = False
        self._in_flight: dict[str | int, str] = {}  # methods of what is not answered, by their ids
        self._count = 0
        self._hints: list[bytes] = []  # lines that have not gone out yet
        self._peer: identity.Identity | None = None

    @property
    def waits(self) -> bool:
        """Whether an answer is to be expected that is not the end of a subscription."""
        return any(method not in wire.ENDLESS for method in self._in_flight.values())

    # --- asyncio --------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by descent
        pid = sockets.peer_of(self._transport)
        if pid is None or not self._gateway.joined(self):
            self._transport.abort()
            return
        self._peer = identity.Identity.find(pid)

    def data_received(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        if self._skipping and lines:
            self._skipping = False
            del lines[0]
        for line in lines:
            if line.strip() and not self._transport.is_closing():
                self._take(line)
        if len(self._rest) > limits.REQUEST_BYTES_MAX + len(wire.HELLO):
            if not self._skipping:
                self._refuse(None, types.INVALID_REQUEST, "the line is too long")
            self._rest, self._skipping = b"", True

    def eof_received(self) -> bool:
        asyncio.get_running_loop().call_later(_GOODBYE_SECONDS, self.inbox.end)
        if not self.waits:
            self.inbox.end()
        self._is_leaving = True
        return self._is_served  # its server ends first, and closes then

    def connection_lost(self, error: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self.inbox.end()
        self._gateway.left(self)

    # --- in -------------------------------------------------------------------------------------

    def _take(self, line: bytes) -> None:
        if self.caller is None and not self._open(line):
            return
        assert self.caller is not None
        number = 0
        if self._is_pump and line.startswith(wire.MARK):
            word, _, line = line.partition(b" ")
            if word == wire.HOLD:
                self.caller.take_over(line.partition(b" ")[2])
            if not word[1:].isdigit() or len(word) > _MARK_BYTES_MAX:
                return
            number = int(word[1:])
        self.caller.holds.heard(now_ms())
        try:
            message = types.jsonrpc_message_adapter.validate_json(line, by_name=False)
        except ValidationError:
            self._refuse(*_complaint(line), number)
            return
        if self._admit(message, number):
            if not self._is_served:
                self._is_served = True
                self._gateway.serve(self, self.caller)
            self.inbox.put(SessionMessage(message))

    def _open(self, line: bytes) -> bool:
        """The first line: who it is. False where there is nothing more to do with it."""
        if line.strip() == wire.LOOK:
            self._transport.write(orjson.dumps(self._gateway.look()) + b"\n")
            self._transport.close()
            return False
        hello: dict[str, Any] = {}
        if line.startswith(wire.HELLO):
            with contextlib.suppress(orjson.JSONDecodeError):
                value = orjson.loads(line[len(wire.HELLO) :])
                hello = value if isinstance(value, dict) else {}
            if hello.get("protocol") != wire.PROTOCOL:
                text = f"this gateway speaks protocol {wire.PROTOCOL}; the pump is of another age"
                return self._turn_away(text)
            self.tools = str(hello.get("tools") or self.tools)
            try:
                chosen(self.tools)
            except UnknownTool as error:
                return self._turn_away(str(error))
            self._is_pump = True
        visit, name = hello.get("visit"), hello.get("name")
        self.caller = self._gateway.keeper.arrive(
            visit if isinstance(visit, str) and visit else secrets.token_hex(8),
            name if isinstance(name, str) and name.isprintable() and name else _NAME_DEFAULT,
            hello,
        )
        before = self.caller.connection
        self.caller.carried_by(self, self if self._is_pump else None)
        if isinstance(before, AgentConnection):
            before.abort()
        self._watch(self.caller)
        if self._is_pump:
            self.tell(wire.HOUSE + b" " + self._gateway.house.encode())
        return True

    def _turn_away(self, text: str) -> bool:
        self.tell(wire.NO + b" " + text.encode())
        self._transport.close()
        return False

    def _watch(self, caller: KeptCaller) -> None:
        """The process that we talk to; and, where that is a pump, the agent that launched it."""
        launcher = self._peer.parent if self._peer is not None and self._is_pump else None
        caller.processes = [each for each in (self._peer, launcher) if each is not None]

    def _admit(self, message: types.JSONRPCMessage, number: int) -> bool:
        """Remember a request until it is answered; False where that is too much."""
        assert self.caller is not None
        match message:
            case types.JSONRPCRequest() if len(self._in_flight) >= limits.MCP_INFLIGHT_MAX:
                text = f"{limits.MCP_INFLIGHT_MAX} requests of yours are not answered yet"
                self._refuse(message.id, types.INVALID_REQUEST, text, number)
                return False
            case types.JSONRPCRequest() if self._streams_enough(message.method):
                text = f"{limits.MCP_STREAMS_MAX} streams of yours are open; end one first"
                self._refuse(message.id, types.INVALID_REQUEST, text, number)
                return False
            case types.JSONRPCRequest():
                self._count += 1
                self.caller.numbers[message.id] = number or self._count
                self._in_flight[message.id] = message.method
            case types.JSONRPCNotification(
                method="notifications/cancelled", params={"requestId": mark}
            ):
                self._settled(mark)  # it is not answered
            case _:
                pass
        return True

    def _streams_enough(self, method: str) -> bool:
        """Whether it is one stream too many: what never ends must leave room for questions."""
        open_count = sum(each in wire.ENDLESS for each in self._in_flight.values())
        return method in wire.ENDLESS and open_count >= limits.MCP_STREAMS_MAX

    # --- out ------------------------------------------------------------------------------------

    def write(self, message: types.JSONRPCMessage) -> None:
        """A message of the server; an answer is marked with the number of its question."""
        line = _encoded(message)
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            number = self._settled(message.id)
            if self._is_pump and number:
                line = b"#%d " % number + line
        self.tell(b"".join([*self._hints, line]))
        self._hints.clear()
        if self._is_leaving and not self.waits:
            self.inbox.end()

    def remember(self, fence: int, lease: bytes) -> None:
        self._hint(b"%s %d %s" % (wire.KEEP, fence, lease))

    def forget(self, fence: int) -> None:
        self._hint(b"%s %d" % (wire.DROP, fence))

    def _hint(self, line: bytes) -> None:
        """Something for the pump, which goes with the next answer or, without one, soon."""
        self._hints.append(line + b"\n")
        asyncio.get_running_loop().call_soon(self._send_hints)

    def _send_hints(self) -> None:
        if self._hints:
            hints = b"".join(self._hints)
            self._hints.clear()
            self.tell(hints.removesuffix(b"\n"))

    def tell(self, line: bytes) -> None:
        if self._transport.is_closing():
            return
        if self._transport.get_write_buffer_size() > limits.OUTPUT_BYTES_MAX:
            self._transport.abort()  # it does not read what it asked for
            return
        self._transport.write(line + b"\n")

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def pause(self) -> None:
        """Take in nothing more; a pump leaves the next gateway to the tree."""
        if not self._transport.is_closing():
            self._transport.pause_reading()
            if self._is_pump:
                self.tell(wire.HOUSE + b" tree")

    def _settled(self, mark: Any) -> int | None:  # whatever a client sends
        if self.caller is None or not isinstance(mark, str | int):
            return None
        self._in_flight.pop(mark, None)
        return self.caller.numbers.pop(mark, None)

    def _refuse(self, mark: str | int | None, code: int, text: str, number: int = 0) -> None:
        error = {"code": code, "message": f"understudy: {text}"}
        line = orjson.dumps({"jsonrpc": "2.0", "id": mark, "error": error})
        self.tell(b"#%d " % number + line if number else line)


def _encoded(message: types.JSONRPCMessage) -> bytes:
    if isinstance(message, types.JSONRPCResponse):
        with contextlib.suppress(TypeError):  # then the SDK's own way, which is slower
            return orjson.dumps({"jsonrpc": "2.0", "id": message.id, "result": message.result})
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode()


def _complaint(line: bytes) -> tuple[str | int | None, int, str]:
    """What is wrong with a line, and the id of its sender's, where there is one."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return None, types.PARSE_ERROR, f"not JSON: {error}"
    mark = value.get("id") if isinstance(value, dict) else None
    known = isinstance(mark, str | int) and not isinstance(mark, bool)
    return mark if known else None, types.INVALID_REQUEST, "no JSON-RPC message"
