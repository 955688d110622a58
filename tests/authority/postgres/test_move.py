"""A journal that moves: the same bytes in the other engine, and back, or nothing at all."""

import shutil
from contextlib import closing
from pathlib import Path
from random import Random

import apsw
import pytest

from tests.authority.chain import Chain
from tests.fakes.desk import Desk, asked
from tests.services.shared import Database
from tests.surfaces.process import report_of
from understudy.authority import Office, Unavailable, create_state_dir, open_journal
from understudy.authority.engine.engine import recover
from understudy.authority.journal import journal_url, move
from understudy.authority.journal.journal import Row, Snapshot
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres import PostgresJournal
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.journal.state_files import JOURNAL
from understudy.authority.law.image import dump
from understudy.authority.views.replay import replay
from understudy.contracts import Reason, limits


def refused(reason: Reason) -> pytest.RaisesExc[Unavailable]:
    return pytest.RaisesExc(Unavailable, check=lambda error: error.reason is reason)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Issues, jobs and specs under several epochs, with a snapshot in the middle."""
    folder = tmp_path / "source"
    create_state_dir(folder, "n1")
    with closing(SqliteJournal(folder / JOURNAL)) as journal:
        desk = Desk(journal)
        names = [f"i{number}" for number in range(620)]
        desk.authority.submit([asked("issue.add", {"id": name, "title": "t"}) for name in names])
        desk.authority.snapshot()
        for seed in range(3):
            Chain(desk, Random(seed)).wander(40)
            desk.restart()
        desk.claim("i1", "ann")
    return folder


def held(folder: Path) -> tuple[list[Row], Snapshot | None, str, int, bytes]:
    with open_journal(folder, read_only=True) as journal:
        state = dump(recover(journal)[0])
        assert replay(journal).mismatch is None
        saved = journal.snapshot()
        return list(journal.read()), saved, journal.node(), journal.epoch(), state


def joined(folder: Path, url: str) -> Path:
    """A state directory with its journal there."""
    folder.mkdir()
    journal_url.remember(folder, url)
    return folder


def test_there_and_back_again_are_the_same_bytes(source: Path, url: str, tmp_path: Path) -> None:
    seen: list[int] = []
    copied = move.copy(source, url, seen.append)
    rows, saved, node, epoch, state = held(source)
    assert seen == [row.seq for row in rows]
    assert saved is not None
    assert (copied.head.seq, copied.snapshot_seq) == (len(rows), saved.head.seq)
    assert len({row.epoch for row in rows}) > 2
    there = joined(tmp_path / "there", url)
    assert held(there) == (rows, saved, node, epoch + 1, state)
    move.copy(there, str(tmp_path / "new" / "back"))
    again = held(tmp_path / "new" / "back")
    assert again[:3] == (rows, saved, node)
    assert again[3] > epoch + 1, "no authority has had it before"
    assert again[4] == state


def test_work_goes_on_where_the_copy_is(source: Path, url: str, tmp_path: Path) -> None:
    fence = held(source)[0][-1].seq
    copied = move.copy(source, url)
    there = joined(tmp_path / "there", url)
    with Office(there) as office:
        answer = office.ask("issue.claim", {"id": "i2", "assignee": "bob"}, transport="mcp")
        assert answer["issue"]["lease"]["fence"] == fence + 1
    with open_journal(there, read_only=True) as journal:
        assert replay(journal).mismatch is None
        last = journal.row(journal.last_seq())
        assert last is not None
        assert last.epoch > copied.epoch - 1
        with closing(journal.tables(there)) as tables:
            assert tables.watermark() == last.seq


def test_a_place_that_is_not_empty_is_refused(
    source: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    move.copy(source, url)
    with refused(Reason.JOURNAL_URL_INVALID) as told:
        move.copy(source, url)
    assert "rows already" in str(told.value)
    move.copy(source, str(tmp_path / "copy"))
    for target in (tmp_path / "copy", source, joined(tmp_path / "there", url)):
        with refused(Reason.STATE_DIR_DENIED):
            move.copy(source, str(target))
    with refused(Reason.JOURNAL_URL_INVALID):
        move.copy(source, url.replace("://", "://ada:secret@"))
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 0)
    with refused(Reason.STATE_DIR_MISSING):
        move.copy(tmp_path / "nowhere", str(tmp_path / "other"))


def test_an_empty_schema_may_be_there_but_no_authority_at_work_in_it(
    source: Path, url: str
) -> None:
    PostgresJournal.create(parsed(url), "other")
    with closing(PostgresJournal(parsed(url))) as journal:
        journal.acquire_epoch()
        with refused(Reason.AUTHORITY_BUSY):
            move.copy(source, url)
    copied = move.copy(source, url)
    with closing(PostgresJournal(parsed(url), read_only=True)) as journal:
        assert (journal.node(), journal.epoch()) == ("n1", copied.epoch)


def test_a_broken_chain_is_named_and_nothing_is_left_of_the_copy(
    source: Path, server: Database, url: str, tmp_path: Path
) -> None:
    for number, (query, words) in enumerate((
        ("UPDATE journal SET changes = x'5b5d' WHERE seq = 600", "row 600: its changes"),
        ("UPDATE journal SET digest = 'row1_' || digest WHERE seq = 9", "row 9: its digest"),
        ("DELETE FROM journal WHERE seq = 300", "row 300: it is missing"),
    )):  # fmt: skip
        broken = tmp_path / f"broken{number}"
        shutil.copytree(source, broken)
        with closing(apsw.Connection(str(broken / JOURNAL))) as db:
            db.execute(query)
        for target in (url, str(tmp_path / "copy")):
            with refused(Reason.JOURNAL_CORRUPT) as told:
                move.copy(broken, target)
            assert words in str(told.value)
    assert not (tmp_path / "copy").exists()
    with server.connect() as db:
        name = parsed(url).schema
        assert db.execute("SELECT to_regnamespace(%s)", (name,)).fetchone() == (None,)


def test_a_damaged_snapshot_and_a_half_made_copy_are_left_behind(
    source: Path, tmp_path: Path
) -> None:
    with closing(apsw.Connection(str(source / JOURNAL))) as db:
        db.execute("UPDATE snapshot SET image = x'00'")
    target = tmp_path / "copy"
    target.mkdir()
    (target / f"{JOURNAL}.part").write_bytes(b"left by somebody who was killed")
    assert move.copy(source, str(target)).snapshot_seq == 0
    assert [each.name for each in target.iterdir()] == [JOURNAL]
    assert held(target)[1] is None


def test_an_authority_at_work_is_not_copied_behind_its_back(
    source: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 0)
    with Office(source), refused(Reason.AUTHORITY_BUSY):
        move.copy(source, url)
    move.copy(source, url)
    one, two = (joined(tmp_path / name, url) for name in ("one", "two"))
    with Office(one), refused(Reason.AUTHORITY_STANDBY):  # on another host
        move.copy(two, str(tmp_path / "copy"))


def test_the_command_says_what_comes_next(state_dir: Path, url: str, tmp_path: Path) -> None:
    report_of("issue", "add", "t", "--state-dir", state_dir)
    said = report_of("journal", "copy", "--to", url, "--state-dir", state_dir)
    assert said["rows"] == 1
    state_dir.rename(tmp_path / "old")
    for command in said["next"][1:]:
        assert report_of(*command.replace("'", "").split()[1:])["result"] == "accepted"
    where = report_of("journal", "where", "--state-dir", state_dir)
    assert (where["engine"], where["rows"], where["node"]) == ("postgresql", 1, "local")


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    create_state_dir(tmp_path / "state", "local")
    return tmp_path / "state"
