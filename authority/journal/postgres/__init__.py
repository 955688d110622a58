"""The journal in PostgreSQL. It needs the extra `postgres`, and is imported where it is used."""

from .journal import PostgresJournal
from .reader import PostgresReader

__all__ = ["PostgresJournal", "PostgresReader"]
