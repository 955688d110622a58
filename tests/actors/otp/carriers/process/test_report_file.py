"""The tail of the file of reports: what cells have told, also those that are gone."""

from pathlib import Path

import pytest

from understudy.actors.otp.carriers.process.report_file import ReportTail, write

TOLD = frozenset({"told"})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports.jsonl"


def rows(*numbers: int, kind: str = "told") -> list[dict[str, object]]:
    return [{"kind": kind, "at_ms": number} for number in numbers]


def put(path: Path, *numbers: int, kind: str = "told") -> None:
    for row in rows(*numbers, kind=kind):
        write(path, row)


def test_rows_of_its_kinds_are_kept_and_come_as_they_were_told(path: Path) -> None:
    tail = ReportTail(path, TOLD, 10)
    assert tail.rows() == []
    put(path, 1)
    put(path, 2, kind="progress")
    assert tail.rows() == rows(1)
    put(path, 3)
    assert tail.rows() == rows(1, 3)


def test_what_was_written_before_is_not_told_again(path: Path) -> None:
    put(path, 1)
    tail = ReportTail(path, TOLD, 10)
    put(path, 2)
    assert tail.rows() == rows(2)


@pytest.mark.parametrize(("count", "oldest"), [(2, 0), (3, 1)])
def test_only_the_last_rows_are_kept(path: Path, count: int, oldest: int) -> None:
    tail = ReportTail(path, TOLD, 2)
    put(path, *range(count))
    assert tail.rows() == rows(*range(oldest, count))


def test_a_line_that_is_not_whole_yet_waits_and_a_torn_one_is_passed_over(path: Path) -> None:
    tail = ReportTail(path, TOLD, 10)
    put(path, 1)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert tail.rows() == []
    path.write_bytes(whole + whole[:-5])
    assert tail.rows() == rows(1)
    put(path, 2)  # ends the line that a full disk has torn
    put(path, 3)
    assert tail.rows() == rows(1, 3)
