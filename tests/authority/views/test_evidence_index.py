"""The index of the journal: every row once, the newest first, for this journal alone."""

import shutil
import stat
from contextlib import closing
from pathlib import Path

import pytest

from understudy.authority import Office, create_state_dir, open_journal
from understudy.authority.views.evidence_index import FILE, EvidenceIndex


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    create_state_dir(tmp_path / "s", "local")
    return tmp_path / "s"


def told(state_dir: Path, count: int, title: str = "work") -> None:
    with Office(state_dir) as office:
        for _ in range(count):
            office.ask("issue.add", {"title": title})


def followed(state_dir: Path, rows_max: int) -> tuple[list[int], tuple[int, int]]:
    """The numbers of new rows, and what is taken in."""
    with (
        closing(EvidenceIndex(state_dir)) as index,
        open_journal(state_dir, read_only=True) as book,
    ):
        found = [each.step.seq for each in index.follow(book, rows_max)]
        return found, index.bounds


def test_a_story_is_found_by_its_work(state_dir: Path) -> None:
    with Office(state_dir) as office:
        office.ask("issue.add", {"id": "a", "title": "one"})
        office.ask("issue.add", {"id": "b", "title": "another"})
        granted = office.ask("issue.claim", {"id": "a", "assignee": "ada"})
        fence = granted["issue"]["lease"]["fence"]
        office.ask("issue.claim", {"id": "a", "assignee": "bob"})
        office.ask("dep.add", {"id": "b", "dependsOnId": "a"})
        office.ask("job.schedule", {"jobId": "j", "kind": "ci.build", "payload": {}})
    with (
        closing(EvidenceIndex(state_dir)) as index,
        open_journal(state_dir, read_only=True) as book,
    ):
        index.follow(book, 100)
        story = [
            (each.action, each.result, each.who) for each in index.timeline("issue/a", None, 9)
        ]
        assert story == [
            ("issue.claim", "lease_contention_active", "bob"),
            ("issue.claim", "accepted", "ada"),
            ("issue.add", "accepted", ""),
        ]
        assert [each.fence for each in index.timeline("issue/a", None, 9)][1] == fence
        assert [each.action for each in index.timeline("issue/b", None, 9)] == [
            "dep.add",
            "issue.add",
        ]
        assert [each.work for each in index.timeline("job/j", None, 9)] == ["job/j"]
        assert index.timeline("issue/nothing", None, 9) == []
        refused = index.steps(None, 9, result="refused")
        assert [each.result for each in refused] == ["lease_contention_active"]
        assert index.steps(None, 9, result="lease_contention_active") == refused
        assert [each.seq for each in index.steps(3, 9, action="issue.add")] == [2, 1]


@pytest.mark.parametrize("at_once", [1, 7, 50, 1000])
def test_every_row_is_taken_in_once_the_newest_first(state_dir: Path, at_once: int) -> None:
    told(state_dir, 23)
    first, bounds = followed(state_dir, at_once)
    assert bounds == (max(1, 24 - at_once), 23)
    assert first == list(range(max(1, 24 - at_once), 24))
    while bounds[0] > 1:
        fresh, bounds = followed(state_dir, at_once)
        assert fresh == []
    told(state_dir, 2)
    fresh, bounds = followed(state_dir, 1000)
    assert (fresh, bounds) == ([24, 25], (1, 25))
    with closing(EvidenceIndex(state_dir)) as index:
        assert [each.seq for each in index.steps(None, 100)] == list(range(25, 0, -1))


def test_new_rows_come_before_old_ones(state_dir: Path) -> None:
    told(state_dir, 20)
    followed(state_dir, 5)
    told(state_dir, 3)
    fresh, bounds = followed(state_dir, 5)
    assert (fresh, bounds) == ([21, 22, 23], (14, 23))


def test_another_journal_begins_it_anew(state_dir: Path, tmp_path: Path) -> None:
    told(state_dir, 9, "lost")
    followed(state_dir, 100)
    create_state_dir(tmp_path / "other", "local")
    told(tmp_path / "other", 4, "restored")
    for file in ("", "-wal", "-shm"):
        (state_dir / f"journal.db{file}").unlink(missing_ok=True)
    shutil.copy(tmp_path / "other" / "journal.db", state_dir / "journal.db")
    fresh, bounds = followed(state_dir, 100)
    assert (fresh, bounds) == ([1, 2, 3, 4], (1, 4))


def test_it_can_be_deleted_and_is_private(state_dir: Path) -> None:
    told(state_dir, 3)
    followed(state_dir, 100)
    assert stat.S_IMODE((state_dir / FILE).stat().st_mode) == 0o600
    (state_dir / FILE).unlink()
    assert followed(state_dir, 100)[1] == (1, 3)
