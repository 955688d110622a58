"""A journal that lost rows is noticed by whatever still knows of them, and gives no fence twice."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from tests.limits import stands_on
from tests.surfaces.process import Serve, commanded, report_of
from understudy.authority import TABLES, TRAJECTORY, Office, Unavailable, create_state_dir
from understudy.authority.journal.journal import unpacked
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres.link import connect
from understudy.authority.journal.state_files import ANSWERED, IMAGE, JOURNAL
from understudy.authority.service.lost_rows import fill_lost_rows
from understudy.authority.views.high_water import high_water_marks
from understudy.contracts import Door, Reason, limits

MARKED = (ANSWERED, TRAJECTORY, TABLES)


def claim(state_dir: Path, name: str) -> int:
    """A fence that this name holds from now on."""
    with Office(state_dir) as office:
        office.ask("issue.add", {"id": name, "title": name})
        answer = office.ask("issue.claim", {"id": name, "assignee": name})
    return int(answer["issue"]["lease"]["fence"])


@pytest.fixture
def rewound(tmp_path: Path) -> Path:
    """A state directory whose journal was restored from a copy before fence 4 was given out."""
    state_dir = tmp_path / "rewound"
    create_state_dir(state_dir, "local")
    assert claim(state_dir, "a") == 2
    shutil.copy(state_dir / JOURNAL, tmp_path / "copy.db")
    assert claim(state_dir, "b") == 4
    assert high_water_marks(state_dir) == dict.fromkeys(MARKED, 4)
    shutil.copy(tmp_path / "copy.db", state_dir / JOURNAL)
    return state_dir


@pytest.mark.parametrize("left", MARKED)
def test_one_mark_is_enough(rewound: Path, left: str) -> None:
    for name in {*MARKED, IMAGE} - {left}:
        (rewound / name).unlink(missing_ok=True)
    with pytest.raises(Unavailable, match=f"{left} knows row 4, the journal ends with row 2") as no:
        claim(rewound, "c")
    assert no.value.reason is Reason.TRAJECTORY_MISMATCH
    assert commanded("doctor", "--state-dir", rewound).returncode == 9
    with Serve(rewound) as running:
        assert running.wait() == 9
        assert "knows row 4" in running.complaint()


@pytest.mark.parametrize("left", MARKED)
def test_the_loss_can_be_accepted_and_no_fence_is_given_out_twice(rewound: Path, left: str) -> None:
    for name in {*MARKED, IMAGE} - {left}:
        (rewound / name).unlink(missing_ok=True)
    assert report_of("rebuild", "--state-dir", rewound)["lost"] == 2
    assert high_water_marks(rewound) == dict.fromkeys(MARKED, 4)
    assert claim(rewound, "c") == 6, "behind every fence that was given out"
    for proof in ("verify", "replay"):
        assert commanded(proof, "--state-dir", rewound).returncode == 0
    assert report_of("rebuild", "--state-dir", rewound)["lost"] == 0


@stands_on("LOST_ROWS_MAX")
def test_so_many_lost_rows_are_filled(rewound: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (rewound / TRAJECTORY).unlink()  # as `rebuild` makes it anew
    monkeypatch.setattr(limits, "LOST_ROWS_MAX", 1)
    with pytest.raises(Unavailable, match="2 rows are missing"):
        fill_lost_rows(rewound, 4, print)
    monkeypatch.setattr(limits, "LOST_ROWS_MAX", 2)
    assert fill_lost_rows(rewound, 4, print) == 2


def test_a_rebuild_that_was_killed_is_gone_on_with(rewound: Path) -> None:
    """It had filled one of two rows; the mark still knows both."""
    (rewound / TRAJECTORY).unlink()
    assert fill_lost_rows(rewound, 3, print) == 1
    with pytest.raises(Unavailable, match="knows row 4, the journal ends with row 3"):
        claim(rewound, "c")
    assert report_of("rebuild", "--state-dir", rewound)["lost"] == 1
    assert claim(rewound, "c") == 6


def test_marks_that_are_gone_or_nonsense_say_nothing(tmp_path: Path) -> None:
    state_dir = tmp_path / "state"
    create_state_dir(state_dir, "local")
    assert high_water_marks(state_dir) == {}
    assert claim(state_dir, "a") == 2
    for name in (ANSWERED, TABLES):
        (state_dir / name).write_bytes(b"nonsense")
    assert high_water_marks(state_dir) == {TRAJECTORY: 2}
    assert claim(state_dir, "b") == 4


def test_a_killed_sidecar_leaves_a_mark_of_everything_that_its_trajectory_shows(
    state_dir: Path,
) -> None:
    with Serve(state_dir) as running:
        running.ready()
        for number in range(3):
            report_of("issue", "add", f"t{number}", "--state-dir", state_dir)
        running.kill()
    known = high_water_marks(state_dir)
    assert known.get(ANSWERED, 0) >= known.get(TRAJECTORY, 0)
    assert report_of("issue", "add", "t", "--state-dir", state_dir)["seq"] == 4


def test_a_mark_is_never_ahead_of_the_journal(state_dir: Path) -> None:
    """It moves behind the commit, in `follow`."""
    with Office(state_dir) as office:
        line = b'{"action":"issue.add","payload":{"title":"t"}}'
        proposal = office.authority.propose_lines([(Door("cli"), [line])])
        assert list(unpacked(proposal.entries))
        office.follow()
        assert high_water_marks(state_dir) == {}
        office.commit(proposal)
        office.follow()
        assert high_water_marks(state_dir)[ANSWERED] == 1


def test_a_database_that_lost_rows_is_refused_too(tmp_path: Path, url: str) -> None:
    """As after a failover to a replica that lagged behind."""
    state_dir = tmp_path / "shared"
    create_state_dir(state_dir, "local", url)
    assert claim(state_dir, "a") == 2
    (state_dir / TRAJECTORY).unlink()
    place = parsed(url)
    with closing(connect(place)) as db:
        db.execute("ALTER TABLE journal DISABLE TRIGGER refuse_changes")
        db.execute("DELETE FROM journal WHERE seq = 2")
    with pytest.raises(Unavailable, match=f"{ANSWERED} knows row 2, the journal ends with row 1"):
        claim(state_dir, "c")
