"""Every maximum in the system, with the reason for its size.

A limit that is met is a refusal with a class, never a crash and never silent loss.
"""

# --- numbers and text --------------------------------------------------------------------------
INTEGER_MAX = 2**53 - 1  # what a JSON reader with doubles still reads exactly
JSON_DEPTH_MAX = 32  # deeper than any payload of ours, far from any parser's stack
TEXT_DEPTH_MAX = 64  # the same for JSON text that an imported record carries along
REQUEST_BYTES_MAX = 1_048_576  # one line on a door, and a file that becomes one
SETTING_BYTES_MAX = 65_536  # a file with one value: a token, the URL of a journal
ID_LENGTH_MAX = 128  # issue, job, spec, instance, sublease and fiber ids
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

# --- what workers leave behind -------------------------------------------------------------------
SUMMARY_LENGTH_MAX = 4_096  # what a hand-over, a session or a step says of itself
CHECKPOINT_NOTES_MAX = 16_384
CHECKPOINT_ITEMS_MAX = 32  # things done, things to do, artefacts
HANDOVERS_PER_ISSUE_MAX = 4  # the newest ones
SESSIONS_MAX = 32_768  # workers whose session is known; one that stopped makes room for a new one
FEATURES_PER_WORKER_MAX = 256
REFS_MAX = 64  # references of one kind in a session, a feature or a step
PAST_ROWS_MAX = 1_024  # rows that a look back sees
QUERY_ITEMS_MAX = 100  # steps in one answer
ATTENTION_ITEMS_MAX = 256
ATTENTION_ATTEMPTS = 3  # grants after which work that is not done needs attention
JOIN_SECTIONS_MAX = 64
JOIN_PATHS_MAX = 1_024  # changed paths of one section
SPAN_EVENTS_MAX = 128  # of one span, as OpenTelemetry has it; those beyond are counted
# --- checks -------------------------------------------------------------------------------------
CHECKS_MAX = 64  # of a policy, and so of an instruction
CHECK_RULES_MAX = 64
GLOBS_MAX = 64  # of one rule
CHECK_COMMAND_WORDS_MAX = 64
CHECK_TIMEOUT_SECONDS_MAX = 86_400
CHANGED_PATHS_MAX = 4_096  # of one change; each meets every glob inside a decision
WITNESSES_MAX = 4_096  # that the authority still knows

# --- what the authority remembers --------------------------------------------------------------
ISSUES_MAX = 4_194_304
DEPENDENCIES_PER_ISSUE_MAX = 256
ANSWERS_MAX = 65_536  # request ids whose first answer is still known
PROJECTION_IDS_MAX = 64  # stale or contended ids listed in one answer
LIST_MAX = 10_000  # issues in one answer of a read
IMPORT_FILE_BYTES_MAX = 1_073_741_824  # an issues.jsonl, or an operation log
IMPORT_RECORDS_MAX = 256  # records in one row of an import
IMPORT_BYTES_MAX = REQUEST_BYTES_MAX - 1_024  # their bytes, with room for the request around them

# --- MCP over HTTP, and long calls ---------------------------------------------------------------
HTTP_CONNECTIONS_MAX = 1_024  # open at once; one more is told to come again
HTTP_STRANGERS_MAX = 256  # of them, without a request that was let in; one more cuts one off
HTTP_STRANGER_SECONDS = 10  # for the first such request of a connection
HTTP_SESSIONS_MAX = 1_024  # of clients of the handshake era
HTTP_GUESTS_MAX = 4_096  # clients over HTTP whose leases are renewed
HTTP_SESSION_IDLE_SECONDS = 900  # without any request or open stream; then it is forgotten
HTTP_BODY_SECONDS = 30  # for a request to arrive, once it has begun
HTTP_TOKEN_LENGTH_MIN = 16
TASKS_MAX = 4_096  # long calls whose end may still be asked for
TASKS_RUNNING_MAX = 256  # of those, the ones that go on
TASK_TTL_MS = 3_600_000  # how long the end of a long call can be asked for
TASK_QUESTIONS_MAX = 64  # answers in one update
TASK_TURNS_MAX = 16  # times that one call may ask its client for input
TASK_WATCHED_MAX = 256  # tasks that one subscription follows
TASK_NEWS_MAX = 64  # changes that a listener has not read; then the newest remain
# --- jobs --------------------------------------------------------------------------------------
JOBS_MAX = 4_194_304
JOB_PAYLOAD_MEMBERS_MAX = 64
JOB_ATTEMPTS_MAX = 16  # grants after which a job is blocked, without those that are excused
HAND_BACKS_MAX = 100  # of one issue or job that are excused; each further one counts as an attempt
JOB_WAIT_MS_MAX = 604_800_000  # a week of waiting for a dependency; then a job is blocked
CAUSAL_DEPS_MAX = 64
ARTIFACTS_MAX = 64  # that one completion names
JOB_DELAY_MS_MAX = 31_622_400_000  # a leap year; what is later belongs into a schedule
JOB_TIMEOUT_MS_MIN = 1_000
JOB_TIMEOUT_MS_MAX = 2_592_000_000  # thirty days
JOB_SCAN_MAX = 4_096  # jobs that one page of a list looks at
KIND_LIMITS_MAX = 1_024  # kinds and prefixes with a limit
KIND_CONCURRENCY_MAX = 65_536
KIND_RATE_MAX = 60_000  # claims in a minute: one in each millisecond
SCHEDULES_MAX = 1_024  # all of them are in one answer, and looked at by every scheduler
SCHEDULE_EVERY_MS_MIN = 1_000
SCHEDULE_GRACE_MS = 60_000  # a firing that is later than this was missed
SCHEDULE_MISSED_MAX = 100  # the newest firings that are made up for
OPERATIONS_PER_BATCH_MAX = 64  # admitted together in one row
PAUSES_MAX = 1_024  # scopes that are paused at a time
APPROVE_SCOPES_MAX = 64  # whose work waits for a person
DIRECTIVES_MAX = 4_096  # routes and marks of kinds
MEMBERS_MAX = 65_536  # nodes that are registered
AUTHORS_MAX = 65_536  # nodes that are not registered and whose stamps are remembered
STAMPS_PER_AUTHOR_MAX = 64  # the newest ones that are remembered: a full batch
KIND_PREFIXES_MAX = 64  # kinds and prefixes that one node is registered for
ROSTER_PAGE_MAX = 256
JOB_ID_LENGTH_MAX = 2 * ID_LENGTH_MAX + 1  # of a step's job: spec, colon, step; others are shorter
OPERATION_ID_LENGTH_MAX = JOB_ID_LENGTH_MAX + 32  # a word before it, a number behind it
ROSTER_PAGE_DEFAULT = 64
COORDINATOR_QUIET_MS_MAX = 900_000  # a coordinator without a word for longer is reported as quiet

# --- what work costs -----------------------------------------------------------------------------
SPEND_REPORT_MAX = 1_000_000_000_000  # of each unit in one report: a million dollars
BUDGETS_MAX = 4_096
TALLIES_MAX = 65_536  # scopes in which something was spent
SPEND_SHOWN_MAX = 1_024  # of those, in one answer
BUDGET_WARNING_PERCENT = 80
HOOK_SECONDS_MAX = 30  # that one hook of a tree may take
HOOKS_WAITING_MAX = 256  # reports that wait for their hook
SPEND_FILE_BYTES_MAX = 1_048_576  # of one attempt; what a command adds behind that is not read

# --- descent -----------------------------------------------------------------------------------
BRANCH_LENGTH_MAX = 200  # a file system takes 255 bytes for each part of it
COVERS_MAX = 256  # that are open
COVERS_KEPT_MAX = 1_024  # with those that are over
COVER_ISSUES_MAX = 1_024
SCOPE_GLOBS_MAX = 64  # that one issue means to touch
SCOPES_COMPARED_MAX = 65_536  # pairs of globs that are compared when a cover begins
SECTION_PATHS_MAX = 1_024  # paths that a section names; it may have touched more
OVERLAP_PATHS_MAX = 64  # paths that an overlap or an obstruction names
OVERLAP_BATCH_MAX = 256  # overlaps recorded in one row
OVERLAPS_MAX = 65_536  # of sections that wait
GLUE_SECTIONS_MAX = 64  # that one move of a branch takes along
TARGETS_MAX = 1_024
OBSTRUCTIONS_MAX = 4_096  # the newest ones
DESCENT_SHOWN_MAX = 256  # sections, overlaps and obstructions in one answer
DESCENT_PATHS_SHOWN_MAX = 16  # of each of them

# --- specs -------------------------------------------------------------------------------------
SPECS_MAX = 1_048_576
SPEC_STEPS_MAX = 1_024  # of one spec
SPEC_BATCH_MAX = 64  # steps that become jobs in one row
SPEC_TTL_MS_DEFAULT = 60_000  # of a runner's and a dispatcher's lease
LAPSED_SCAN_MAX = 1_024  # lapsed leases of specs or dispatches that one page looks at

# --- time --------------------------------------------------------------------------------------
CLOCK_DRIFT_MS_MAX = 500  # how far ahead of us a caller's stamp may be
WALL_MS_MAX = 253_402_300_799_999  # the last millisecond that RFC 3339 can name
NOW_MS_MAX = WALL_MS_MAX - 172_800_000  # every clock leaves room for the longest lease
COUNTER_MAX = 65_535  # events in one millisecond before the clock borrows the next

# --- commit ------------------------------------------------------------------------------------
BATCH_MAX = 512  # requests decided and committed together
SNAPSHOT_ROWS = 4_096  # rows after which a snapshot saves the next start from folding them
SNAPSHOT_ROWS_MAX = 262_144  # rows after which a busy sidecar takes the time for one
SNAPSHOT_PIECE_BYTES = 16 * 1024 * 1024  # of an image in one value of a database; it may have many
LOST_ROWS_MAX = 1_000_000  # that a rebuild fills; a journal that lost more is not gone on with
EVIDENCE_BEHIND_MAX = 65_536  # rows that the trajectory may be behind; then a sidecar waits for it
QUEUE_MAX = 16_384  # requests that wait in a sidecar
QUEUE_BYTES_MAX = 67_108_864  # their bytes
INFLIGHT_MAX = 4_096  # of those, one connection's
CONNECTIONS_MAX = 4_096
OUTPUT_BYTES_MAX = 16_777_216  # answers that a connection has not read; then it is cut off
LOCK_WAIT_MS = 10_000  # how long a command waits for another process to finish with the journal

# --- the control socket of a tree -----------------------------------------------------------------
TREE_CALLERS_MAX = 16  # heard at once, and as many that wait for the end; one more ends the oldest
TREE_LINE_BYTES_MAX = 65_536  # of a question
TREE_DRAIN_MS_MAX = 604_800_000  # a week for workers to finish

# --- errands: what a standby asks of the active authority -----------------------------------------
ERRAND_LINES_MAX = 256  # requests in one; they are committed together, beside as many of others
ERRAND_BYTES_MAX = 2_097_152  # the longest request, and room for shorter ones
ERRANDS_SENT_MAX = 8  # of one standby, on their way at once
ERRANDS_TAKEN_MAX = 32  # that the active authority has in hand
ERRAND_PATIENCE_MS = 8_000  # without a reply; a takeover takes less than half of it
ERRAND_AGE_MS = 15_000  # of an errand that is still taken; its asker has given up before
REPLY_BYTES_MAX = 33_554_432  # answers to one errand
REPLY_AGE_MS = 60_000  # of a reply that was not fetched; then it is thrown away

# --- MCP ----------------------------------------------------------------------------------------
MCP_INFLIGHT_MAX = 1_024  # requests of one client; each is a task of the gateway
MCP_HOLDS_MAX = 256  # leases that are renewed for one client
MCP_HELD_DEFAULT = 3  # pieces of work that one agent holds, unless its operator says otherwise
MCP_WAIT_SECONDS_MAX = 600  # how long work_next waits for work
WAIT_SECONDS_MAX = 86_400  # how long `issue next` waits for work
MCP_PAGE_MAX = 100  # resources in one page, and completions in one answer
MCP_WATCHES_MAX = 1_024  # resources that one connection watches, and its open listen streams
MCP_STREAMS_MAX = 64  # event streams that one client of the socket has open
MCP_TEXT_LENGTH_MAX = 16_384  # the text beside structured content; a model has to read it

# --- the console --------------------------------------------------------------------------------
WEB_KEY_SECONDS = 600  # how long a link is good, if it is not used before
WEB_KEYS_MAX = 64  # links that are not used yet
WEB_SESSION_SECONDS = 7 * 86_400
WEB_SESSIONS_MAX = 256
WEB_FIELDS_MAX = 64  # of a form
WEB_STREAMS_MAX = 128  # event streams of one console; one more is told to come again
WEB_PAGE_ROWS = 100  # of a list
WEB_GRAPH_NODES_MAX = 120  # of a picture of dependencies
WEB_TASKS_MAX = 2  # verify and replay, at work at once
