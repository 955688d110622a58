"""Work on one git repository: a worktree for each lease, sections, overlaps, and their glue.

Entered through its modules; git is asked through `git.py` alone.
"""

__all__ = [
    "branch",
    "checkout",
    "commit",
    "git",
    "glue_program",
    "gluer",
    "gluing",
    "leg",
    "meeting",
    "names",
    "repository",
    "worktree",
]
