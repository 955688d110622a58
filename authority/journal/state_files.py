"""What lies in a state directory, by name; it imports nothing, for who must start fast."""

JOURNAL = "journal.db"
URL_FILE = "journal.url"  # in place of the journal: where it is instead
TRAJECTORY = "harness_trajectory.jsonl"
TABLES = "tables.db"
SOCKET = "authority.sock"
LOCK = "lock"
EVIDENCE_LOCK = "evidence.lock"
