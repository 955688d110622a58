"""Tables that follow a running authority: at leisure, and never at its expense."""

from contextlib import closing
from pathlib import Path

import pytest

from understudy.authority import TABLES, Office, create_state_dir
from understudy.authority.conformance.picture import faults
from understudy.authority.views.follower import Follower, Pace


@pytest.fixture
def office(tmp_path: Path) -> Office:
    create_state_dir(tmp_path / "state", "local")
    return Office(tmp_path / "state")


def test_under_load_it_rests_and_otherwise_it_goes_on() -> None:
    pace = Pace(0.002, has_more=True)
    assert pace.pause(Pace.QUIET_SECONDS) == 0
    assert pace.pause(0.1) == 0.002 * Pace.SHARE
    assert Pace(failed=True).pause(60) == Pace.RETRY_SECONDS


def test_it_follows_in_steps_until_there_is_nothing_more(office: Office) -> None:
    with office, closing(Follower(office.state_dir, office.journal)) as follower:
        for number in range(40):
            office.ask("issue.add", {"id": f"i{number}", "title": "t"})
        steps = 1
        while follower.step().has_more:
            steps += 1
        assert steps > 3, "small ones at first"
        with closing(office.journal.tables(office.state_dir)) as tables:
            assert faults(tables, office.authority.state, 40) == []
        assert not follower.step().has_more


def test_tables_that_cannot_follow_are_said_once_and_tried_again(
    office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    path = office.state_dir / TABLES
    with office, closing(Follower(office.state_dir, office.journal)) as follower:
        office.ask("issue.add", {"id": "a", "title": "t"})
        path.mkdir()
        for _ in range(2):
            assert follower.step().failed
        assert len(caplog.messages) == 1
        assert "the SQL tables are behind" in caplog.messages[0]
        path.rmdir()
        assert not follower.step().failed
        with closing(office.journal.tables(office.state_dir)) as tables:
            assert tables.watermark() == 1
