"""Every failure class: its wire name, what it means, who is to blame, and what to do next.

Numbers are wire format: appended, never reused. The order of the groups is the order in which a
request meets them. `tests/contracts/test_reason.py` shows that every class has a vector.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Blame(StrEnum):
    CALLER = "caller"  # the request itself is wrong
    PEER = "peer"  # another caller holds, closed or changed it
    US = "us"  # the authority or its surroundings failed


class Retry(StrEnum):
    NEVER = "never"  # the same request can never succeed
    LATER = "later"  # the same request may succeed after a pause
    RECLAIM = "reclaim"  # stop work; only a new claim can go on


class Exit(IntEnum):
    """Exit codes of the command line."""

    OK = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    DENIED = 4
    CONFLICT = 5
    LEASE_LOST = 6
    UNREACHABLE = 7
    FROZEN = 8
    CHECK_FAILED = 9
    NOTHING_READY = 10
    WORK_BLOCKED = 11  # `up --until-done`: something was blocked
    WORK_FAILING = 12  # `up`: one piece of work after another failed in the same way
    EVIDENCE_BEHIND = 13  # it is done
    TRY_LATER = 75
    CONFIG = 78


class Reason(IntEnum):
    """Why a request was refused, as a number; `wire` is its failure class as answers say it."""

    # What never becomes a request.
    REQUEST_INVALID = 1
    REQUEST_TOO_LARGE = 2
    ACTION_UNKNOWN = 3
    LEASE_PAYLOAD_INVALID = 5
    ISSUE_PAYLOAD_INVALID = 6
    DEPENDENCY_PAYLOAD_INVALID = 7
    CLOCK_NOT_FROZEN = 8
    FIBER_PAYLOAD_INVALID = 9
    # Admission: door, time, evidence, idempotency.
    TRANSPORT_ESCALATION = 20
    TRANSPORT_MCP_REQUIRED = 21
    TRANSPORT_FORBIDDEN = 22
    CLOCK_DRIFT = 23
    EVIDENCE_MISSING = 24
    POLICY_DIGEST_UNKNOWN = 25
    CAPABILITY_CLAIM_MISSING = 26
    REQUEST_ID_CONFLICT = 27
    # Arguments of a lease and of a fiber.
    ASSIGNEE_INVALID = 40
    TTL_INVALID = 41
    EXPIRY_AMBIGUOUS = 42
    EXPIRY_INVALID = 43
    BREAK_REASON_MISSING = 44
    CAPABILITY_UNKNOWN = 45
    FIBER_FIELD_MISSING = 46
    # The guard ladder.
    LEASE_NOT_FOUND = 60
    ISSUE_CLOSED = 61
    LEASE_MISSING = 62
    FENCE_MISSING = 63
    FENCE_UNKNOWN = 64
    FENCE_STALE = 65
    LEASE_STALE = 66
    OWNER_MISMATCH = 67
    LEASE_ID_MISMATCH = 68
    CAPABILITY_MISSING = 69
    # Claims and the states around them.
    LEASE_CONTENDED = 80
    ISSUE_BLOCKED = 81
    NOT_CONTENDED = 82
    SUBLEASE_EXISTS = 83
    SUBLEASE_MISSING = 84
    SUBLEASES_FULL = 85
    INSTANCE_EXISTS = 86
    INSTANCE_MISSING = 87
    INSTANCES_FULL = 88
    # Fibers.
    FIBER_MISSING = 89
    FIBER_EXISTS = 90
    FIBER_ENDED = 91
    FIBER_ORPHANED = 92
    FIBER_PARENT_MISSING = 93
    FIBER_SCOPE_ENDED = 94
    FIBER_SCOPE_OPEN = 95
    FIBER_OUT_OF_SCOPE = 96
    FIBERS_FULL = 97
    FIBER_TOO_DEEP = 98
    # Issues and dependencies.
    ISSUE_NOT_FOUND = 100
    ISSUE_EXISTS = 101
    ISSUES_FULL = 102
    ISSUE_STATUS_INVALID = 103
    DEPENDENCY_MISSING = 110
    DEPENDENCY_EXISTS = 111
    DEPENDENCY_TARGET_MISSING = 112
    DEPENDENCY_SELF = 113
    DEPENDENCY_CYCLE = 114
    DEPENDENCIES_FULL = 115
    # Lines of issues.jsonl.
    IMPORT_LINE_INVALID = 130
    IMPORT_LINE_TORN = 131
    IMPORT_ID_DUPLICATE = 132
    # The authority and its journal.
    AUTHORITY_BUSY = 150
    STATE_DIR_MISSING = 151
    STATE_DIR_DENIED = 152
    JOURNAL_CORRUPT = 153
    JOURNAL_WRITE_FAILED = 154
    JOURNAL_DEPOSED = 155
    CONTRACT_DRIFT = 156
    AUTHORITY_OVERLOADED = 157
    PROTOCOL_MISMATCH = 158
    SIDECAR_UNREACHABLE = 159
    # Proof.
    REPLAY_MISMATCH = 170
    TRAJECTORY_MISMATCH = 171
    EVIDENCE_ROUTE_MISSING = 172
    EVIDENCE_ROUTE_AMBIGUOUS = 173
    EVIDENCE_ROUTE_UNBOUND = 174
    # The contract's own check.
    CONTRACT_PIN_MISMATCH = 190
    CONTRACT_UNREADABLE = 191
    CONTRACT_SCHEMA_INVALID = 192
    WORLD_UNBOUND = 200
    WORLD_UNKNOWN = 201
    WORLD_MORPHISM_UNKNOWN = 202
    WORLD_MORPHISM_DRIFT = 203
    ACTION_UNREGISTERED = 210
    ACTION_BINDING_MISMATCH = 211
    ACTION_BINDING_DUPLICATE = 212
    ACTION_UNBOUND = 213
    LANE_ROUTE_UNBOUND = 220
    LANE_MODE_DRIFT = 221
    COMMAND_UNBOUND = 222
    PIPELINE_UNBOUND = 223
    PIPELINE_DRIFT = 224
    RETRY_POLICY_MISSING = 230
    RETRY_POLICY_UNREADABLE = 231
    RETRY_POLICY_NOT_JSON = 232
    RETRY_POLICY_SHAPE = 233
    RETRY_POLICY_DIGEST = 234
    # Instructions and checks.
    CHECK_PAYLOAD_INVALID = 300
    CHECK_RESULTS_FORBIDDEN = 301
    INSTRUCTION_FILENAME = 302
    INSTRUCTION_SHAPE = 303
    INSTRUCTION_SCHEMA = 304
    INSTRUCTION_INTENT = 305
    INSTRUCTION_NORMALIZER = 306
    INSTRUCTION_DIGEST = 307
    INSTRUCTION_SCOPE_MISSING = 308
    INSTRUCTION_SCOPE = 309
    INSTRUCTION_CHECKS = 310
    INSTRUCTION_POLICY_UNKNOWN = 311
    INSTRUCTION_POLICY_SHAPE = 312
    INSTRUCTION_POLICY_DIGEST = 313
    INSTRUCTION_CHECK_REFUSED = 314
    INSTRUCTION_NORMALIZER_REFUSED = 315
    INSTRUCTION_TYPE = 316
    INSTRUCTION_TYPING = 317
    INSTRUCTION_CLAIMS = 318
    INSTRUCTION_UNROUTABLE = 319
    INSTRUCTION_CONFLICT = 320
    INSTRUCTION_RESULTS = 321
    REQUIRED_POLICY_MISSING = 322
    REQUIRED_PATH = 323
    REQUIRED_GATE_REF = 324
    REQUIRED_RESULTS = 325
    REQUIRED_POLICY_DRIFT = 326
    REQUIRED_WITNESS_MISMATCH = 327
    REQUIRED_WITNESS_UNRECORDED = 328
    REQUIRED_TERM_ENDED = 329
    REQUIRED_DECISION_MISMATCH = 330
    CLOSE_UNATTESTED = 331
    COHERENCE_REJECTED = 332
    REQUIRED_SUPERSEDED = 333
    # Hand-overs, sessions, features, steps.
    HANDOVER_SUMMARY_MISSING = 340
    HARNESS_PAYLOAD_INVALID = 341
    HARNESS_FIELD_MISSING = 342
    SESSION_MISSING = 343
    SESSION_MISMATCH = 344
    SESSIONS_FULL = 345
    FEATURES_FULL = 346
    STEP_TIME_INVALID = 347
    STEP_ACTION_RESERVED = 348
    INSTRUCTION_UNSEEN = 349
    # The laws of a feature ledger.
    LEDGER_UPDATED_AT_EMPTY = 350
    LEDGER_EMPTY = 351
    LEDGER_FEATURE_ID_EMPTY = 352
    LEDGER_FEATURE_DUPLICATE = 353
    LEDGER_FEATURE_UPDATED_AT_EMPTY = 354
    LEDGER_STATUS_INVALID = 355
    LEDGER_UNVERIFIED = 356
    LEDGER_INSTRUCTION_REF_EMPTY = 357
    LEDGER_VERIFICATION_REF_EMPTY = 358
    LEDGER_IN_PROGRESS_TWICE = 359
    LEDGER_CLOSURE_INCOMPLETE = 360
    # Joins.
    JOIN_INPUT_INVALID = 361
    JOIN_RESULT_MISSING = 362
    JOIN_RESULT_ORPHAN = 363
    JOIN_USE_MISSING = 364
    JOIN_USE_UNKNOWN = 365
    JOIN_INCOMPLETE = 366
    JOIN_TRUNCATED = 367
    JOIN_ERROR_SHAPELESS = 368
    JOIN_STOP_REASON = 369
    JOIN_PARALLEL_ORDER = 370
    JOIN_DECOMPOSITION = 371
    JOIN_INJECTION_POINT = 372
    JOIN_QUEUE_POLICY = 373
    JOIN_HANDOFF_ARTIFACT = 374
    JOIN_HANDOFF_TARGET = 375
    JOIN_HANDOFF_RETURN = 376
    JOIN_CLAIM_ID = 377
    JOIN_POLICY_UNPINNED = 378
    JOIN_POLICY_MISMATCH = 379
    JOIN_OVERLAP = 380
    # Jobs.
    JOB_PAYLOAD_INVALID = 400
    JOB_COMPLETED = 401
    JOB_NOT_FOUND = 402
    JOB_EXISTS = 403
    JOBS_FULL = 404
    JOB_CLAIM_LAPSED = 405
    JOB_CLAIM_LIVE = 406
    JOB_WAITING = 407
    JOB_DEPENDENCY_BLOCKED = 408
    JOB_DEPENDENCY_INVALID = 409
    JOB_DEPENDENCY_CYCLE = 410
    JOB_ATTEMPTS_SPENT = 411
    JOB_ROUTED = 412
    JOB_COORDINATOR_REQUIRED = 413
    JOB_OWNER_REQUIRED = 414
    JOB_NODE_UNKNOWN = 415
    JOB_NODE_QUARANTINED = 416
    JOB_CAPABILITY_MISSING = 417
    JOB_SNAPSHOT_MISSING = 418
    JOB_ARTIFACT_INVALID = 419
    JOB_NOTHING_QUARANTINED = 420
    JOB_CURSOR_INVALID = 421
    JOB_DIRECTIVES_FULL = 422
    JOB_MEMBERS_FULL = 423
    JOB_KEY_INVALID = 424
    # Operations that are admitted together.
    OPERATION_SIGNATURE_MISSING = 430
    OPERATION_SIGNATURE_INVALID = 431
    OPERATION_STAMP_CONFLICT = 432
    OPERATION_PAYLOAD_INVALID = 433
    JOB_KIND_NOT_PERMITTED = 434
    # A journal in a database, and its standbys.
    JOURNAL_UNREACHABLE = 460
    AUTHORITY_STANDBY = 461
    JOURNAL_TOO_NEW = 462
    JOURNAL_ENGINE_MISSING = 463
    JOURNAL_URL_INVALID = 464
    AUTHORITY_OUTCOME_UNKNOWN = 465
    AUTHORITY_ANSWER_TOO_LONG = 466
    AUTHORITY_ERRAND_INVALID = 467
    # Specs, and the dispatch of their jobs.
    SPEC_PAYLOAD_INVALID = 470
    SPEC_EXISTS = 471
    SPECS_FULL = 472
    SPEC_NOT_FOUND = 473
    SPEC_MATERIALIZED = 474
    SPEC_STEP_DUPLICATE = 475
    SPEC_STEP_DEPENDENCY = 476
    SPEC_STEP_CYCLE = 477
    SPEC_STEP_UNKNOWN = 478
    JOB_NOT_DISPATCHABLE = 479
    JOB_DISPATCHED = 480
    # Agents, and what waits for people.
    PERSON_REQUIRED = 481
    OPERATOR_REQUIRED = 482
    AGENT_NAME_MISMATCH = 483
    AGENT_HOLDS_FULL = 484
    # Limits, order and schedules of jobs.
    JOB_NOT_DUE = 501
    JOB_LIMIT_REACHED = 502
    JOB_RATE_LIMITED = 503
    JOB_TIMED_OUT = 504
    JOB_LIMIT_INVALID = 505
    JOB_LIMIT_MISSING = 506
    JOB_LIMITS_FULL = 507
    JOB_RUN_AT_INVALID = 508
    JOB_ID_RESERVED = 509
    JOB_NODE_LAST = 510
    SCHEDULE_PAYLOAD_INVALID = 511
    SCHEDULE_CRON_INVALID = 512
    SCHEDULE_ZONE_UNKNOWN = 513
    SCHEDULE_TIMES_INVALID = 514
    SCHEDULE_TEMPLATE_INVALID = 515
    SCHEDULE_NOT_FOUND = 516
    SCHEDULES_FULL = 517
    SCHEDULE_NOT_DUE = 518
    SCHEDULE_FIRED = 519
    SCHEDULE_MISSED = 520
    # What operators say about work.
    WORK_PAUSED = 521
    SCOPE_INVALID = 522
    PAUSE_MISSING = 523
    PAUSES_FULL = 524
    ISSUE_CANCELLED = 525
    JOB_CANCELLED = 526
    WORK_NOT_BLOCKED = 527
    APPROVAL_MISSING = 528
    APPROVAL_NOT_ASKED = 529
    APPROVAL_REJECTED = 530
    # What work costs.
    SPEND_PAYLOAD_INVALID = 531
    SPEND_AMOUNT_INVALID = 532
    SPENDS_FULL = 533
    BUDGET_EXCEEDED = 534
    BUDGET_INVALID = 535
    BUDGET_NOT_FOUND = 536
    BUDGETS_FULL = 537
    # Covers, sections and their glue.
    DESCENT_PAYLOAD_INVALID = 540
    ISSUE_GLUING = 541
    SECTION_EMPTY = 542
    SECTION_OUT_OF_SCOPE = 543
    SECTION_NOT_OPEN = 544
    SECTION_TARGET_OTHER = 545
    COVER_NOT_FOUND = 546
    COVER_EXISTS = 547
    COVER_NOT_OPEN = 548
    COVER_ISSUE_TAKEN = 549
    COVERS_FULL = 550
    GLUE_PENDING = 551
    GLUE_NOT_PENDING = 552
    GLUE_OUT_OF_ORDER = 553
    GLUE_TARGET_MOVED = 554
    OVERLAPS_FULL = 555
    TARGETS_FULL = 556

    @property
    def wire(self) -> str:
        """The class as it stands in `failureClasses`."""
        return FAILURES[self].wire


@dataclass(frozen=True, slots=True)
class Failure:
    """One row of the table."""

    wire: str
    blame: Blame
    retry: Retry
    exit: Exit
    guard: int | None  # its number on the ladder of a fenced action
    ends_lease: bool  # a holder that showed its lease, and hears this, holds it no more
    meaning: str
    remedy: str  # the next step, said in the diagnostic


_CALLER, _PEER, _US = Blame.CALLER, Blame.PEER, Blame.US
_NEVER, _LATER, _RECLAIM = Retry.NEVER, Retry.LATER, Retry.RECLAIM

# fmt: off
_ROWS: tuple[tuple[Reason, str, Blame, Retry, Exit, int | None, bool, str, str], ...] = (
    (Reason.REQUEST_INVALID, "transport_invalid_request", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the bytes are no request: not JSON, not canonical, or without an action",
     "send one JSON object with `action` and `payload`"),
    (Reason.REQUEST_TOO_LARGE, "transport_request_too_large", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the request is longer than a request may be",
     "shorten the texts, or split the request"),
    (Reason.ACTION_UNKNOWN, "transport_unknown_action", _CALLER, _NEVER, Exit.USAGE, None, False,
     "no host action has this name",
     "`understudy check --json` lists the actions"),
    (Reason.LEASE_PAYLOAD_INVALID, "lease_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a lease action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.ISSUE_PAYLOAD_INVALID, "issue_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of an issue action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.DEPENDENCY_PAYLOAD_INVALID, "dep_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a dependency action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.CLOCK_NOT_FROZEN, "clock_not_frozen", _CALLER, _NEVER, Exit.DENIED, None, False,
     "the request brings its own time to a door that keeps time itself",
     "leave out `now`, or start the door with --frozen-clock"),
    (Reason.FIBER_PAYLOAD_INVALID, "fiber_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a fiber action has a wrong, missing or unknown member",
     "correct the member that is named"),

    (Reason.TRANSPORT_ESCALATION, "transport_escalation_denied", _CALLER, _NEVER, Exit.DENIED, None,
     False, "the request names a stronger transport than the door it came through",
     "leave out `context.transport`, or use the stronger door"),
    (Reason.TRANSPORT_MCP_REQUIRED, "control_plane_host_action_mcp_transport_required", _CALLER,
     _NEVER, Exit.DENIED, None, False, "the action is only allowed through the MCP door",
     "send it through MCP or `understudy dispatch`"),
    (Reason.TRANSPORT_FORBIDDEN, "control_plane_host_action_transport_forbidden", _CALLER, _NEVER,
     Exit.DENIED, None, False, "the action is not bound to this transport",
     "use the command line"),
    (Reason.CLOCK_DRIFT, "clock_drift_exceeded", _CALLER, _LATER, Exit.DENIED, None, False,
     "the caller's stamp is further ahead than the drift bound allows",
     "correct the caller's clock"),
    (Reason.EVIDENCE_MISSING, "mutation.use_evidence_missing", _CALLER, _NEVER, Exit.DENIED, None,
     False, "the mutation policy asks for policyDigest and instructionRef",
     "put both into the request's context"),
    (Reason.POLICY_DIGEST_UNKNOWN, "mutation.policy_digest_unknown", _CALLER, _NEVER, Exit.DENIED,
     None, False, "the request is bound to a policy that is not in force",
     "read the digest in force with `understudy check --json`"),
    (Reason.CAPABILITY_CLAIM_MISSING, "mutation.capability_claim_missing", _CALLER, _NEVER,
     Exit.DENIED, None, False, "the request claims no capability for this action",
     "add the capability that is named to context.capabilityClaims"),
    (Reason.REQUEST_ID_CONFLICT, "request_id_conflict", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the request id was used before, with other arguments",
     "use a new requestId"),

    (Reason.ASSIGNEE_INVALID, "lease_invalid_assignee", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the assignee is missing or blank",
     "name who holds the lease"),
    (Reason.TTL_INVALID, "lease_invalid_ttl", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the time to live is outside 30 to 86,400 seconds",
     "choose leaseTtlSeconds within the bounds"),
    (Reason.EXPIRY_AMBIGUOUS, "lease_binding_ambiguous", _CALLER, _NEVER, Exit.USAGE, None, False,
     "both leaseTtlSeconds and leaseExpiresAt are given",
     "give one of the two"),
    (Reason.EXPIRY_INVALID, "lease_invalid_expires_at", _CALLER, _NEVER, Exit.USAGE, None, False,
     "leaseExpiresAt is no RFC 3339 moment between 30 and 86,400 seconds from now",
     "choose a moment within the bounds, or give leaseTtlSeconds"),
    (Reason.BREAK_REASON_MISSING, "lease_break_reason_missing", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a lease is broken only with a reason",
     "say why, for the record"),
    (Reason.CAPABILITY_UNKNOWN, "lease_capability_unknown", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a sublease cannot carry this capability",
     "grant only actions that change the issue's own work"),
    (Reason.FIBER_FIELD_MISSING, "fiber_missing_field", _CALLER, _NEVER, Exit.USAGE, None, False,
     "a spawn names its task, and a cancellation one fiber or the whole scope",
     "give taskRef, or one of fiberId and wholeScope"),

    (Reason.LEASE_NOT_FOUND, "lease_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, 1, True,
     "no such resource",
     "`understudy issue list` shows what there is"),
    (Reason.ISSUE_CLOSED, "lease_issue_closed", _PEER, _NEVER, Exit.CONFLICT, 2, True,
     "the work is closed",
     "stop; reopen it with `understudy issue update ID --status open` if it must go on"),
    (Reason.LEASE_MISSING, "lease_missing", _PEER, _RECLAIM, Exit.LEASE_LOST, 3, True,
     "nobody holds a lease on it",
     "claim it first"),
    (Reason.FENCE_MISSING, "lease_fence_missing", _CALLER, _NEVER, Exit.LEASE_LOST, 4, False,
     "it is leased, and the request carries no fence",
     "send the fence that the claim returned"),
    (Reason.FENCE_UNKNOWN, "lease_fence_unknown", _CALLER, _NEVER, Exit.LEASE_LOST, 5, True,
     "the fence was never issued for this resource",
     "send the fence that the claim returned"),
    (Reason.FENCE_STALE, "lease_fence_stale", _PEER, _RECLAIM, Exit.LEASE_LOST, 6, True,
     "the fence belongs to an earlier term",
     "stop; somebody newer holds it"),
    (Reason.LEASE_STALE, "lease_stale", _PEER, _RECLAIM, Exit.LEASE_LOST, 7, True,
     "the deadline has passed",
     "stop, and claim it again"),
    (Reason.OWNER_MISMATCH, "lease_owner_mismatch", _CALLER, _NEVER, Exit.LEASE_LOST, 8, True,
     "another owner holds the lease",
     "send the assignee that claimed it"),
    (Reason.LEASE_ID_MISMATCH, "lease_id_mismatch", _CALLER, _NEVER, Exit.LEASE_LOST, 9, True,
     "the lease has another id",
     "send the leaseId that the claim returned"),
    (Reason.CAPABILITY_MISSING, "lease_capability_missing", _CALLER, _NEVER, Exit.DENIED, 10, False,
     "the sublease does not carry the capability for this action",
     "ask the holder of the lease to do it, or to widen the sublease"),

    (Reason.LEASE_CONTENDED, "lease_contention_active", _PEER, _LATER, Exit.CONFLICT, None, True,
     "somebody else holds it",
     "wait for its expiry, or take other work with `understudy issue next`"),
    (Reason.ISSUE_BLOCKED, "lease_issue_blocked", _PEER, _LATER, Exit.CONFLICT, None, False,
     "it is blocked, or waits for work that is not closed",
     "`understudy issue blocked` says what it waits for"),
    (Reason.NOT_CONTENDED, "lease_not_contended", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "lease and record agree; there is nothing to reconcile",
     "go on"),
    (Reason.SUBLEASE_EXISTS, "lease_sublease_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the lease has a sublease with this id",
     "choose another subleaseId, or revoke that one"),
    (Reason.SUBLEASE_MISSING, "lease_sublease_missing", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     False, "the lease has no sublease with this id",
     "`understudy issue leases` lists them"),
    (Reason.SUBLEASES_FULL, "lease_subleases_full", _CALLER, _LATER, Exit.CONFLICT, None, False,
     "the lease has as many subleases as a lease may have",
     "revoke one first"),
    (Reason.INSTANCE_EXISTS, "lease_instance_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the lease has an instance with this id",
     "choose another instanceId, or close that one"),
    (Reason.INSTANCE_MISSING, "lease_instance_missing", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     False, "the lease has no instance with this id",
     "`understudy issue leases` lists them"),
    (Reason.INSTANCES_FULL, "lease_instances_full", _CALLER, _LATER, Exit.CONFLICT, None, False,
     "the lease has as many instances as a lease may have",
     "close one first"),

    (Reason.FIBER_MISSING, "fiber_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "the lease has no fiber with this id",
     "`understudy fiber list ID` shows what there is"),
    (Reason.FIBER_EXISTS, "fiber_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "a fiber with this id was spawned under this lease",
     "choose another fiberId, or leave it out"),
    (Reason.FIBER_ENDED, "fiber_ended", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the fiber was joined or cancelled before",
     "go on; a fiber ends once"),
    (Reason.FIBER_ORPHANED, "fiber_orphaned", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the fiber died with an earlier term of the lease",
     "spawn it again under this one"),
    (Reason.FIBER_PARENT_MISSING, "fiber_parent_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     False, "the lease has no fiber with the id of the parent",
     "spawn the parent first, or leave parentFiberId out"),
    (Reason.FIBER_SCOPE_ENDED, "fiber_scope_ended", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the parent has ended, and nothing starts in a scope that has ended",
     "stop; spawn it elsewhere if it must go on"),
    (Reason.FIBER_SCOPE_OPEN, "fiber_scope_open", _CALLER, _LATER, Exit.CONFLICT, None, False,
     "a scope ends when its fibers have ended, and some still run",
     "join or cancel the fibers that are named, then ask again"),
    (Reason.FIBER_OUT_OF_SCOPE, "fiber_out_of_scope", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "joinSet names a fiber that is not below fiberId",
     "join that one by itself"),
    (Reason.FIBERS_FULL, "fiber_scope_full", _CALLER, _LATER, Exit.CONFLICT, None, False,
     "as many fibers run under the lease as a lease may have",
     "join or cancel one first"),
    (Reason.FIBER_TOO_DEEP, "fiber_too_deep", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the fiber would lie deeper than fibers may",
     "spawn it further up"),

    (Reason.ISSUE_NOT_FOUND, "issue_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such issue",
     "`understudy issue list` shows what there is"),
    (Reason.ISSUE_EXISTS, "issue_id_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "an issue with this id exists",
     "choose another id, or leave it out"),
    (Reason.ISSUES_FULL, "issue_store_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "the authority holds as many issues as it can",
     "start another state directory"),
    (Reason.ISSUE_STATUS_INVALID, "issue_invalid_status", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the status cannot be set by an update",
     "use open, blocked or closed; in_progress is what a claim sets"),
    (Reason.DEPENDENCY_MISSING, "dep_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such dependency",
     "`understudy issue show ID` lists them"),
    (Reason.DEPENDENCY_EXISTS, "dep_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the dependency exists",
     "go on, or replace it"),
    (Reason.DEPENDENCY_TARGET_MISSING, "dep_target_not_found", _CALLER, _NEVER, Exit.NOT_FOUND,
     None, False, "the issue that it would depend on does not exist",
     "add that issue first"),
    (Reason.DEPENDENCY_SELF, "dep_self_loop", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "an issue cannot depend on itself",
     "name another issue"),
    (Reason.DEPENDENCY_CYCLE, "dep_cycle", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the dependency would close a cycle",
     "`understudy dep diagnostics` shows the path"),
    (Reason.DEPENDENCIES_FULL, "dep_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the issue has as many dependencies as an issue may have",
     "remove one, or put an epic between"),

    (Reason.IMPORT_LINE_INVALID, "issue_import_line_invalid", _CALLER, _NEVER, Exit.FAILED, None,
     False, "a line of the file is no issue record",
     "correct the line, or import the rest with --skip-bad"),
    (Reason.IMPORT_LINE_TORN, "issue_import_line_torn", _CALLER, _NEVER, Exit.FAILED, None, False,
     "the last line of the file is cut off",
     "complete the line, or import the rest with --skip-bad"),
    (Reason.IMPORT_ID_DUPLICATE, "issue_import_id_duplicate", _CALLER, _NEVER, Exit.FAILED, None,
     False, "two lines of the file have the same id",
     "remove one, or keep the last with --skip-bad"),

    (Reason.AUTHORITY_BUSY, "authority_busy", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "another process holds the state directory",
     "try again; the holder's pid is in the message"),
    (Reason.STATE_DIR_MISSING, "state_dir_missing", _CALLER, _NEVER, Exit.CONFIG, None, False,
     "there is no state directory here",
     "`understudy init` makes one; `understudy where` says where it was looked for"),
    (Reason.STATE_DIR_DENIED, "state_dir_denied", _US, _NEVER, Exit.CONFIG, None, False,
     "the state directory cannot be read or written",
     "correct its owner and mode, or name another with --state-dir"),
    (Reason.JOURNAL_CORRUPT, "journal_corrupt", _US, _NEVER, Exit.CHECK_FAILED, None, False,
     "the journal is damaged, or is no journal of ours",
     "`understudy replay` names the row; restore a backup"),
    (Reason.JOURNAL_WRITE_FAILED, "journal_write_failed", _US, _LATER, Exit.FAILED, None, False,
     "the journal could not be written; whether it was decided shows after the next start",
     "free the disk, then ask again with the same requestId"),
    (Reason.JOURNAL_DEPOSED, "journal_deposed", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "another authority has taken over the journal",
     "stop; clients follow the new one"),
    (Reason.CONTRACT_DRIFT, "contract_drift", _US, _NEVER, Exit.CONFIG, None, False,
     "the contract in force fails its own check",
     "`understudy check` names what drifted"),

    (Reason.AUTHORITY_OVERLOADED, "authority_overloaded", _US, _LATER, Exit.TRY_LATER, None, False,
     "more requests wait than may wait",
     "try again after a pause, with the same requestId"),
    (Reason.PROTOCOL_MISMATCH, "sidecar_protocol_mismatch", _CALLER, _NEVER, Exit.UNREACHABLE, None,
     False, "the two sides of the socket do not speak the same protocol",
     "stop the sidecar and start it again from this installation"),
    (Reason.SIDECAR_UNREACHABLE, "sidecar_unreachable", _US, _LATER, Exit.UNREACHABLE, None, False,
     "the sidecar does not answer",
     "`understudy authority serve` starts one, and `understudy doctor` says what is wrong"),

    (Reason.REPLAY_MISMATCH, "replay_mismatch", _US, _NEVER, Exit.CHECK_FAILED, None, False,
     "a row of the journal does not replay to the bytes it holds",
     "the first such row is named; everything before it stands"),
    (Reason.TRAJECTORY_MISMATCH, "trajectory_mismatch", _US, _NEVER, Exit.CHECK_FAILED, None, False,
     "the trajectory, or what else was made of the journal, differs from it",
     "find the newer journal, if it was restored; `understudy rebuild` makes all anew from this"),
    (Reason.EVIDENCE_ROUTE_MISSING, "unification.evidence_factorization.missing", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "a row of evidence has no route to Ev",
     "register the action in the evidence routes"),
    (Reason.EVIDENCE_ROUTE_AMBIGUOUS, "unification.evidence_factorization.ambiguous", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "a row of evidence has more than one route to Ev",
     "leave the action in one evidence route"),
    (Reason.EVIDENCE_ROUTE_UNBOUND, "unification.evidence_factorization.unbound", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "a row of evidence is not bound to a normalizer and a policy",
     "bind normalizerId and policyDigest"),

    (Reason.CONTRACT_PIN_MISMATCH, "contract_pin_mismatch", _US, _NEVER, Exit.CHECK_FAILED, None,
     False, "a published file differs from its pin, is gone, or has none",
     "restore the file; after an edit, `python -m understudy.contracts --write`"),
    (Reason.CONTRACT_UNREADABLE, "contract_document_unreadable", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "a document cannot be read, or is not canonical JSON",
     "restore the document"),
    (Reason.CONTRACT_SCHEMA_INVALID, "contract_schema_invalid", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "a document breaks its schema",
     "correct the member that is named"),
    (Reason.WORLD_UNBOUND, "world_route_unbound", _US, _NEVER, Exit.CHECK_FAILED, None, False,
     "a route, family, operation or contract row is missing, double or malformed",
     "correct the row that is named"),
    (Reason.WORLD_UNKNOWN, "world_route_unknown_world", _US, _NEVER, Exit.CHECK_FAILED, None, False,
     "an operation lies in another world than it is pinned to",
     "restore the world that is named"),
    (Reason.WORLD_MORPHISM_UNKNOWN, "world_route_unknown_morphism", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "an operation has another morphism row than it is pinned to",
     "restore the morphism row that is named"),
    (Reason.WORLD_MORPHISM_DRIFT, "world_route_morphism_drift", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "an operation lacks a morphism that its route requires",
     "restore the morphism that is named"),
    (Reason.ACTION_UNREGISTERED, "control_plane_host_action_unregistered", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "an action is named that is not registered",
     "register it, or take the name out"),
    (Reason.ACTION_BINDING_MISMATCH, "control_plane_host_action_binding_mismatch", _US, _NEVER,
     Exit.CHECK_FAILED, None, False,
     "the tool, command or transports of an action do not go with its operation",
     "correct the binding that is named"),
    (Reason.ACTION_BINDING_DUPLICATE, "control_plane_host_action_duplicate_binding", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "two actions share an operation, a command or a tool",
     "give each its own"),
    (Reason.ACTION_UNBOUND, "control_plane_host_action_contract_unbound", _US, _NEVER,
     Exit.CHECK_FAILED, None, False,
     "an action has no operation, or one that the registry does not know",
     "bind it to a registered operation"),
    (Reason.LANE_ROUTE_UNBOUND, "worker_lane_route_unbound", _US, _NEVER, Exit.CHECK_FAILED, None,
     False, "a mutating action has no capability, or two",
     "name one capability in both places"),
    (Reason.LANE_MODE_DRIFT, "worker_lane_mutation_mode_drift", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "the default mutation mode is not among the allowed ones",
     "choose an allowed mode"),
    (Reason.COMMAND_UNBOUND, "control_plane_command_surface_unbound", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "the command surface has no commands, or one without words",
     "name the commands"),
    (Reason.PIPELINE_UNBOUND, "control_plane_pipeline_wrapper_unbound", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "pipeline entry points or gates are missing",
     "name them"),
    (Reason.PIPELINE_DRIFT, "control_plane_pipeline_wrapper_parity_drift", _US, _NEVER,
     Exit.CHECK_FAILED, None, False, "a pipeline gate runs no command of the command surface",
     "let it run one"),
    (Reason.RETRY_POLICY_MISSING, "retry_policy_missing", _US, _NEVER, Exit.CHECK_FAILED, None,
     False, "there is no retry policy",
     "restore the file"),
    (Reason.RETRY_POLICY_UNREADABLE, "retry_policy_io_error", _US, _NEVER, Exit.CHECK_FAILED, None,
     False, "the retry policy cannot be read",
     "correct its owner and mode"),
    (Reason.RETRY_POLICY_NOT_JSON, "retry_policy_invalid_json", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "the retry policy is not canonical JSON",
     "restore the file"),
    (Reason.RETRY_POLICY_SHAPE, "retry_policy_invalid_shape", _US, _NEVER, Exit.CHECK_FAILED, None,
     False, "the retry policy has a wrong, missing or double member",
     "correct the member that is named"),
    (Reason.RETRY_POLICY_DIGEST, "retry_policy_invalid_digest", _US, _NEVER, Exit.CHECK_FAILED,
     None, False, "the retry policy does not have the digest that binds it",
     "after an edit, `python -m understudy.contracts --write`"),

    (Reason.CHECK_PAYLOAD_INVALID, "check_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a check action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.CHECK_RESULTS_FORBIDDEN, "check_results_forbidden", _CALLER, _NEVER, Exit.DENIED, None,
     False,
     "results are taken only from whoever ran the checks: the command line or the coordinator",
     "send the envelope alone through MCP, or use `understudy instruction run`"),
    (Reason.INSTRUCTION_FILENAME, "instruction_filename_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the instruction's id is no name for a file",
     "use letters, digits, dots, dashes and underscores, and begin with a letter or digit"),
    (Reason.INSTRUCTION_SHAPE, "instruction_envelope_invalid_shape", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the envelope is no object, or has a member that envelopes do not have",
     "correct the member that is named"),
    (Reason.INSTRUCTION_SCHEMA, "instruction_invalid_schema", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the envelope does not say which schema it follows",
     "set schema to 1"),
    (Reason.INSTRUCTION_INTENT, "instruction_invalid_intent", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the envelope does not say what it is for",
     "say it in intent, in one line"),
    (Reason.INSTRUCTION_NORMALIZER, "instruction_invalid_normalizer", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the envelope names no normalizer",
     "name one that the check policy allows"),
    (Reason.INSTRUCTION_DIGEST, "instruction_invalid_policy_digest", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the envelope names no policy",
     "take the digest from `understudy policy show`"),
    (Reason.INSTRUCTION_SCOPE_MISSING, "instruction_scope_missing", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the envelope does not say what it is about",
     "say it in scope"),
    (Reason.INSTRUCTION_SCOPE, "instruction_scope_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the scope is neither a line of text nor an object",
     "correct scope"),
    (Reason.INSTRUCTION_CHECKS, "instruction_requested_checks_invalid", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the envelope asks for no checks, or for one of them twice",
     "list each check once in requestedChecks"),
    (Reason.INSTRUCTION_POLICY_UNKNOWN, "instruction_unknown_policy", _CALLER, _NEVER, Exit.DENIED,
     None, False, "the envelope is bound to a check policy that is not in force",
     "take the digest from `understudy policy show`"),
    (Reason.INSTRUCTION_POLICY_SHAPE, "instruction_policy_invalid_shape", _CALLER, _NEVER,
     Exit.USAGE, None, False, "the check policy has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.INSTRUCTION_POLICY_DIGEST, "instruction_policy_digest_mismatch", _CALLER, _NEVER,
     Exit.USAGE, None, False, "the check policy does not have the digest that binds it",
     "leave policyDigest out of the file, and `understudy policy set` fills it in"),
    (Reason.INSTRUCTION_CHECK_REFUSED, "instruction_check_not_allowed", _CALLER, _NEVER,
     Exit.DENIED, None, False, "the check policy does not let instructions ask for this check",
     "ask for one of its allowedChecks"),
    (Reason.INSTRUCTION_NORMALIZER_REFUSED, "instruction_normalizer_not_allowed", _CALLER, _NEVER,
     Exit.DENIED, None, False, "the check policy does not allow this normalizer",
     "name one of its allowedNormalizers"),
    (Reason.INSTRUCTION_TYPE, "instruction_instruction_type_invalid", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the type of the instruction is no name",
     "correct instructionType, or leave it out"),
    (Reason.INSTRUCTION_TYPING, "instruction_typing_policy_invalid", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the typing policy says something else than whether unknown types are allowed",
     "give allowUnknown alone, or leave typingPolicy out"),
    (Reason.INSTRUCTION_CLAIMS, "instruction_capability_claims_invalid", _CALLER, _NEVER,
     Exit.USAGE, None, False, "the capability claims are no list of different names",
     "correct capabilityClaims, or leave it out"),
    (Reason.INSTRUCTION_UNROUTABLE, "instruction_unknown_unroutable", _CALLER, _NEVER, Exit.DENIED,
     None, False, "the policy does not know the type of the instruction, which does not allow that",
     "name one of its instructionTypes, or allow unknown ones in typingPolicy"),
    (Reason.INSTRUCTION_CONFLICT, "instruction_id_conflict", _CALLER, _NEVER, Exit.CONFLICT, None,
     False, "the id stands for another envelope, whose witness is recorded",
     "use a new id for a new envelope"),
    (Reason.INSTRUCTION_RESULTS, "instruction_runtime_invalid", _CALLER, _LATER, Exit.FAILED, None,
     False, "the results are not those of the requested checks, one for each",
     "run every requested check, and nothing else"),
    (Reason.REQUIRED_POLICY_MISSING, "required_policy_missing", _CALLER, _NEVER, Exit.CONFIG, None,
     False, "there is no check policy, so that nothing says what is required",
     "set one with `understudy policy set --checks FILE`"),
    (Reason.REQUIRED_PATH, "required_path_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "a changed path is not that of a file below the working tree",
     "give paths as `git diff --name-only` prints them"),
    (Reason.REQUIRED_GATE_REF, "required_gate_ref_invalid", _CALLER, _LATER, Exit.FAILED, None,
     False, "a gate reference is about a check of the policy and a file below the working tree",
     "correct the member that is named"),
    (Reason.REQUIRED_RESULTS, "required_witness_runtime_invalid", _CALLER, _LATER, Exit.FAILED,
     None, False, "the results are not those of the required checks, one for each",
     "run every required check, and nothing else"),
    (Reason.REQUIRED_POLICY_DRIFT, "required_witness_policy_drift", _PEER, _NEVER, Exit.CONFLICT,
     None, False, "the witness was made under a check policy that is not in force",
     "run the required checks again"),
    (Reason.REQUIRED_WITNESS_MISMATCH, "required_witness_mismatch", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False,
     "the witness says something else than what its own results give",
     "run the required checks again"),
    (Reason.REQUIRED_WITNESS_UNRECORDED, "required_witness_decide_invalid", _CALLER, _LATER,
     Exit.CHECK_FAILED, None, False,
     "this authority has not recorded the witness, or has forgotten it",
     "record it with `understudy required witness`"),
    (Reason.REQUIRED_TERM_ENDED, "required_witness_term_ended", _PEER, _NEVER, Exit.CONFLICT, None,
     False, "the witness was made in an earlier term of the issue",
     "run the required checks again in this one"),
    (Reason.REQUIRED_DECISION_MISMATCH, "required_decision_verify_invalid", _CALLER, _LATER,
     Exit.CHECK_FAILED, None, False, "the decision is not the one that follows from the witness",
     "decide again with `understudy required decide`"),
    (Reason.CLOSE_UNATTESTED, "issue_close_unattested", _CALLER, _NEVER, Exit.DENIED, None, False,
     "the check policy closes an issue only after an accepted decision in this term",
     "run `understudy required witness --issue ID`, then `understudy required decide`"),
    (Reason.COHERENCE_REJECTED, "coherence_rejected", _US, _NEVER, Exit.CHECK_FAILED, None, False,
     "contract, registries, routes and policies do not fit together",
     "`understudy check` names each deviation"),
    (Reason.REQUIRED_SUPERSEDED, "required_witness_superseded", _CALLER, _NEVER, Exit.CONFLICT,
     None, False, "the issue has a newer witness, which is the one to decide by",
     "decide by that one, or run the required checks again"),
    (Reason.HANDOVER_SUMMARY_MISSING, "handover_summary_missing", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a hand-over says in a summary how far the work is, and this one is blank",
     "say it in `checkpoint.summary`"),
    (Reason.HARNESS_PAYLOAD_INVALID, "harness_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a harness action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.HARNESS_FIELD_MISSING, "harness_field_missing", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a member that must say something is blank or left out",
     "say it; the message names it"),
    (Reason.SESSION_MISSING, "harness_session_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     False, "the worker has no session",
     "begin one with harness.session.write"),
    (Reason.SESSION_MISMATCH, "harness_session_mismatch", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the worker's session has another id: somebody else uses the name",
     "take a name of your own, or read the session first"),
    (Reason.SESSIONS_FULL, "harness_sessions_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "as many sessions are active as the authority keeps",
     "stop one that is over"),
    (Reason.FEATURES_FULL, "harness_features_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the worker's ledger has as many features as a ledger may have",
     "put several into one"),
    (Reason.STEP_TIME_INVALID, "harness_step_time_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a time of the step is no RFC 3339 moment, or it ended before it began",
     "correct the time, or leave it out"),
    (Reason.STEP_ACTION_RESERVED, "harness_step_action_reserved", _CALLER, _NEVER, Exit.DENIED,
     None, False, "a step takes the name of a host action, which leaves evidence of its own",
     "name what the worker itself did"),
    (Reason.INSTRUCTION_UNSEEN, "observe_instruction_unknown", _CALLER, _NEVER, Exit.NOT_FOUND,
     None, False, "nothing that is kept or was decided lately names this instruction",
     "look into the trajectory for what is older"),
    (Reason.LEDGER_UPDATED_AT_EMPTY, "harness_feature_ledger.updated_at.empty", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "the ledger does not say when it was written",
     "write updatedAt"),
    (Reason.LEDGER_EMPTY, "harness_feature_ledger.empty", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "the ledger has no features",
     "write what is planned"),
    (Reason.LEDGER_FEATURE_ID_EMPTY, "harness_feature_ledger.feature_id.empty", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "a feature has no id",
     "name it"),
    (Reason.LEDGER_FEATURE_DUPLICATE, "harness_feature_ledger.feature_id.duplicate", _CALLER,
     _NEVER, Exit.CHECK_FAILED, None, False, "two features have the same id",
     "leave one"),
    (Reason.LEDGER_FEATURE_UPDATED_AT_EMPTY, "harness_feature_ledger.feature.updated_at.empty",
     _CALLER, _NEVER, Exit.CHECK_FAILED, None, False, "a feature does not say when it was written",
     "write its updatedAt"),
    (Reason.LEDGER_STATUS_INVALID, "harness_feature_ledger.status.invalid", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "a feature has a status that there is not",
     "use pending, in_progress, blocked or completed"),
    (Reason.LEDGER_UNVERIFIED, "harness_feature_ledger.completed_missing_verification_ref", _CALLER,
     _NEVER, Exit.CHECK_FAILED, None, False, "a completed feature names nothing that verifies it",
     "add a verification ref"),
    (Reason.LEDGER_INSTRUCTION_REF_EMPTY, "harness_feature_ledger.instruction_ref.empty", _CALLER,
     _NEVER, Exit.CHECK_FAILED, None, False, "an instruction ref is blank",
     "leave it out"),
    (Reason.LEDGER_VERIFICATION_REF_EMPTY, "harness_feature_ledger.verification_ref.empty", _CALLER,
     _NEVER, Exit.CHECK_FAILED, None, False, "a verification ref is blank",
     "leave it out"),
    (Reason.LEDGER_IN_PROGRESS_TWICE, "harness_feature_ledger.in_progress.non_contractible",
     _CALLER, _NEVER, Exit.CHECK_FAILED, None, False,
     "one worker has more than one feature in progress",
     "finish one, or give it to another worker"),
    (Reason.LEDGER_CLOSURE_INCOMPLETE, "harness_feature_ledger.closure_incomplete", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "closure is required, and a feature is not completed",
     "`understudy harness feature next` names what to go on with"),
    (Reason.JOIN_INPUT_INVALID, "harness_join_check_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the input of a join check has a wrong, missing, unknown or contradictory member",
     "correct the member that is named"),
    (Reason.JOIN_RESULT_MISSING, "tool.result_missing", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "a tool was called and gave no result",
     "wait for the result, or record an error"),
    (Reason.JOIN_RESULT_ORPHAN, "tool.result_orphan", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "there is a result of a tool that was not called",
     "drop the result"),
    (Reason.JOIN_USE_MISSING, "tool.use_missing", _CALLER, _NEVER, Exit.CHECK_FAILED, None, False,
     "a result was neither consumed, observed nor discarded",
     "say what became of it"),
    (Reason.JOIN_USE_UNKNOWN, "tool.use_without_result", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "something is used that is no result",
     "drop the use"),
    (Reason.JOIN_INCOMPLETE, "tool.join_incomplete", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "calls, results and uses do not match",
     "complete what the other classes name"),
    (Reason.JOIN_TRUNCATED, "tool.response_truncation_policy_violation", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "a response was cut against the policy",
     "ask for it again, whole"),
    (Reason.JOIN_ERROR_SHAPELESS, "tool.schema_invalid", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "an error lacks its code, its message or whether to try again",
     "give the error all three"),
    (Reason.JOIN_STOP_REASON, "protocol.stop_reason_unhandled", _CALLER, _NEVER, Exit.CHECK_FAILED,
     None, False, "the turn stopped for a reason that nobody handles",
     "use tool_use, pause_turn, max_tokens or end_turn"),
    (Reason.JOIN_PARALLEL_ORDER, "protocol.parallel_transport_order_invalid", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "parallel calls came back in an order that is not theirs",
     "restore the order of the calls"),
    (Reason.JOIN_DECOMPOSITION, "coordination.decomposition_policy_violation", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "the work was split against the policy",
     "split it as the policy says"),
    (Reason.JOIN_INJECTION_POINT, "context.injection_point_missing", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False,
     "a call has no rendering, or the turn has no view of the state",
     "render the calls and the state before going on"),
    (Reason.JOIN_QUEUE_POLICY, "context.queue_policy_violation", _CALLER, _NEVER, Exit.CHECK_FAILED,
     None, False, "the context was not reduced and rendered under the policies of the call",
     "reduce the queue, and use the call's policies"),
    (Reason.JOIN_HANDOFF_ARTIFACT, "handoff.required_artifact_missing", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "the hand-off lacks an artifact that is required",
     "add it"),
    (Reason.JOIN_HANDOFF_TARGET, "handoff.target_not_allowed", _CALLER, _NEVER, Exit.CHECK_FAILED,
     None, False, "the hand-off goes to nobody, or to one who may not have it",
     "choose an allowed target"),
    (Reason.JOIN_HANDOFF_RETURN, "handoff.return_path_missing", _CALLER, _NEVER, Exit.CHECK_FAILED,
     None, False, "the hand-off has no way back",
     "add returnPathRef"),
    (Reason.JOIN_CLAIM_ID, "governance.claim_id_invalid", _CALLER, _NEVER, Exit.CHECK_FAILED, None,
     False, "the governance profile is not the one that there is",
     "claim profile.doctrine_inf_governance.v0"),
    (Reason.JOIN_POLICY_UNPINNED, "governance.policy_package_unpinned", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False,
     "the governance profile is claimed and its policy package is not pinned",
     "pin it, with both digests"),
    (Reason.JOIN_POLICY_MISMATCH, "governance.policy_package_mismatch", _CALLER, _NEVER,
     Exit.CHECK_FAILED, None, False, "the pinned policy package is not the one that was used",
     "use the pinned one"),
    (Reason.JOIN_OVERLAP, "coordination.changed_path_overlap", _CALLER, _NEVER, Exit.CHECK_FAILED,
     None, False,
     "two workers changed the same path, so their sections cannot be joined as they are",
     "let one of them rebase onto the other, or split the paths"),
    (Reason.JOB_PAYLOAD_INVALID, "job_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the payload of a job, dispatch, route or node action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.JOB_COMPLETED, "job_completed", _PEER, _NEVER, Exit.CONFLICT, None, True,
     "the job is completed, once and for all",
     "stop; schedule another job if it must be done again"),
    (Reason.JOB_NOT_FOUND, "job_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such job",
     "`understudy job roster` shows what there is"),
    (Reason.JOB_EXISTS, "job_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "another job was scheduled under this id",
     "choose another jobId"),
    (Reason.JOBS_FULL, "job_store_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "the authority holds as many jobs as it can",
     "start another state directory"),
    (Reason.JOB_CLAIM_LAPSED, "job_claim_lapsed", _PEER, _LATER, Exit.CONFLICT, None, True,
     "the deadline of its claim has passed, and nobody has expired the claim",
     "expire it with `understudy job expire`, then claim"),
    (Reason.JOB_CLAIM_LIVE, "job_claim_live", _PEER, _LATER, Exit.CONFLICT, None, False,
     "the deadline of the claim has not passed",
     "wait for the deadline; a renewal moves it"),
    (Reason.JOB_WAITING, "job_waiting_dependency", _PEER, _LATER, Exit.CONFLICT, None, False,
     "the job depends on an operation that is missing",
     "`understudy job show ID` says what it waits for, and how long"),
    (Reason.JOB_DEPENDENCY_BLOCKED, "job_dependency_blocked", _PEER, _NEVER, Exit.CONFLICT, None,
     False, "the job has waited for a missing operation longer than a job may",
     "find out why the operation never came; the job is free once it comes"),
    (Reason.JOB_DEPENDENCY_INVALID, "job_dependency_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "causalDeps names no operation that completes a job",
     "name complete/<jobId>, each one once"),
    (Reason.JOB_DEPENDENCY_CYCLE, "job_dependency_cycle", _CALLER, _NEVER, Exit.CONFLICT, None,
     False, "the job would wait for itself",
     "take one of the dependencies out of the circle"),
    (Reason.JOB_ATTEMPTS_SPENT, "job_attempts_spent", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the job was claimed as often as a job may be, and never completed",
     "find out why it fails, and schedule it under another id"),
    (Reason.JOB_ROUTED, "job_routed_elsewhere", _PEER, _LATER, Exit.DENIED, None, False,
     "jobs of this kind are routed to another node",
     "leave it to that node; its owner can clear the route"),
    (Reason.JOB_COORDINATOR_REQUIRED, "job_coordinator_required", _PEER, _NEVER, Exit.DENIED, None,
     False, "jobs of this kind derive from the log, and only the coordinator does that",
     "leave it to the coordinator, or ask the owner to designate this node"),
    (Reason.JOB_OWNER_REQUIRED, "job_owner_required", _CALLER, _NEVER, Exit.DENIED, None, False,
     "only the owner of the mesh may say this",
     "ask the owner"),
    (Reason.JOB_NODE_UNKNOWN, "job_node_unknown", _CALLER, _NEVER, Exit.DENIED, None, False,
     "nodes are registered here, and this one is not",
     "ask the owner to register it"),
    (Reason.JOB_NODE_QUARANTINED, "job_node_quarantined", _CALLER, _NEVER, Exit.DENIED, None, False,
     "the node is in quarantine",
     "mend its clock or its key, then ask the owner to register it anew"),
    (Reason.JOB_CAPABILITY_MISSING, "job_capability_missing", _CALLER, _NEVER, Exit.DENIED, None,
     False, "the node was not given the capability for this",
     "ask the owner to register it with the capability"),
    (Reason.JOB_SNAPSHOT_MISSING, "job_snapshot_missing", _CALLER, _NEVER, Exit.CONFLICT, None,
     False, "jobs of this kind are audited, and no snapshot of an inference is linked",
     "link a likewise.inference.snapshot in outputArtifacts"),
    (Reason.JOB_ARTIFACT_INVALID, "job_artifact_invalid", _CALLER, _NEVER, Exit.CONFLICT, None,
     False, "a snapshot is not the one that its id names, or belongs to another job",
     "name sourceJob, model and digests, and the id that follows from them"),
    (Reason.JOB_NOTHING_QUARANTINED, "job_nothing_quarantined", _CALLER, _NEVER, Exit.CONFLICT,
     None, False, "there is no late result to adopt",
     "complete the job with a result of your own"),
    (Reason.JOB_CURSOR_INVALID, "job_cursor_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the cursor is not one that a page of this query ended with",
     "begin without a cursor"),
    (Reason.JOB_DIRECTIVES_FULL, "job_directives_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "as many kinds have a route or a mark as may have",
     "clear one first, or use a prefix"),
    (Reason.JOB_MEMBERS_FULL, "job_members_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "as many nodes are registered as may be",
     "start another mesh"),
    (Reason.JOB_KEY_INVALID, "job_key_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the public key is no Ed25519 key in hex",
     "give 64 hex digits"),

    (Reason.OPERATION_SIGNATURE_MISSING, "operation_signature_missing", _CALLER, _NEVER,
     Exit.DENIED, None, False, "the node has a key, and the operation is not signed",
     "sign it, and send it with job.admit"),
    (Reason.OPERATION_SIGNATURE_INVALID, "operation_signature_invalid", _CALLER, _NEVER,
     Exit.DENIED, None, False, "the signature is not that of the node over this operation",
     "sign the canonical bytes of this very operation"),
    (Reason.OPERATION_STAMP_CONFLICT, "operation_stamp_conflict", _CALLER, _NEVER, Exit.CONFLICT,
     None, False, "two operations have the same stamp, so that neither comes first",
     "mend the clock of the node, and author the operation anew"),
    (Reason.OPERATION_PAYLOAD_INVALID, "operation_invalid_payload", _CALLER, _NEVER, Exit.USAGE,
     None, False, "the payload of an operation has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.JOB_KIND_NOT_PERMITTED, "job_kind_not_permitted", _CALLER, _NEVER, Exit.DENIED, None,
     False, "the node was registered for other kinds of jobs",
     "leave the job to a node that may, or ask the owner to register this one for the kind"),
    (Reason.JOURNAL_UNREACHABLE, "journal_unreachable", _US, _LATER, Exit.UNREACHABLE, None, False,
     "the database of the journal does not answer; whether it was decided shows when it does",
     "bring the database back, then ask again with the same requestId"),
    (Reason.AUTHORITY_STANDBY, "authority_standby", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "another authority is active, and this one waits to take its place",
     "ask the one that is named, or this one later"),
    (Reason.JOURNAL_TOO_NEW, "journal_too_new", _US, _NEVER, Exit.CONFIG, None, False,
     "the database was made by a newer understudy",
     "install that version here"),
    (Reason.JOURNAL_ENGINE_MISSING, "journal_engine_missing", _US, _NEVER, Exit.CONFIG, None, False,
     "the journal is in PostgreSQL, and the driver is not installed",
     "`pip install 'understudy[postgres]'`"),
    (Reason.JOURNAL_URL_INVALID, "journal_url_invalid", _CALLER, _NEVER, Exit.CONFIG, None, False,
     "that is no URL for the journal of this state directory",
     "postgresql://HOST/DATABASE; a password comes from ~/.pgpass or UNDERSTUDY_JOURNAL"),
    (Reason.AUTHORITY_OUTCOME_UNKNOWN, "authority_outcome_unknown", _PEER, _NEVER, Exit.FAILED,
     None, False,
     "it was handed to the active authority without a requestId, and no answer came back",
     "look whether it was done; with a requestId it is safe to ask again"),
    (Reason.AUTHORITY_ANSWER_TOO_LONG, "authority_answer_too_long", _CALLER, _NEVER, Exit.USAGE,
     None, False, "it was decided, and the answer is longer than what is carried to another host",
     "ask for less, or on the host that is active"),
    (Reason.AUTHORITY_ERRAND_INVALID, "authority_errand_invalid", _PEER, _NEVER, Exit.CONFIG, None,
     False, "the active authority cannot read what this standby hands on",
     "run the same version of understudy on all hosts"),
    (Reason.SPEC_PAYLOAD_INVALID, "spec_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the payload of a spec action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.SPEC_EXISTS, "spec_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "another document was submitted under this id",
     "choose another specId"),
    (Reason.SPECS_FULL, "spec_store_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "the authority holds as many specs as it can",
     "start another state directory"),
    (Reason.SPEC_NOT_FOUND, "spec_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such spec",
     "`understudy spec list` shows what there is"),
    (Reason.SPEC_MATERIALIZED, "spec_materialized", _PEER, _NEVER, Exit.CONFLICT, None, True,
     "every step of the spec has its job, once and for all",
     "go on with another spec; `understudy spec status ID` shows the jobs"),
    (Reason.SPEC_STEP_DUPLICATE, "spec_step_duplicate", _CALLER, _NEVER, Exit.USAGE, None, False,
     "two steps of the spec have the same key",
     "rename one of them"),
    (Reason.SPEC_STEP_DEPENDENCY, "spec_step_dependency_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a step depends on itself, on the same step twice, or on one that the spec lacks",
     "name other steps of the same spec in dependsOn, each one once"),
    (Reason.SPEC_STEP_CYCLE, "spec_step_cycle", _CALLER, _NEVER, Exit.USAGE, None, False,
     "these steps wait for each other",
     "take one of the dependencies out of the circle"),
    (Reason.SPEC_STEP_UNKNOWN, "spec_step_unknown", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "the spec has no step with this key",
     "`understudy spec status ID` lists the steps"),
    (Reason.JOB_NOT_DISPATCHABLE, "job_not_dispatchable", _PEER, _LATER, Exit.CONFLICT, None, False,
     "only jobs of specs that are free to run are handed on",
     "take another one from `understudy job dispatch roster`"),
    (Reason.JOB_DISPATCHED, "job_dispatched", _PEER, _NEVER, Exit.CONFLICT, None, True,
     "the job was handed on before, once and for all",
     "go on with another; `understudy job show ID` names the file"),

    (Reason.PERSON_REQUIRED, "issue_waits_for_person", _CALLER, _NEVER, Exit.DENIED, None, False,
     "it is an escalation, which only a person takes, closes or hands on",
     "take other work; a person claims or frees it: `understudy issue update ID --type task`"),
    (Reason.OPERATOR_REQUIRED, "operator_required", _CALLER, _NEVER, Exit.DENIED, None, False,
     "this is for operators, and the agent was not granted it",
     "ask a person, who has the command line for it"),
    (Reason.AGENT_NAME_MISMATCH, "agent_name_mismatch", _CALLER, _NEVER, Exit.DENIED, None, False,
     "an agent acts under the name of its own connection alone",
     "leave the name out, and act on what you hold yourself"),
    (Reason.AGENT_HOLDS_FULL, "agent_holds_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the agent holds as much as one agent may",
     "finish or hand over what it holds, then claim more"),

    (Reason.JOB_NOT_DUE, "job_not_due", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "the time of the job has not come",
     "claim it from the moment that is named on"),
    (Reason.JOB_LIMIT_REACHED, "job_limit_reached", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "as many jobs of its kind are held as may be at once",
     "wait until one of them ends; `understudy limit list` shows the limit"),
    (Reason.JOB_RATE_LIMITED, "job_rate_limited", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "jobs of its kind were claimed as often as they may be",
     "claim it from the moment that is named on"),
    (Reason.JOB_TIMED_OUT, "job_timed_out", _PEER, _RECLAIM, Exit.LEASE_LOST, None, True,
     "the job was held for as long as one term of it may last",
     "stop; the job is free once its lease lapses"),
    (Reason.JOB_LIMIT_INVALID, "job_limit_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "a limit is a whole number within its bounds, from 1 on, and there must be one at least",
     "correct the number that is named; `understudy limit clear KIND` takes a limit away"),
    (Reason.JOB_LIMIT_MISSING, "job_limit_missing", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "the kind has no limit of its own",
     "`understudy limit list` shows those that there are"),
    (Reason.JOB_LIMITS_FULL, "job_limits_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "as many kinds have a limit as may have",
     "clear one first, or use a prefix"),
    (Reason.JOB_RUN_AT_INVALID, "job_run_at_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "the time of a job is given once, and lies within a year",
     "give either runAtMs or delayMs; what comes later, or again, is for a schedule"),
    (Reason.JOB_ID_RESERVED, "job_id_reserved", _CALLER, _NEVER, Exit.DENIED, None, False,
     "ids with an @ are for the jobs that schedules make",
     "choose another jobId"),
    (Reason.JOB_NODE_LAST, "job_node_last", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "it is the last registered node, and without any every name may work",
     "register another first, or say that you want it with `open`"),
    (Reason.SCHEDULE_PAYLOAD_INVALID, "schedule_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a schedule action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.SCHEDULE_CRON_INVALID, "schedule_cron_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "this is no cron line, or no day that it names ever comes",
     "give five fields: minute, hour, day of the month, month, day of the week"),
    (Reason.SCHEDULE_ZONE_UNKNOWN, "schedule_zone_unknown", _CALLER, _NEVER, Exit.USAGE, None,
     False, "there is no time zone of this name",
     "give one such as UTC or Europe/Berlin"),
    (Reason.SCHEDULE_TIMES_INVALID, "schedule_times_invalid", _CALLER, _NEVER, Exit.USAGE, None,
     False, "a schedule has either a cron line or an interval, of a second to a year",
     "give one of cron and everyMs"),
    (Reason.SCHEDULE_TEMPLATE_INVALID, "schedule_template_invalid", _CALLER, _NEVER, Exit.USAGE,
     None, False, "a schedule makes either a job or a spec",
     "give one of job and spec"),
    (Reason.SCHEDULE_NOT_FOUND, "schedule_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such schedule",
     "`understudy schedule list` shows what there is"),
    (Reason.SCHEDULES_FULL, "schedule_store_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "there are as many schedules as may be",
     "remove one first"),
    (Reason.SCHEDULE_NOT_DUE, "schedule_not_due", _CALLER, _LATER, Exit.TRY_LATER, None, False,
     "the moment has not come, or is none of the schedule's",
     "leave it to a scheduler: `understudy up --schedules`"),
    (Reason.SCHEDULE_FIRED, "schedule_fired", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the schedule has fired for this moment, or for a later one",
     "go on with the next moment"),
    (Reason.SCHEDULE_MISSED, "schedule_missed", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the moment is over, and this schedule leaves out what it missed",
     "go on with the next moment; `--missed one` or `all` makes up for it"),
    (Reason.WORK_PAUSED, "work_paused", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "an operator has paused this work",
     "take other work; `understudy unpause` with the scope that is named lets it go on"),
    (Reason.SCOPE_INVALID, "scope_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "that is no scope",
     "use `*`, `label/L`, `kind/K`, `issue/ID` or `job/ID`"),
    (Reason.PAUSE_MISSING, "pause_missing", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "this very scope is not paused",
     "`understudy pause --list` shows what is paused"),
    (Reason.PAUSES_FULL, "pauses_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "as many scopes are paused as may be",
     "pause a greater scope, or unpause some first"),
    (Reason.ISSUE_CANCELLED, "issue_cancelled", _PEER, _NEVER, Exit.CONFLICT, None, True,
     "an operator has cancelled the issue",
     "take other work; `understudy retry ID` brings it back"),
    (Reason.JOB_CANCELLED, "job_cancelled", _PEER, _NEVER, Exit.CONFLICT, None, True,
     "an operator has cancelled the job, once and for all",
     "stop; schedule another job if it must be done after all"),
    (Reason.WORK_NOT_BLOCKED, "work_not_blocked", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "there is nothing to bring back: it is not blocked, cancelled or tried before, or it is held",
     "let it run; `understudy cancel ID` stops it"),
    (Reason.APPROVAL_MISSING, "approval_missing", _PEER, _LATER, Exit.DENIED, None, False,
     "it waits for a person to approve it",
     "take other work; a person says `understudy approve ID` or `understudy reject ID`"),
    (Reason.APPROVAL_NOT_ASKED, "approval_not_asked", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "it waits for no approval",
     "`understudy issue show ID` or `understudy job show ID` says where it stands"),
    (Reason.APPROVAL_REJECTED, "approval_rejected", _PEER, _NEVER, Exit.DENIED, None, False,
     "a person has rejected it",
     "take other work; `understudy retry ID` asks for an approval again"),
    (Reason.SPEND_PAYLOAD_INVALID, "spend_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a spend or budget action has a wrong, missing or unknown member",
     "name `id` or `jobId`; amounts are whole numbers of tokens, usdMicros and milliseconds"),
    (Reason.SPEND_AMOUNT_INVALID, "spend_amount_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "an amount is negative or greater than a report may say, or nothing was spent",
     "report what was spent since the last report, with at least one amount above 0"),
    (Reason.SPENDS_FULL, "spend_store_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "something was spent in as many scopes as the authority can count",
     "use fewer labels and names, or start another state directory"),
    (Reason.BUDGET_EXCEEDED, "budget_exceeded", _PEER, _NEVER, Exit.DENIED, None, False,
     "the budget is used up",
     "`understudy spend report` shows it; raise it with `understudy budget set`, or clear it"),
    (Reason.BUDGET_INVALID, "budget_invalid", _CALLER, _NEVER, Exit.USAGE, None, False,
     "that is no budget: no cap above 0 is given, or its scope has no such sums",
     "give a cap; scopes are *, label/L, kind/K, tree/NAME, issue/ID and job/ID"),
    (Reason.BUDGET_NOT_FOUND, "budget_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such budget is set",
     "`understudy budget list` shows which are"),
    (Reason.BUDGETS_FULL, "budget_store_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "as many budgets are set as can be",
     "clear one first, or use a wider scope"),
    (Reason.DESCENT_PAYLOAD_INVALID, "descent_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     False, "the payload of a descent or glue action has a wrong, missing or unknown member",
     "correct the member that is named; commits and trees are whole object ids of git"),
    (Reason.ISSUE_GLUING, "issue_gluing", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "the work is done, and its section waits to be glued",
     "take other work; `understudy descent status` shows what it waits for"),
    (Reason.SECTION_EMPTY, "section_empty", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "the section changes nothing",
     "close the issue instead: there is nothing to glue"),
    (Reason.SECTION_OUT_OF_SCOPE, "section_out_of_scope", _CALLER, _NEVER, Exit.DENIED, None, False,
     "the section touches paths that the issue did not say it would",
     "leave them as they were, or give the issue a wider scope: `understudy issue update --scope`"),
    (Reason.SECTION_NOT_OPEN, "section_not_open", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "there is no such section, or it is glued, obstructed or withdrawn",
     "`understudy descent status` shows the sections that wait"),
    (Reason.SECTION_TARGET_OTHER, "section_target_mismatch", _CALLER, _NEVER, Exit.CONFLICT, None,
     False, "the section is for another branch",
     "name the branch that the section or its cover is for"),
    (Reason.COVER_NOT_FOUND, "cover_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None, False,
     "no such cover",
     "`understudy descent status` shows what there is"),
    (Reason.COVER_EXISTS, "cover_exists", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "there is a cover of this id",
     "choose another id, or leave it out"),
    (Reason.COVER_NOT_OPEN, "cover_not_open", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the cover is glued or was aborted",
     "start another one: `understudy descent start`"),
    (Reason.COVER_ISSUE_TAKEN, "cover_issue_taken", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "an issue is named twice, is over, or is in another open cover",
     "leave it out, or abort the other cover: `understudy descent abort`"),
    (Reason.COVERS_FULL, "covers_full", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "as many covers are open as may be",
     "wait until one is glued, or abort one"),
    (Reason.GLUE_PENDING, "glue_pending", _PEER, _LATER, Exit.CONFLICT, None, False,
     "a move of the branch is authorised, and not known to have happened",
     "look where the branch is, and seal that first"),
    (Reason.GLUE_NOT_PENDING, "glue_not_pending", _CALLER, _NEVER, Exit.CONFLICT, None, False,
     "no move of the branch is authorised",
     "ask for one first, with the sections in it"),
    (Reason.GLUE_OUT_OF_ORDER, "glue_out_of_order", _PEER, _LATER, Exit.TRY_LATER, None, False,
     "a section that comes before it waits",
     "glue that one first, or say what obstructs it"),
    (Reason.GLUE_TARGET_MOVED, "glue_target_moved", _PEER, _NEVER, Exit.CONFLICT, None, False,
     "the branch is not where the last glue left it, or where the seal says it is",
     "look at what moved it; `understudy descent glue --accept-moved` goes on from where it is"),
    (Reason.OVERLAPS_FULL, "overlaps_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "as many overlaps are known as can be",
     "glue some sections first"),
    (Reason.TARGETS_FULL, "targets_full", _US, _NEVER, Exit.CONFLICT, None, False,
     "sections were glued to as many branches as the authority knows",
     "use one of those branches"),
)
# fmt: on

FAILURES = {row[0]: Failure(*row[1:]) for row in _ROWS}
BY_WIRE = {failure.wire: reason for reason, failure in FAILURES.items()}


def ends_lease(failure_class: str | None) -> bool:
    """Whether a holder that showed owner, lease id and fence, and was refused so, must stop.

    Every holder asks this, and nothing else. A refusal of anything else than the lease leaves it as
    it is, until its deadline: a broken payload, a right that is missing, an authority that is busy.
    So does a request without a fence, which shows no lease, and a class that we do not know.
    """
    reason = BY_WIRE.get(failure_class or "")
    return reason is not None and FAILURES[reason].ends_lease


assert len(FAILURES) == len(Reason) == len(BY_WIRE), "every reason has one row and one name"
