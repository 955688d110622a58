"""A sidecar that is crowded and starved."""

import os
import resource
import select
import threading
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add, refusal, served_by, show
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import Serve, journal_rows, report_of, room_for_files
from understudy.authority import TRAJECTORY


def test_a_thousand_connections_are_served_at_once(state_dir: Path) -> None:
    with room_for_files(4_000) as allowed, ExitStack() as everybody:
        running = everybody.enter_context(Serve(state_dir)).ready()
        crowd = min(1_000, allowed // 3)
        peers = [everybody.enter_context(Peer(state_dir)) for _ in range(crowd)]
        for mark, peer in enumerate(peers):
            peer.send(add(mark), show(mark, f"i{mark}"))
        for mark, peer in enumerate(peers):
            first, second = peer.answers(2)
            assert (first["id"], refusal(first), refusal(second)) == (mark, None, None)
            assert second["issue"]["id"] == f"i{mark}"
        assert running.terminate() == 0, running.complaint()
    assert len(journal_rows(state_dir)) == crowd
    assert report_of("verify", "--state-dir", state_dir)["rows"] == crowd


def test_newcomers_are_greeted_while_others_keep_the_disk_busy(state_dir: Path) -> None:
    halted = threading.Event()

    def load() -> None:
        with Peer(state_dir) as peer:
            for start in count(0, 20):
                if halted.is_set():
                    return
                peer.send(*(add(mark) for mark in range(start, start + 20)))
                peer.answers(20)

    with Serve(state_dir) as running:
        running.ready()
        busy = threading.Thread(target=load)
        busy.start()
        try:
            for _ in range(300):
                with Peer(state_dir) as peer:
                    assert peer.server["pid"] == running.pid
        finally:
            halted.set()
            busy.join(PATIENCE_SECONDS)
        assert running.terminate() == 0
        assert running.complaint().count("\n") == 1, "and nothing is complained about"


@pytest.mark.parametrize("wrote", [True, False], ids=["at work", "fresh"])
def test_a_sidecar_that_runs_out_of_files_serves_on_and_recovers(
    state_dir: Path, wrote: bool
) -> None:
    files = 100

    def starve() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    def is_full() -> bool:
        turned_away = select.select([peer.socket for peer in hoard], [], [], 0)[0]
        return bool(turned_away) or len(os.listdir(f"/proc/{running.pid}/fd")) >= files  # noqa: PTH208 - no path is made of them

    with Serve(state_dir, prepare=starve) as running, Peer(running.ready().state_dir) as known:
        if wrote:
            known.ask(add(999))
            path = state_dir / TRAJECTORY
            eventually(lambda: path.exists() and path.read_bytes())
        hoard = [Peer(state_dir, hello=None) for _ in range(files + 20)]
        try:
            eventually(is_full)
            for mark in range(200):  # for longer than evidence may wait
                with suppress(ConnectionError):
                    known.send(add(mark))
                line = known.line()
                assert line, running.last_words()
                assert refusal(orjson.loads(line)) is None, running.last_words()
        finally:
            for peer in hoard:
                peer.close()
        eventually(lambda: served_by(state_dir) == running.pid)  # as soon as one has left
        assert running.terminate() == 0, running.complaint()
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 200 + wrote
    assert report_of("verify", "--state-dir", state_dir)["rows"] == 200 + wrote
