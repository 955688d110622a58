"""Errands through a real database: carried, refused, withdrawn, settled, and never done twice."""

import queue
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add
from tests.authority.sidecar.serving import prove, rows_of
from tests.limits import stands_on
from tests.patience import PATIENCE_SECONDS, eventually
from tests.services.shared import Database
from tests.services.wire import Wire
from tests.surfaces.process import Serve
from understudy.authority import Office, Unavailable, create_state_dir
from understudy.authority.journal.journal_url import JournalUrl, parsed
from understudy.authority.journal.postgres import PostgresJournal
from understudy.authority.journal.relay_message import Errand, RelayReply, TakenErrand
from understudy.authority.service.client import Client, ClientCall
from understudy.contracts import Door, Reason, limits

DOOR = Door("mcp")


def errand(*requests: dict[str, Any]) -> Errand:
    return Errand([(DOOR, orjson.dumps(each)) for each in requests], 0)


def safe(mark: int) -> dict[str, Any]:
    return add(mark, requestId=f"r{mark}")


def failures(found: Errand) -> list[str | None]:
    answers = [orjson.loads(answer or b"") for answer in found.answers]
    return [next(iter(each["failureClasses"]), None) for each in answers]


class Sender:
    """A standby: what it sends, and what comes back."""

    def __init__(self, place: JournalUrl) -> None:
        self.journal = PostgresJournal(place)
        self.back: queue.SimpleQueue[Errand] = queue.SimpleQueue()
        self.messenger = self.journal.messenger(self.back.put)

    def send(self, *errands: Errand) -> None:
        for each in errands:
            self.messenger.send(each)

    def next(self) -> Errand:
        return self.back.get(timeout=PATIENCE_SECONDS)

    def close(self) -> None:
        self.messenger.leave()
        self.journal.close()


class Taker:
    """An active authority that does what the test says."""

    def __init__(self, place: JournalUrl) -> None:
        self.journal = PostgresJournal(place)
        self.journal.acquire_epoch()
        self.taken: queue.SimpleQueue[TakenErrand] = queue.SimpleQueue()
        self.inbox = self.journal.inbox(self._take, frozen_clock=False)

    def _take(self, taken: list[TakenErrand]) -> None:
        for each in taken:
            self.taken.put(each)

    def next(self) -> TakenErrand:
        return self.taken.get(timeout=PATIENCE_SECONDS)

    def reply(self, taken: TakenErrand, lines: bytes) -> None:
        reply = RelayReply(taken.asker, taken.number, None, lines)
        self.inbox.answer([reply], written=False)

    def close(self) -> None:
        self.inbox.close()
        self.journal.close()


@pytest.fixture
def sender(place: JournalUrl) -> Iterator[Sender]:
    with closing(Sender(place)) as found:
        yield found


@contextmanager
def patience(monkeypatch: pytest.MonkeyPatch, ms: int) -> Iterator[None]:
    with monkeypatch.context() as patched:
        patched.setattr(limits, "ERRAND_PATIENCE_MS", ms)
        yield


# --- there and back -------------------------------------------------------------------------------


def test_errands_are_taken_and_come_back_in_their_order(place: JournalUrl, sender: Sender) -> None:
    errands = [errand(add(mark), add(-mark)) for mark in range(1, 6)]
    with closing(Taker(place)) as taker:
        sender.send(*errands)
        taken = [taker.next() for _ in errands]
        asked = [orjson.loads(line)["id"] for each in taken for line in each.runs[0][1]]
        assert asked == [1, -1, 2, -2, 3, -3, 4, -4, 5, -5]
        for each in reversed(taken):
            taker.reply(each, b'{"a":1}\n{"a":2}\n')
        assert [sender.next() for _ in errands] == errands
    assert errands[3].run(0, 2) == b'{"a":1}\n{"a":2}\n'
    assert taken[0].runs[0][0] == DOOR


def test_nothing_is_left_behind(place: JournalUrl, server: Database) -> None:
    with closing(Taker(place)) as taker, closing(Sender(place)) as sender:
        sender.send(errand(add(1)))
        taker.reply(taker.next(), b"{}\n")
        sender.next()
        sender.send(errand(add(2)))
        taker.next()
    assert count(server, place, "errand") == count(server, place, "reply") == 0


def test_what_no_standby_writes_is_refused(place: JournalUrl, server: Database) -> None:
    bodies = [b"", b"\xff\x00", b"[]\nx", b'{"errand":2,"runs":[["mcp",false,1]]}\nx']
    bodies += [b'{"errand":1,"runs":[["%s",false,%d]]}\nx' % each for each in _HEADERS]
    bodies += [b'{"errand":1,"runs":[["mcp",false,1]]}\n' + b"x" * limits.ERRAND_BYTES_MAX]
    bodies += [b'{"errand":1,"runs":[["mcp",false,999]]}' + b"\nx" * 999]
    bodies += [b'{"errand":1,"runs":%s}\nx' % each for each in (b"7", b"[7]", b'[["mcp",0,1]]')]
    with closing(Taker(place)) as taker:
        with server.connect() as db:
            for number, body in enumerate(bodies):
                insert = (
                    f"INSERT INTO {place.schema}.errand (asker, number, body) VALUES ('x', %s, %b)"
                )
                db.execute(insert, (number, body))
        eventually(lambda: count(server, place, "reply") == len(bodies))
        eventually(lambda: count(server, place, "errand") == 0)
        assert taker.taken.empty()
        with server.connect() as db:
            query = f"SELECT DISTINCT reason, lines FROM {place.schema}.reply"
            assert db.execute(query).fetchall() == [(Reason.AUTHORITY_ERRAND_INVALID.value, b"")]


_HEADERS = ((b"door", 1), (b"mcp", 2), (b"mcp", 0), (b"mcp", -1))


def test_a_strangers_reply_is_ignored(place: JournalUrl, server: Database, sender: Sender) -> None:
    with closing(Taker(place)) as taker:
        sender.send(errand(add(1)))
        taken = taker.next()
        for number, lines in ((taken.number, b"torn"), (taken.number, b"a\nb\n"), (99, b"{}\n")):
            forge(server, place, taken.asker, number, lines)
        taker.reply(taken, b"{}\n")
        assert sender.next().run(0, 1) == b"{}\n"


def test_an_errand_that_was_not_read_says_so(
    place: JournalUrl, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(Taker(place)), monkeypatch.context() as patched:
        patched.setattr("understudy.authority.journal.relay_message.VERSION", 2)
        found = errand(add(1))
        found.body = lambda: b"from another version"  # type: ignore[method-assign]  # of this message alone
        sender.send(found)
        assert failures(sender.next()) == ["authority_errand_invalid"]


@stands_on("ERRANDS_TAKEN_MAX")
def test_so_many_errands_are_in_hand_at_once(
    place: JournalUrl, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ERRANDS_TAKEN_MAX", 2)
    with closing(Taker(place)) as taker:
        sender.send(*(errand(add(mark)) for mark in range(3)))
        one, two = taker.next(), taker.next()
        assert taker.taken.empty()
        taker.reply(one, b"{}\n")
        taker.reply(taker.next(), b"{}\n")
        taker.reply(two, b"{}\n")
        assert all(sender.next().is_whole for _ in range(3))


@stands_on("ERRAND_AGE_MS", "REPLY_AGE_MS")
def test_what_is_old_is_swept_away(place: JournalUrl, server: Database) -> None:
    ages = {"errand": limits.ERRAND_AGE_MS, "reply": limits.REPLY_AGE_MS}
    with server.connect() as db:
        for table, age_ms in ages.items():
            column = "body" if table == "errand" else "lines"
            for number, more_ms in enumerate((-10_000, 1_000)):
                db.execute(
                    f"INSERT INTO {place.schema}.{table} (asker, number, {column}, written)"
                    " VALUES ('x', %s, '', clock_timestamp() - %s * interval '1 ms')",
                    (number + 10 * (table == "reply"), age_ms + more_ms),
                )
    with closing(Taker(place)):
        eventually(lambda: count(server, place, "errand") == 0)  # the younger one is refused
        with server.connect() as db:
            query = f"SELECT number FROM {place.schema}.reply ORDER BY number"
            assert db.execute(query).fetchall() == [(0,), (10,)]


# --- no answer comes ------------------------------------------------------------------------------


def test_an_errand_that_was_not_taken_is_taken_back_and_surely_not_done(
    place: JournalUrl, sender: Sender, server: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    with patience(monkeypatch, 50):
        sender.send(errand(add(1), safe(2)))
        assert failures(sender.next()) == ["authority_standby"] * 2
    assert count(server, place, "errand") == 0


def test_an_errand_that_was_taken_is_doubted_unless_it_can_be_asked_again(
    place: JournalUrl, sender: Sender, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = {"id": 3, "action": "issue.show", "payload": {"id": "a"}}
    with closing(Taker(place)) as taker:
        sender.send(errand(add(1), safe(2), show, {"id": 4}))
        taker.next()
        with patience(monkeypatch, 0):
            unknown, standby = "authority_outcome_unknown", "authority_standby"
            assert failures(sender.next()) == [unknown, standby, standby, standby]


def test_what_the_database_has_lost_is_asked_again_where_that_is_safe(
    place: JournalUrl, server: Database, sender: Sender
) -> None:
    with closing(Taker(place)) as taker:
        sender.send(errand(add(1), safe(2)))
        taker.next()
        with server.connect() as db:  # as after a crash
            db.execute(f"TRUNCATE {place.schema}.errand")
            db.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'understudy'"
            )
        again = taker.next()
        assert [orjson.loads(line)["id"] for line in again.runs[0][1]] == [2]
        taker.reply(again, b'{"failureClasses":[]}\n')
        assert failures(sender.next()) == ["authority_outcome_unknown", None]


def test_without_a_database_everybody_is_told_in_time(
    server: Database, url: str, place: JournalUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.authority.journal.postgres.bell.ANSWER_SECONDS", 0.2)
    with Wire(server.socket) as wire, closing(Sender(parsed(server.through(wire, url)))) as sender:
        with patience(monkeypatch, 200):
            sender.send(errand(safe(1)))
            assert failures(sender.next()) == ["authority_standby"]
            wire.cut()
            sender.send(errand(add(2)))
            sender.send(errand(safe(3)))
            assert failures(sender.next())[0] in {"authority_outcome_unknown", "authority_standby"}
            assert failures(sender.next()) == ["authority_standby"]
        wire.heal()
        with closing(Taker(place)) as taker:
            sender.send(errand(add(4)))
            while b'"id":4' not in (taken := taker.next()).runs[0][1][0]:
                pass  # what was on the wire arrives late; its asker has been told
            taker.reply(taken, b"{}\n")
            assert sender.next().run(0, 1) == b"{}\n"


# --- it is our turn -------------------------------------------------------------------------------


def test_an_authority_that_takes_over_knows_what_was_done_and_what_was_not(
    place: JournalUrl, sender: Sender, server: Database
) -> None:
    done, undone, lost = errand(add(1)), errand(add(2)), errand(add(3), safe(4))
    with closing(Taker(place)) as taker:
        sender.send(undone, done, lost)
        first, second, third = (taker.next() for _ in range(3))
        taker.reply(second, b"{}\n")
        eventually(lambda: done.is_whole)
        with server.connect() as db:
            query = f"DELETE FROM {place.schema}.errand WHERE number = %s"
            db.execute(query, (third.number,))
        left = sender.messenger.close()
    sender.journal.acquire_epoch()
    sender.journal.settle(left)
    assert left == [undone, done, lost]
    assert [line for _, line in undone.missing] == [orjson.dumps(add(2))]
    assert done.run(0, 1) == b"{}\n"
    assert [line for _, line in lost.missing] == [orjson.dumps(safe(4))], "3 is doubted"
    assert first.count == 1
    assert count(server, place, "errand") == 0


def test_another_messenger_goes_on_where_one_has_stopped(place: JournalUrl, sender: Sender) -> None:
    sent, unsent = errand(add(1)), errand(add(2))
    with closing(Taker(place)) as taker:
        sender.send(sent)
        first = taker.next()
        assert sender.messenger.close() == [sent]
        sender.messenger = sender.journal.messenger(sender.back.put)
        sender.send(sent, unsent)
        second = taker.next()
        assert orjson.loads(second.runs[0][1][0])["id"] == 2, "the first was not asked again"
        taker.reply(second, b"{}\n")
        taker.reply(first, b"{}\n")
        assert [sender.next(), sender.next()] == [sent, unsent]


def test_a_reply_is_there_with_its_rows_or_not_at_all(
    place: JournalUrl, server: Database, tmp_path: Path, url: str
) -> None:
    create_state_dir(tmp_path / "home", "n1", url)
    reply = RelayReply("x", 1, None, b"{}\n")
    with Office(tmp_path / "home") as office:
        office.journal.post.enclose([reply])
        assert office.ask("issue.add", {"title": "t"})["seq"] == 1
        assert count(server, place, "reply") == 1
        assert office.ask("issue.add", {"title": "t"})["seq"] == 2
        assert count(server, place, "reply") == 1
        with closing(PostgresJournal(place)) as other:
            other.acquire_epoch()
        office.journal.post.enclose([reply])
        with pytest.raises(Unavailable):
            office.ask("issue.add", {"title": "t"})
    assert count(server, place, "reply") == 1


def test_a_successor_takes_what_has_no_reply_and_nothing_that_has_one(
    place: JournalUrl, sender: Sender
) -> None:
    with closing(Taker(place)) as first:
        sender.send(errand(add(1)), errand(add(2)))
        one, two = first.next(), first.next()
        with closing(Taker(place)) as second:
            assert {second.next().number, second.next().number} == {one.number, two.number}
            second.reply(two, b"{}\n")
            with closing(Taker(place)) as third:
                assert third.next().number == one.number
                sender.send(errand(add(3)))
                found = third.next()
                assert orjson.loads(found.runs[0][1][0])["id"] == 3
                third.reply(one, b"{}\n")
                third.reply(found, b"{}\n")
                assert [len(sender.next().answers) for _ in range(3)] == [1, 1, 1]
        assert first.taken.empty(), "it was deposed"


# --- two and three hosts --------------------------------------------------------------------------


@pytest.fixture
def homes(tmp_path: Path, url: str) -> list[Path]:
    found = [tmp_path / name for name in ("one", "two")]
    for home in found:
        create_state_dir(home, "n1", url)
    return found


@pytest.mark.parametrize("moment", ["append.begun", "append.committed"])
def test_lines_without_a_request_id_are_done_once_when_the_active_one_dies(
    homes: list[Path], moment: str
) -> None:
    """No name protects them: only that rows and replies are committed together."""
    dies = {"UNDERSTUDY_FAILPOINT": f"{moment}:3"}
    with (
        Serve(homes[0], env=dies).ready() as first,
        Serve(homes[1]).ready(),
        Peer(homes[1]) as peer,
    ):
        answers: list[dict[str, Any]] = []
        for start in range(0, 100, 20):
            peer.send(*map(_nameless, range(start, start + 20)))
            answers += peer.answers(20)
        assert first.wait() == -signal.SIGKILL
        assert [each["result"] for each in answers] == ["accepted"] * 100
        assert [each["id"] for each in answers] == [*range(100)]
    titles = [orjson.loads(row.request)["payload"]["title"] for row in rows_of(homes[1])]
    assert titles == [f"t{number}" for number in range(100)]
    prove(homes[1])


def _nameless(mark: int) -> dict[str, Any]:
    return {"id": mark, "action": "issue.add", "payload": {"title": f"t{mark}"}}


def test_many_clients_of_a_standby_are_not_starved_by_those_of_the_active_one(
    homes: list[Path],
) -> None:
    over = threading.Event()

    def flood() -> None:
        with Client(homes[0], "mcp") as client:
            while not over.is_set():
                client.ask_many([ClientCall("issue.add", {"title": "t"})] * 1_000)

    with Serve(homes[0]).ready(), Serve(homes[1]).ready():
        floods = [threading.Thread(target=flood) for _ in range(2)]
        for each in floods:
            each.start()
        try:
            with Client(homes[0], "mcp") as local, Client(homes[1], "mcp") as relayed:
                spent = [_seconds(client) for client in (local, relayed)]
        finally:
            over.set()
            for each in floods:
                each.join()
    assert spent[1] < 10 * spent[0] + 1, spent


def _seconds(client: Client) -> float:
    begun = time.monotonic()
    for _ in range(5):
        assert client.ask("issue.add", {"title": "mine"})["result"] == "accepted"
    return time.monotonic() - begun


def test_doors_are_kept(homes: list[Path]) -> None:
    """A weak door of a standby's host is a weak door of the active one."""
    doors: tuple[Any, ...] = ("mcp", "local-repl", "cli")
    with Serve(homes[0]).ready(), Serve(homes[1]).ready():
        said = []
        for home in homes:
            for door in doors:
                with Client(home, door) as client:
                    answer = client.ask("issue.add", {"title": "t"})
                    said.append(answer.get("effect", answer).get("transport", answer["result"]))
    assert said[:3] == said[3:]
    assert len(set(said)) > 1


def count(server: Database, place: JournalUrl, table: str) -> int:
    with server.connect() as db:
        ((found,),) = db.execute(f"SELECT count(*) FROM {place.schema}.{table}").fetchall()
        assert isinstance(found, int)
        return found


def forge(server: Database, place: JournalUrl, asker: str, number: int, lines: bytes) -> None:
    with server.connect() as db:
        insert = f"INSERT INTO {place.schema}.reply (asker, number, lines) VALUES (%s, %s, %b)"
        db.execute(insert, (asker, number, lines))
