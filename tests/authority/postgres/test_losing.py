"""A connection that is lost, held up or deaf: rows are there once, and no journal guesses."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

import pytest

from tests.authority.postgres.test_journal import a_row, refused
from tests.patience import eventually
from tests.services.shared import Database
from tests.services.wire import Wire
from understudy.authority.journal.journal import Unavailable
from understudy.authority.journal.journal_url import JournalUrl, parsed
from understudy.authority.journal.postgres import PostgresJournal, link
from understudy.authority.journal.postgres import journal as engine
from understudy.contracts import Reason


@pytest.fixture
def wire(server: Database) -> Iterator[Wire]:
    with Wire(server.socket) as found:
        yield found


@pytest.fixture
def active(server: Database, url: str, place: JournalUrl, wire: Wire) -> Iterator[PostgresJournal]:
    """At the far end of the wire, in epoch 1, with one row."""
    with closing(PostgresJournal(parsed(server.through(wire, url)))) as found:
        found.append([a_row(1, found.acquire_epoch())], 0, 1)
        yield found


@pytest.fixture
def near(place: JournalUrl) -> Iterator[PostgresJournal]:
    """With a connection that nothing is wrong with."""
    with closing(PostgresJournal(place)) as found:
        yield found


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link.Link, "answer_seconds", 0.3)


def later(call: Callable[[], object]) -> Callable[[], BaseException | None]:
    """Do it in a thread; then wait for it, and say what went wrong."""
    wrong: list[BaseException] = []

    def run() -> None:
        try:
            call()
        except Unavailable as error:
            wrong.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def ended() -> BaseException | None:
        thread.join(60)
        assert not thread.is_alive()
        return wrong[0] if wrong else None

    return ended


def append(journal: PostgresJournal) -> None:
    journal.append([a_row(2), a_row(3)], 1, 1)


def test_a_commit_whose_answer_is_lost_is_found_and_not_done_again(
    active: PostgresJournal, near: PostgresJournal, wire: Wire
) -> None:
    strand = wire.strands[0]
    strand.deaf = True
    ended = later(lambda: append(active))
    assert strand.swallowed.wait(60)
    eventually(lambda: near.last_seq() == 3)
    strand.reset()
    assert ended() is None
    assert [row._replace(epoch=1) for row in near.read()] == [a_row(1), a_row(2), a_row(3)]
    assert {row.epoch for row in near.read(1)} == {1}, "it is the first one that was committed"
    active.append([a_row(4)], 3, 1)
    assert near.row(4) == a_row(4, near.epoch()), "under the epoch that settled it"


def test_a_request_that_is_lost_is_done_on_the_next_connection(
    active: PostgresJournal, near: PostgresJournal, wire: Wire
) -> None:
    strand = wire.strands[0]
    strand.hold("up")
    ended = later(lambda: append(active))
    strand.reset()
    assert ended() is None
    assert [row.seq for row in near.read()] == [1, 2, 3]


@pytest.mark.usefixtures("hasty")
def test_a_request_that_arrives_after_it_was_given_up_does_nothing(
    active: PostgresJournal, near: PostgresJournal, wire: Wire
) -> None:
    strand = wire.strands[0]
    strand.hold("up")
    append(active)
    rows = list(near.read())
    strand.release()
    assert strand.ended.wait(60), "the server has dealt with it"
    assert list(near.read()) == rows
    assert {row.epoch for row in rows[1:]} == {2}


@pytest.mark.usefixtures("hasty")
def test_a_journal_that_is_cut_off_and_deposed_commits_nothing_even_late(
    active: PostgresJournal, near: PostgresJournal, wire: Wire
) -> None:
    strand = wire.strands[0]
    wire.cut()
    ended = later(lambda: append(active))
    eventually(lambda: len(wire.strands) > 1)  # it has given up, and tries again
    epoch = near.acquire_epoch()
    wire.heal()
    error = ended()
    assert isinstance(error, Unavailable)
    assert error.reason is Reason.JOURNAL_DEPOSED
    assert strand.ended.wait(60)
    assert near.last_seq() == 1
    near.append([a_row(2, epoch)], 1, epoch)
    with refused(Reason.JOURNAL_DEPOSED):
        active.confirm()


@pytest.mark.usefixtures("hasty")
def test_an_outcome_that_cannot_be_known_is_not_given(
    active: PostgresJournal,
    near: PostgresJournal,
    wire: Wire,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(engine, "_RETRY_SECONDS", 0.5)
    monkeypatch.setitem(link._HABITS, "connect_timeout", 2)  # the least that libpq takes
    strand = wire.strands[0]
    strand.deaf = True
    wire._is_cut = True  # for every connection from now on
    with refused(Reason.JOURNAL_UNREACHABLE):
        append(active)
    assert near.last_seq() == 3, "it was committed, and it was right not to say no"


def test_reads_go_on_after_the_connection_was_reset(active: PostgresJournal, wire: Wire) -> None:
    wire.reset()
    assert active.last_seq() == 1
    assert active.node() == "n1"


# --- who is active --------------------------------------------------------------------------------


@pytest.fixture
def brisk(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOLD_MS": 100, "LAPSE_MS": 900}.items():
        monkeypatch.setattr(engine, name, value)


@pytest.mark.usefixtures("brisk", "hasty")
def test_a_standby_takes_over_when_there_is_no_sign_of_life_and_not_before(
    active: PostgresJournal, near: PostgresJournal, wire: Wire
) -> None:
    since = link.now_s()
    while link.now_s() < since + 2:  # longer than a lapse, with beats
        assert near.stand_in() is None
    wire.cut()
    eventually(near.stand_in)
    assert near.leads
    wire.heal()
    with refused(Reason.JOURNAL_DEPOSED):
        active.confirm()
    assert not active.leads


@pytest.mark.usefixtures("brisk")
def test_of_many_standbys_one_takes_over(place: JournalUrl, near: PostgresJournal) -> None:
    near.acquire_epoch()
    near.close()
    journals = [PostgresJournal(place) for _ in range(8)]
    taken: list[int | None] = []
    ended = [later(partial(_stand_in, each, taken)) for each in journals]
    assert [each() for each in ended] == [None] * 8
    assert [epoch for epoch in taken if epoch is not None] == [2]
    for each in journals:
        each.close()


def _stand_in(journal: PostgresJournal, taken: list[int | None]) -> None:
    taken.append(journal.stand_in())


def test_a_journal_that_ends_well_is_followed_at_once(
    place: JournalUrl, near: PostgresJournal
) -> None:
    with closing(PostgresJournal(place)) as first:
        assert first.stand_in() == 1
        assert near.stand_in() is None
    assert near.stand_in() == 2


def test_a_journal_with_the_lock_of_the_last_one_s_folder_need_not_wait(place: JournalUrl) -> None:
    first = PostgresJournal(place, home="boot.1.2")
    assert first.stand_in() == 1
    with closing(PostgresJournal(place, home="boot.1.3")) as elsewhere:
        assert elsewhere.stand_in() is None
    with closing(PostgresJournal(place, home="boot.1.2")) as again:
        assert again.stand_in() == 2
    first.close()
