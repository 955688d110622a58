"""What an agent launches: carries MCP between its standard streams and the gateway's socket.

    agent --stdin--> pump --mcp.sock--> gateway        begins in about the interpreter's own time
          <--stdout--     <-----------

I1  A request is remembered until it is answered. When the gateway is lost, the next one hears the
    hello again, then the leases that were kept, the handshake, and all that is unanswered.
I2  A request is sent again under its number, so that nothing is done twice.
I3  A request gets an answer: if not the gateway's, then an error that says what is wrong.

A gateway that is not there is started, and shared with later agents. One that belonged to a
tree is waited for first: the tree starts it again.
"""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import json
import os
import select
import signal
import socket
import sys
import time

from ...authority.journal import private, state_files
from ...authority.service import sockets
from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_READ_BYTES = 262_144
_WRITE_BYTES = 4_096  # what a pipe takes at once when it says that it takes something
_BUFFER_BYTES_MAX = 4 * 1024 * 1024  # what waits for one side; then the other is not read
_PAUSE_SECONDS = 0.02  # between two tries to connect; doubled up to the next
_PAUSE_SECONDS_MAX = 0.25
_PATIENCE_SECONDS = 30.0  # for a gateway to answer the first time, before what was asked is refused
_TREE_SECONDS = 15.0  # for a tree to start its gateway again, before one is started here
_SPAWN_SECONDS = 5.0  # between two tries to start one that came to nothing
_AGAIN_SECONDS = 1.0  # and after one that did not
_GOODBYE_SECONDS = 1.5  # for answers after the last question; clients wait about two
_LINGER_SECONDS = 30  # that a gateway started here waits for the next client
_ASIDE_MAX = 64
_LOG_BYTES_MAX = 1024 * 1024
_UNREACHABLE, _CONFIG = 7, 78  # exit codes
_REFUSED, _INVALID, _PARSE = -32_000, -32_600, -32_700  # JSON-RPC's: a server's own; no request


class Pump:
    """Carries one agent. `run` returns an exit code when the agent has hung up."""

    def __init__(self, state_dir: str, hello: dict[str, Any]) -> None:
        self._folder = os.path.abspath(state_dir)  # `pathlib` takes milliseconds
        own = {"protocol": wire.PROTOCOL, "visit": os.urandom(8).hex()}
        self._hello = wire.HELLO + b" " + json.dumps(own | hello).encode() + b"\n"
        self._trouble = ""  # why nothing can be asked
        self._code = 0
        self._in = b""  # of the agent, an unfinished line
        self._out = bytearray()  # to the agent
        self._skipping = self._hung_up = False
        self._count = 0
        self._asked: dict[bytes, tuple[Any, bytes, str]] = {}  # number: id, line, method
        self._aside: list[bytes] = []  # what is no request, while there is no gateway
        self._standing: dict[str, bytes] = {}  # what a connection has to be told again
        self._unheard: set[bytes] = set()  # numbers whose second answers are dropped
        self._holds: dict[bytes, bytes] = {}
        self._gateway: socket.socket | None = None
        self._heard = b""  # of the gateway, an unfinished line
        self._sending = bytearray()
        self._in_tree = False
        self._was_answered = False  # since the gateway was lost the last time
        self._lost_at = self._needed_at = time.monotonic()
        self._next_try = 0.0
        self._pause = _PAUSE_SECONDS
        self._next_spawn = 0.0
        self._end_at: float | None = None

    def run(self) -> int:
        if not state_files.is_state_dir(self._folder):
            self._trouble = f"no state directory {self._folder}; make one with `understudy init`"
            _say(self._trouble)
            self._code = _CONFIG
            if os.isatty(0):
                return self._code
        elif importlib.util.find_spec("mcp") is None:
            self._trouble = "the MCP SDK is missing: pip install 'understudy[mcp]'"
            _say(self._trouble)
            self._code = _CONFIG
        while not self._is_done():
            if self._gateway is None and not self._trouble:
                self._try()
            self._turn()
        return self._code

    def _is_done(self) -> bool:
        """After the agent hung up: everything is answered, or takes too long."""
        if not self._hung_up:
            return False
        waiting = any(method not in wire.ENDLESS for _, _, method in self._asked.values())
        if waiting and self._gateway is None:
            return False  # it is on its way, or `_refuse` will be
        assert self._end_at is not None
        return not (waiting or self._out) or time.monotonic() >= self._end_at

    def _turn(self) -> None:
        """Wait until the agent or the gateway says or can take something, and carry it."""
        ready = dict(self._poll().poll(self._wait_ms()))
        if ready.get(1, 0) & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
            sys.exit(0)  # the agent listens no more
        if ready.get(1):
            del self._out[: os.write(1, self._out[:_WRITE_BYTES])]
        if ready.get(0):
            self._hear(_read())
        channel = self._gateway
        if channel is not None and (events := ready.get(channel.fileno())):
            try:
                if events & select.POLLOUT:
                    del self._sending[: channel.send(self._sending)]
                if events & ~select.POLLOUT:
                    self._take(channel.recv(_READ_BYTES))
            except BlockingIOError:
                return
            except OSError:
                self._lose()

    def _poll(self) -> select.poll:
        watched = select.poll()
        is_full = len(self._sending) > _BUFFER_BYTES_MAX or len(self._asked) >= wire.ASKED_MAX
        if not self._hung_up and not is_full:
            watched.register(0, select.POLLIN)
        if self._out:
            watched.register(1, select.POLLOUT)
        if self._gateway is not None:
            events = select.POLLOUT if self._sending else 0
            if len(self._out) <= _BUFFER_BYTES_MAX:
                events |= select.POLLIN
            watched.register(self._gateway, events)
        return watched

    def _wait_ms(self) -> int | None:
        times = [] if self._end_at is None else [self._end_at]
        if self._gateway is None and not self._trouble:
            times.append(self._next_try)
        return max(0, int((min(times) - time.monotonic()) * 1000) + 1) if times else None

    # --- the agent ------------------------------------------------------------------------------

    def _hear(self, data: bytes) -> None:
        if not data:
            self._hung_up = True
            self._end_at = time.monotonic() + _GOODBYE_SECONDS
            return
        *lines, self._in = (self._in + data).split(b"\n")
        if self._skipping and lines:
            self._skipping = False
            del lines[0]
        for line in lines:
            if line.strip():
                self._ask(line)
        if len(self._in) > wire.LINE_BYTES_MAX:
            if not self._skipping:
                self._answer(None, f"a line of more than {wire.LINE_BYTES_MAX} bytes", _INVALID)
            self._in, self._skipping = b"", True

    def _ask(self, line: bytes) -> None:
        """Pass a line on, and remember what the next gateway would have to hear of it."""
        if line.startswith(wire.MARK):  # that is ours to say, and no JSON
            self._answer(None, "not JSON", _PARSE)
            return
        message = _decoded(line)
        method, mark = message.get("method"), message.get("id")
        if not isinstance(method, str) or not isinstance(mark, str | int):
            if self._note(method, message, line):
                self._send(line)
            elif len(self._aside) < _ASIDE_MAX:
                self._aside.append(line)
            return
        if self._trouble:
            self._answer(mark, self._trouble)
            return
        if not self._asked:
            self._needed_at = time.monotonic()
        self._count += 1
        number = b"#%d" % self._count
        numbered = number + b" " + line
        self._asked[number] = (mark, numbered, method)
        self._stand(method, message, numbered)
        self._send(numbered)

    def _stand(self, method: str, message: dict[str, Any], line: bytes) -> None:
        """Some requests change what the connection is; they are made anew on every one."""
        if method == "initialize":
            self._standing[method] = line
        elif method in ("resources/subscribe", "resources/unsubscribe"):
            params = message.get("params")
            uri = f"subscribe {params.get('uri')}" if isinstance(params, dict) else ""
            self._standing.pop(uri, None)
            if method == "resources/subscribe" and len(self._standing) < wire.ASKED_MAX:
                self._standing[uri] = line

    def _note(self, method: object, message: dict[str, Any], line: bytes) -> bool:
        """Whether it can be sent, or need not be: a notification, an answer, garbage."""
        if method == "notifications/initialized":
            self._standing[method] = line
        elif method == "notifications/cancelled":  # what is cancelled is not answered
            params = message.get("params")
            mark = params.get("requestId") if isinstance(params, dict) else None
            for number in [each for each, known in self._asked.items() if known[0] == mark]:
                del self._asked[number]
        return self._gateway is not None or method == "notifications/initialized"

    def _answer(self, mark: object, text: str, code: int = _REFUSED) -> None:
        error = {"code": code, "message": f"understudy: {text}"}
        self._out += json.dumps({"jsonrpc": "2.0", "id": mark, "error": error}).encode() + b"\n"

    # --- the gateway ----------------------------------------------------------------------------

    def _send(self, line: bytes) -> None:
        if self._gateway is not None:
            self._sending += line + b"\n"

    def _take(self, data: bytes) -> None:
        if not data:
            raise ConnectionResetError
        *lines, self._heard = (self._heard + data).split(b"\n")
        for line in lines:
            if line.startswith(wire.MARK):
                self._take_word(*line.split(b" ", 2))
            else:
                self._out += line + b"\n"

    def _take_word(self, word: bytes, *rest: bytes) -> None:
        if word[1:2].isdigit():
            self._asked.pop(word, None)
            self._was_answered = True
            if word in self._unheard:
                self._unheard.discard(word)
            else:
                self._out += b" ".join(rest) + b"\n"
        elif word == wire.KEEP:
            self._holds[rest[0]] = rest[1]
        elif word == wire.DROP:
            self._holds.pop(rest[0], None)
        elif word == wire.HOUSE:
            self._in_tree = rest[0] == b"tree"
            self._pause = _PAUSE_SECONDS
            self._next_spawn = time.monotonic() + _AGAIN_SECONDS  # the last try was good
        elif word == wire.NO:
            self._trouble = b" ".join(rest).decode(errors="replace")
            self._refuse(self._trouble)

    def _lose(self) -> None:
        assert self._gateway is not None
        self._gateway.close()
        self._gateway, self._heard = None, b""
        self._sending.clear()
        self._unheard.clear()
        self._lost_at = time.monotonic()
        if self._was_answered:  # what brings down every gateway is not asked for ever
            self._was_answered, self._needed_at = False, self._lost_at
        self._next_try = self._lost_at + self._pause

    def _try(self) -> None:
        """Connect, if it is time; start a gateway, if the agent needs one; or give up on it."""
        now = time.monotonic()
        if now < self._next_try:
            return
        if self._asked and now >= self._needed_at + _PATIENCE_SECONDS:
            self._refuse(f"no gateway answers in {self._folder}; see run/{wire.LOG} there")
        channel = _connected(self._folder)
        if channel is not None:
            self._gateway = channel
            self._begin()
            return
        self._next_try = now + self._pause
        self._pause = min(2 * self._pause, _PAUSE_SECONDS_MAX)
        is_needed = bool(self._asked or self._holds or not self._count)
        patience = _TREE_SECONDS if self._in_tree else 0.0
        wanted_at = max(self._next_spawn, self._lost_at + patience)
        if is_needed and now >= wanted_at:
            self._start(now)

    def _start(self, now: float) -> None:
        try:
            if _spawn(self._folder):
                self._next_spawn = now + _SPAWN_SECONDS
        except OSError as error:
            self._trouble = f"no gateway can be started in {self._folder}: {error.strerror}"
            self._refuse(self._trouble)

    def _begin(self) -> None:
        """Tell a gateway all that the one before it knew (I1)."""
        self._sending += self._hello
        for key, hold in self._holds.items():
            self._sending += b"%s %s %s\n" % (wire.HOLD, key, hold)
        for line in self._standing.values():
            number = line.partition(b" ")[0]
            if number not in self._asked:
                if line.startswith(wire.MARK):
                    self._unheard.add(number)
                self._sending += line + b"\n"
        for _, line, _ in self._asked.values():
            self._sending += line + b"\n"
        for line in self._aside:
            self._sending += line + b"\n"
        self._aside.clear()
        if self._hung_up:
            self._end_at = time.monotonic() + _GOODBYE_SECONDS

    def _refuse(self, text: str) -> None:
        """Answer what is asked in place of the gateway (I3)."""
        _say(text)
        self._code = _CONFIG if self._trouble else _UNREACHABLE
        for mark, _, _ in self._asked.values():
            self._answer(mark, text)
        self._asked.clear()


def run(state_dir: str, hello: dict[str, Any]) -> int:
    """Carry the agent on our standard streams; the exit code."""
    if not os.isatty(0):  # a terminal's Ctrl-C is the agent's, who then hangs up
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    return Pump(state_dir, hello).run()


def _read() -> bytes:
    """What the agent says; nothing when it has hung up, or was never there."""
    try:
        return os.read(0, _READ_BYTES)
    except OSError:
        return b""


def _decoded(line: bytes) -> dict[str, Any]:
    """What the gateway cannot read either is passed on, and refused by it."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _connected(folder: str) -> socket.socket | None:
    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sockets.connect(channel, folder, wire.SOCKET)
    except OSError:
        channel.close()
        return None
    channel.setblocking(False)  # noqa: FBT003 - the socket's own signature
    return channel


def _spawn(folder: str) -> bool:
    """Start a gateway in a session of its own, unless another begins, serves or ends.

    It gets the lock from us, so that of many pumps that miss one, one starts one.
    """
    lock = private.opener(f"{folder}/{wire.LOCK}", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return False
    os.ftruncate(lock, 0)  # of the last gateway, whose process id may be another's by now
    child = os.fork()
    if child:
        os.close(lock)
        os.waitpid(child, 0)
        return True
    try:
        os.setsid()
        if os.fork() == 0:  # so that the agent need not wait for it
            _become_gateway(folder, lock)
    finally:
        os._exit(0)


def _become_gateway(folder: str, lock: int) -> NoReturn:
    private.make_folder(f"{folder}/run")
    log = private.opener(f"{folder}/run/{wire.LOG}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    if os.fstat(log).st_size > _LOG_BYTES_MAX:
        os.ftruncate(log, 0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, target)
    os.chdir("/")
    os.set_inheritable(lock, True)  # noqa: FBT003 - its own signature
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    words = [sys.executable, "-m", "understudy", "gateway", "--state-dir", folder]
    words += ["--linger", str(_LINGER_SECONDS), "--lock", str(lock)]
    os.execv(sys.executable, words)


def _say(text: str) -> None:
    try:
        os.write(2, f"understudy: {text}\n".encode(errors="replace"))
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
