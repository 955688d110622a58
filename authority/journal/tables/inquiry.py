"""Questions to the tables, for reading and nothing else.

A question is one statement of SQL. Whatever is wrong with it is said in `BadQuery`; that it can
change nothing is the engine's own word, not a guess about its text.
"""

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import quote

import apsw

from .schema import SCHEMA

_LOOK_OPCODES = 20_000  # of SQLite's machine, between two looks at the watch
_VALUE_BYTES_MAX = 64 * 1_048_576  # `zeroblob` and its like could ask for more than there is
_READABLE = frozenset({*(table.name for table in SCHEMA), "json_each", "json_tree"})
_FORBIDDEN = frozenset({"load_extension", "fts3_tokenizer"})
_TOKEN = re.compile(
    r"""
      [eE]'(?:[^'\\]|\\.|'')*(?:'|\Z)            # text, with what PostgreSQL escapes in it
    | '(?:[^']|'')*(?:'|\Z)
    | "(?:[^"]|"")*(?:"|\Z)
    | --[^\n]*
    | /\*.*?(?:\*/|\Z)
    | \$(?P<tag>\w*)\$.*?(?:\$(?P=tag)\$|\Z)
    | (?P<end>;)
    | \w+ | .
    """,
    re.VERBOSE | re.DOTALL,
)
_AHEAD = re.compile(r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*", re.DOTALL)


class BadQuery(Exception):
    """A question that cannot be answered, in the engine's words."""


class QueryAnswer(NamedTuple):
    """The names of the columns, and rows as they come."""

    columns: Sequence[str]
    rows: Iterator[tuple[Any, ...]]


class Reader(Protocol):
    """One who asks, on one connection. What is asked next ends the answer before it."""

    def ask(self, statement: str, values: Sequence[str | int] = ()) -> QueryAnswer:
        """What the tables say to one statement; `BadQuery` where it is no question to them.

        Where values are given, each stands for a `?` in the statement.
        """

    def watermark(self) -> int:
        """The last row of the journal that they show."""

    def close(self) -> None:
        """Let go."""


def split(text: str) -> tuple[list[str], str]:
    """The statements that a text has, and what is left behind the last semicolon."""
    found, start = [], 0
    for token in _TOKEN.finditer(text):
        if token["end"]:
            found.append(text[start : token.start()].strip())
            start = token.end()
    return [each for each in found if bare(each)], text[start:]


def bare(text: str) -> str:
    """Without the comments that it begins with."""
    ahead = _AHEAD.match(text)
    return text[ahead.end() :].strip() if ahead else text.strip()


class FileReader:
    """Asks the tables in a file. SQLite itself is opened for reading, and refuses all else."""

    def __init__(self, path: Path, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._give_up_s = 0.0
        uri = f"file:{quote(str(path.absolute()))}?mode=ro"
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        try:
            self._db = apsw.Connection(uri, flags=flags)
            self._db.set_busy_timeout(5_000)
            self._db.pragma("query_only", True)  # noqa: FBT003 - apsw's signature
            self._db.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
            self._db.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            self._db.limit(apsw.SQLITE_LIMIT_LENGTH, _VALUE_BYTES_MAX)
            self._db.limit(apsw.SQLITE_LIMIT_ATTACHED, 0)
            self._db.authorizer = _may
            self._db.set_progress_handler(self._is_late, _LOOK_OPCODES)
        except (apsw.Error, UnicodeEncodeError) as error:
            raise BadQuery(f"{path}: {error}") from error

    def ask(self, statement: str, values: Sequence[str | int] = ()) -> QueryAnswer:
        columns: list[str] = []

        def noted(cursor: apsw.Cursor, _: str, __: object) -> bool:
            columns[:] = [each[0] for each in cursor.get_description()]
            return True

        cursor = self._db.cursor()
        cursor.exec_trace = noted
        self._give_up_s = time.monotonic() + self._timeout_s
        with _worded(self._timeout_s):
            cursor.execute(statement, tuple(values))
        return QueryAnswer(columns, self._rows(cursor))

    def watermark(self) -> int:
        self._give_up_s = time.monotonic() + self._timeout_s
        with _worded(self._timeout_s):
            return int(self._db.execute("SELECT seq FROM watermark").get)

    def close(self) -> None:
        self._db.close(force=True)

    def _rows(self, cursor: apsw.Cursor) -> Iterator[tuple[Any, ...]]:
        with _worded(self._timeout_s):
            yield from cursor

    def _is_late(self) -> bool:
        """Called by SQLite as it works; a signal is noticed here too."""
        return time.monotonic() > self._give_up_s


def _may(action: int, one: str | None, two: str | None, *_: str | None) -> int:
    match action:
        case apsw.SQLITE_SELECT | apsw.SQLITE_RECURSIVE:
            allowed = True
        case apsw.SQLITE_READ:
            allowed = one in _READABLE or not two  # rows that are counted, also those of a CTE
        case apsw.SQLITE_FUNCTION:
            allowed = two not in _FORBIDDEN
        case _:
            allowed = False
    return apsw.SQLITE_OK if allowed else apsw.SQLITE_DENY


@contextmanager
def _worded(timeout_s: float) -> Iterator[None]:
    """What SQLite says no with, for the one who asked."""
    try:
        yield
    except (apsw.AuthError, apsw.ReadOnlyError) as error:
        names = ", ".join(table.name for table in SCHEMA)
        raise BadQuery(f"{error}: these tables can be read ({names}), and nothing else") from error
    except apsw.InterruptError as error:
        raise BadQuery(f"no answer in {timeout_s:g} s (--timeout)") from error
    except (apsw.NotADBError, apsw.CorruptError) as error:
        raise BadQuery(f"{error}; `understudy rebuild` makes the tables anew") from error
    except (apsw.Error, UnicodeEncodeError) as error:
        raise BadQuery(str(error)) from error
