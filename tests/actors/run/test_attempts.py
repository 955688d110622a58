"""Where output is kept: every issue in a folder of its own, and none outside."""

import fcntl
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.actors.run.attempts import (
    KEPT_MAX,
    LOGS,
    attempts_of,
    begun,
    folder_of,
    write_record,
)
from understudy.contracts import limits

HOSTILE = [
    "..", ".", "../../etc", "/etc/passwd", "a/b", "a\\b", "-rf", ".hidden", "a\0b", "a\nb",
    "%2E%2E", "ü", "x" * limits.ID_LENGTH_MAX, "ü" * limits.ID_LENGTH_MAX, "\udcff", "", " ",
    "~", "con", "*",
]  # fmt: skip


@together("issue", HOSTILE)
def test_a_hostile_name_stays_in_the_folder(tmp_path: Path, issue: str) -> None:
    with begun(tmp_path, issue, 1) as attempt:
        inside = attempt.path.resolve().relative_to((tmp_path / LOGS).resolve())
    assert len(inside.parts) == (2 if issue else 1)
    assert attempts_of(tmp_path, issue) == [attempt]
    assert {each.name for each in tmp_path.iterdir()} == {LOGS}


@given(st.lists(st.text(max_size=limits.ID_LENGTH_MAX), min_size=2, max_size=2, unique=True))
def test_two_issues_never_share_a_folder(pair: list[str]) -> None:
    first, second = (folder_of(Path("state"), issue) for issue in pair)
    assert first != second
    for folder in (first, second):
        assert len(os.fsencode(folder.name)) <= 255
        assert folder.name not in {".", ".."}
        assert "/" not in folder.name


def test_a_plain_name_stays_as_it_is() -> None:
    assert folder_of(Path("s"), "us-1.b_C") == Path("s/logs/us-1.b_C")


def test_attempts_come_in_their_order(tmp_path: Path) -> None:
    for number in (2, 10, 1):
        with begun(tmp_path, "x", number):
            pass
    (folder_of(tmp_path, "x") / "notes.txt").touch()
    (folder_of(tmp_path, "x") / "0.log").touch()
    assert [each.number for each in attempts_of(tmp_path, "x")] == [1, 2, 10]
    assert attempts_of(tmp_path, "y") == []


def test_the_same_attempt_twice_has_two_outputs(tmp_path: Path) -> None:
    with begun(tmp_path, "x", 3) as first, begun(tmp_path, "x", 3) as second:
        assert [first.path.name, second.path.name] == ["3.log", "3.2.log"]
        write_record(second, {"outcome": "failed"})
    assert attempts_of(tmp_path, "x") == [first, second]
    assert (first.record(), second.record()) == ({}, {"outcome": "failed"})


def test_a_record_that_is_damaged_says_nothing(tmp_path: Path) -> None:
    with begun(tmp_path, "x", 1) as attempt:
        for garbage in (b"", b"{", b"[1]", b"\xff"):
            attempt.record_path.write_bytes(garbage)
            assert attempt.record() == {}


def test_old_outputs_make_room_with_all_that_belongs_to_them(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "x")
    for number in range(1, KEPT_MAX + 1):
        with begun(tmp_path, "x", number) as attempt:
            write_record(attempt, {"n": number})
            (folder / f"{attempt.path.name}.1048576").touch()
    assert len(attempts_of(tmp_path, "x")) == KEPT_MAX
    with begun(tmp_path, "x", KEPT_MAX + 1):
        kept = [each.number for each in attempts_of(tmp_path, "x")]
    assert kept == list(range(2, KEPT_MAX + 2))
    assert not list(folder.glob("1.*"))


def test_an_output_that_is_being_written_is_left_alone(tmp_path: Path) -> None:
    with begun(tmp_path, "x", 1) as first:
        for number in range(2, KEPT_MAX + 3):
            with begun(tmp_path, "x", number):
                pass
        assert first.path.exists()
        assert first.output().is_written()
    assert not first.output().is_written()


def test_an_output_counts_as_written_from_its_beginning(tmp_path: Path) -> None:
    with begun(tmp_path, "x", 1) as attempt:
        with attempt.path.open("rb") as file, pytest.raises(BlockingIOError):
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        assert attempt.path.stat().st_mode & 0o077 == 0
        assert attempt.path.parent.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("name", [LOGS, f"{LOGS}/x"])
def test_output_goes_through_a_link_of_ours_and_not_through_another_s(
    tmp_path: Path, name: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a link for another user")
    state_dir, outside = tmp_path / "state", tmp_path / "outside"
    outside.mkdir()
    link = state_dir / name
    link.parent.mkdir(parents=True)
    link.symlink_to(outside)
    with begun(state_dir, "x", 1):
        pass
    (written,) = outside.rglob("*.log")
    written.unlink()
    os.lchown(link, 65_534, 65_534)
    with pytest.raises(PermissionError, match="link that user 65534"), begun(state_dir, "x", 2):
        pass
    assert list(outside.rglob("*.log")) == []
