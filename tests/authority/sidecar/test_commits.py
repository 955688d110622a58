"""No peer hears of what is not on disk, and what waits is committed together."""

from pathlib import Path

import pytest

from tests.authority.sidecar.peer import Peer, add, refusal, results, show
from tests.authority.sidecar.serving import Serving, prove, rows_of
from tests.patience import eventually
from understudy.authority import SOCKET, TRAJECTORY, Unavailable, open_journal
from understudy.authority.engine.engine import recover
from understudy.authority.law.image import dump
from understudy.authority.views.trajectory import verify
from understudy.contracts import Reason, limits


def test_no_peer_hears_of_a_decision_before_it_is_on_disk(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        serving.commits.hold()
        peer.send(add(1), show(2, "i1"))
        serving.commits.wait_for_one()
        other.send(show(3, "i1"))
        assert peer.is_still_unanswered()
        assert other.is_still_unanswered(), "others may not see it either"
        assert rows_of(serving.state_dir) == []
        serving.commits.go()
        assert results(peer.answers(2)) == {1: None, 2: None}
        assert refusal(other.answer()) is None


def test_what_waits_is_committed_together(serving: Serving) -> None:
    peers = [Peer(serving.state_dir) for _ in range(5)]
    serving.commits.hold()
    peers[0].send(add(0))
    serving.commits.wait_for_one()
    for place, peer in enumerate(peers):
        peer.send(*(add(1 + place * 50 + n) for n in range(50)))
        assert peer.is_still_unanswered(), "and now it is in the queue"
    serving.commits.go()
    for place, peer in enumerate(peers):
        assert not any(map(refusal, peer.answers(51 if place == 0 else 50)))
        peer.close()
    assert sum(serving.commits.sizes) == 251
    assert serving.commits.sizes[0] == 1
    assert len(serving.commits.sizes) <= 3, "one, those who came next, all the others"


def test_a_batch_is_no_longer_than_a_batch_may_be(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_MAX", 16)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(100)))
        assert [answer["id"] for answer in peer.answers(100)] == list(range(100))
    assert max(serving.commits.sizes) == 16
    assert sum(serving.commits.sizes) == 100


def test_a_peer_that_sent_much_does_not_keep_one_waiting_that_sent_little(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_MAX", 8)
    with Peer(serving.state_dir) as first, Peer(serving.state_dir) as greedy:
        with Peer(serving.state_dir) as modest:
            serving.commits.hold()
            first.send(add(0))
            serving.commits.wait_for_one()
            greedy.send(*(add(mark) for mark in range(1, 101)))
            modest.send(add(1000))
            serving.commits.go()
            assert modest.answer()["seq"] <= 1 + 8, "it is in the first batch after the one held"
        assert [answer["id"] for answer in greedy.answers(100)] == list(range(1, 101))


def test_reads_alone_commit_nothing(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(*(show(mark, "x") for mark in range(10)))
        assert len(peer.answers(10)) == 10
    assert serving.commits.sizes == []


def test_after_a_failed_commit_nothing_is_answered_any_more(serving: Serving) -> None:
    failure = Unavailable(Reason.JOURNAL_WRITE_FAILED, "the disk is full")
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        assert refusal(peer.ask(add(1))) is None
        serving.commits.wait_for_one()
        serving.commits.failure = failure
        serving.commits.hold()
        peer.send(add(2, requestId="r2"))
        serving.commits.wait_for_one()
        other.send(show(3, "i1"), add(4))
        assert other.is_still_unanswered()
        peer.send(*(add(mark) for mark in range(5, 9)))
        assert peer.is_still_unanswered()
        serving.commits.go()
        assert peer.rest() == other.rest() == []
    serving.wait()
    assert serving.ended_with is failure
    assert [row.seq for row in rows_of(serving.state_dir)] == [1]
    assert not (serving.state_dir / SOCKET).exists()


def test_after_a_failed_commit_a_new_start_goes_on_from_the_disk(state_dir: Path) -> None:
    with Serving(state_dir) as broken, Peer(state_dir) as peer:
        broken.commits.failure = Unavailable(Reason.JOURNAL_WRITE_FAILED, "the disk is full")
        peer.send(add(1, requestId="r1"))
        assert peer.rest() == []
        broken.wait()
    with Serving(state_dir), Peer(state_dir) as peer:
        again = peer.ask(add(1, requestId="r1"))
        assert (refusal(again), again["seq"]) == (None, 1)
    prove(state_dir)


def test_evidence_that_cannot_be_written_ends_it_and_is_filled_in_at_the_next_start(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with Serving(state_dir) as running, Peer(state_dir) as peer:
        with monkeypatch.context() as patch:
            patch.setattr("understudy.authority.views.trajectory.os.fsync", broken)
            peer.send(add(1, requestId="r1"))
            heard = peer.rest()
            running.wait()
        assert isinstance(running.ended_with, OSError)
    assert len(rows_of(state_dir)) == 1
    with Serving(state_dir), Peer(state_dir) as peer:
        peer.send(add(1, requestId="r1"), add(2))
        again = peer.line()
        assert heard in ([], [again])
        assert refusal(peer.answer()) is None
    with open_journal(state_dir, read_only=True) as journal:
        assert verify(state_dir / TRAJECTORY, journal) == (2, None)
    prove(state_dir)


def test_evidence_follows_by_itself(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(5)))
        peer.answers(5)
        path = serving.state_dir / TRAJECTORY
        eventually(lambda: path.exists() and path.read_bytes().count(b"\n") == 5)
        with open_journal(serving.state_dir, read_only=True) as journal:
            assert verify(path, journal) == (5, None)


def test_a_decision_that_raises_ends_it_and_answers_no_peer(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise AssertionError("we are wrong")

    with Peer(serving.state_dir) as peer:
        monkeypatch.setattr("understudy.authority.engine.engine.decide", wrong)
        peer.send(add(1))
        assert peer.rest() == []
    serving.wait()
    assert isinstance(serving.ended_with, AssertionError)
    assert rows_of(serving.state_dir) == []


def test_snapshots_during_service_hold_no_peer_up_and_replay_agrees(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_ROWS_MAX", 10)
    monkeypatch.setattr(limits, "BATCH_MAX", 7)
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        for each, first in ((peer, 0), (other, 1000)):
            assert refusal(each.ask(add(first))) is None
            update = {"action": "issue.update", "payload": {"id": f"i{first}", "notes": "n"}}
            each.send(*(update | {"id": first + mark} for mark in range(1, 150)))
        assert not any(map(refusal, peer.answers(149) + other.answers(149)))
        found = serving.office.journal.row(300)
        assert found is not None
    with open_journal(serving.state_dir, read_only=True) as journal:
        snapshot = journal.snapshot()
        assert snapshot is not None
        assert 200 < snapshot.head.seq <= 300
        state, head, _ = recover(journal)
        assert head == serving.office.authority.head
        assert dump(state) == dump(serving.office.authority.state)
    prove(serving.state_dir)


# --- the same request again -----------------------------------------------------------------------


def test_a_retry_gets_the_first_answer_while_another_commit_is_in_flight(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        peer.send(add(1, requestId="old"))
        old = peer.line()
        serving.commits.wait_for_one()
        serving.commits.hold()
        peer.send(add(2, requestId="new"))
        serving.commits.wait_for_one()
        other.send(add(1, requestId="old"), add(2, requestId="new"))
        assert other.is_still_unanswered()
        serving.commits.go()
        new = peer.line()
        assert [other.line(), other.line()] == [old, new]
    assert len(rows_of(serving.state_dir)) == 2
