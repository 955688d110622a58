"""Strangers: who can connect to a process of a system, and what comes of what they say."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from tests.actors.otp.carriers.process.stranger import (
    GARBAGE,
    NOBODY,
    Address,
    as_nobody,
    connected,
    heard,
    listeners,
    nonsense,
    say,
)
from tests.patience import eventually
from understudy.actors.otp import Ref
from understudy.actors.otp.carriers.process import Troupe
from understudy.actors.otp.carriers.process.private_socket import (
    HOST,
    NotPrivate,
    PrivateSocket,
    prepare,
    take_number,
)
from understudy.actors.otp.carriers.process.registry import RegistryFolder

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def open_stage() -> Iterator[Stage]:
    """A system in folders that every user may enter, but for that of its sockets."""
    folder = Path(tempfile.mkdtemp())
    stage = Stage(folder / "run")
    with stage.troupe:
        for each in (folder, folder / "run", folder / "run" / "live"):
            each.chmod(0o755)
        yield stage
    shutil.rmtree(folder)


def _addresses(stage: Stage) -> list[Address]:
    """Without that of the process behind the system, which looks only when it ends."""
    backstage = stage.troupe.pids["backstage"]
    processes = [each for each in stage.troupe.processes() if each.pid != backstage]
    return listeners(processes, stage.troupe.sockets)


def _pids(stage: Stage) -> set[int]:
    return {each.pid for each in stage.troupe.processes()}


def test_another_user_cannot_connect(open_stage: Stage) -> None:
    open_stage.puppet()
    addresses, pids = _addresses(open_stage), _pids(open_stage)
    assert len(addresses) == 4  # admin, logger, root and puppet

    def knock() -> list[str]:
        return [heard(address, b"-5>abc") for address in addresses]

    assert as_nobody(knock) == ["PermissionError"] * 4
    assert _pids(open_stage) == pids


def test_another_user_that_does_get_in_is_hung_up_on(open_stage: Stage) -> None:
    """Such as through a folder that was opened by mistake."""
    cell = open_stage.puppet()
    addresses, pids = _addresses(open_stage), _pids(open_stage)
    open_stage.troupe.sockets.chmod(0o755)
    for address in addresses:
        Path(str(address)).chmod(0o777)

    def knock() -> set[str]:
        return {
            heard(address, data) for address in addresses for data in (b"", b"-5>abc", b"10") * 50
        }

    assert as_nobody(knock) == {"b''"}
    assert open_stage.tell(cell, "pid") == cell.place.pid
    assert _pids(open_stage) == pids


def test_connections_that_say_nothing_are_bounded_and_hinder_nobody(stage: Stage) -> None:
    cell = stage.puppet()
    address = str(stage.troupe.sockets / str(_place(stage, cell).port))
    with ExitStack() as stack:
        for number in range(600):
            line = stack.enter_context(connected(address))
            line.sendall(b"100"[: number % 4])
        assert stage.tell(cell, "pid") == cell.place.pid
        eventually(lambda: stage.tell(cell, "pid") and _descriptors(cell) < 300)
        assert stage.tell(cell, "count") == 0


def _place(stage: Stage, cell: Ref) -> RegistryFolder:
    me = stage.tell(cell, "me")
    assert isinstance(me, Ref)
    assert isinstance(me.place, RegistryFolder)
    return me.place


def _descriptors(cell: Ref) -> int:
    return len(list(Path(f"/proc/{cell.place.pid}/fd").iterdir()))


@pytest.mark.parametrize("seed", range(4))
def test_garbage_is_hung_up_on_and_ends_nothing(shared: Stage, seed: int) -> None:
    cell = shared.puppet()
    pids = _pids(shared)
    for address in _addresses(shared):
        for data in (*GARBAGE, *nonsense(seed, 40)):
            assert b"ACK" not in say(address, data).replace(b"ACK+DATAERR", b"")
    assert _pids(shared) == pids
    assert shared.tell(cell, "pid") == cell.place.pid


# --- sockets --------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    prepare(tmp_path / "sockets")
    return tmp_path / "sockets"


def _listening(folder: Path, backlog: int = 8, number: int = 0) -> PrivateSocket:
    listener = PrivateSocket(folder)
    listener.bind((HOST, number))
    listener.listen(backlog)
    return listener


def test_a_folder_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    for mode in (0o701, 0o710, 0o770, 0o777):
        (tmp_path / "open").mkdir(exist_ok=True)
        (tmp_path / "open").chmod(mode)
        with pytest.raises(NotPrivate, match="mode 700"):
            prepare(tmp_path / "open")
    (tmp_path / "open").chmod(0o700)
    prepare(tmp_path / "open")


def test_a_folder_of_another_user_a_link_or_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch(mode=0o700)
    with pytest.raises(FileExistsError):
        prepare(tmp_path / "file")
    (tmp_path / "real").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with pytest.raises(NotPrivate):
        prepare(tmp_path / "link")
    if os.geteuid() == 0:
        os.chown(tmp_path / "real", NOBODY, NOBODY)
        with pytest.raises(NotPrivate):
            prepare(tmp_path / "real")


def test_a_system_does_not_start_in_sockets_that_others_can_reach(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(NotPrivate):
        Troupe(tmp_path / "run", sockets=tmp_path / "open").start()


def test_a_number_is_given_once_and_is_refused_while_it_is_listened_on(folder: Path) -> None:
    numbers = {take_number(folder) for _ in range(100)}
    assert len(numbers) == 100
    reserved = numbers.pop()
    with _listening(folder, number=reserved) as listener:
        assert listener.getsockname() == (HOST, reserved)
        with PrivateSocket(folder) as other, pytest.raises(OSError, match="taken"):
            other.bind((HOST, reserved))


def test_what_has_no_listener_refuses_as_tcp_does(folder: Path) -> None:
    with PrivateSocket(folder) as caller, pytest.raises(ConnectionRefusedError):
        caller.connect((HOST, 1))
    listener = _listening(folder)
    listener.close()
    with PrivateSocket(folder) as caller, pytest.raises(ConnectionRefusedError):
        caller.connect(listener.getsockname())


def test_a_caller_that_meets_a_full_backlog_connects_when_it_sends(folder: Path) -> None:
    with ExitStack() as stack:
        listener = stack.enter_context(_listening(folder, backlog=0))
        callers = [stack.enter_context(PrivateSocket(folder)) for _ in range(2)]
        for each in callers:
            each.settimeout(0)
        callers[0].connect(listener.getsockname())
        with pytest.raises(OSError, match="backlog is full") as failed:
            callers[1].connect(listener.getsockname())
        assert failed.value.errno == 115  # EINPROGRESS, for which Thespian waits
        with pytest.raises(OSError, match="backlog is full"):
            callers[1].send(b"too early")
        stack.enter_context(listener.accept()[0])
        assert callers[1].send(b"in time") == 7
        second = stack.enter_context(listener.accept()[0])
        assert second.recv(100) == b"in time"
        second.close()
        with pytest.raises(ConnectionResetError):
            callers[1].send(b"too late")


def test_a_folder_may_be_deeper_than_the_path_of_a_socket(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    prepare(deep)
    with _listening(deep) as listener, PrivateSocket(deep) as caller:
        caller.connect(listener.getsockname())
        accepted, _ = listener.accept()
        accepted.close()


def test_the_socket_of_a_cell_that_has_ended_is_removed(stage: Stage) -> None:
    parent = stage.puppet()
    before = len(list(stage.troupe.sockets.iterdir()))
    for _ in range(3):
        child = stage.child(parent)
        os.kill(child.place.pid, 9)
        stage.exited(parent, child)
    assert len(list(stage.troupe.sockets.iterdir())) == before
