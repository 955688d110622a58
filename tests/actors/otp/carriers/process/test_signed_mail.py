"""Frames as they come in: whose they are, how long they may be, and how much of one is kept."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thespian.system.transport.streamBuffer import ackDataErrMsg, ackMsg, toSendBuffer

from understudy.actors.otp.carriers.process import frames
from understudy.actors.otp.carriers.process.signed_mail import (
    MAIL_BYTES_MAX,
    BadMail,
    Incoming,
    Signed,
)

OURS, THEIRS = Signed(b"ours" * 4), Signed(b"theirs" * 4)
HEAD_BYTES_MAX = 100


def _fed(data: bytes, step: int) -> Incoming:
    incoming = Incoming(OURS)
    for start in range(0, len(data), step):
        incoming.addMore(data[start : start + step])
    return incoming


@pytest.mark.parametrize("step", [1, 20, 10_000])
def test_mail_of_ours_is_opened_however_it_is_cut(step: int) -> None:
    incoming = _fed(toSendBuffer(("me", "x" * 300), OURS.dumps), step)
    assert incoming.isDone()
    assert incoming.completed() == (("me", "x" * 300), b"")


@pytest.mark.parametrize("data", [ackMsg, ackDataErrMsg])
def test_acknowledgements_are_taken_as_thespian_makes_them(data: bytes) -> None:
    assert _fed(data, 20).completed()[0] in ("ACK", "ACK+DATAERR")


def test_mail_with_another_secret_is_refused_at_its_head() -> None:
    data = toSendBuffer(("me", "x" * 300), THEIRS.dumps)
    with pytest.raises(BadMail, match="length"):
        _fed(data[:HEAD_BYTES_MAX], 1)


def test_a_pickle_that_was_changed_is_not_opened() -> None:
    data = bytearray(toSendBuffer(("me", "x" * 300), OURS.dumps))
    data[-10] ^= 1
    with pytest.raises(BadMail, match="mark"):
        _fed(bytes(data), 50).completed()


def test_a_head_of_ours_does_not_vouch_for_another_length() -> None:
    _, _, body = toSendBuffer(("me", "x" * 300), OURS.dumps).partition(b">")
    with pytest.raises(BadMail, match="length"):
        _fed(b"%d>%s" % (len(body) + 1, body), 50)


def test_a_length_is_taken_up_to_the_bound_and_no_further() -> None:
    for length in (65, MAIL_BYTES_MAX):
        assert not _fed(b"%d>" % length, 1).isDone()
    for length in (-1, 0, 1, 17, 64, MAIL_BYTES_MAX + 1):
        with pytest.raises(BadMail):
            _fed(b"%d>" % length, 1)


@given(
    st.binary(max_size=400) | st.from_regex(rb"\A[-+0-9_ ]{0,12}>.{0,300}\Z"), st.integers(1, 90)
)
def test_of_what_strangers_say_next_to_nothing_is_kept(data: bytes, step: int) -> None:
    incoming = Incoming(OURS)
    with suppress(BadMail):
        for start in range(0, len(data), step):
            assert 0 < incoming.remainingAmount() <= MAIL_BYTES_MAX
            incoming.addMore(data[start : start + step])
    assert len(incoming._buf) <= HEAD_BYTES_MAX + step


def test_a_message_is_sent_up_to_the_bound_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", len(frames.pickled("x" * 100)))
    frames.pickled("x" * 100)
    with pytest.raises(frames.FrameTooLong, match="at most"):
        frames.pickled("x" * 101)
