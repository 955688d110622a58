"""Every failure class: its wire name, what it means, who is to blame, and what to do next.

Numbers are wire format: appended, never reused. The order of the groups is the order in which a
request meets them. `tests/contracts/test_reason.py` shows that every class has a vector.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Blame(StrEnum):
    CALLER = "caller"  # the request itself is wrong
    PEER = "peer"  # somebody else holds, closed or changed it
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
    TRY_LATER = 75
    CONFIG = 78


class Reason(IntEnum):
    # What never becomes a request.
    REQUEST_INVALID = 1
    REQUEST_TOO_LARGE = 2
    ACTION_UNKNOWN = 3
    ACTION_UNIMPLEMENTED = 4
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
    # A journal in a database, and its standbys.
    JOURNAL_UNREACHABLE = 460
    AUTHORITY_STANDBY = 461
    JOURNAL_TOO_NEW = 462
    JOURNAL_ENGINE_MISSING = 463
    JOURNAL_URL_INVALID = 464

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
    meaning: str
    remedy: str  # the next step, said in the diagnostic


_CALLER, _PEER, _US = Blame.CALLER, Blame.PEER, Blame.US
_NEVER, _LATER, _RECLAIM = Retry.NEVER, Retry.LATER, Retry.RECLAIM

# fmt: off
_ROWS: tuple[tuple[Reason, str, Blame, Retry, Exit, int | None, str, str], ...] = (
    (Reason.REQUEST_INVALID, "transport_invalid_request", _CALLER, _NEVER, Exit.USAGE, None,
     "the bytes are no request: not JSON, not canonical, or without an action",
     "send one JSON object with `action` and `payload`"),
    (Reason.REQUEST_TOO_LARGE, "transport_request_too_large", _CALLER, _NEVER, Exit.USAGE, None,
     "the request is longer than a request may be",
     "shorten the texts, or split the request"),
    (Reason.ACTION_UNKNOWN, "transport_unknown_action", _CALLER, _NEVER, Exit.USAGE, None,
     "no host action has this name",
     "`understudy check --json` lists the actions"),
    (Reason.ACTION_UNIMPLEMENTED, "host_action_unimplemented", _US, _NEVER, Exit.FAILED, None,
     "the action is registered and its rule is not built yet",
     "use another action, or a later release"),
    (Reason.LEASE_PAYLOAD_INVALID, "lease_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     "the payload of a lease action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.ISSUE_PAYLOAD_INVALID, "issue_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     "the payload of an issue action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.DEPENDENCY_PAYLOAD_INVALID, "dep_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     "the payload of a dependency action has a wrong, missing or unknown member",
     "correct the member that is named"),
    (Reason.CLOCK_NOT_FROZEN, "clock_not_frozen", _CALLER, _NEVER, Exit.DENIED, None,
     "the request brings its own time to a door that keeps time itself",
     "leave out `now`, or start the door with --frozen-clock"),
    (Reason.FIBER_PAYLOAD_INVALID, "fiber_invalid_payload", _CALLER, _NEVER, Exit.USAGE, None,
     "the payload of a fiber action has a wrong, missing or unknown member",
     "correct the member that is named"),

    (Reason.TRANSPORT_ESCALATION, "transport_escalation_denied", _CALLER, _NEVER, Exit.DENIED,
     None, "the request names a stronger transport than the door it came through",
     "leave out `context.transport`, or use the stronger door"),
    (Reason.TRANSPORT_MCP_REQUIRED, "control_plane_host_action_mcp_transport_required", _CALLER,
     _NEVER, Exit.DENIED, None, "the action is only allowed through the MCP door",
     "send it through MCP or `understudy dispatch`"),
    (Reason.TRANSPORT_FORBIDDEN, "control_plane_host_action_transport_forbidden", _CALLER, _NEVER,
     Exit.DENIED, None, "the action is not bound to this transport",
     "use the command line"),
    (Reason.CLOCK_DRIFT, "clock_drift_exceeded", _CALLER, _LATER, Exit.DENIED, None,
     "the caller's stamp is further ahead than the drift bound allows",
     "correct the caller's clock"),
    (Reason.EVIDENCE_MISSING, "mutation.use_evidence_missing", _CALLER, _NEVER, Exit.DENIED, None,
     "the mutation policy asks for policyDigest and instructionRef",
     "put both into the request's context"),
    (Reason.POLICY_DIGEST_UNKNOWN, "mutation.policy_digest_unknown", _CALLER, _NEVER, Exit.DENIED,
     None, "the request is bound to a policy that is not in force",
     "read the digest in force with `understudy check --json`"),
    (Reason.CAPABILITY_CLAIM_MISSING, "mutation.capability_claim_missing", _CALLER, _NEVER,
     Exit.DENIED, None, "the request claims no capability for this action",
     "add the capability that is named to context.capabilityClaims"),
    (Reason.REQUEST_ID_CONFLICT, "request_id_conflict", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the request id was used before, with other arguments",
     "use a new requestId"),

    (Reason.ASSIGNEE_INVALID, "lease_invalid_assignee", _CALLER, _NEVER, Exit.USAGE, None,
     "the assignee is missing or blank",
     "name who holds the lease"),
    (Reason.TTL_INVALID, "lease_invalid_ttl", _CALLER, _NEVER, Exit.USAGE, None,
     "the time to live is outside 30 to 86,400 seconds",
     "choose leaseTtlSeconds within the bounds"),
    (Reason.EXPIRY_AMBIGUOUS, "lease_binding_ambiguous", _CALLER, _NEVER, Exit.USAGE, None,
     "both leaseTtlSeconds and leaseExpiresAt are given",
     "give one of the two"),
    (Reason.EXPIRY_INVALID, "lease_invalid_expires_at", _CALLER, _NEVER, Exit.USAGE, None,
     "leaseExpiresAt is no RFC 3339 moment between 30 and 86,400 seconds from now",
     "choose a moment within the bounds, or give leaseTtlSeconds"),
    (Reason.BREAK_REASON_MISSING, "lease_break_reason_missing", _CALLER, _NEVER, Exit.USAGE, None,
     "a lease is broken only with a reason",
     "say why, for the record"),
    (Reason.CAPABILITY_UNKNOWN, "lease_capability_unknown", _CALLER, _NEVER, Exit.USAGE, None,
     "a sublease cannot carry this capability",
     "grant only actions that change the issue's own work"),
    (Reason.FIBER_FIELD_MISSING, "fiber_missing_field", _CALLER, _NEVER, Exit.USAGE, None,
     "a spawn names its task, and a cancellation one fiber or the whole scope",
     "give taskRef, or one of fiberId and wholeScope"),

    (Reason.LEASE_NOT_FOUND, "lease_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, 1,
     "no such resource",
     "`understudy issue list` shows what there is"),
    (Reason.ISSUE_CLOSED, "lease_issue_closed", _PEER, _NEVER, Exit.CONFLICT, 2,
     "the work is closed",
     "stop; reopen it with `understudy issue update ID --status open` if it must go on"),
    (Reason.LEASE_MISSING, "lease_missing", _PEER, _RECLAIM, Exit.LEASE_LOST, 3,
     "nobody holds a lease on it",
     "claim it first"),
    (Reason.FENCE_MISSING, "lease_fence_missing", _CALLER, _NEVER, Exit.LEASE_LOST, 4,
     "it is leased, and the request carries no fence",
     "send the fence that the claim returned"),
    (Reason.FENCE_UNKNOWN, "lease_fence_unknown", _CALLER, _NEVER, Exit.LEASE_LOST, 5,
     "the fence was never issued for this resource",
     "send the fence that the claim returned"),
    (Reason.FENCE_STALE, "lease_fence_stale", _PEER, _RECLAIM, Exit.LEASE_LOST, 6,
     "the fence belongs to an earlier term",
     "stop; somebody newer holds it"),
    (Reason.LEASE_STALE, "lease_stale", _PEER, _RECLAIM, Exit.LEASE_LOST, 7,
     "the deadline has passed",
     "stop, and claim it again"),
    (Reason.OWNER_MISMATCH, "lease_owner_mismatch", _CALLER, _NEVER, Exit.LEASE_LOST, 8,
     "another owner holds the lease",
     "send the assignee that claimed it"),
    (Reason.LEASE_ID_MISMATCH, "lease_id_mismatch", _CALLER, _NEVER, Exit.LEASE_LOST, 9,
     "the lease has another id",
     "send the leaseId that the claim returned"),
    (Reason.CAPABILITY_MISSING, "lease_capability_missing", _CALLER, _NEVER, Exit.DENIED, 10,
     "the sublease does not carry the capability for this action",
     "ask the holder of the lease to do it, or to widen the sublease"),

    (Reason.LEASE_CONTENDED, "lease_contention_active", _PEER, _LATER, Exit.CONFLICT, None,
     "somebody else holds it",
     "wait for its expiry, or take other work with `understudy issue next`"),
    (Reason.ISSUE_BLOCKED, "lease_issue_blocked", _PEER, _LATER, Exit.CONFLICT, None,
     "it is blocked, or waits for work that is not closed",
     "`understudy issue blocked` says what it waits for"),
    (Reason.NOT_CONTENDED, "lease_not_contended", _CALLER, _NEVER, Exit.CONFLICT, None,
     "lease and record agree; there is nothing to reconcile",
     "go on"),
    (Reason.SUBLEASE_EXISTS, "lease_sublease_exists", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the lease has a sublease with this id",
     "choose another subleaseId, or revoke that one"),
    (Reason.SUBLEASE_MISSING, "lease_sublease_missing", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     "the lease has no sublease with this id",
     "`understudy issue leases` lists them"),
    (Reason.SUBLEASES_FULL, "lease_subleases_full", _CALLER, _LATER, Exit.CONFLICT, None,
     "the lease has as many subleases as a lease may have",
     "revoke one first"),
    (Reason.INSTANCE_EXISTS, "lease_instance_exists", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the lease has an instance with this id",
     "choose another instanceId, or close that one"),
    (Reason.INSTANCE_MISSING, "lease_instance_missing", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     "the lease has no instance with this id",
     "`understudy issue leases` lists them"),
    (Reason.INSTANCES_FULL, "lease_instances_full", _CALLER, _LATER, Exit.CONFLICT, None,
     "the lease has as many instances as a lease may have",
     "close one first"),

    (Reason.FIBER_MISSING, "fiber_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     "the lease has no fiber with this id",
     "`understudy fiber list ID` shows what there is"),
    (Reason.FIBER_EXISTS, "fiber_exists", _CALLER, _NEVER, Exit.CONFLICT, None,
     "a fiber with this id was spawned under this lease",
     "choose another fiberId, or leave it out"),
    (Reason.FIBER_ENDED, "fiber_ended", _PEER, _NEVER, Exit.CONFLICT, None,
     "the fiber was joined or cancelled before",
     "go on; a fiber ends once"),
    (Reason.FIBER_ORPHANED, "fiber_orphaned", _PEER, _NEVER, Exit.CONFLICT, None,
     "the fiber died with an earlier term of the lease",
     "spawn it again under this one"),
    (Reason.FIBER_PARENT_MISSING, "fiber_parent_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     "the lease has no fiber with the id of the parent",
     "spawn the parent first, or leave parentFiberId out"),
    (Reason.FIBER_SCOPE_ENDED, "fiber_scope_ended", _PEER, _NEVER, Exit.CONFLICT, None,
     "the parent has ended, and nothing starts in a scope that has ended",
     "stop; spawn it elsewhere if it must go on"),
    (Reason.FIBER_SCOPE_OPEN, "fiber_scope_open", _CALLER, _LATER, Exit.CONFLICT, None,
     "a scope ends when its fibers have ended, and some still run",
     "join or cancel the fibers that are named, then ask again"),
    (Reason.FIBER_OUT_OF_SCOPE, "fiber_out_of_scope", _CALLER, _NEVER, Exit.CONFLICT, None,
     "joinSet names a fiber that is not below fiberId",
     "join that one by itself"),
    (Reason.FIBERS_FULL, "fiber_scope_full", _CALLER, _LATER, Exit.CONFLICT, None,
     "as many fibers run under the lease as a lease may have",
     "join or cancel one first"),
    (Reason.FIBER_TOO_DEEP, "fiber_too_deep", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the fiber would lie deeper than fibers may",
     "spawn it further up"),

    (Reason.ISSUE_NOT_FOUND, "issue_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     "no such issue",
     "`understudy issue list` shows what there is"),
    (Reason.ISSUE_EXISTS, "issue_id_exists", _CALLER, _NEVER, Exit.CONFLICT, None,
     "an issue with this id exists",
     "choose another id, or leave it out"),
    (Reason.ISSUES_FULL, "issue_store_full", _US, _NEVER, Exit.CONFLICT, None,
     "the authority holds as many issues as it can",
     "start another state directory"),
    (Reason.ISSUE_STATUS_INVALID, "issue_invalid_status", _CALLER, _NEVER, Exit.USAGE, None,
     "the status cannot be set by an update",
     "use open, blocked or closed; in_progress is what a claim sets"),
    (Reason.DEPENDENCY_MISSING, "dep_not_found", _CALLER, _NEVER, Exit.NOT_FOUND, None,
     "no such dependency",
     "`understudy issue show ID` lists them"),
    (Reason.DEPENDENCY_EXISTS, "dep_exists", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the dependency exists",
     "go on, or replace it"),
    (Reason.DEPENDENCY_TARGET_MISSING, "dep_target_not_found", _CALLER, _NEVER, Exit.NOT_FOUND,
     None, "the issue that it would depend on does not exist",
     "add that issue first"),
    (Reason.DEPENDENCY_SELF, "dep_self_loop", _CALLER, _NEVER, Exit.CONFLICT, None,
     "an issue cannot depend on itself",
     "name another issue"),
    (Reason.DEPENDENCY_CYCLE, "dep_cycle", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the dependency would close a cycle",
     "`understudy dep diagnostics` shows the path"),
    (Reason.DEPENDENCIES_FULL, "dep_full", _CALLER, _NEVER, Exit.CONFLICT, None,
     "the issue has as many dependencies as an issue may have",
     "remove one, or put an epic between"),

    (Reason.IMPORT_LINE_INVALID, "issue_import_line_invalid", _CALLER, _NEVER, Exit.FAILED, None,
     "a line of the file is no issue record",
     "correct the line, or import the rest with --skip-bad"),
    (Reason.IMPORT_LINE_TORN, "issue_import_line_torn", _CALLER, _NEVER, Exit.FAILED, None,
     "the last line of the file is cut off",
     "complete the line, or import the rest with --skip-bad"),
    (Reason.IMPORT_ID_DUPLICATE, "issue_import_id_duplicate", _CALLER, _NEVER, Exit.FAILED, None,
     "two lines of the file have the same id",
     "remove one, or keep the last with --skip-bad"),

    (Reason.AUTHORITY_BUSY, "authority_busy", _PEER, _LATER, Exit.TRY_LATER, None,
     "another process holds the state directory",
     "try again; the holder's pid is in the message"),
    (Reason.STATE_DIR_MISSING, "state_dir_missing", _CALLER, _NEVER, Exit.CONFIG, None,
     "there is no state directory here",
     "`understudy init` makes one; --state-dir names another"),
    (Reason.STATE_DIR_DENIED, "state_dir_denied", _US, _NEVER, Exit.CONFIG, None,
     "the state directory cannot be read or written",
     "correct its owner and mode, or name another with --state-dir"),
    (Reason.JOURNAL_CORRUPT, "journal_corrupt", _US, _NEVER, Exit.CHECK_FAILED, None,
     "the journal is damaged, or is no journal of ours",
     "`understudy replay` names the row; restore a backup"),
    (Reason.JOURNAL_WRITE_FAILED, "journal_write_failed", _US, _LATER, Exit.FAILED, None,
     "the journal could not be written; whether it was decided shows after the next start",
     "free the disk, then ask again with the same requestId"),
    (Reason.JOURNAL_DEPOSED, "journal_deposed", _PEER, _LATER, Exit.TRY_LATER, None,
     "another authority has taken over the journal",
     "stop; clients follow the new one"),
    (Reason.CONTRACT_DRIFT, "contract_drift", _US, _NEVER, Exit.CONFIG, None,
     "the contract in force fails its own check",
     "`understudy check` names what drifted"),

    (Reason.AUTHORITY_OVERLOADED, "authority_overloaded", _US, _LATER, Exit.TRY_LATER, None,
     "more requests wait than may wait",
     "try again after a pause, with the same requestId"),
    (Reason.PROTOCOL_MISMATCH, "sidecar_protocol_mismatch", _CALLER, _NEVER, Exit.UNREACHABLE,
     None, "the two sides of the socket do not speak the same protocol",
     "stop the sidecar and start it again from this installation"),
    (Reason.SIDECAR_UNREACHABLE, "sidecar_unreachable", _US, _LATER, Exit.UNREACHABLE, None,
     "the sidecar does not answer",
     "look whether it runs: `understudy authority status`"),

    (Reason.REPLAY_MISMATCH, "replay_mismatch", _US, _NEVER, Exit.CHECK_FAILED, None,
     "a row of the journal does not replay to the bytes it holds",
     "the first such row is named; everything before it stands"),
    (Reason.TRAJECTORY_MISMATCH, "trajectory_mismatch", _US, _NEVER, Exit.CHECK_FAILED, None,
     "the trajectory differs from the journal",
     "`understudy rebuild` writes it anew from the journal"),
    (Reason.EVIDENCE_ROUTE_MISSING, "unification.evidence_factorization.missing", _US, _NEVER,
     Exit.CHECK_FAILED, None, "a row of evidence has no route to Ev",
     "register the action in the evidence routes"),
    (Reason.EVIDENCE_ROUTE_AMBIGUOUS, "unification.evidence_factorization.ambiguous", _US, _NEVER,
     Exit.CHECK_FAILED, None, "a row of evidence has more than one route to Ev",
     "leave the action in one evidence route"),
    (Reason.EVIDENCE_ROUTE_UNBOUND, "unification.evidence_factorization.unbound", _US, _NEVER,
     Exit.CHECK_FAILED, None, "a row of evidence is not bound to a normalizer and a policy",
     "bind normalizerId and policyDigest"),

    (Reason.CONTRACT_PIN_MISMATCH, "contract_pin_mismatch", _US, _NEVER, Exit.CHECK_FAILED,
     None, "a published file differs from its pin, is gone, or has none",
     "restore the file; after an edit, `python -m understudy.contracts --write`"),
    (Reason.CONTRACT_UNREADABLE, "contract_document_unreadable", _US, _NEVER, Exit.CHECK_FAILED,
     None, "a document cannot be read, or is not canonical JSON",
     "restore the document"),
    (Reason.CONTRACT_SCHEMA_INVALID, "contract_schema_invalid", _US, _NEVER, Exit.CHECK_FAILED,
     None, "a document breaks its schema",
     "correct the member that is named"),
    (Reason.WORLD_UNBOUND, "world_route_unbound", _US, _NEVER, Exit.CHECK_FAILED,
     None, "a route, family, operation or contract row is missing, double or malformed",
     "correct the row that is named"),
    (Reason.WORLD_UNKNOWN, "world_route_unknown_world", _US, _NEVER, Exit.CHECK_FAILED,
     None, "an operation lies in another world than it is pinned to",
     "restore the world that is named"),
    (Reason.WORLD_MORPHISM_UNKNOWN, "world_route_unknown_morphism", _US, _NEVER, Exit.CHECK_FAILED,
     None, "an operation has another morphism row than it is pinned to",
     "restore the morphism row that is named"),
    (Reason.WORLD_MORPHISM_DRIFT, "world_route_morphism_drift", _US, _NEVER, Exit.CHECK_FAILED,
     None, "an operation lacks a morphism that its route requires",
     "restore the morphism that is named"),
    (Reason.ACTION_UNREGISTERED, "control_plane_host_action_unregistered", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "an action is named that is not registered",
     "register it, or take the name out"),
    (Reason.ACTION_BINDING_MISMATCH, "control_plane_host_action_binding_mismatch", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "the tool, command or transports of an action do not go with its operation",
     "correct the binding that is named"),
    (Reason.ACTION_BINDING_DUPLICATE, "control_plane_host_action_duplicate_binding", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "two actions share an operation, a command or a tool",
     "give each its own"),
    (Reason.ACTION_UNBOUND, "control_plane_host_action_contract_unbound", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "an action has no operation, or one that the registry does not know",
     "bind it to a registered operation"),
    (Reason.LANE_ROUTE_UNBOUND, "worker_lane_route_unbound", _US, _NEVER, Exit.CHECK_FAILED,
     None, "a mutating action has no capability, or two",
     "name one capability in both places"),
    (Reason.LANE_MODE_DRIFT, "worker_lane_mutation_mode_drift", _US, _NEVER, Exit.CHECK_FAILED,
     None, "the default mutation mode is not among the allowed ones",
     "choose an allowed mode"),
    (Reason.COMMAND_UNBOUND, "control_plane_command_surface_unbound", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "the command surface has no commands, or one without words",
     "name the commands"),
    (Reason.PIPELINE_UNBOUND, "control_plane_pipeline_wrapper_unbound", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "pipeline entry points or gates are missing",
     "name them"),
    (Reason.PIPELINE_DRIFT, "control_plane_pipeline_wrapper_parity_drift", _US, _NEVER,
     Exit.CHECK_FAILED,
     None, "a pipeline gate runs no command of the command surface",
     "let it run one"),
    (Reason.RETRY_POLICY_MISSING, "retry_policy_missing", _US, _NEVER, Exit.CHECK_FAILED,
     None, "there is no retry policy",
     "restore the file"),
    (Reason.RETRY_POLICY_UNREADABLE, "retry_policy_io_error", _US, _NEVER, Exit.CHECK_FAILED,
     None, "the retry policy cannot be read",
     "correct its owner and mode"),
    (Reason.RETRY_POLICY_NOT_JSON, "retry_policy_invalid_json", _US, _NEVER, Exit.CHECK_FAILED,
     None, "the retry policy is not canonical JSON",
     "restore the file"),
    (Reason.RETRY_POLICY_SHAPE, "retry_policy_invalid_shape", _US, _NEVER, Exit.CHECK_FAILED,
     None, "the retry policy has a wrong, missing or double member",
     "correct the member that is named"),
    (Reason.RETRY_POLICY_DIGEST, "retry_policy_invalid_digest", _US, _NEVER, Exit.CHECK_FAILED,
     None, "the retry policy does not have the digest that binds it",
     "after an edit, `python -m understudy.contracts --write`"),

    (Reason.JOURNAL_UNREACHABLE, "journal_unreachable", _US, _LATER, Exit.UNREACHABLE, None,
     "the database of the journal does not answer; whether it was decided shows when it does",
     "bring the database back, then ask again with the same requestId"),
    (Reason.AUTHORITY_STANDBY, "authority_standby", _PEER, _LATER, Exit.TRY_LATER, None,
     "another authority is active, and this one waits to take its place",
     "ask the one that is named, or this one later"),
    (Reason.JOURNAL_TOO_NEW, "journal_too_new", _US, _NEVER, Exit.CONFIG, None,
     "the database was made by a newer understudy",
     "install that version here"),
    (Reason.JOURNAL_ENGINE_MISSING, "journal_engine_missing", _US, _NEVER, Exit.CONFIG, None,
     "the journal is in PostgreSQL, and the driver is not installed",
     "`pip install 'understudy[postgres]'`"),
    (Reason.JOURNAL_URL_INVALID, "journal_url_invalid", _CALLER, _NEVER, Exit.CONFIG, None,
     "that is no URL for the journal of this state directory",
     "postgresql://HOST/DATABASE; a password comes from ~/.pgpass or UNDERSTUDY_JOURNAL"),
)
# fmt: on

FAILURES = {row[0]: Failure(*row[1:]) for row in _ROWS}
BY_WIRE = {failure.wire: reason for reason, failure in FAILURES.items()}

assert len(FAILURES) == len(Reason) == len(BY_WIRE), "every reason has one row and one name"
