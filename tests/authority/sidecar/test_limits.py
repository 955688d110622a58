"""Limits of a sidecar and of its errands, from both sides."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from tests.authority.sidecar.peer import OVERLOADED, Peer, add, results, show
from tests.authority.sidecar.serving import Serving
from tests.limits import stands_on
from tests.patience import PATIENCE_SECONDS, eventually
from understudy.authority.journal import relay_message
from understudy.authority.service.relay import Relay
from understudy.contracts import (
    limits,
)
from understudy.contracts.reason import Reason
from understudy.contracts.requests.request import Door, Garbage

# --- the sidecar's door ---------------------------------------------------------------------------


@stands_on("QUEUE_MAX")
def test_so_many_requests_wait_in_a_sidecar(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 3)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(3)))
        assert results(peer.answers(3)) == {0: None, 1: None, 2: None}
        peer.send(*(add(mark) for mark in range(10, 14)))
        assert results(peer.answers(4)) == {10: None, 11: None, 12: None, 13: OVERLOADED}


@stands_on("INFLIGHT_MAX")
def test_so_many_of_them_are_one_connection_s(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 2)
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        serving.commits.hold()
        peer.send(add(1), add(2), add(3))
        assert results([peer.answer()]) == {3: OVERLOADED}
        other.send(add(4), add(5))
        assert other.is_still_unanswered()
        serving.commits.go()
        assert results(peer.answers(2)) == {1: None, 2: None}
        assert results(other.answers(2)) == {4: None, 5: None}


@stands_on("QUEUE_BYTES_MAX")
def test_so_many_bytes_wait_in_a_sidecar(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUEUE_BYTES_MAX", 2_000)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark, notes="x" * 1_000) for mark in range(3)))
        assert results(peer.answers(3)) == {0: None, 1: None, 2: OVERLOADED}
        peer.send(*(add(mark, notes="x" * 1_000) for mark in range(10, 12)))
        assert results(peer.answers(2)) == {10: None, 11: None}


@stands_on("SNAPSHOT_ROWS_MAX")
def test_a_busy_sidecar_makes_a_snapshot_after_so_many_rows(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_ROWS_MAX", 3)
    with Peer(serving.state_dir) as peer:
        peer.ask(add(1))
        peer.ask(add(2))
        assert serving.office.authority.unsaved_rows == 2
        peer.ask(add(3))
        eventually(lambda: serving.office.authority.unsaved_rows == 0)


@stands_on("EVIDENCE_BEHIND_MAX")
def test_the_trajectory_is_so_far_behind_at_most(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVIDENCE_BEHIND_MAX", 3)
    monkeypatch.setattr(limits, "BATCH_MAX", 2)
    way = threading.Event()
    follow = serving.office.follow

    def held() -> None:
        assert way.wait(PATIENCE_SECONDS)
        follow()

    monkeypatch.setattr(serving.office, "follow", held)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(7)))
        assert results(peer.answers(4)) == dict.fromkeys(range(4))
        assert peer.is_still_unanswered()
        way.set()
        assert results(peer.answers(3)) == dict.fromkeys(range(4, 7))


@stands_on("CONNECTIONS_MAX")
def test_so_many_connections_are_let_in(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_MAX", 2)
    with Peer(serving.state_dir) as first, Peer(serving.state_dir) as second:
        with Peer(serving.state_dir, hello=None) as third:
            [said] = third.rest()
            assert b"authority_overloaded" in said
        assert results([first.ask(add(1)), second.ask(add(2))]) == {1: None, 2: None}


@stands_on("OUTPUT_BYTES_MAX")
def test_so_much_may_a_connection_leave_unread(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTPUT_BYTES_MAX", 2_000_000)
    monkeypatch.setattr(limits, "BATCH_MAX", 8)  # answers of one batch are written together
    text = "x" * limits.TEXT_LENGTH_MAX
    with Peer(serving.state_dir) as modest, Peer(serving.state_dir) as slow:
        modest.ask(add(0, notes=text))
        modest.send(*(show(mark, "i0") for mark in range(14)))
        slow.send(*(show(mark, "i0") for mark in range(60)))
        assert len(slow.rest()) < 60
        assert results(modest.answers(14)) == dict.fromkeys(range(14))


# --- errands --------------------------------------------------------------------------------------


@stands_on("ERRAND_LINES_MAX")
def test_so_many_lines_are_in_one_errand() -> None:
    lines = [(Door("mcp"), b"{}")] * (limits.ERRAND_LINES_MAX + 1)
    assert [len(each) for each in relay_message.parcels(lines)] == [limits.ERRAND_LINES_MAX, 1]
    found = relay_message.unpacked(relay_message.packed(lines[1:]), frozen_clock=False)
    assert found == [(Door("mcp"), [b"{}"] * limits.ERRAND_LINES_MAX)]
    more = relay_message.unpacked(relay_message.packed(lines), frozen_clock=False)
    assert isinstance(more, Garbage)
    assert more.reason is Reason.AUTHORITY_ERRAND_INVALID


@stands_on("ERRAND_BYTES_MAX")
def test_so_many_bytes_are_in_one_errand() -> None:
    longest = (Door("mcp"), b"x" * limits.REQUEST_BYTES_MAX)
    for each in relay_message.parcels([longest, (Door("cli"), b"{}")] * 5):
        assert len(relay_message.packed(each)) <= limits.ERRAND_BYTES_MAX
    body = relay_message.packed([longest, longest])
    fits = body[: limits.ERRAND_BYTES_MAX]
    assert not isinstance(relay_message.unpacked(fits, frozen_clock=False), Garbage)
    assert isinstance(relay_message.unpacked(body, frozen_clock=False), Garbage)


@stands_on("REPLY_BYTES_MAX")
def test_so_many_bytes_are_in_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPLY_BYTES_MAX", 100)
    answers = [b'{"id":%d,"x":"%s"}' % (mark, b"x" * 30) for mark in range(2)]
    fits = b"".join(each + b"\n" for each in answers)
    assert relay_message.bounded(fits, 7) == fits
    over = relay_message.bounded(fits + b'{"id":2,"x":"12"}\n', 7).splitlines()
    assert over[:2] == answers
    assert b'"id":2' in over[2]
    assert b"authority_answer_too_long" in over[2]


@stands_on("ERRAND_PATIENCE_MS")
def test_an_errand_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = relay_message.Errand([(Door("mcp"), b"{}")], 0)
    wait_s = limits.ERRAND_PATIENCE_MS / 1000
    monkeypatch.setattr(
        "understudy.authority.journal.relay_message.time.monotonic", lambda: sent.begun_s + wait_s
    )
    assert not sent.is_late
    monkeypatch.setattr(
        "understudy.authority.journal.relay_message.time.monotonic",
        lambda: sent.begun_s + wait_s + 0.001,
    )
    assert sent.is_late


@stands_on("ERRANDS_SENT_MAX")
def test_so_many_errands_of_a_standby_are_on_their_way(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[relay_message.Errand] = []
    post = SimpleNamespace(messenger=lambda _: SimpleNamespace(send=sent.append))
    monkeypatch.setattr(serving.office.journal, "post", post, raising=False)

    async def fill() -> None:
        relay = Relay(serving.office, lambda: None, frozen_clock=False)
        while relay.has_room:
            relay.hand_on([(SimpleNamespace(door=Door("mcp")), [b"{}"])])

    asyncio.run(fill())
    assert len(sent) == limits.ERRANDS_SENT_MAX
