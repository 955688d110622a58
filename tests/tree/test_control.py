"""The control socket: who may ask, what is answered, and who hears of the end."""

import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from understudy.actors.tree import control


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

    def say(self, data: bytes) -> bytes:
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(str(self.run_dir / control.SOCKET))
            caller.sendall(data)
            return caller.recv(65_536)


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
    "garbage", [b"\n", b"{}\n", b"nonsense\n", b'{"ask":"stop","drainMs":"soon"}\n', b"\xff\n"]
)
def test_what_is_no_question_is_told_so_and_the_next_one_is_answered(
    hall: Hall, garbage: bytes
) -> None:
    assert b"error" in hall.say(garbage)
    assert hall.stops == []
    assert control.ask(hall.run_dir, {"ask": "picture"}, 5) == {"tree": []}


def test_a_line_without_end_is_cut_off(hall: Hall) -> None:
    assert b"error" in hall.say(b"x" * 100_000)


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
