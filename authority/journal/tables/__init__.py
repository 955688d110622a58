"""The state as SQL tables, for people with SQL in their hands.

The tables follow the journal by its changes and remember how far they came (`watermark`). They
delay no answer, and can be deleted and made anew at any time. With a journal in SQLite they are a
file beside it; with one in PostgreSQL they are in its schema, and `postgres/tables.py` has them.
"""

from .file import Tables
from .schema import SCHEMA, VERSION, Table

__all__ = ["SCHEMA", "VERSION", "Table", "Tables"]
