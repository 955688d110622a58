"""What the journal shows: trajectory, replay, answers to SQL, and files of other tools."""

__all__ = [
    "evidence_index",
    "foreign_issues",
    "high_water",
    "issues_file",
    "replay",
    "spans",
    "sql",
    "trajectory",
]
