"""Moments in C, against `contracts.rfc3339`."""

import itertools
import random
from datetime import UTC, datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.together import together
from understudy.authority.engine import ffi
from understudy.contracts import limits, rfc3339

wall_times = st.integers(0, limits.WALL_MS_MAX)
zones = st.sampled_from(["Z", "z", "+00:00", "-00:00", "+23:59", "-23:59", "+05:30", "-08:00"])
DAY_MS = 86_400_000

MOMENTS = [
    "1970-01-01T00:00:00Z",
    "1970-01-01t00:00:00z",
    "1970-01-01 00:00:00+00:00",
    "1970-01-01T00:00:00.000000001Z",
    "1969-12-31T23:59:59.999Z",
    "1969-12-31T23:59:00-00:01",
    "1970-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59.999Z",
    "9999-12-31T23:59:59.999999999+00:00",
    "9999-12-31T23:59:59-00:01",
    "0001-01-01T00:00:00+23:59",
    "0000-01-01T00:00:00Z",
    "2000-02-29T12:00:00Z",
    "1900-02-29T12:00:00Z",
    "2100-02-29T12:00:00Z",
    "2024-02-29T12:00:00Z",
    "2023-02-29T12:00:00Z",
    "2026-04-31T12:00:00Z",
    "2026-00-10T12:00:00Z",
    "2026-13-10T12:00:00Z",
    "2026-02-00T12:00:00Z",
    "2026-02-03T23:59:60Z",
    "2026-02-03T23:60:00Z",
    "2026-02-03T24:00:00Z",
    "2026-02-03T04:05:06",
    "2026-02-03T04:05Z",
    "2026-02-03T04:05:06.Z",
    "2026-02-03T04:05:06.1234567891Z",
    "2026-02-03T04:05:06,5Z",
    "2026-02-03T04:05:06Z ",
    " 2026-02-03T04:05:06Z",
    "2026-02-03T04:05:06Z\n",
    "2026-02-03T04:05:06Z\0",
    "2026-02-03T04:05:06+0000",
    "2026-02-03T04:05:06+00",
    "2026-02-03T04:05:06\u221200:00",
    "\u0662026-02-03T04:05:06Z",
    "\ud8002026-02-03T04:05:06Z",
    "-026-02-03T04:05:06Z",
    "+2026-02-03T04:05:06Z",
    "20260203T040506Z",
    "2026-W06-2T04:05:06Z",
    "2026-034T04:05:06Z",
    "",
    "Z",
]


@together("text", MOMENTS)
def test_hand_picked_text_is_read_alike(text: str) -> None:
    assert ffi.parse_ms(text) == rfc3339.parse_ms(text)


def test_every_hour_and_minute_of_every_zone_is_read_alike() -> None:
    for sign, hour, minute in itertools.product("+-", range(100), range(100)):
        text = f"2026-02-03T04:05:06{sign}{hour:02d}:{minute:02d}"
        allowed = hour < 24 and minute < 60
        assert (rfc3339.parse_ms(text) is not None) == allowed
        assert ffi.parse_ms(text) == rfc3339.parse_ms(text)


def test_every_hour_minute_and_second_is_read_alike() -> None:
    for place, number in itertools.product(range(3), range(100)):
        clock = ["11", "22", "33"]
        clock[place] = f"{number:02d}"
        text = f"2026-02-03T{':'.join(clock)}Z"
        assert ffi.parse_ms(text) == rfc3339.parse_ms(text)


def test_the_ends_of_every_month_until_9999_are_spelled_alike() -> None:
    for year, month in itertools.product(range(1970, 10000), range(1, 13)):
        first_ms = int(datetime(year, month, 1, tzinfo=UTC).timestamp()) * 1000
        for wall_ms in (first_ms, max(first_ms - 1, 0)):
            assert ffi.record_text(wall_ms) == rfc3339.record_text(wall_ms)


@given(wall_times)
@example(0)
@example(limits.WALL_MS_MAX)
def test_any_moment_is_spelled_alike_and_read_back(wall_ms: int) -> None:
    assert ffi.answer_text(wall_ms) == rfc3339.answer_text(wall_ms)
    assert ffi.record_text(wall_ms) == rfc3339.record_text(wall_ms)
    assert ffi.parse_ms(ffi.answer_text(wall_ms)) == wall_ms
    assert ffi.parse_ms(ffi.record_text(wall_ms)) == wall_ms


@given(wall_times, zones, st.text("0123456789", max_size=10), st.sampled_from("Tt _"))
def test_any_spelling_of_a_moment_is_read_alike(
    wall_ms: int, zone: str, fraction: str, between: str
) -> None:
    text = rfc3339.record_text(wall_ms - wall_ms % 1000)[:-1].replace("T", between)
    text += f".{fraction}{zone}" if fraction else zone
    assert ffi.parse_ms(text) == rfc3339.parse_ms(text)


def test_thirty_thousand_spoilt_moments_are_read_alike() -> None:
    chance = random.Random(3339)
    accepted = 0
    for _ in range(30_000):
        text = list(chance.choice(MOMENTS) or "2026")
        for _ in range(chance.randint(1, 3)):
            text[chance.randrange(len(text))] = chance.choice("0123456789-:+.TZ ")
        spoilt = "".join(text)
        assert ffi.parse_ms(spoilt) == rfc3339.parse_ms(spoilt), spoilt
        accepted += ffi.parse_ms(spoilt) is not None
    assert accepted > 1_000  # both verdicts were tried


@pytest.mark.parametrize("wall_ms", [-1, limits.WALL_MS_MAX + 1, 2**63 - 1, -(2**63)])
def test_what_no_clock_of_ours_shows_has_no_text(wall_ms: int) -> None:
    for spell in (ffi.answer_text, ffi.record_text):
        with pytest.raises(ffi.Flawed) as refused:
            spell(wall_ms)
        assert refused.value.flaw is ffi.KernelFlaw.MOMENT_INVALID
