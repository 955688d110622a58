"""Talk to a sidecar: one request at a time or many in flight, from a thread or from asyncio.

A mutation gets a `requestId` if it has none. When the connection is lost, what was in flight is
sent again: the authority gives the first answer again, so nothing is done twice.

Where several authorities share a journal, one is active. A client that knows several state
directories asks the one whose sidecar is, and follows when that changes; one that knows a single
directory waits there for its sidecar to take over, if it has lost an active one.
"""

import asyncio
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar

import orjson

from ...contracts import TOO_LONG, Reason, Transport, host_actions, limits, refuse_garbage
from ..journal.journal import Unavailable
from ..journal.state_files import SOCKET
from . import sockets
from .sidecar import PROTOCOL

_RETRY_SECONDS = 10.0  # how long a lost sidecar is waited for
_PAUSE_SECONDS = 0.02
_SILENCE_SECONDS = 30.0  # without a byte; a sidecar that is frozen never says that it is
_READ_BYTES = 262_144  # read at once: many answers
_LINE_BYTES_MAX = 64 * 1024 * 1024  # a list of ten thousand issues is one line
_IS_STANDBY = b'"failureClasses":["authority_standby"]'
_MARKED = b'{"id":'  # how an answer to a request with an `id` begins

_Answer = TypeVar("_Answer")


class ClientCall(NamedTuple):
    """What to ask: a host action such as "issue.show", its payload, and evidence as context."""

    action: str
    payload: dict[str, Any]
    context: dict[str, Any] | None = None


Call = ClientCall  # as programs know it


class _Asking:
    """Numbers requests, and gives mutations ids that no other client gives."""

    def __init__(self) -> None:
        self._count = 0
        self._name = uuid.uuid4().hex

    def line(self, call: ClientCall) -> tuple[int, bytes]:
        """The number of a request, which comes back as its `id`, and its line."""
        mark, self._count = self._count, self._count + 1
        payload = call.payload
        if call.action in _mutating() and "requestId" not in payload:
            payload = {**payload, "requestId": f"{self._name}-{mark}"}
        request = {"id": mark, "action": call.action, "payload": payload}
        if call.context:
            request["context"] = call.context
        try:
            return mark, orjson.dumps(request, option=orjson.OPT_APPEND_NEWLINE)
        except orjson.JSONEncodeError as error:
            raise ValueError(f"not JSON: {error}") from None


@cache
def _mutating() -> frozenset[str]:
    return frozenset(name for name, action in host_actions().items() if action.mutates)


class Client:
    """A connection to the sidecar of a state directory, for one thread.

        with Client(Path(".premath"), "mcp") as client:
            answer = client.ask("issue.claim_next", {"assignee": "alice"})

    The transport is the door that requests come through: "mcp" may do all that agents may, "cli"
    neither renews nor releases leases. Given several state directories that share a journal, the
    client asks the one whose sidecar is active. `Unavailable` is raised where no sidecar answers; a
    refusal is an answer. Changes get a `requestId`, and are sent again when the connection breaks.
    """

    garbage_count = 0  # of lines that are no requests; the sidecar counts them
    left_behind = None  # the sidecar sees to its evidence

    def __init__(
        self,
        state_dir: Path | Sequence[Path],
        transport: Transport,
        *,
        frozen_clock: bool = True,
        retry_seconds: float = _RETRY_SECONDS,
        silence_seconds: float = _SILENCE_SECONDS,
    ) -> None:
        self._silence_seconds = silence_seconds
        self._homes = _Homes(state_dir)
        self._hello = _hello(transport, frozen_clock=frozen_clock)
        self._retry_seconds = retry_seconds
        self._asking = _Asking()
        self._connect()

    def ask(
        self, action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request, and its answer."""
        return self.ask_many([ClientCall(action, payload, context)])[0]

    def ask_many(self, calls: Sequence[ClientCall]) -> list[dict[str, Any]]:
        """Requests that are in flight together; their answers in the same order."""
        return self.ask_for(orjson.loads, calls)

    def ask_for(
        self, decode: Callable[[bytes], _Answer], calls: Sequence[ClientCall]
    ) -> list[_Answer]:
        """As `ask_many`, for who wants less than a whole answer, or something else of it.

        To read an answer into a dictionary takes longer than anything else here. A
        `msgspec.json.Decoder` of the few members that matter takes a third of that.
        """
        answers: list[_Answer] = []
        for start in range(0, len(calls), limits.INFLIGHT_MAX):
            some = calls[start : start + limits.INFLIGHT_MAX]
            answers += map(decode, self._exchange(dict(map(self._asking.line, some))))
        return answers

    def _exchange(self, lines: dict[int, bytes]) -> Iterator[bytes]:
        """Answers to lines by their numbers, in the same order."""
        answers = {mark: _too_long() for mark, line in lines.items() if _is_too_long(line)}
        heard, give_up = -1, 0.0
        while len(answers) < len(lines):
            missing = [line for mark, line in lines.items() if mark not in answers]
            try:
                self._socket.sendall(b"".join(missing))
                for _ in missing:
                    mark, answer = _unmarked(self._read())
                    self._homes.refuse_standby(self.server, answer)
                    # Answers come in order; what was no request has no `id` to give back.
                    if mark is None:
                        mark = next(each for each in lines if each not in answers)
                    answers[mark] = answer
            except (OSError, EOFError) as error:
                if len(answers) > heard:  # a sidecar that answers is waited for
                    heard, give_up = len(answers), time.monotonic() + self._retry_seconds
                self._reconnect(error, give_up)
        return (answers[mark] for mark in lines)

    def relay(self, lines: Sequence[bytes]) -> list[bytes]:
        """Lines as they are, and as many answers. Sent once: only their sender knows them."""
        try:
            self._socket.sendall(b"".join(line + b"\n" for line in lines))
            return [self._read().rstrip(b"\n") for _ in lines]
        except (OSError, EOFError) as error:
            raise Unreachable(f"{self._homes}: {error}") from error

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self) -> None:
        """To the first home whose sidecar is active; else to one that is not."""
        for is_last in self._homes.turns():
            try:
                self._greet(self._homes.current)
            except Unreachable:
                if is_last:
                    raise
            else:
                if is_last or not self.server.get("standby"):
                    return
                self.close()

    def _greet(self, state_dir: Path) -> None:
        self._socket = _connected(state_dir)
        self._socket.settimeout(self._silence_seconds)
        self._file = self._socket.makefile("rb", _READ_BYTES)
        try:
            with suppress(BrokenPipeError):  # it may have said why it hangs up
                self._socket.sendall(self._hello)
            self.server = _greeted(self._read())
        except (OSError, EOFError) as error:
            self.close()
            raise Unreachable(f"{state_dir}: {error}") from error
        except BaseException:
            self.close()
            raise

    def _reconnect(self, cause: Exception, give_up: float) -> None:
        self.close()
        while time.monotonic() < give_up:
            time.sleep(_PAUSE_SECONDS)
            with suppress(Unreachable, OSError, EOFError):
                self._connect()
                return
        if isinstance(cause, _Standby):
            raise Unavailable(Reason.AUTHORITY_STANDBY, str(self._homes))
        raise Unreachable(f"{self._homes}: {cause}")

    def _read(self) -> bytes:
        line = self._file.readline()
        if not line.endswith(b"\n"):
            raise EOFError("the sidecar hung up")
        return line


class AsyncClient:
    """A connection for one event loop; any number of tasks may ask at the same time.

        async with AsyncClient(Path(".premath"), "mcp") as client:
            answer = await client.ask("issue.claim_next", {"assignee": "alice"})

    Transport, state directories, errors and repetition are as with `Client`.
    """

    def __init__(
        self,
        state_dir: Path | Sequence[Path],
        transport: Transport,
        *,
        retry_seconds: float = _RETRY_SECONDS,
    ) -> None:
        self._homes = _Homes(state_dir)
        self._transport = transport
        self._retry_seconds = retry_seconds
        self._asking = _Asking()
        self._waiting: dict[int, tuple[bytes, asyncio.Future[dict[str, Any]]]] = {}
        self._heard = True  # an answer, since the connection was lost the last time
        self._give_up = 0.0
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        await self._connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def ask(
        self, action: str, payload: dict[str, Any], context: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One request, and its answer; others may be in flight."""
        if self._writer is None:
            raise Unreachable(f"{self._homes}: the connection is closed")
        mark, line = self._asking.line(ClientCall(action, payload, context))
        if _is_too_long(line):
            refusal: dict[str, Any] = orjson.loads(_too_long())
            return refusal
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[mark] = (line, answer)
        self._writer.write(line)
        return await answer

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        self._hang_up()
        for _, answer in self._waiting.values():
            answer.cancel()

    def _hang_up(self) -> None:
        if self._writer is not None:
            self._writer.close()

    async def _connect(self) -> None:
        """To the first home whose sidecar is active; else to one that is not."""
        for is_last in self._homes.turns():
            try:
                reader = await self._greet(self._homes.current)
            except Unreachable:
                if is_last:
                    raise
                continue
            if is_last or not self.server.get("standby"):
                break
            self._hang_up()
        assert self._writer is not None
        for line, _ in self._waiting.values():
            self._writer.write(line)
        self._reading = asyncio.create_task(self._read(reader))

    async def _greet(self, state_dir: Path) -> asyncio.StreamReader:
        channel = _connected(state_dir)
        channel.setblocking(False)  # noqa: FBT003 - the socket's own signature
        reader, self._writer = await asyncio.open_unix_connection(
            sock=channel, limit=_LINE_BYTES_MAX
        )
        self._writer.write(_hello(self._transport))
        try:
            self.server = _greeted(await reader.readline())
        except (OSError, EOFError) as error:
            self._writer.close()
            raise Unreachable(f"{state_dir}: {error}") from error
        except BaseException:
            self._writer.close()
            raise
        return reader

    async def _read(self, reader: asyncio.StreamReader) -> None:
        with suppress(OSError):
            while (line := await reader.readline()).endswith(b"\n"):
                self._homes.refuse_standby(self.server, line)
                answer = orjson.loads(line)
                mark = answer.pop("id", None)
                first = next(iter(self._waiting), -1)
                waiting = self._waiting.pop(first if mark is None else mark, None)
                if waiting is not None and not waiting[1].done():
                    waiting[1].set_result(answer)
                self._heard = True
        await self._reconnect()

    async def _reconnect(self) -> None:
        assert self._writer is not None
        self._writer.close()
        if self._heard or not self._waiting:  # a sidecar that answers is waited for
            self._heard, self._give_up = False, time.monotonic() + self._retry_seconds
        while time.monotonic() < self._give_up:
            await asyncio.sleep(_PAUSE_SECONDS)
            with suppress(Unavailable, OSError):  # the caller is told, and does not wait for good
                await self._connect()
                return
        self._writer = None
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(Unreachable(str(self._homes)))
        self._waiting.clear()


class _Standby(OSError):
    """A sidecar refuses because another one is active."""


class _Homes:
    """The state directories that a client may ask at, and where it does."""

    def __init__(self, homes: Path | Sequence[Path]) -> None:
        self._homes = [homes] if isinstance(homes, Path) else list(homes)
        self._at = 0
        self._has_met_active = False

    @property
    def current(self) -> Path:
        return self._homes[self._at]

    def turns(self) -> Iterator[bool]:
        """Each home once, from the current one on; whether it is the last of them."""
        for left in reversed(range(len(self._homes))):
            yield left == 0
            self._at = (self._at + 1) % len(self._homes)

    def refuse_standby(self, server: dict[str, Any], answer: bytes) -> None:
        """Raise for the refusal of a standby, where it is worth while to ask on."""
        is_refusal = server.get("standby", False) and _IS_STANDBY in answer
        if is_refusal and (self._has_met_active or len(self._homes) > 1):
            raise _Standby(f"{self.current} is a standby")
        self._has_met_active = self._has_met_active or not is_refusal

    def __str__(self) -> str:
        return ", ".join(map(str, self._homes))


class Unreachable(Unavailable):
    """No sidecar answers on the socket."""

    def __init__(self, detail: str) -> None:
        super().__init__(Reason.SIDECAR_UNREACHABLE, detail)


class Crowded(Unreachable):
    """The sidecar has as many connections as it may have."""

    def __init__(self, detail: str) -> None:
        Unavailable.__init__(self, Reason.AUTHORITY_OVERLOADED, detail)


def _is_too_long(line: bytes) -> bool:
    return len(line) > limits.REQUEST_BYTES_MAX + 1  # and a line break


def _too_long() -> bytes:
    """What the sidecar would say, out of turn and without an `id`; so it is not asked."""
    return refuse_garbage(TOO_LONG, 0)


def _unmarked(line: bytes) -> tuple[int | None, bytes]:
    """The number of the request, which stands in front, and the answer without it."""
    if not line.startswith(_MARKED):
        return None, line
    end = line.index(b",")
    return int(line[len(_MARKED) : end]), b"{" + line[end + 1 :]


def _hello(transport: Transport, *, frozen_clock: bool = True) -> bytes:
    """Which protocol and which door; a frozen clock counts only where the server has one."""
    hello = {"protocol": PROTOCOL, "transport": transport, "frozenClock": frozen_clock}
    return orjson.dumps({"hello": hello}) + b"\n"


def _greeted(line: bytes) -> dict[str, Any]:
    """What the server says of itself."""
    if not line:
        raise EOFError("the sidecar hung up")
    value = orjson.loads(line)
    if value.get("failureClasses") == [Reason.AUTHORITY_OVERLOADED.wire]:
        raise Crowded("it has no room for another connection")
    if "hello" not in value:
        raise Unavailable(Reason.PROTOCOL_MISMATCH, value.get("diagnostic", "no greeting"))
    hello: dict[str, Any] = value["hello"]
    return hello


def _connected(state_dir: Path) -> socket.socket:
    """A socket to the sidecar of a state directory."""
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sockets.connect(channel, state_dir, SOCKET)
    except OSError as error:
        channel.close()
        raise Unreachable(f"{state_dir}: {error.strerror}") from error
    return channel


def service_counts(state_dir: Path, silence_seconds: float) -> dict[str, Any]:
    """What the sidecar has counted since it began; `Unavailable` where none answers."""
    hello = {"protocol": PROTOCOL, "transport": "cli", "counts": True}
    with _connected(state_dir) as channel:
        channel.settimeout(silence_seconds)
        try:
            channel.sendall(orjson.dumps({"hello": hello}) + b"\n")
            with channel.makefile("rb") as file:
                counts: dict[str, Any] = _greeted(file.readline(_READ_BYTES)).get("counts", {})
        except (OSError, EOFError) as error:
            raise Unreachable(f"{state_dir}: {error}") from error
    return counts
