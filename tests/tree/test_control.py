"""The control socket: who may ask, what is answered, and who hears of the end."""

import socket
import stat
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.limits import stands_on
from tests.long import tried
from tests.patience import eventually
from understudy.actors.tree import control
from understudy.contracts import limits


class Hall:
    """A server, and what it was told."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self.stops: list[int | None] = []
        self.told = threading.Event()
        self.server = control.Server(run_dir, lambda: {"tree": []}, self._stop)

    def _stop(self, drain_ms: int | None) -> None:
        self.stops.append(drain_ms)
        self.told.set()

    def call(self) -> socket.socket:
        return called(self.run_dir)

    def say(self, data: bytes) -> bytes:
        with self.call() as caller:
            caller.sendall(data)
            return caller.recv(65_536)


def called(run_dir: Path) -> socket.socket:
    caller = socket.socket(socket.AF_UNIX)
    caller.settimeout(20)
    caller.connect(str(run_dir / control.SOCKET))
    return caller


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    hall = Hall(tmp_path)
    yield hall
    hall.server.close_door()
    hall.server.close()


def test_a_picture_is_answered_and_only_its_owner_can_ask(hall: Hall) -> None:
    assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}
    assert stat.S_IMODE((hall.run_dir / control.SOCKET).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "garbage",
    [
        b"\n",
        b"{}\n",
        b"nonsense\n",
        b'{"ask":"stop","drainMs":"soon"}\n',
        b'{"ask":"stop","drainMs":true}\n',
        b'{"ask":"stop","drainMs":-1}\n',
        b'{"ask":"stop","drainMs":604800001}\n',
        b"\xff\n",
        b"[" * 60_000 + b"\n",
    ],
)
def test_what_is_no_question_is_told_so_and_the_next_one_is_answered(
    hall: Hall, garbage: bytes
) -> None:
    assert b"error" in hall.say(garbage)
    assert hall.stops == []
    assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}


@stands_on("TREE_LINE_BYTES_MAX")
def test_a_line_without_end_is_cut_off(hall: Hall) -> None:
    with hall.call() as caller:
        caller.sendall(b"x" * limits.TREE_LINE_BYTES_MAX)
        assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}
        caller.sendall(b"x")
        assert b"error" in caller.recv(65_536)


def test_half_a_line_keeps_no_other_caller_waiting(hall: Hall) -> None:
    with hall.call() as silent, hall.call() as slow:
        slow.sendall(b'{"ask":')
        assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}
        slow.sendall(b'"picture"}\n')
        assert orjson.loads(slow.recv(65_536)) == {"tree": []}
        silent.shutdown(socket.SHUT_WR)
        assert silent.recv(1) == b""


@stands_on("TREE_CALLERS_MAX")
def test_of_too_many_callers_the_oldest_is_hung_up_on(hall: Hall) -> None:
    with ExitStack() as stack:
        callers = [stack.enter_context(hall.call()) for _ in range(limits.TREE_CALLERS_MAX)]
        callers[0].sendall(b"{")
        callers[0].settimeout(0)
        with pytest.raises(BlockingIOError):
            callers[0].recv(1)
        assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}
        callers[0].settimeout(5)
        assert callers[0].recv(1) == b""
        callers[-1].sendall(b'{"ask":"picture"}\n')
        assert orjson.loads(callers[-1].recv(65_536)) == {"tree": []}


@stands_on("TREE_DRAIN_MS_MAX")  # which they ask for; one more is garbage, above
def test_of_those_who_ask_for_the_stop_so_many_hear_of_its_end(hall: Hall) -> None:
    with ExitStack() as stack:
        callers = [stack.enter_context(hall.call()) for _ in range(limits.TREE_CALLERS_MAX)]
        for each in callers:
            each.sendall(b'{"ask":"stop","drainMs":604800000}\n')
        eventually(lambda: len(hall.stops) == len(callers))
        assert b"too many" in hall.say(b'{"ask":"stop","drainMs":null}\n')
        hall.server.close_door()
        hall.server.close()
        assert [orjson.loads(each.recv(100)) for each in callers] == [{"result": "stopped"}] * len(
            callers
        )


def test_a_caller_that_vanishes_or_reads_nothing_ends_nothing(tmp_path: Path) -> None:
    server = control.Server(tmp_path, lambda: {"tree": "x" * 1_000_000}, lambda _: None)
    for data in (b"", b"{", b'{"ask":"picture"}\n'):
        with called(tmp_path) as caller:
            caller.sendall(data)
    with called(tmp_path) as deaf:
        deaf.sendall(b'{"ask":"picture"}\n')
        assert len(control.ask(tmp_path, {"ask": "picture"}, 30)["tree"]) == 1_000_000
    server.close_door()
    server.close()


@tried(200)
@given(data=st.binary(max_size=300))
def test_whatever_is_said_the_next_question_is_answered(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    hall = Hall(tmp_path_factory.mktemp("hall"))
    with suppress(ConnectionResetError), hall.call() as caller:
        caller.sendall(data)
        caller.shutdown(socket.SHUT_WR)
        caller.recv(100)
    assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}
    hall.server.close_door()
    hall.server.close()


def test_a_caller_that_asks_for_the_stop_hears_of_it_when_it_has_happened(hall: Hall) -> None:
    heard: list[dict[str, object]] = []

    def ask() -> None:
        heard.append(control.ask(hall.run_dir, {"ask": "stop", "drainMs": 7}, 30))

    caller = threading.Thread(target=ask)
    caller.start()
    assert hall.told.wait(10)
    assert heard == []
    hall.server.close_door()
    hall.server.close()
    caller.join(10)
    assert (heard, hall.stops) == ([{"result": "stopped"}], [7])


def test_without_a_tree_there_is_nothing_to_ask(tmp_path: Path) -> None:
    with pytest.raises(control.NoTree):
        control.ask(tmp_path, {"ask": "picture"}, 5)
    with pytest.raises(control.NoTree):
        control.ask(tmp_path / "nowhere", {"ask": "picture"}, 5)


def test_a_path_may_be_longer_than_a_socket_s(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    server = control.Server(deep, lambda: {"deep": True}, lambda _: None)
    assert control.ask(deep, {"ask": "picture"}, 5) == {"deep": True}
    server.close_door()
    server.close()


def test_answers_are_one_line_of_json(hall: Hall) -> None:
    answer = hall.say(b'{"ask":"picture"}\n')
    assert answer.endswith(b"\n")
    assert orjson.loads(answer) == {"tree": []}
