"""Lines in, however they are cut, and answers out, in order."""

from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import (
    HELLO,
    TOO_LARGE,
    Peer,
    add,
    lines_of,
    refusal,
    results,
    show,
)
from tests.authority.sidecar.serving import Serving, prove, rows_of
from understudy.contracts import limits

# --- frames ---------------------------------------------------------------------------------------


def test_a_frame_may_come_byte_by_byte(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        for byte in lines_of(add(1)):
            peer.write(bytes([byte]))
        assert peer.answer()["id"] == 1


def test_frames_that_are_cut_anywhere_are_put_together(serving: Serving) -> None:
    data = lines_of(*(add(mark) for mark in range(60)))
    with Peer(serving.state_dir) as peer:
        for start in range(0, len(data), 37):
            peer.write(data[start : start + 37])
        assert [answer["id"] for answer in peer.answers(60)] == list(range(60))


def test_blank_lines_are_nothing_and_a_carriage_return_is_blank(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(b"\n\r\n" + orjson.dumps(HELLO) + b"\r\n")
        assert "hello" in peer.answer()
        peer.write(b"\n \n\t\n\r\n" + orjson.dumps(add(1)) + b"\r\n\n" + lines_of(add(2)))
        assert results(peer.answers(2)) == {1: None, 2: None}


@pytest.mark.parametrize("extra", [1, 300_000, 5_000_000])
def test_a_frame_that_is_too_long_is_refused_and_the_next_is_heard(
    serving: Serving, extra: int
) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(b"[" * (limits.REQUEST_BYTES_MAX + extra) + b"\n" + lines_of(add(1)))
        by_class = {refusal(answer): answer for answer in peer.answers(2)}
        assert set(by_class) == {TOO_LARGE, None}
        assert by_class[None]["id"] == 1
        assert peer.ask(add(2))["id"] == 2


def test_a_frame_that_is_too_long_is_refused_before_its_end(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(b"x" * (limits.REQUEST_BYTES_MAX + 1))
        assert refusal(peer.answer()) == TOO_LARGE
        peer.write(b"x" * (3 * limits.REQUEST_BYTES_MAX))
        peer.write(b"\n" + lines_of(add(1)))
        assert peer.answer()["id"] == 1, "one refusal for one frame"


def test_the_longest_frame_is_taken(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(orjson.dumps(add(1)).ljust(limits.REQUEST_BYTES_MAX) + b"\n")
        assert refusal(peer.answer()) is None


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"\xff\xfe", b'{"id":1}', b'{"action":"no.such","payload":{}}', b"\0"],
)
def test_garbage_is_answered_in_its_turn_and_leaves_no_row(serving: Serving, line: bytes) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(lines_of(add(1)) + line + b"\n" + lines_of(add(2)))
        first, garbage, second = peer.answers(3)
        assert (first["id"], second["id"]) == (1, 2)
        assert garbage["result"] == "rejected"
        assert (first["seq"], second["seq"]) == (1, 2)


# --- answers --------------------------------------------------------------------------------------


def test_answers_come_in_order_and_carry_the_id_of_their_request(serving: Serving) -> None:
    marks: list[Any] = [7, "seven", 0, -1, "", "é", 2**53 - 1, None, 7]
    with Peer(serving.state_dir) as peer:
        peer.send(*({"id": mark, "action": "issue.list", "payload": {}} for mark in marks))
        assert [answer.get("id") for answer in peer.answers(len(marks))] == marks


def test_a_read_sees_what_was_asked_for_before_it(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(show(1, "i2"), add(2), show(3, "i2"))
        assert results(peer.answers(3)) == {1: "issue_not_found", 2: None, 3: None}


def test_many_requests_are_in_flight_on_many_connections(serving: Serving) -> None:
    peers = [Peer(serving.state_dir) for _ in range(24)]
    try:
        for round_ in range(4):
            for place, peer in enumerate(peers):
                marks = range(place * 1000 + round_ * 25, place * 1000 + round_ * 25 + 25)
                peer.send(*(add(mark) for mark in marks))
        for place, peer in enumerate(peers):
            answers = peer.answers(100)
            assert [each["id"] for each in answers] == [place * 1000 + n for n in range(100)]
            assert [each["seq"] for each in answers] == sorted(each["seq"] for each in answers)
            assert not any(map(refusal, answers))
    finally:
        for peer in peers:
            peer.close()
    assert len(rows_of(serving.state_dir)) == 2400
    assert sum(serving.commits.sizes) == 2400
    prove(serving.state_dir)


def test_an_answer_is_the_answer_of_its_row_byte_for_byte(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(add(1), add(2))
        lines = [peer.line(), peer.line()]
    rows = rows_of(serving.state_dir)
    assert lines == [b'{"id":%d,' % row.seq + row.response[1:] + b"\n" for row in rows]
