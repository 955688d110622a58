"""The gateway's socket: who may come in, what is refused, and how it ends."""

import fcntl
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.gateway.agents import HANDSHAKE, Door, Wire
from tests.patience import eventually
from tests.surfaces.process import commanded, understudy
from tests.together import together
from understudy.actors.agents import gateway_lock
from understudy.actors.tree import gateway as seen
from understudy.contracts import limits
from understudy.surfaces.mcp import wire


@pytest.fixture
def door(state_dir: Path) -> Iterator[Door]:
    with Door(state_dir) as running:
        yield running.ready()


def _greeted(line: Wire, mark: object = 0) -> None:
    line.ask(mark, "initialize", HANDSHAKE)
    assert line.answer()["id"] == mark


def test_the_bounds_of_a_line_are_those_of_every_door() -> None:
    assert wire.LINE_BYTES_MAX == limits.REQUEST_BYTES_MAX
    assert wire.ASKED_MAX == limits.MCP_INFLIGHT_MAX
    assert (seen.SOCKET, seen.LOG) == (wire.SOCKET, wire.LOG)


def test_the_socket_is_of_its_user_alone(door: Door) -> None:
    assert stat.S_IMODE((door.state_dir / wire.SOCKET).stat().st_mode) == 0o600


def test_anybody_who_speaks_mcp_is_served_without_a_hello(door: Door) -> None:
    with Wire(door.state_dir) as line:
        _greeted(line)
        line.ask("x", "tools/list")
        answer = line.answer()
        assert answer["id"] == "x"
        assert "work_next" in [each["name"] for each in answer["result"]["tools"]]
        assert door.look()["clients"] == 1
    eventually(lambda: door.look()["clients"] == 0)


def test_garbage_is_refused_and_the_next_line_is_heard(door: Door) -> None:
    with Wire(door.state_dir) as line, Wire(door.state_dir) as other:
        _greeted(other)
        for garbage, code, mark in (
            (b"\xff\xfe garbage", -32700, None),
            (b"[1,2", -32700, None),
            (b'{"jsonrpc":"1.0","id":3,"method":"x"}', -32600, 3),
            (b"[" * 100_000, -32700, None),
            (b'"text"', -32600, None),
        ):
            line.write(garbage + b"\n")
            answer = line.answer()
            assert (answer["error"]["code"], answer["id"]) == (code, mark)
        _greeted(line)
        other.ask(2, "tools/list")
        assert "result" in other.answer()


@together("words", [b"#hello", b"#hello 7", b'#hello {"protocol":99}'])
def test_a_pump_of_another_age_is_told_so(door: Door, words: bytes) -> None:
    with Wire(door.state_dir) as line:
        line.write(words + b"\n")
        assert line.line().startswith(b"#no this gateway speaks protocol 1")
        assert line.line() == b""


def test_a_line_that_is_too_long_is_skipped_and_its_sender_stays(door: Door) -> None:
    with Wire(door.state_dir) as line:
        _greeted(line)
        line.write(b"x" * (3 * limits.REQUEST_BYTES_MAX) + b"\n")
        assert "too long" in line.answer()["error"]["message"]
        line.ask(2, "tools/list")
        assert line.answer()["id"] == 2


def test_who_does_not_read_is_cut_off(door: Door) -> None:
    with Wire(door.state_dir) as line, Wire(door.state_dir) as other:
        _greeted(line)
        _greeted(other)
        asked = b'{"jsonrpc":"2.0","id":%d,"method":"tools/list","params":{}}\n'
        with pytest.raises(OSError, match=r"pipe|reset"):  # noqa: PT012 - any of the writes may be the one
            for mark in range(1, 100_000):
                line.write(asked % mark)
        other.ask(2, "tools/list")
        assert other.answer()["id"] == 2


def test_a_second_gateway_does_not_begin(door: Door) -> None:
    done = understudy("gateway", "--state-dir", door.state_dir)
    assert done.returncode == 75
    assert str(door.pid) in done.stderr.decode()
    assert door.look()["pid"] == door.pid


def test_a_socket_that_was_left_behind_is_replaced(state_dir: Path) -> None:
    with Door(state_dir) as first:
        first.ready().kill()
        assert (state_dir / wire.SOCKET).exists()
        with Door(state_dir) as second:
            second.ready()


def test_one_that_looks_for_a_gateway_is_not_told_to_leave(state_dir: Path) -> None:
    """Eight trees that were started at once once ended each other while they looked."""
    path = state_dir / wire.LOCK
    path.write_text(f"{os.getpid()}\n")  # whom a gateway that was killed left behind
    with path.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert gateway_lock.dismiss(state_dir / wire.LOCK) is None
    with path.open() as begins:
        fcntl.flock(begins, fcntl.LOCK_EX)
        path.write_text("")
        assert gateway_lock.dismiss(state_dir / wire.LOCK) is None


def test_a_stop_answers_what_was_taken_in(state_dir: Path, door: Door) -> None:
    with Wire(state_dir) as line:
        _greeted(line)
        for mark in range(1, 201):
            call = {"name": "issue_add", "arguments": {"id": f"us-{mark}", "title": "t"}}
            line.ask(mark, "tools/call", call)
        assert line.answer()["id"] == 1
        door.signal(signal.SIGTERM)
        heard = []
        while said := line.line():
            heard.append(said)
        assert door.wait() == 0
        assert all(b'"result"' in each for each in heard)
    assert not (state_dir / wire.SOCKET).exists()
    listed = commanded("issue", "list", "--state-dir", state_dir, "--json")
    assert listed.stdout.count(b'"title":"t"') == len(heard) + 1


def test_it_brings_its_own_sidecar_which_ends_with_it(state_dir: Path) -> None:
    def served() -> bool:
        return commanded("authority", "status", "--state-dir", state_dir).returncode == 0

    for end in (Door.terminate, Door.kill):
        with Door(state_dir) as running:
            running.ready()
            assert served()
            end(running)
        eventually(lambda: not served())


def test_it_ends_by_itself_when_no_agent_has_been_there_for_a_while(state_dir: Path) -> None:
    with Door(state_dir, "--linger", "0.5") as running:
        eventually(lambda: running.process.poll() is not None or running.look().get("pid"))
        assert running.wait() == 0


def test_a_state_directory_that_is_missing_is_said_so(tmp_path: Path) -> None:
    done = understudy("gateway", "--state-dir", tmp_path / "none")
    assert done.returncode == 78
    assert b"understudy init" in done.stderr
