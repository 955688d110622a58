"""Limits of time and of a commit, from both sides."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.fakes.desk import START_MS, Desk, asked, fits
from tests.fakes.journal import MemoryJournal
from tests.limits import stands_on
from understudy.authority.journal import state_dir
from understudy.authority.journal.clock import HybridClock
from understudy.authority.journal.journal import Head, Snapshot, Unavailable
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.journal.state_files import JOURNAL
from understudy.authority.service.local import Office
from understudy.contracts import (
    canonical,
    limits,
    rfc3339,
)
from understudy.contracts.reason import Reason
from understudy.contracts.records.records import Stamp
from understudy.contracts.requests.request import Garbage, Request
from understudy.contracts.requests.shapes import CallerStamp

# --- time -----------------------------------------------------------------------------------------


@stands_on("CLOCK_DRIFT_MS_MAX")
def test_a_caller_may_be_so_far_ahead() -> None:
    def found(ahead_ms: int) -> list[str]:
        desk = Desk()
        stamp = {"wallMs": START_MS + ahead_ms, "counter": 0, "node": "far"}
        request = asked("issue.add", {"id": "a", "title": "t"}, context={"stamp": stamp})
        answers, _ = desk.authority.submit([request])
        classes: list[str] = canonical.decode(answers[0])["failureClasses"]
        return classes

    assert found(limits.CLOCK_DRIFT_MS_MAX) == []
    assert found(limits.CLOCK_DRIFT_MS_MAX + 1) == ["clock_drift_exceeded"]


@stands_on("WALL_MS_MAX")
def test_the_last_moment_has_a_name_and_the_next_has_none() -> None:
    assert rfc3339.parse_ms("9999-12-31T23:59:59.999Z") == limits.WALL_MS_MAX
    assert rfc3339.parse_ms("9999-12-31T23:59:59.999-00:01") is None
    stamp = {"wallMs": limits.WALL_MS_MAX, "counter": 0, "node": "n"}
    assert fits("issue.ready", {}, {"stamp": stamp})
    assert not fits("issue.ready", {}, {"stamp": stamp | {"wallMs": limits.WALL_MS_MAX + 1}})


@stands_on("NOW_MS_MAX")
def test_a_frozen_clock_leaves_room_for_the_longest_lease() -> None:
    desk = Desk()
    desk.authority.submit([asked("issue.add", {"id": "a", "title": "t"}, now=limits.NOW_MS_MAX)])
    longest = {"id": "a", "assignee": "ann", "leaseTtlSeconds": limits.TTL_SECONDS_MAX}
    answers, _ = desk.authority.submit([asked("issue.claim", longest, now=limits.NOW_MS_MAX)])
    lease = canonical.decode(answers[0])["issue"]["lease"]
    deadline_ms = rfc3339.parse_ms(lease["expiresAt"])
    assert deadline_ms == limits.NOW_MS_MAX + limits.TTL_SECONDS_MAX * 1000 <= limits.WALL_MS_MAX
    assert isinstance(asked("issue.ready", now=limits.NOW_MS_MAX + 1), Garbage)
    assert isinstance(asked("issue.ready", now=0), Request)
    assert isinstance(asked("issue.ready", now=-1), Garbage)


@stands_on("COUNTER_MAX")
def test_a_millisecond_has_so_many_stamps_and_then_the_next_is_borrowed() -> None:
    clock = HybridClock("n", lambda: 1_000, 1_000, limits.COUNTER_MAX - 1)
    last = clock.next_stamp(1)
    assert (last.wall_ms, last.counter) == (1_000, limits.COUNTER_MAX)
    clock.advance(last)
    borrowed = clock.next_stamp(2)
    assert (borrowed.wall_ms, borrowed.counter) == (1_001, 0)
    at_the_end = CallerStamp(wall_ms=1_000, counter=limits.COUNTER_MAX, node="far")
    assert clock.next_stamp(2, caller=at_the_end) == Stamp(2, 1_001, 0, "n")
    stamp = {"wallMs": 0, "counter": limits.COUNTER_MAX, "node": "n"}
    assert fits("issue.ready", {}, {"stamp": stamp})
    assert not fits("issue.ready", {}, {"stamp": stamp | {"counter": limits.COUNTER_MAX + 1}})


# --- commit ---------------------------------------------------------------------------------------


@stands_on("SNAPSHOT_ROWS")
def test_a_snapshot_is_made_after_so_many_rows() -> None:
    journal = MemoryJournal()
    desk = Desk(journal)
    adds = [asked("issue.add", {"title": "t"}) for _ in range(limits.SNAPSHOT_ROWS - 1)]
    desk.authority.submit(adds)
    assert journal.disk.saved is None
    desk.authority.submit(adds[:1])
    assert journal.disk.saved is not None
    assert journal.disk.saved.head.seq == limits.SNAPSHOT_ROWS
    before = journal.disk.saved
    desk.authority.submit(adds[:1])
    assert journal.disk.saved is before


@stands_on("BATCH_MAX")
def test_a_full_batch_is_one_commit() -> None:
    # The doors cut batches to size; the authority takes what they bring.
    journal = MemoryJournal()
    desk = Desk(journal)
    batch = [asked("issue.add", {"title": "t"}) for _ in range(limits.BATCH_MAX)]
    answers, rows = desk.authority.submit(batch)
    assert len(answers) == len(rows) == len(journal.disk.rows) == limits.BATCH_MAX


@stands_on("LOCK_WAIT_MS")
def test_a_second_writer_waits_so_long_and_then_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteJournal.create(tmp_path / JOURNAL, "n1")
    passed_s = [0.0]
    pauses = SimpleNamespace(
        monotonic=lambda: sum(passed_s),
        sleep=passed_s.append,
    )
    monkeypatch.setattr(state_dir, "time", pauses)
    with Office(tmp_path):
        with pytest.raises(Unavailable) as refused:
            Office(tmp_path)
        assert refused.value.reason is Reason.AUTHORITY_BUSY
        assert str(os.getpid()) in str(refused.value)
    assert limits.LOCK_WAIT_MS <= sum(passed_s) * 1000 <= limits.LOCK_WAIT_MS + 100
    Office(tmp_path).close()


@stands_on("SNAPSHOT_PIECE_BYTES")
def test_an_image_of_so_many_bytes_is_one_value_and_a_longer_one_is_in_pieces() -> None:
    size = limits.SNAPSHOT_PIECE_BYTES
    for length, pieces in ((size, []), (size + 1, [size, 1])):
        saved = Snapshot.of(Head(), bytes(length))
        assert [len(each) for each in saved.pieces] == pieces
        assert len(saved.values[3]) == (0 if pieces else length)
