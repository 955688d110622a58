"""What lies in a state directory, by name; and nothing that would slow a fast start."""

import os

JOURNAL = "journal.db"
URL_FILE = "journal.url"  # in place of the journal: where it is instead
TRAJECTORY = "harness_trajectory.jsonl"
TABLES = "tables.db"
SOCKET = "authority.sock"
LOCK = "lock"
EVIDENCE_LOCK = "evidence.lock"
IGNORED = ".gitignore"  # keeps all of it out of a repository that it lies in
IMAGE = "kernel.image"
ANSWERED = "answered.seq"

# What a name begins with that one of us gives in a state directory, in whatever room.
OURS = (
    *("journal.", TRAJECTORY.removesuffix("jsonl"), "tables.db", "kernel.", "issues.jsonl"),
    *(SOCKET, LOCK, EVIDENCE_LOCK, ANSWERED, IGNORED, "mcp.sock", "mcp.lock"),
    *("evidence-index.", "service.env"),
)
OUR_FOLDERS = ("run", "logs", "ciwitness")


def is_state_dir(folder: str | os.PathLike[str]) -> bool:
    """Whether a journal lies there, or the name of the place where it lies."""
    names = (JOURNAL, URL_FILE)
    return any(os.path.exists(f"{os.fspath(folder)}/{name}") for name in names)  # noqa: PTH110 - pathlib is slow to start
