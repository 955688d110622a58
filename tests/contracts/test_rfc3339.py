"""Moments as text and as milliseconds: exact both ways, and bounded at both ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.contracts import limits, rfc3339

moments = st.integers(0, limits.WALL_MS_MAX)


@given(moments)
def test_a_moment_survives_both_spellings(wall_ms: int) -> None:
    assert rfc3339.parse_ms(rfc3339.answer_text(wall_ms)) == wall_ms
    assert rfc3339.parse_ms(rfc3339.record_text(wall_ms)) == wall_ms


@given(moments, moments)
def test_record_texts_of_whole_seconds_sort_as_moments_do(one_ms: int, other_ms: int) -> None:
    one_ms, other_ms = one_ms - one_ms % 1000, other_ms - other_ms % 1000
    texts = rfc3339.record_text(one_ms), rfc3339.record_text(other_ms)
    assert (texts[0] < texts[1]) == (one_ms < other_ms)


@given(moments, st.integers(0, 999_999))
def test_what_is_finer_than_a_millisecond_is_cut_off(wall_ms: int, rest_ns: int) -> None:
    second = rfc3339.record_text(wall_ms - wall_ms % 1000).removesuffix("Z")
    assert rfc3339.parse_ms(f"{second}.{wall_ms % 1000:03d}{rest_ns:06d}Z") == wall_ms


@given(
    st.integers(86_400_000, limits.WALL_MS_MAX - 86_400_000),
    st.sampled_from("+-"),
    st.integers(0, 23),
    st.integers(0, 59),
)
def test_an_offset_is_taken_off(wall_ms: int, sign: str, hours: int, minutes: int) -> None:
    local = rfc3339.record_text(wall_ms).removesuffix("Z")
    ahead_ms = (hours * 60 + minutes) * 60_000
    expected = wall_ms - ahead_ms if sign == "+" else wall_ms + ahead_ms
    assert rfc3339.parse_ms(f"{local}{sign}{hours:02d}:{minutes:02d}") == expected


SPELLINGS = [
    (0, "1970-01-01T00:00:00+00:00", "1970-01-01T00:00:00Z"),
    (1, "1970-01-01T00:00:00.001+00:00", "1970-01-01T00:00:00.001Z"),
    (1_000, "1970-01-01T00:00:01+00:00", "1970-01-01T00:00:01Z"),
    (951_827_696_789, "2000-02-29T12:34:56.789+00:00", "2000-02-29T12:34:56.789Z"),
    (limits.WALL_MS_MAX, "9999-12-31T23:59:59.999+00:00", "9999-12-31T23:59:59.999Z"),
]


@pytest.mark.parametrize(("wall_ms", "answer", "record"), SPELLINGS)
def test_answers_and_records_have_their_own_spelling(
    wall_ms: int, answer: str, record: str
) -> None:
    assert (rfc3339.answer_text(wall_ms), rfc3339.record_text(wall_ms)) == (answer, record)


READ = [
    ("1970-01-01T00:00:00Z", 0),
    ("1970-01-01t00:00:00z", 0),
    ("1970-01-01 00:00:00Z", 0),
    ("1970-01-01T00:00:00.1Z", 100),
    ("1970-01-01T00:00:00.12Z", 120),
    ("1970-01-01T00:00:00.123456789Z", 123),
    ("1970-01-01T00:00:00.999999999Z", 999),
    ("1970-01-01T01:00:00+01:00", 0),
    ("1969-12-31T23:00:00-01:00", 0),
    ("1970-01-01T00:00:00-00:00", 0),
    ("9999-12-31T23:59:59.999999999Z", limits.WALL_MS_MAX),
    ("9999-12-31T23:59:59.999-00:00", limits.WALL_MS_MAX),
]


@together(("text", "wall_ms"), READ)
def test_every_spelling_that_the_rfc_allows_is_read(text: str, wall_ms: int) -> None:
    assert rfc3339.parse_ms(text) == wall_ms


REFUSED = [
    "", " ", "now", "0", "2027", "2027-01-15", "2027-01-15T08:00Z", "2027-01-15T08:00:00",
    "2027-01-15T08:00:00.Z", "2027-01-15T08:00:00.1234567890Z", "2027-01-15T08:00:00,5Z",
    "2027-01-15T08:00:00+0100", "2027-01-15T08:00:00+01", "2027-01-15T08:00:00 +01:00",
    "2027-01-15T08:00:00+24:00", "2027-01-15T24:00:00Z", "2027-02-29T08:00:00Z",
    "2027-13-01T08:00:00Z", "2027-00-01T08:00:00Z", "2027-01-32T08:00:00Z",
    "2027-01-15T24:00:01Z", "2027-01-15T08:60:00Z", "2027-01-15T08:00:60Z",
    "2027-01-15T08:00:00ZZ", "2027-01-15T08:00:00Z\n", " 2027-01-15T08:00:00Z",
    "0000-01-01T00:00:00Z", "1969-12-31T23:59:59.999Z", "1970-01-01T00:00:00+00:01",
    "9999-12-31T23:59:59-00:01", "10000-01-01T00:00:00Z", "-2027-01-15T08:00:00Z",
    "\u0662\u0660\u0662\u0667-01-15T08:00:00Z", "20270115T080000Z", "2027-W02-5T08:00:00Z",
]  # fmt: skip


@together("text", REFUSED)
def test_what_is_no_moment_of_ours_is_none(text: str) -> None:
    assert rfc3339.parse_ms(text) is None


@pytest.mark.parametrize("offset", ["+01:60", "-00:99"])
def test_an_offset_has_fewer_than_sixty_minutes(offset: str) -> None:
    assert rfc3339.parse_ms("2027-01-15T08:00:00" + offset) is None


@given(st.text(max_size=40))
def test_any_text_is_a_moment_within_bounds_or_none(text: str) -> None:
    wall_ms = rfc3339.parse_ms(text)
    assert wall_ms is None or 0 <= wall_ms <= limits.WALL_MS_MAX
