"""The sender of spans: nothing is lost, wherever it is stopped and whoever is away."""

import threading
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from understudy.actors.run import span_sender
from understudy.actors.run.span_sender import POSITION, SpanSender, follow, send_all
from understudy.authority import Office, Unavailable, create_state_dir, open_journal
from understudy.authority.views.spans import WorkSpan
from understudy.contracts import Reason


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "n1")
    return folder


def done(state_dir: Path, *names: str, is_closed: bool = True) -> None:
    """Issues that were added and claimed, and closed."""
    with Office(state_dir) as office:
        for name in names:
            office.ask("issue.add", {"id": name, "title": "t"})
            lease = office.ask("issue.claim", {"id": name, "assignee": "x"})["issue"]["lease"]
            proof = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
            if is_closed:
                office.ask("issue.close", {"id": name, "assignee": "x", **proof})


def close(state_dir: Path, name: str) -> None:
    with Office(state_dir) as office:
        lease = office.ask("issue.show", {"id": name})["issue"]["lease"]
        proof = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
        answer = office.ask("issue.close", {"id": name, "assignee": "x", **proof})
        assert answer["result"] == "accepted"


class Inbox:
    """Who is sent to; takes nothing while it is away, and so many batches before it goes."""

    def __init__(self) -> None:
        self.spans: list[WorkSpan] = []
        self.batches = 0
        self.is_away = False

    def send(self, spans: Sequence[WorkSpan]) -> bool:
        if not self.is_away:
            self.spans += spans
            self.batches += 1
        return not self.is_away

    def names(self) -> list[str]:
        return [f"{each.name} {each.resource}" for each in self.spans]


def opened(state_dir: Path, inbox: Inbox, *, from_start: bool = False) -> SpanSender:
    return SpanSender(state_dir, state_dir / "run", inbox.send, from_start=from_start)


BOTH = ["attempt issue/a", "issue issue/a", "attempt issue/b", "issue issue/b"]


def test_what_was_sent_is_not_sent_again_and_what_was_open_is_sent_when_it_ends(
    state_dir: Path,
) -> None:
    inbox = Inbox()
    with opened(state_dir, inbox) as sender:
        assert send_all(sender), "an empty journal is no trouble"
    done(state_dir, "a")
    done(state_dir, "b", is_closed=False)
    for _ in range(2):
        with opened(state_dir, inbox) as sender:
            assert send_all(sender)
            assert sender.sent_seq == 5
    assert inbox.names() == BOTH[:2]
    known = orjson.loads((state_dir / "run" / POSITION).read_bytes())
    assert (known["sentSeq"], known["afterSeq"]) == (5, 3), "b was added by row 4"
    close(state_dir, "b")
    with opened(state_dir, inbox) as sender:
        assert send_all(sender)
    assert inbox.names() == BOTH
    assert inbox.spans[2].start_ms >= inbox.spans[3].start_ms > 0


def test_who_is_away_loses_nothing_and_gets_it_once_it_is_back(state_dir: Path) -> None:
    inbox = Inbox()
    inbox.is_away = True
    done(state_dir, "a")
    with opened(state_dir, inbox) as sender:
        assert [sender.turn() for _ in range(3)] == ["away"] * 3
        done(state_dir, "b")
        assert not send_all(sender)
        inbox.is_away = False
        assert send_all(sender)
    assert inbox.names() == BOTH


def test_a_sender_that_is_killed_before_it_wrote_sends_the_same_spans_again(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done(state_dir, "a")
    inbox = Inbox()

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SpanSender, "_remember", killed)
        with opened(state_dir, inbox) as sender, pytest.raises(KeyboardInterrupt):
            send_all(sender)
    with opened(state_dir, inbox) as sender:
        assert send_all(sender)
    assert inbox.spans[:2] == inbox.spans[2:]


def test_many_spans_are_sent_in_batches(state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_sender, "BATCH_MAX", 3)
    done(state_dir, "a", "b")
    inbox = Inbox()
    with opened(state_dir, inbox) as sender:
        assert send_all(sender)
        assert sender.count == 4
    assert (inbox.names(), inbox.batches) == (BOTH, 2)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b'{"origin":"other","sentSeq":3,"afterSeq":0}',
        b'{"origin":"ORIGIN","sentSeq":99,"afterSeq":0}',
        b'{"origin":"ORIGIN","sentSeq":1,"afterSeq":2}',
        b'{"origin":"ORIGIN","sentSeq":"x","afterSeq":2}',
    ],
)
def test_a_position_that_is_none_of_this_journal_begins_anew(state_dir: Path, text: bytes) -> None:
    done(state_dir, "a")
    with open_journal(state_dir, read_only=True) as journal:
        row = journal.row(1)
    assert row is not None
    (state_dir / "run").mkdir()
    (state_dir / "run" / POSITION).write_bytes(text.replace(b"ORIGIN", row.digest.encode()))
    inbox = Inbox()
    with opened(state_dir, inbox) as sender:
        assert send_all(sender)
    assert inbox.names() == BOTH[:2]


def test_all_is_sent_again_where_that_is_asked_for(state_dir: Path) -> None:
    done(state_dir, "a")
    inbox = Inbox()
    for from_start in (False, True):
        with opened(state_dir, inbox, from_start=from_start) as sender:
            assert send_all(sender)
    assert inbox.names() == BOTH[:2] * 2


def test_one_sender_at_a_time(state_dir: Path) -> None:
    inbox = Inbox()
    with opened(state_dir, inbox), pytest.raises(Unavailable) as refused:
        opened(state_dir, inbox)
    assert refused.value.reason is Reason.AUTHORITY_BUSY


def test_following_ends_with_what_there_is_when_it_is_told_to(state_dir: Path) -> None:
    done(state_dir, "a", "b")
    inbox, stop = Inbox(), threading.Event()
    stop.set()
    with opened(state_dir, inbox) as sender:
        follow(sender, stop)
    assert inbox.names() == BOTH
    inbox.is_away = True
    done(state_dir, "c")
    with opened(state_dir, inbox) as sender:
        follow(sender, stop)  # and does not wait for who is away
    assert inbox.names() == BOTH
