"""Every maximum in the system, with the reason for its size.

A limit that is met is a refusal with a class, never a crash and never silent loss.
"""

# --- numbers and text --------------------------------------------------------------------------
INTEGER_MAX = 2**53 - 1  # what a JSON reader with doubles still reads exactly
JSON_DEPTH_MAX = 32  # deeper than any payload of ours, far from any parser's stack
TEXT_DEPTH_MAX = 64  # the same for JSON text that an imported record carries along
REQUEST_BYTES_MAX = 1_048_576  # one line on a door
ID_LENGTH_MAX = 128  # issue, job, instance, sublease and fiber ids
NAME_LENGTH_MAX = 256  # assignees, owners, lease ids, request ids, node names
TITLE_LENGTH_MAX = 512
TEXT_LENGTH_MAX = 131_072  # description, design, acceptance criteria, notes
REASON_LENGTH_MAX = 1_024  # why a lease was broken, an issue closed, a fiber cancelled
REF_LENGTH_MAX = 1_024  # worktree, runtime, instruction, task and result references
LABELS_MAX = 64
COMMENTS_MAX = 256  # comment lines above one record of issues.jsonl
CAPABILITIES_MAX = 64

# --- leases ------------------------------------------------------------------------------------
TTL_SECONDS_MIN = 30
TTL_SECONDS_MAX = 86_400
TTL_SECONDS_DEFAULT = 3_600
SUBLEASES_PER_LEASE_MAX = 256
INSTANCES_PER_LEASE_MAX = 16
FIBERS_PER_LEASE_MAX = 256  # that run at once
FIBERS_ENDED_MAX = 256  # that have ended and are still told from those that never were
FIBER_DEPTH_MAX = 16  # a fiber of a fiber of a fiber

# --- what the authority remembers --------------------------------------------------------------
ISSUES_MAX = 4_194_304
DEPENDENCIES_PER_ISSUE_MAX = 256
ANSWERS_MAX = 65_536  # request ids whose first answer is still known
PROJECTION_IDS_MAX = 64  # stale or contended ids listed in one answer
LIST_MAX = 10_000  # issues in one answer of a read
IMPORT_RECORDS_MAX = 256  # records in one row of an import
IMPORT_BYTES_MAX = REQUEST_BYTES_MAX - 1_024  # their bytes, with room for the request around them

# --- jobs --------------------------------------------------------------------------------------
JOBS_MAX = 4_194_304
JOB_PAYLOAD_MEMBERS_MAX = 64
JOB_ATTEMPTS_MAX = 16  # grants after which a job is blocked
JOB_WAIT_MS_MAX = 604_800_000  # a week of waiting for a dependency; then a job is blocked
CAUSAL_DEPS_MAX = 64
ARTIFACTS_MAX = 64  # that one completion names
OPERATIONS_PER_BATCH_MAX = 64  # admitted together in one row
DIRECTIVES_MAX = 4_096  # routes and marks of kinds
MEMBERS_MAX = 65_536  # nodes that are registered
ROSTER_PAGE_MAX = 256
ROSTER_PAGE_DEFAULT = 64
COORDINATOR_QUIET_MS_MAX = 900_000  # a coordinator without a word for longer is reported as quiet

# --- time --------------------------------------------------------------------------------------
CLOCK_DRIFT_MS_MAX = 500  # how far ahead of us a caller's stamp may be
WALL_MS_MAX = 253_402_300_799_999  # the last millisecond that RFC 3339 can name
NOW_MS_MAX = WALL_MS_MAX - 172_800_000  # every clock leaves room for the longest lease
COUNTER_MAX = 65_535  # events in one millisecond before the clock borrows the next

# --- commit ------------------------------------------------------------------------------------
BATCH_MAX = 512  # requests decided and committed together
SNAPSHOT_ROWS = 4_096  # rows after which a snapshot saves the next start from folding them
SNAPSHOT_ROWS_MAX = 262_144  # rows after which a busy sidecar takes the time for one
EVIDENCE_BEHIND_MAX = 65_536  # rows that the trajectory may be behind; then a sidecar waits for it
QUEUE_MAX = 16_384  # requests that wait in a sidecar
QUEUE_BYTES_MAX = 67_108_864  # their bytes
INFLIGHT_MAX = 4_096  # of those, one connection's
CONNECTIONS_MAX = 4_096
OUTPUT_BYTES_MAX = 16_777_216  # answers that a connection has not read; then it is cut off
LOCK_WAIT_MS = 10_000  # how long a command waits for another process to finish with the journal
