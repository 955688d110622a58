"""What `understudy up` shows: on a terminal a picture that moves, elsewhere a line for each event.

    2026-02-03T04:05:06.007Z  claimed  us-1: attempt 1, fence 17, coord/1f/1: Mend the roof
    {"at":"2026-02-03T04:05:06.007Z","event":"claimed","issue":"us-1","attempt":1,"traceId":...}

Lines go to standard output, each one whole; what `up` says of itself goes to standard error. The
tree goes on when no reader is left.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import orjson

from . import tree_text
from .log_format import LogFormat, span_ids
from .session import print_bytes, print_json

Row = dict[str, Any]

_DRAW_SECONDS = 0.5
_UNSAID = ("kind", "at_ms", "what")  # of a row, what a line does not have


class TreeLog:
    """`is_quiet` shows nothing; `as_json` leaves standard output to the answer."""

    def __init__(
        self, state_dir: Path, log_format: LogFormat | None, *, is_quiet: bool, as_json: bool
    ) -> None:
        self._state_dir = state_dir
        is_bare = log_format is None and not is_quiet and not as_json
        self._moves = is_bare and sys.stdout is not None and sys.stdout.isatty()
        self._speaks = not is_quiet and not self._moves and (log_format is not None or not as_json)
        self._as_json = log_format == "json"
        self._greets = not (is_quiet or as_json or self._as_json)
        self._drawn = 0.0
        self._said: set[bytes] = set()  # rows that a loop may still remember

    def say(self, text: str) -> None:
        """Of `up` itself."""
        if self._greets:
            with contextlib.suppress(OSError):
                click.echo(text, err=True)

    def show(self, picture: Row, news: Sequence[Row], around: Callable[[Row], Row]) -> None:
        """A look at the tree, and what was written down until after it."""
        if not self._moves:
            self._tell(news, tree_text.reports(picture | {"reports": []}))
        elif time.monotonic() >= self._drawn + _DRAW_SECONDS:
            self._drawn = time.monotonic()
            tree_text.draw(picture | around(picture))

    def end(self, news: Sequence[Row]) -> None:
        """The tree has stopped."""
        if self._moves:
            click.echo()
        else:
            self._tell(news, ())

    def _tell(self, news: Sequence[Row], remembered: Sequence[Row]) -> None:
        """A line for each row that is new: of those on disk, and of those that a loop remembers,
        since a full disk takes none."""
        written = set(map(_key, news))
        known = self._said | written
        for row in (*news, *(row for row in remembered if _key(row) not in known)):
            self._print(row)
        self._said = written | set(map(_key, remembered))

    def _print(self, row: Row) -> None:
        if not self._speaks:
            return
        try:
            if self._as_json:
                print_json(_object(row) | _ids(self._state_dir, row))
            else:
                print_bytes(f"{_line(row)}\n".encode(errors="replace"))
        except OSError:  # the reader has gone; a tree is not stopped by that
            self._speaks = False
            # What is left in the buffer would be written once more in the end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _key(row: Row) -> bytes:
    return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)


def _object(row: Row) -> Row:
    """A row for programs: `event` is one word, and what is about nothing is left out."""
    said = {name: value for name, value in row.items() if name not in _UNSAID}
    found = {"event": row["what"].replace(" ", "_")} | said
    return {name: value for name, value in found.items() if value is not None}


def _ids(state_dir: Path, row: Row) -> dict[str, str]:
    """The trace of what a row is about, and the span of its term, where the row has a fence."""
    name = row.get("job") or row.get("issue")
    if not name:
        return {}
    resource = f"{'job' if row.get('job') else 'issue'}/{name}"
    return span_ids(state_dir, resource, row.get("fence"))


def _line(row: Row) -> str:
    """A row for people: one line, whatever a command has printed."""
    text = f"{row['at']}  {row['what']}  {tree_text.about(row)}{row['detail']}"
    return "".join(each if each.isprintable() else " " for each in text).rstrip()
