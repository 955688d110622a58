"""RFC 3339 text and milliseconds since 1970, without floats and without local time.

Two spellings exist, as in the other implementation of the protocol: answers say `+00:00`, records
in `issues.jsonl` say `Z`. Both show milliseconds only where there are any.
"""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from . import limits

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_SHAPE = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ]((?:[01]\d|2[0-3]):\d\d:\d\d)(?:\.(\d{1,9}))?([Zz]|[+-]\d\d:[0-5]\d)",
    re.ASCII,
)


def answer_text(wall_ms: int) -> str:
    """`2026-02-03T04:05:06.007+00:00`: how answers and evidence spell a moment."""
    return _text(wall_ms) + "+00:00"


def record_text(wall_ms: int) -> str:
    """`2026-02-03T04:05:06.007Z`: how issue records spell a moment."""
    return _text(wall_ms) + "Z"


def parse_ms(text: str) -> int | None:
    """Milliseconds since 1970, rounded down; None where the text is no RFC 3339 moment."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        return None
    day, clock, fraction, zone = match.groups()
    try:
        moment = datetime.fromisoformat(f"{day}T{clock}{'+00:00' if zone in 'Zz' else zone}")
        wall_ms = (moment - _EPOCH) // _MILLISECOND + int((fraction or "")[:3].ljust(3, "0"))
    except (ValueError, OverflowError):
        return None
    return wall_ms if 0 <= wall_ms <= limits.WALL_MS_MAX else None


def _text(wall_ms: int) -> str:
    seconds, rest_ms = divmod(wall_ms, 1000)
    text = _second_text(seconds)
    return f"{text}.{rest_ms:03d}" if rest_ms else text


@lru_cache(maxsize=4096)  # answers close in time name the same seconds again and again
def _second_text(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
