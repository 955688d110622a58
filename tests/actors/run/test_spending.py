"""What a command says that it spends: lines of a file, as they come."""

import os
from pathlib import Path

import pytest

from tests.limits import stands_on
from understudy.actors.handlers import IssueWork
from understudy.actors.run.spending import SpendFile, spend_members
from understudy.contracts import Amount, limits, milliseconds, spend_line, usd_micros


def look(file: SpendFile, *, is_over: bool = False) -> tuple[Amount | None, list[str]]:
    told: list[str] = []
    return file.look(told.append, is_over=is_over), told


@pytest.mark.parametrize(
    ("text", "micros"),
    [("0", 0), ("0.25", 250_000), ("3", 3_000_000), ("0.000001", 1), ("-1.5", -1_500_000)],
)
def test_dollars_are_taken_over_exactly(text: str, micros: int) -> None:
    assert usd_micros(text) == micros


@pytest.mark.parametrize("text", ["", "0.0000001", "1e3", "NaN", "5EUR", "$5", "1,5", ".5", "٣"])
def test_what_is_no_amount_of_dollars_says_how_to_write_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"write dollars such as 0\.25"):
        usd_micros(text)


def test_seconds_have_three_digits_behind_the_point() -> None:
    assert milliseconds("1.5") == 1_500
    with pytest.raises(ValueError, match="at most 3 digits"):
        milliseconds("1.0005")


@pytest.mark.parametrize(
    "line", ["eur=5", "usd", "usd=1 usd=2", "tokens=1.5", "tokens=-1", "usd=0", "hello there"]
)
def test_a_line_that_says_nothing_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match=r"="):
        spend_line(line)


def test_lines_count_once_and_only_when_they_have_their_end(tmp_path: Path) -> None:
    file = SpendFile(tmp_path / "spend")
    assert look(file) == (None, [])
    file.path.write_text("tokens=5 usd=0.5\nseconds=2\ntok")
    assert look(file) == (Amount(5, 500_000, 2_000), [])
    assert look(file) == (None, [])
    with file.path.open("a") as more:
        more.write("ens=1")
    assert look(file) == (None, [])
    assert look(file, is_over=True) == (Amount(tokens=1), [])


def test_a_pipe_in_its_place_holds_no_reader_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "spend")
    assert look(SpendFile(tmp_path / "spend"), is_over=True) == (None, [])


@stands_on("SPEND_FILE_BYTES_MAX")
def test_a_file_is_read_so_far_and_no_further(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SPEND_FILE_BYTES_MAX", 18)
    file = SpendFile(tmp_path / "spend")
    file.path.write_text("tokens=5\ntokens=7\ntokens=9\n")
    assert look(file) == (Amount(tokens=12), [])
    assert look(file, is_over=True) == (None, [])


def test_one_report_says_no_more_than_it_may() -> None:
    assert spend_members(Amount(tokens=10**15, usd_micros=3)) == {
        "tokens": limits.SPEND_REPORT_MAX, "usdMicros": 3,
    }  # fmt: skip


def test_a_handler_says_what_it_spends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_SPEND_FILE", str(tmp_path / "spend"))
    work = IssueWork({}, "a", "ann", "l", 1, tmp_path)
    work.spend(tokens=1200, usd="0.012")
    work.spend(seconds="3.5")
    assert look(SpendFile(tmp_path / "spend")) == (Amount(1_200, 12_000, 3_500), [])
    for wrong in ({"tokens": -1}, {"usd": 0.5}, {"usd": "5EUR"}, {}, {"tokens": "1.5"}):
        with pytest.raises(ValueError, match=r"spent|whole number"):
            work.spend(**wrong)
