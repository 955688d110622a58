"""The journal: rows in order, their clock, the engines that keep them, and their SQL tables."""

__all__ = [
    "failpoint",
    "journal",
    "journal_url",
    "move",
    "origin",
    "private",
    "sqlite",
    "state_files",
]
