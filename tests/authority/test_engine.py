"""The authority at work: batches, failures, recovery, and who may write."""

import fcntl
import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import apsw
import orjson
import pytest

from tests.authority.pair import Pair
from tests.fakes.desk import Desk, Time, asked
from tests.fakes.journal import Crash, Disk, Fault, MemoryJournal
from tests.together import together
from understudy.authority.engine import engine
from understudy.authority.engine.engine import Authority, recover
from understudy.authority.journal.journal import Entry, Head, Row, Snapshot, Unavailable
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.journal.state_dir import create_state_dir
from understudy.authority.journal.state_files import JOURNAL, TABLES, TRAJECTORY
from understudy.authority.journal.tables import Tables
from understudy.authority.law.decide import decide
from understudy.authority.law.image import dump
from understudy.authority.service.local import Office
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import verify
from understudy.contracts import limits
from understudy.contracts.reason import Reason
from understudy.contracts.requests.request import Door, Garbage, Request, parse

ADD = asked("issue.add", {"title": "t"})


def refused(reason: Reason) -> pytest.RaisesExc[Unavailable]:
    return pytest.RaisesExc(Unavailable, check=lambda error: error.reason is reason)


# --- batches --------------------------------------------------------------------------------------


def _script(random: Random) -> list[Request | Garbage]:
    """Requests of all sorts that fit together: some granted, some refused, some sent twice."""
    script: list[Request | Garbage] = []
    for place in range(40):
        key = f"i{random.randrange(4)}"
        held = {"id": key, "assignee": "ann", "leaseId": "l", "fence": random.randrange(30)}
        named = {"requestId": f"r{random.randrange(30)}"} if random.random() < 0.6 else {}
        wishes: list[tuple[str, dict[str, Any]]] = [
            ("issue.add", {"id": key, "title": "t"}),
            ("issue.claim", {"id": key, "assignee": "ann", "leaseId": "l"}),
            ("issue.claim_next", {"assignee": "bob"}),
            ("issue.close", held),
            ("issue.ready", {}),
            ("dep.add", {"id": key, "dependsOnId": "i0"}),
            ("policy.set", {"evidenceReads": random.random() < 0.5}),
        ]
        action, payload = random.choice(wishes)
        door = Door("cli" if action == "policy.set" else "mcp")
        line: dict[str, Any] = {"action": action, "payload": dict(payload)}
        if action != "issue.ready":
            line["payload"] |= named
        if random.random() < 0.3:
            line["id"] = place
        script.append(parse(orjson.dumps(line), door))
        if random.random() < 0.05:
            script.append(parse(b"garbage", door))
    return script


@together("seed", range(20))
def test_a_batch_is_decided_as_if_its_requests_came_one_by_one(seed: int) -> None:
    random = Random(seed)
    script = _script(random)
    single, whole, mixed = Desk(), Desk(), Desk()
    answers = [single.authority.submit([each])[0][0] for each in script]
    assert whole.authority.submit(script)[0] == answers
    found, rest = [], list(script)
    while rest:
        size = random.randint(1, 9)
        found += mixed.authority.submit(rest[:size])[0]
        rest = rest[size:]
    assert found == answers
    assert list(single.journal.read()) == list(whole.journal.read()) == list(mixed.journal.read())
    whole.prove()


def test_an_empty_batch_and_garbage_leave_no_row() -> None:
    desk = Desk()
    assert desk.authority.submit([]) == ([], [])
    answers, rows = desk.authority.submit([parse(b"\xff", Door("mcp")), parse(b"{}", Door("mcp"))])
    assert rows == []
    assert [orjson.loads(each)["result"] for each in answers] == ["rejected", "rejected"]
    assert (desk.authority.garbage_count, desk.authority.head) == (2, Head())


def test_garbage_is_answered_with_its_mark_its_action_and_the_last_row() -> None:
    desk = Desk()
    desk.authority.submit([ADD])
    line = b'{"id":"m","action":"issue.claim","payload":{"id":7}}'
    answer = orjson.loads(desk.authority.submit([parse(line, Door("mcp"))])[0][0])
    found = (answer["id"], answer["action"], answer["seq"], answer["failureClasses"])
    assert found == ("m", "issue.claim", 1, ["lease_invalid_payload"])
    assert "effect" not in answer


def test_a_retry_inside_the_batch_gets_the_first_answer_of_the_batch() -> None:
    desk = Desk()
    first = asked("issue.add", {"title": "t", "requestId": "r"}, mark=1)
    again = asked("issue.add", {"title": "t", "requestId": "r"}, mark=2)
    answers, rows = desk.authority.submit([first, again])
    assert len(rows) == 1
    assert answers[0].removeprefix(b'{"id":1,') == answers[1].removeprefix(b'{"id":2,')


def test_an_epoch_is_taken_with_the_first_row_and_not_before() -> None:
    journal = MemoryJournal()
    desk = Desk(journal)
    desk.ask("issue.ready")
    assert journal.disk.epoch == 0
    desk.grant("issue.add", title="t")
    desk.grant("issue.add", title="t")
    assert journal.disk.epoch == 1


# --- two steps ------------------------------------------------------------------------------------


def test_a_batch_may_be_proposed_before_the_last_one_is_committed() -> None:
    journal = MemoryJournal()
    authority = Authority(journal, Time().clock())
    named = asked("issue.add", {"title": "t", "requestId": "r"})
    first, second, third = (authority.propose([each]) for each in (named, ADD, named))
    assert journal.disk.rows == []
    assert third.answers.lines() == first.answers.lines()
    assert third.rows == []
    for each in (first, second, third):
        authority.commit(each)
    assert [row.seq for row in journal.disk.rows] == [1, 2]
    assert authority.propose([named]).answers.lines() == first.answers.lines()


def test_what_was_proposed_after_a_failed_commit_is_never_committed() -> None:
    journal = MemoryJournal()
    authority = Authority(journal, Time().clock())
    first, second = authority.propose([ADD]), authority.propose([ADD])
    read = authority.propose([asked("issue.ready")])
    journal.disk.faults.append("refused")
    with refused(Reason.JOURNAL_WRITE_FAILED):
        authority.commit(first)
    for each in (second, read):
        with refused(Reason.JOURNAL_WRITE_FAILED):
            authority.commit(each)
    assert journal.disk.rows == []


def _row(journal: SqliteJournal) -> Row:
    (row,) = journal.read()
    return row


def test_an_old_answer_whose_evidence_was_damaged_is_not_given_again(tmp_path: Path) -> None:
    SqliteJournal.create(tmp_path / "journal.db", "n1")
    with closing(SqliteJournal(tmp_path / "journal.db")) as journal:
        authority = Authority(journal, Time().clock())
        named = asked("issue.add", {"title": "t", "requestId": "r"})
        authority.submit([named])
        damage = (
            "UPDATE journal SET response = CAST(replace(response, 'accepted', 'rejected') AS BLOB)"
        )
        journal._db.execute(damage)
        with refused(Reason.JOURNAL_CORRUPT):
            authority.submit([named])


def test_commits_out_of_order_are_refused_by_the_journal() -> None:
    authority = Authority(MemoryJournal(), Time().clock())
    _, second = authority.propose([ADD]), authority.propose([ADD])
    with refused(Reason.JOURNAL_DEPOSED):
        authority.commit(second)


# --- failures -------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["refused", "refused_late"])
def test_after_a_failed_commit_nothing_is_answered_any_more(fault: Fault) -> None:
    disk = Disk()
    desk = Desk(MemoryJournal(disk))
    desk.grant("issue.add", id="a", title="t")
    disk.faults.append(fault)
    claim = {"id": "a", "assignee": "ann", "requestId": "r"}
    with refused(Reason.JOURNAL_WRITE_FAILED):
        desk.ask("issue.claim", **claim)
    for action in ("issue.claim", "issue.ready"):
        with refused(Reason.JOURNAL_WRITE_FAILED):
            desk.ask(action, **(claim if action == "issue.claim" else {}))
    assert len(disk.rows) == (2 if fault == "refused_late" else 1)
    desk.restart()
    answer = desk.grant("issue.claim", **claim)
    assert (answer["seq"], answer["issue"]["lease"]["fence"]) == (2, 2)
    desk.prove()


class Broken(MemoryJournal):
    """Fails in ways that no journal announces."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def append(self, entries: Sequence[Entry], expected_seq: int, epoch: int) -> None:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), OSError(5, "i/o")])
def test_any_exception_of_a_commit_ends_the_authority(error: BaseException) -> None:
    desk = Desk(Broken(error))
    with pytest.raises(type(error)):
        desk.ask("issue.add", title="t")
    with refused(Reason.JOURNAL_WRITE_FAILED):
        desk.ask("issue.ready")


def test_an_exception_of_a_decision_ends_the_authority_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    journal = MemoryJournal()
    desk = Desk(journal)
    count = 0

    def fail_second(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        assert count < 2, "a bug"
        return decide(*arguments)

    monkeypatch.setattr(engine, "decide", fail_second)
    with pytest.raises(AssertionError, match="a bug"):
        desk.authority.submit([ADD, ADD])
    with refused(Reason.JOURNAL_WRITE_FAILED):
        desk.authority.submit([asked("issue.ready")])
    assert journal.disk.rows == []


def test_an_authority_that_failed_saves_no_snapshot() -> None:
    disk = Disk()
    desk = Desk(MemoryJournal(disk))
    desk.grant("issue.add", title="t")
    disk.faults.append("refused")
    with refused(Reason.JOURNAL_WRITE_FAILED):
        desk.ask("issue.add", title="t")
    with pytest.raises(Unavailable):
        desk.authority.snapshot()
    desk.restart()


# --- recovery -------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_a_snapshot_and_the_rows_after_it_are_the_whole_fold(seed: int) -> None:
    pair, random = Pair(), Random(seed)
    pair.wander(random, 30)
    pair.desk.authority.snapshot()
    pair.wander(random, 30)
    with_snapshot = recover(pair.desk.journal)
    without = recover(
        MemoryJournal(Disk(epoch=pair.desk.journal.epoch(), rows=list(pair.desk.journal.read())))
    )
    assert dump(with_snapshot[0]) == dump(without[0]) == dump(pair.desk.authority.state)
    assert with_snapshot[1:] == without[1:]


def _with_snapshot() -> tuple[Desk, MemoryJournal]:
    journal = MemoryJournal()
    desk = Desk(journal)
    for _ in range(3):
        desk.grant("issue.add", title="t")
    desk.authority.snapshot()
    desk.grant("issue.add", title="t")
    return desk, journal


def test_a_damaged_snapshot_costs_time_and_nothing_else() -> None:
    desk, journal = _with_snapshot()
    saved = journal.disk.saved
    assert saved is not None
    journal.disk.saved = Snapshot(saved.head, b"{}", saved.digest)
    assert dump(recover(journal)[0]) == dump(desk.authority.state)
    journal.disk.saved = Snapshot.of(Head(3, "row1_x", saved.head.state_digest), saved.image)
    assert dump(recover(journal)[0]) == dump(desk.authority.state)


def test_a_journal_that_lost_what_a_snapshot_knows_is_not_started() -> None:
    _, journal = _with_snapshot()
    del journal.disk.rows[2:]
    with refused(Reason.JOURNAL_CORRUPT):
        recover(journal)


def test_a_row_that_is_missing_or_damaged_is_named() -> None:
    _, journal = _with_snapshot()
    journal.disk.saved = None
    rows = list(journal.disk.rows)
    journal.disk.rows = [rows[0], *rows[2:]]
    with pytest.raises(Unavailable, match="row 2 is missing"):
        recover(journal)
    damaged = rows[1]._replace(changes=rows[0].changes)
    journal.disk.rows = [rows[0], damaged, *rows[2:]]
    with pytest.raises(Unavailable, match="row 2"):
        recover(journal)


@pytest.mark.parametrize("fault", ["killed", "killed_late"])
def test_a_crash_at_the_commit_is_all_or_nothing_and_fences_go_on_growing(fault: Fault) -> None:
    disk = Disk()
    desk = Desk(MemoryJournal(disk))
    for key in ("a", "b"):
        desk.grant("issue.add", id=key, title="t")
    ann = desk.claim("a", "ann")
    disk.faults.append(fault)
    batch = [asked("issue.claim", {"id": "b", "assignee": "bob"}), ADD]
    with pytest.raises(Crash):
        desk.authority.submit(batch)
    assert len(disk.rows) == (5 if fault == "killed_late" else 3)
    desk.restart()
    assert desk.claim("b", "bob")["fence"] > ann["fence"]
    desk.prove()


# --- in a state directory -------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    assert create_state_dir(folder, "n1") is True
    assert create_state_dir(folder, "n2") is False
    return folder


def test_an_office_keeps_journal_trajectory_and_tables_together(folder: Path) -> None:
    with Office(folder) as office:
        answer = office.ask("issue.add", {"id": "a", "title": "t"})
        assert answer["stamp"]["node"] == "n1"
        assert verify(folder / TRAJECTORY, office.journal) == (1, None)
        office.ask("issue.claim", {"id": "a", "assignee": "ann"}, transport="cli")
        assert verify(folder / TRAJECTORY, office.journal) == (2, None)
    assert Tables(folder / TABLES).watermark() == 2
    with Office(folder, writable=False) as office:
        assert office.ask("issue.show", {"id": "a"})["issue"]["assignee"] == "ann"
        assert office.ask("issue.nothing", {})["failureClasses"] == ["transport_unknown_action"]
        assert replay(office.journal).mismatch is None


def test_what_is_no_json_is_the_callers_error(folder: Path) -> None:
    with Office(folder) as office, pytest.raises(ValueError, match="not JSON"):
        office.ask("issue.add", {"title": object()})


def test_a_reader_writes_nothing(folder: Path) -> None:
    with Office(folder) as writer, Office(folder, writable=False) as reader:
        writer.ask("issue.add", {"id": "a", "title": "t"})
        with pytest.raises(Unavailable):
            reader.ask("issue.add", {"id": "b", "title": "t"})
    assert not (folder / "lock").read_bytes().strip(b"0123456789\n")


def test_a_folder_without_a_journal_is_missing(tmp_path: Path) -> None:
    with refused(Reason.STATE_DIR_MISSING):
        Office(tmp_path)


def test_a_folder_that_cannot_be_made_is_denied(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with refused(Reason.STATE_DIR_DENIED):
        create_state_dir(tmp_path / "file" / "state", "n1")


def test_a_contract_that_drifted_is_not_served(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {"result": "rejected", "failureClasses": ["contract_pin_mismatch"]}
    monkeypatch.setattr("understudy.authority.service.local.startup_check", lambda: found)
    with pytest.raises(Unavailable, match="contract_pin_mismatch") as drift:
        Office(folder)
    assert drift.value.reason is Reason.CONTRACT_DRIFT


def test_a_second_writer_is_refused_with_the_holders_pid(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 0)
    with (
        Office(folder),
        pytest.raises(Unavailable, match=f"held by process {os.getpid()}") as busy,
    ):
        Office(folder)
    assert busy.value.reason is Reason.AUTHORITY_BUSY
    Office(folder).close()


def test_a_second_writer_waits_for_the_first(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = os.open(folder / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(first, fcntl.LOCK_EX)
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 8:
            os.close(first)

    monkeypatch.setattr(
        "understudy.authority.journal.state_dir.time",
        SimpleNamespace(monotonic=lambda: 0.0, sleep=pause),
    )
    with Office(folder) as office:
        assert office.ask("issue.add", {"title": "t"})["result"] == "accepted"
    assert pauses == [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.05, 0.05]


def test_a_lock_that_cannot_be_opened_is_denied(folder: Path) -> None:
    (folder / "lock").mkdir()
    with refused(Reason.STATE_DIR_DENIED):
        Office(folder)


def test_a_state_that_the_evidence_has_overtaken_is_not_opened(folder: Path) -> None:
    with Office(folder) as office:
        office.ask("issue.add", {"title": "t"})
    with apsw.Connection(str(folder / JOURNAL)) as db:
        db.execute("DELETE FROM journal")
    with refused(Reason.TRAJECTORY_MISMATCH):
        Office(folder)


def test_an_office_that_cannot_open_lets_go_of_the_lock(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 0)
    sound = (folder / JOURNAL).read_bytes()
    (folder / JOURNAL).write_bytes(b"no database")
    with refused(Reason.JOURNAL_CORRUPT):
        Office(folder)
    (folder / JOURNAL).write_bytes(sound)
    Office(folder).close()


def test_an_office_lets_go_even_when_the_tables_fail(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 0)
    (folder / TABLES).mkdir()
    office = Office(folder)
    office.ask("issue.add", {"title": "t"})
    office.close()
    assert "the SQL tables are behind" in caplog.text
    Office(folder).close()


def test_a_journal_of_a_crashed_writer_is_taken_over_with_a_new_epoch(folder: Path) -> None:
    with Office(folder) as office:
        office.ask("issue.add", {"id": "a", "title": "t"})
    ghost = Authority(SqliteJournal(folder / JOURNAL))
    ghost.submit([ADD])
    with Office(folder) as office:
        office.ask("issue.add", {"id": "b", "title": "t"})
        with refused(Reason.JOURNAL_DEPOSED):
            ghost.submit([ADD])
        assert [row.epoch for row in office.journal.read()] == [1, 2, 3]
        assert verify(folder / TRAJECTORY, office.journal) == (3, None)
        assert replay(office.journal).mismatch is None
