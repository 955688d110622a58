"""Leaving and being left: peers that go, a sidecar that stops, and its socket."""

import os
import socket
import stat
import threading
from pathlib import Path

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add, lines_of, refusal, show
from tests.authority.sidecar.serving import Serving, prove, rows_of
from tests.patience import eventually
from understudy.authority import SOCKET, Unavailable, open_journal
from understudy.contracts import Reason, limits


def test_what_a_peer_sent_whole_before_it_left_is_done(serving: Serving) -> None:
    with Peer(serving.state_dir) as other:
        with Peer(serving.state_dir) as leaver:
            serving.commits.hold()
            leaver.write(lines_of(*(add(mark) for mark in range(100))) + b'{"id":100,"action":')
        serving.commits.wait_for_one()
        other.send(add(1000))
        assert other.is_still_unanswered()
        serving.commits.go()
        assert refusal(other.answer()) is None
        eventually(lambda: len(rows_of(serving.state_dir)) == 101)
    prove(serving.state_dir)


def test_a_peer_that_resets_the_connection_disturbs_no_other(serving: Serving) -> None:
    with Peer(serving.state_dir) as other:
        for mark in range(20):
            rude = Peer(serving.state_dir)
            rude.send(*(add(mark * 100 + n) for n in range(20)))
            rude.answer()  # what it leaves unread becomes a reset
            rude.close()
            assert refusal(other.ask(add(5000 + mark))) is None


def test_a_peer_that_asks_no_more_hears_all_its_answers(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(1000)))
        peer.socket.shutdown(socket.SHUT_WR)
        assert [orjson.loads(line)["id"] for line in peer.rest()] == list(range(1000))


def test_a_stop_answers_what_was_sent_before_it(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        serving.commits.hold()
        peer.send(add(1))
        serving.commits.wait_for_one()
        peer.send(add(2))
        other.send(add(3), add(4))
        assert peer.is_still_unanswered()
        assert other.is_still_unanswered()
        serving.stop()
        serving.commits.go()
        assert [orjson.loads(line)["id"] for line in peer.rest()] == [1, 2]
        assert [orjson.loads(line)["id"] for line in other.rest()] == [3, 4]
    serving.wait()
    assert serving.ended_with is None
    assert len(rows_of(serving.state_dir)) == 4
    prove(serving.state_dir)


def test_a_stop_sends_off_its_answers_whole_to_peers_that_read_them(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, drained, snapshot = 60, threading.Event(), serving.office.authority.snapshot

    def last_act() -> None:
        snapshot()
        drained.set()

    monkeypatch.setattr(serving.office.authority, "snapshot", last_act)
    with Peer(serving.state_dir) as peer:
        peer.ask(add(0, notes="x" * 100_000))
        serving.commits.wait_for_one()
        serving.commits.hold()
        peer.send(add(1), *(show(mark, "i0") for mark in range(2, asked + 1)))
        serving.commits.wait_for_one()
        serving.stop()
        serving.commits.go()
        drained.wait(0.5)  # everything is decided, and most of it has not left yet
        heard = peer.rest()  # six megabytes, much more than a socket holds
        assert [orjson.loads(line)["id"] for line in heard] == list(range(1, asked + 1))


def test_a_stop_takes_a_snapshot_so_that_the_next_start_folds_nothing(state_dir: Path) -> None:
    with Serving(state_dir), Peer(state_dir) as peer:
        peer.send(*(add(mark) for mark in range(5)))
        peer.answers(5)
    with open_journal(state_dir, read_only=True) as journal:
        snapshot = journal.snapshot()
    assert snapshot is not None
    assert snapshot.head.seq == 5


def test_a_stop_in_idleness_leaves_no_socket_and_no_row(state_dir: Path) -> None:
    with Serving(state_dir) as running, Peer(state_dir) as peer:
        running.stop()
        assert peer.rest() == []
        running.wait()
        assert running.ended_with is None
    assert not (state_dir / SOCKET).exists()
    assert rows_of(state_dir) == []


# --- the socket -----------------------------------------------------------------------------------


def test_the_socket_is_its_owner_s_alone(serving: Serving) -> None:
    found = (serving.state_dir / SOCKET).stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.geteuid()


def test_a_stranger_is_shown_out(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.authority.service.sockets.os.geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(
        "understudy.authority.service.sockets.struct.unpack", lambda *_: (1, os.getuid() + 2, 1)
    )
    with Peer(serving.state_dir, hello=None) as stranger:
        assert stranger.rest() == []


@pytest.mark.parametrize("kind", ["socket", "file", "link to nothing"])
def test_whatever_a_dead_sidecar_left_in_its_place_is_replaced(state_dir: Path, kind: str) -> None:
    path = state_dir / SOCKET
    if kind == "socket":
        here = Path.cwd()
        os.chdir(state_dir)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(SOCKET)
        os.chdir(here)
    elif kind == "file":
        path.write_bytes(b"?")
    else:
        path.symlink_to("nowhere")
    with Serving(state_dir), Peer(state_dir) as peer:
        assert refusal(peer.ask(add(1))) is None
    assert not path.is_symlink()
    assert not path.exists()


def test_a_second_sidecar_of_the_same_directory_does_not_come_up(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 10)
    with pytest.raises(Unavailable) as caught:
        Serving(serving.state_dir)
    assert caught.value.reason is Reason.AUTHORITY_BUSY
    with Peer(serving.state_dir) as peer:
        assert refusal(peer.ask(add(1))) is None
