"""Everything is bounded: the queue, a share of it, answers that are not read, connections."""

from contextlib import suppress

import orjson
import pytest

from tests.authority.sidecar.peer import (
    HELLO,
    OVERLOADED,
    Peer,
    add,
    lines_of,
    refusal,
    results,
    show,
)
from tests.authority.sidecar.serving import Serving, rows_of
from tests.patience import eventually
from understudy.authority.service.client import Client, Crowded
from understudy.contracts import limits


def test_a_full_queue_refuses_with_the_id_and_loses_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 4)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(10)))
        found = results(peer.answers(10))
        assert found == dict.fromkeys(range(4), None) | dict.fromkeys(range(4, 10), OVERLOADED)
        peer.send(*(add(mark) for mark in range(4, 8)))
        assert results(peer.answers(4)) == dict.fromkeys(range(4, 8), None), "a pause is enough"
    assert len(rows_of(serving.state_dir)) == 8


def test_a_full_queue_refuses_even_what_has_no_id(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 1)
    with Peer(serving.state_dir) as peer:
        lines = [b'{"id":true}', b'{"id":[1]}', b'{"id":1.5}', b"garbage", b"[1]", b'{"id":"x"}']
        peer.write(lines_of(add(1)) + b"\n".join(lines) + b"\n")
        answers = peer.answers(7)
        refused = [each for each in answers if refusal(each) == OVERLOADED]
        assert [each.get("id") for each in refused] == [None, None, None, None, None, "x"]


def test_a_connection_has_its_share_and_others_have_theirs(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 3)
    with Peer(serving.state_dir) as greedy, Peer(serving.state_dir) as modest:
        serving.commits.hold()
        greedy.send(*(add(mark) for mark in range(5)))
        assert results(greedy.answers(2)) == {3: OVERLOADED, 4: OVERLOADED}
        modest.send(add(10))
        assert modest.is_still_unanswered(), "it is not refused"
        serving.commits.go()
        assert results(greedy.answers(3)) == {0: None, 1: None, 2: None}
        assert refusal(modest.answer()) is None
        greedy.send(*(add(mark) for mark in range(3, 6)))
        assert results(greedy.answers(3)) == {3: None, 4: None, 5: None}
    assert len(rows_of(serving.state_dir)) == 7


def test_under_overload_every_request_is_answered_once_and_done_as_answered(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 40)
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 15)
    monkeypatch.setattr(limits, "BATCH_MAX", 8)
    peers = [Peer(serving.state_dir) for _ in range(6)]
    done: dict[int, str | None] = {}
    for place, peer in enumerate(peers):
        peer.send(*(add(place * 1000 + n) for n in range(200)))
    for peer in peers:
        done |= results(peer.answers(200))
        peer.close()
    assert len(done) == 1200
    assert set(done.values()) == {None, OVERLOADED}
    written = {orjson.loads(row.request)["payload"]["id"] for row in rows_of(serving.state_dir)}
    assert written == {f"i{mark}" for mark, refused in done.items() if refused is None}


def test_a_reader_that_does_not_read_is_cut_off_and_others_go_on(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTPUT_BYTES_MAX", 200_000)
    with Peer(serving.state_dir) as slow, Peer(serving.state_dir) as other:
        slow.ask(add(0, notes="x" * 100_000))
        for mark in range(40):
            with suppress(ConnectionError):
                slow.send(show(mark, "i0"))
            assert refusal(other.ask(add(1000 + mark))) is None
        heard = slow.rest()
        assert len(heard) < 40
        assert sum(map(len, heard)) < 40 * 100_000
    with Peer(serving.state_dir) as again:
        assert refusal(again.ask(show(1, "i0"))) is None


def test_what_a_slow_reader_asked_for_is_done_all_the_same(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(serving.state_dir) as slow:
        slow.ask(add(0, notes="x" * 100_000))
        monkeypatch.setattr(limits, "OUTPUT_BYTES_MAX", 1)
        monkeypatch.setattr(limits, "BATCH_MAX", 4)
        slow.send(*(show(mark, "i0") for mark in range(20)), *(add(mark) for mark in (1, 2, 3)))
        slow.rest()
    eventually(lambda: len(rows_of(serving.state_dir)) == 4)


def test_there_is_room_for_so_many_connections(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_MAX", 3)
    peers = [Peer(serving.state_dir) for _ in range(3)]
    with Peer(serving.state_dir, hello=None) as late:
        [said] = late.rest()
        assert refusal(orjson.loads(said)) == "authority_overloaded"
    with pytest.raises(Crowded, match="no room for another connection"):
        Client(serving.state_dir, "cli")
    assert all(refusal(peer.ask(add(mark))) is None for mark, peer in enumerate(peers))
    peers.pop().close()

    def is_let_in() -> bool:
        with Peer(serving.state_dir, hello=None) as peer:
            with suppress(ConnectionError):
                peer.send(HELLO)
            return b'"hello"' in peer.line()

    eventually(is_let_in)
    for peer in peers:
        peer.close()
