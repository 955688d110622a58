"""What lies in a state directory, by name; it imports nothing, for who must start fast."""

JOURNAL = "journal.db"
URL_FILE = "journal.url"  # in place of the journal: where it is instead
TRAJECTORY = "harness_trajectory.jsonl"
TABLES = "tables.db"
SOCKET = "authority.sock"
LOCK = "lock"
EVIDENCE_LOCK = "evidence.lock"
IMAGE = "kernel.image"
ANSWERED = "answered.seq"

# What a name begins with that one of us gives in a state directory, in whatever room.
OURS = (
    *("journal.", TRAJECTORY.removesuffix("jsonl"), "tables.db", "kernel.", "issues.jsonl"),
    *(SOCKET, LOCK, EVIDENCE_LOCK, ANSWERED, "mcp.sock", "mcp.lock"),
)
OUR_FOLDERS = ("run", "logs", "ciwitness")
