"""What the journal shows: trajectory, replay, answers to SQL, and files of other tools."""

__all__ = ["high_water", "issues_file", "replay", "sql", "trajectory"]
