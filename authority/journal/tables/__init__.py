"""The state as SQL tables, for people with SQL in their hands.

The tables follow the journal by its changes and remember how far they came (`watermark`). They
delay no answer, and can be deleted and made anew at any time. With a journal in SQLite they are a
file beside it; with one in PostgreSQL they are in its schema, and `postgres/tables.py` has them.
"""

from typing import Any, Protocol

from ..journal import Journal
from .file import Tables
from .schema import SCHEMA, VERSION, Table

__all__ = ["SCHEMA", "VERSION", "Shown", "Table", "Tables"]


class Shown(Protocol):
    """Tables that follow a journal, wherever they are."""

    def watermark(self) -> int:
        """The last row that they show."""

    def rows(self, table: str) -> list[tuple[Any, ...]]:
        """All that a table shows."""

    def follow(self, journal: Journal, rows_max: int | None = None) -> int:
        """Take in the rows that are missing, or so many of them; how many there were."""

    def clear(self) -> None:
        """Forget everything; the next `follow` begins with the first row."""

    def close(self) -> None:
        """Let go of them."""
