"""What tells one journal from every other: the digest of its first row.

The row has the moment at which it was decided, so two journals do not begin alike; a copy that is
moved to another engine begins as the first did. Every process of a fleet can read it.
"""

from functools import lru_cache
from pathlib import Path

from .journal import Journal, Unavailable
from .state_dir import open_journal


def of_journal(journal: Journal) -> str | None:
    """Of an open journal; None while it is empty."""
    row = journal.row(1)
    return None if row is None else row.digest


def of_state_dir(state_dir: Path) -> str | None:
    """Of a state directory, read once by a process; None where it cannot be read now."""
    try:
        return _read(state_dir.absolute())
    except (Unavailable, OSError):
        return None


@lru_cache(maxsize=64)
def _read(state_dir: Path) -> str:
    with open_journal(state_dir, read_only=True) as journal:
        found = of_journal(journal)
    if found is None:
        raise FileNotFoundError(state_dir)  # which is not remembered
    return found
