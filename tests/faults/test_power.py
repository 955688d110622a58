"""A power cut at every moment of the commit path: nothing that was answered is lost.

A run is put on tape; then the disk is cut off after each of its events, with what was not flushed
kept, dropped, torn, scattered over sectors and out of order, and an authority starts on the rest.
"""

import hashlib
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

from tests.faults.load import Load, Step
from tests.faults.tape import (
    Disk,
    Event,
    Failed,
    Image,
    Name,
    Sync,
    SyncFolder,
    Tape,
    Write,
    played,
)
from tests.long import IS_LONG, SCALED, SHARE, few, pairs
from understudy.authority import (
    TABLES,
    TRAJECTORY,
    Office,
    Unavailable,
    create_state_dir,
    open_journal,
)
from understudy.authority.journal.journal import Row
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.journal.tables import Tables
from understudy.authority.views.replay import replay
from understudy.authority.views.trajectory import verify
from understudy.contracts import Door, Garbage, Reason, Request, parse, startup_check

# Scattered images after each event.
SEEDS = int(os.environ.get("UNDERSTUDY_POWER_SEEDS", "2" if IS_LONG else "1"))
LOG_PAGES = 3  # so that a short run folds its log, and begins it anew, a few times
SMALL = (1, 1, 1, 2, 1, 1, 1, 1)
LARGE = (1, 9, 1, 30, 2)
JOURNAL, LOG = "journal.db", "journal.db-wal"

pytestmark = [pytest.mark.timeout(120 + 10 * SEEDS), SCALED]


_startup_check = cache(startup_check)


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of starts: what is installed stays the same, and tables have their own test."""
    monkeypatch.setattr("understudy.authority.service.local.startup_check", _startup_check)
    monkeypatch.setattr(Office, "_follow_with_tables", lambda _: None)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Memory that looks like a disk, where there is some: the flushes are ours, not the disk's."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name).resolve()


# --- a run on tape --------------------------------------------------------------------------------


@dataclass
class Run:
    """What an authority did, and what it told whom."""

    state_dir: Path
    rows: list[Row] = field(default_factory=list)
    batches: list[int] = field(default_factory=lambda: [0])  # rows after each commit
    log: list[Event] = field(default_factory=list)
    begin: int = 0  # where the log leaves what was there before
    requests: list[Request | Garbage] = field(default_factory=list)


def recorded(
    state_dir: Path,
    sizes: Sequence[int],
    *,
    sidecar: bool = False,
    around: Callable[[Office], None] = lambda _: None,
) -> Run:
    """Batches of these sizes, snapshots between some; a sidecar answers ahead of its evidence."""
    create_state_dir(state_dir, "local")
    run = Run(state_dir)
    tape = Tape(state_dir, ignore=[TABLES])
    run.begin = len(tape.log)
    load = Load(len(sizes))
    with tape.running(log_pages=LOG_PAGES), Office(state_dir, lasting=sidecar) as office:
        around(office)
        for place, size in enumerate(sizes):
            batch = _requests(load.more(size), place)
            run.requests += batch
            proposal = office.authority.propose(batch)
            office.commit(proposal)
            run.rows += proposal.rows
            run.batches.append(len(run.rows))
            if not sidecar or place % 3 == 2:
                office.follow()
            tape.heard(len(run.rows))
            if place % 4 == 3:
                office.authority.snapshot()
        office.follow()
    run.log = tape.log
    return run


def _requests(steps: Sequence[Step], place: int) -> list[Request | Garbage]:
    for step in steps:
        if step.request["action"] == "issue.add" and place % 3 == 1:
            step.payload["notes"] = "long " * 3_000  # more than a page
    return [parse(orjson.dumps(step.request), Door("mcp")) for step in steps]


# --- what may be left, and what must be true of it ------------------------------------------------


@dataclass(frozen=True, slots=True)
class Cut:
    """The power went after this event."""

    place: int
    way: str
    rows_heard: int
    image: Image


def cuts(
    log: Sequence[Event], begin: int, *, seeds: int = SEEDS, orderly: Sequence[str] = (TRAJECTORY,)
) -> Iterator[Cut]:
    disk = Disk()
    for place, event in enumerate(log):
        disk.play(event)
        if place < begin:
            continue
        yield Cut(place, "kept", disk.rows_heard, disk.kept())
        yield Cut(place, "dropped", disk.rows_heard, disk.dropped())
        for seed in range(seeds):
            image = disk.scattered(random.Random(f"{place} {seed}"), orderly=orderly)
            yield Cut(place, f"scattered {seed}", disk.rows_heard, image)


class Court:
    """Starts an authority on what is left. An image is judged once, however often it comes up."""

    def __init__(self, folder: Path, run: Run) -> None:
        self._folder = folder / "left"
        self._run = run
        self._judged: dict[bytes, int] = {}  # rows that an authority found there
        self._replayed: set[tuple[object, ...]] = set()

    def judge(self, cut: Cut) -> None:
        try:
            found = self._found(cut.image)
        except (AssertionError, Unavailable) as error:
            error.add_note(f"the power was cut after event {cut.place}, {cut.way}")
            raise
        assert found >= cut.rows_heard, f"event {cut.place}, {cut.way}: an answer was lost"

    @property
    def images(self) -> int:
        return len(self._judged)

    def _found(self, image: Image) -> int:
        digest = hashlib.sha256()
        for name, data in sorted(image.items()):
            digest.update(b"%s %d " % (name.encode(), len(data)))
            digest.update(data)
        key = digest.digest()
        if key not in self._judged:
            state_dir = written(self._folder, image)
            self._judged[key] = self._started(state_dir)
            shutil.rmtree(state_dir)
        return self._judged[key]

    def _started(self, state_dir: Path) -> int:
        with Office(state_dir) as office:
            rows = list(office.journal.read())
            assert rows == self._run.rows[: len(rows)], "a row changed, or one is missing"
            assert len(rows) in self._run.batches, "a commit is there by half"
            known = (len(rows), office.journal.epoch(), office.journal.snapshot())
            if known not in self._replayed:
                assert replay(office.journal).mismatch is None
                self._replayed.add(known)
            added = office.ask("issue.add", {"title": "after the cut"})
            assert (added["result"], added["seq"]) == ("accepted", len(rows) + 1)
            assert verify(state_dir / TRAJECTORY, office.journal) == (len(rows) + 1, None)
        return len(rows)


def written(state_dir: Path, image: Image) -> Path:
    state_dir.mkdir()
    for name, data in image.items():
        (state_dir / name).write_bytes(data)
    return state_dir


# --- the commit path ------------------------------------------------------------------------------


@pytest.mark.parametrize(("sizes", "sidecar"), pairs([SMALL, LARGE], [False, True]))
def test_a_power_cut_anywhere_on_the_commit_path_loses_no_answer(
    folder: Path, sizes: Sequence[int], sidecar: bool
) -> None:
    run = recorded(folder / "state", sizes, sidecar=sidecar)
    court = Court(folder, run)
    for cut in cuts(run.log, run.begin):
        court.judge(cut)
    assert court.images > len(run.log) / 2, "the cuts are all alike"


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_such_a_run_folds_its_log_and_begins_it_anew(folder: Path, sizes: Sequence[int]) -> None:
    run = recorded(folder / "state", sizes)
    events = run.log[run.begin :]
    log, database = (_number(run.log, name) for name in (LOG, JOURNAL))
    headers = [each for each in events if isinstance(each, Write) and each.file == log]
    assert sum(each.offset == 0 for each in headers) > 2
    assert events.count(Sync(database)) > 2
    assert SyncFolder() in events
    assert Name(LOG, None) in events


def _number(log: Sequence[Event], name: str) -> int:
    """Which file has the name, or had it last."""
    names = [each for each in log if isinstance(each, Name) and each.name == name]
    return max(each.file for each in names if each.file is not None)


def test_a_power_cut_while_recovering_from_another_one_loses_no_answer(folder: Path) -> None:
    run = recorded(folder / "state", SMALL, sidecar=True)
    first = [cut for cut in cuts(run.log, run.begin, seeds=1) if cut.way.startswith("scattered")]
    for place, cut in enumerate(random.Random(0).sample(first, 4)):
        again = _recovered(written(folder / f"again{place}", cut.image), run)
        court = Court(folder, again)
        for second in cuts(again.log, again.begin, seeds=1):
            court.judge(second)


def _recovered(state_dir: Path, run: Run) -> Run:
    """A start after a cut, on tape: one more row, and the end."""
    tape = Tape(state_dir, ignore=[TABLES])
    begin = len(tape.log)
    with tape.running(), Office(state_dir) as office:
        count = office.authority.head.seq
        tape.heard(count)
        office.ask("issue.add", {"title": "once more"})
        tape.heard(count + 1)
        rows = list(office.journal.read())
    return Run(state_dir, rows, [count, count + 1], tape.log, begin)


# --- tests of the test ----------------------------------------------------------------------------


def test_a_journal_that_flushes_only_now_and_then_is_caught(folder: Path) -> None:
    def relax(office: Office) -> None:
        assert isinstance(office.journal, SqliteJournal)
        office.journal._db.pragma("synchronous", "NORMAL")

    run = recorded(folder / "state", SMALL, around=relax)
    assert _losses(folder, run, run.log) > len(run.batches)


@pytest.mark.parametrize("name", few(["journal.db-wal", "journal.db", "."]))
def test_a_disk_that_only_says_that_it_flushed_is_caught(folder: Path, name: str) -> None:
    run = recorded(folder / "state", SMALL)
    lie: Event = SyncFolder() if name == "." else Sync(_number(run.log, name))
    before, after = run.log[: run.begin], run.log[run.begin :]
    assert _losses(folder, run, before + [each for each in after if each != lie]) > 0


def _losses(folder: Path, run: Run, log: Sequence[Event]) -> int:
    court, losses = Court(folder, run), 0
    for cut in cuts(log, run.begin, seeds=1):
        try:
            court.judge(cut)
        except (AssertionError, Unavailable):
            losses += 1
            shutil.rmtree(folder / "left", ignore_errors=True)
    return losses


# --- what is only in memory -----------------------------------------------------------------------


def test_what_a_killed_authority_did_not_flush_is_safe_before_anybody_hears_of_it(
    folder: Path,
) -> None:
    """The row is in the log and not answered; the next authority finds it, and is asked."""
    run = recorded(folder / "state", SMALL)
    for place in _flushes(run):
        before = run.log[:place]
        state_dir = written(folder / f"killed{place}", played(before).seen())
        tape = Tape(state_dir, ignore=[TABLES], before=before)
        with tape.running(), Office(state_dir) as office:
            count = office.authority.head.seq
            office.submit(run.requests[:count])  # the first answers again
            tape.heard(count)
            assert office.authority.head.seq == count
        court = Court(folder, run)
        for cut in cuts(tape.log, place, seeds=1):
            court.judge(cut)


def test_what_a_failed_flush_left_behind_takes_no_later_answer_away(folder: Path) -> None:
    """A reader of the log finds the row that never got to the disk, and rows behind it."""
    run = recorded(folder / "state", SMALL)
    for place in _flushes(run):
        before = [*run.log[:place], Failed(_number(run.log, LOG))]
        state_dir = written(folder / f"failed{place}", played(before).seen())
        tape = Tape(state_dir, ignore=[TABLES], before=before)
        with tape.running(), Office(state_dir) as office:
            count = office.authority.head.seq
            office.ask("issue.add", {"title": "once more"})
            tape.heard(count + 1)
            rows = list(office.journal.read())
        court = Court(folder, Run(state_dir, rows, [*run.batches, count + 1]))
        for cut in cuts(tape.log, place + 1, seeds=1):
            court.judge(cut)


def _flushes(run: Run) -> list[int]:
    """Where the log is about to be flushed, with a commit in it."""
    flush = Sync(_number(run.log, LOG))
    places = [place for place, event in enumerate(run.log) if event == flush]
    return [
        place for place in places if place > run.begin and isinstance(run.log[place - 1], Write)
    ]


# --- projections ----------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_a_power_cut_leaves_evidence_that_the_next_start_makes_whole(
    folder: Path, sizes: Sequence[int]
) -> None:
    """Not only torn: any of its sectors may be missing."""
    run = recorded(folder / "state", sizes, sidecar=True)
    court = Court(folder, run)
    evidence = _number(run.log, TRAJECTORY)
    for cut in cuts(run.log, run.begin, seeds=8 * SEEDS, orderly=()):
        event = run.log[cut.place]
        if isinstance(event, Write) and event.file == evidence:
            court.judge(cut)


def test_a_power_cut_leaves_tables_that_follow_or_say_that_they_cannot(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("understudy.authority.service.local.startup_check", _startup_check)
    state_dir, load = folder / "state", Load(3)
    create_state_dir(state_dir, "local")
    tape = Tape(state_dir, ignore=[TRAJECTORY])
    with tape.running():
        for place in range(2):
            with Office(state_dir) as office:
                office.submit(_requests(load.more(5), place))
    for cut in [*cuts(tape.log, 0, seeds=ceil(SEEDS / 2))][:: 1 if IS_LONG else SHARE]:
        if TABLES in cut.image and JOURNAL in cut.image:
            caplog.clear()
            left = written(folder / "left", cut.image)
            with Office(left) as office:
                office.ask("issue.add", {"title": "after the cut"})
            assert caplog.messages or _tables(left) == _rebuilt(left), f"{cut.place}, {cut.way}"
            shutil.rmtree(left)


def _tables(state_dir: Path) -> list[tuple[Any, ...]]:
    """All cells of all tables."""
    db = apsw.Connection(str(state_dir / TABLES))
    try:
        names = db.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()
        return sorted(
            ((name, *cells) for (name,) in names for cells in db.execute(f"SELECT * FROM {name}")),
            key=repr,
        )
    finally:
        db.close()


def _rebuilt(state_dir: Path) -> list[tuple[Any, ...]]:
    (state_dir / TABLES).unlink()
    with open_journal(state_dir, read_only=True) as journal:
        tables = Tables(state_dir / TABLES)
        tables.follow(journal)
        tables.close()
    return _tables(state_dir)


# --- the beginning --------------------------------------------------------------------------------


def test_a_power_cut_while_a_journal_is_made_is_healed_by_making_it_again(folder: Path) -> None:
    state_dir = folder / "state"
    tape = Tape(state_dir)
    with tape.running():
        create_state_dir(state_dir, "local")
    for cut in cuts(tape.log, 0, seeds=4 * SEEDS):
        left = written(folder / "left", cut.image)
        if _refusal(left) in (Reason.STATE_DIR_MISSING, Reason.JOURNAL_CORRUPT):
            create_state_dir(left, "local")
        with Office(left) as office:
            assert office.ask("issue.add", {"title": "t"})["seq"] == 1
            assert replay(office.journal).mismatch is None
        shutil.rmtree(left)


def _refusal(state_dir: Path) -> Reason | None:
    try:
        Office(state_dir).close()
    except Unavailable as error:
        return error.reason
    return None


def test_a_journal_that_was_made_is_there_after_a_power_cut(folder: Path) -> None:
    state_dir = folder / "state"
    tape = Tape(state_dir)
    with tape.running():
        create_state_dir(state_dir, "local")
    with Office(written(folder / "left", played(tape.log).dropped())) as office:
        assert office.ask("issue.add", {"title": "t"})["seq"] == 1


def test_the_folders_that_were_made_for_it_are_there_as_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is safe when the folder that it is in was flushed."""
    flushed: list[Path] = []

    def fsync(handle: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{handle}").readlink())

    monkeypatch.setattr(os, "fsync", fsync)
    create_state_dir(folder / "some" / "where" / "state", "local")
    assert {folder, folder / "some", folder / "some" / "where"} <= set(flushed)
