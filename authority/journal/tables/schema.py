"""Which SQL tables there are: one description, for SQLite and for PostgreSQL.

Text and whole numbers are all that a cell holds. Moments are milliseconds since 1970, lists are
lines of one text, and what is true is 1.
"""

from dataclasses import dataclass
from typing import Literal

VERSION = 7  # of these tables; a file of another version is made anew

Dialect = Literal["sqlite", "postgresql"]


@dataclass(frozen=True, slots=True)
class Table:
    """A table: its columns, and what no two of its rows share."""

    name: str
    about: str  # for people
    columns: tuple[tuple[str, str], ...]  # with their types, as SQLite spells them
    key: tuple[str, ...]
    unique: tuple[str, ...] = ()
    index: tuple[str, ...] = ()

    @property
    def upsert(self) -> str:
        """Put a row in place of the one with its key. Any other conflict is an error."""
        names = [name for name, _ in self.columns]
        marks = ", ".join("?" * len(names))
        rest = ", ".join(f"{name} = excluded.{name}" for name in names if name not in self.key)
        then = f"UPDATE SET {rest}" if rest else "NOTHING"
        into = f"INSERT INTO {self.name} ({', '.join(names)}) VALUES ({marks})"
        return f"{into} ON CONFLICT ({', '.join(self.key)}) DO {then}"

    def ddl(self, dialect: Dialect) -> str:
        """The statements that make it."""
        types = {"TEXT": "text", "INTEGER": "bigint"} if dialect == "postgresql" else {}
        parts = [f"{name} {types.get(kind, kind)}" for name, kind in self.columns]
        parts.append(f"PRIMARY KEY ({', '.join(self.key)})")
        if self.unique:
            parts.append(f"UNIQUE ({', '.join(self.unique)})")
        strict = " STRICT" if dialect == "sqlite" else ""
        body = ",\n    ".join(parts)
        made = f"CREATE TABLE {self.name} (\n    {body}\n){strict};\n"
        if self.index:
            columns = ", ".join(self.index)
            made += f"CREATE INDEX {self.name}_{self.index[0]} ON {self.name} ({columns});\n"
        return made


def _columns(text: str) -> tuple[tuple[str, str], ...]:
    """Names; a number has a `#` behind its name."""
    return tuple(
        (word.removesuffix("#"), "INTEGER" if word.endswith("#") else "TEXT")
        for word in text.split()
    )


_TERM = "owner_id lease_id fence# ttl_ms# granted_ms# expires_ms# renewals#"

WATERMARK = Table(
    "watermark",
    "How far the tables are: `seq` is the last row of the journal that they show.",
    _columns("one# seq#"),
    ("one",),
)
ISSUE = Table(
    "issue",
    "Pieces of work.",
    _columns("""
        id title description design acceptance_criteria notes status priority# issue_type assignee
        owner created_at updated_at closed_at ephemeral# mol_type labels metadata attempts# excused#
        approval steered_by steered_why scope
    """),
    ("id",),
    index=("status", "priority", "created_at"),
)
DEPENDENCY = Table(
    "dependency",
    "Which issue waits for which, or is related to it.",
    _columns("issue_id depends_on_id type created_by blocking#"),
    ("issue_id", "depends_on_id", "type"),
)
LEASE = Table(
    "lease",
    "Every lease: on `issue/ID`, `job/ID`, `spec/ID`, `dispatch/ID` and `glue/BRANCH`.",
    _columns("""
        resource lease_id owner fence# ttl_ms# granted_ms# deadline_ms# renewed_ms# renewals# state
    """),
    ("resource",),
    index=("owner",),
)
SUBLEASE = Table(
    "sublease",
    "Parts of a lease that are lent.",
    _columns("""
        resource sublease_id parent_lease_id holder capability_scope granted_ms# deadline_ms#
    """),
    ("resource", "sublease_id"),
)
INSTANCE = Table(
    "instance",
    "What works under a lease: a worktree, a runtime.",
    _columns("""
        resource instance_id issue_id worktree_ref runtime_ref lease_id lease_owner lease_ttl_ms#
        fence_token# policy_digest
    """),
    ("resource", "instance_id"),
)
FIBER = Table(
    "fiber",
    "Parts of one piece of work that run side by side.",
    _columns("""
        resource fiber_id parent_fiber_id task_ref scope_ref fence# depth# spawned_seq# spawned_ms#
        state ended_seq# ended_ms# result_class result_ref reason
    """),
    ("resource", "fiber_id"),
)
CHAIN_SPEC = Table(
    "chain_spec",
    "Specs: `pending`, `in_progress` or `materialized`, and how many steps have their job.",
    _columns("""
        spec_id title status steps# materialized# digest author submitted_ms# materialized_ms#
    """),
    ("spec_id",),
    index=("status", "submitted_ms"),
)
JOB = Table(
    "job",
    "Jobs: `pending`, `dispatched`, `claimed`, `completed` or `cancelled`; at most one for a step.",
    _columns("""
        job_id spec_id step_key kind status payload author attempts# excused# fence# scheduled_ms#
        completed_ms# completed_by reason dispatched_ms# dispatched_by file priority# run_at_ms#
        timeout_ms# approval steered_by
    """),
    ("job_id",),
    unique=("spec_id", "step_key"),
    index=("status", "kind", "scheduled_ms"),
)
KIND_LIMIT = Table(
    "kind_limit",
    "What limits the jobs of a kind, or with a dot at its end of all kinds below; 0 is no limit.",
    _columns("kind concurrency# rate_per_minute# burst# timeout_ms#"),
    ("kind",),
)
SCHEDULE = Table(
    "schedule",
    "When jobs and specs are made by themselves, and the moment that each was made for last.",
    _columns("""
        schedule_id cron every_ms# timezone start_ms# missed makes template last_due_ms# fired#
    """),
    ("schedule_id",),
)
SPEC_LEASE = Table(
    "spec_lease", "Which runner has which spec.", _columns(f"spec_id {_TERM}"), ("spec_id",)
)
DISPATCH_LEASE = Table(
    "dispatch_lease", "Which dispatcher has which job.", _columns(f"job_id {_TERM}"), ("job_id",)
)
PAUSE = Table(
    "pause",
    "Scopes in which nothing new is claimed: `*`, `label/L`, `kind/K`, `issue/ID`, `job/ID`.",
    _columns("scope reason by_name since_ms#"),
    ("scope",),
)

SPEND = Table(
    "spend",
    "What each issue and job has cost: `attempt_` its last attempt that reported, the rest all.",
    _columns("""
        resource fence# tokens# usd_micros# milliseconds# attempt_tokens# attempt_usd_micros#
        attempt_milliseconds# reported_ms#
    """),
    ("resource",),
    index=("usd_micros",),
)
TALLY = Table(
    "tally",
    "What was spent in each scope: all of it, and on the last `day` (since 1970) of spending.",
    _columns("""
        scope tokens# usd_micros# milliseconds# day# day_tokens# day_usd_micros# day_milliseconds#
    """),
    ("scope",),
)
BUDGET = Table(
    "budget",
    "What may be spent; 0 is no cap.",
    _columns("scope per tokens_max# usd_micros_max# milliseconds_max# set_ms#"),
    ("scope", "per"),
)
COVER = Table(
    "cover",
    "Issues whose sections are glued in one order: `open`, `glued` or `aborted`.",
    _columns("cover_id target base order_by issue_ids taken_out status reason made_seq# made_ms#"),
    ("cover_id",),
)
SECTION = Table(
    "section",
    "What the last term of an issue made: `open`, `gluing`, `glued`, `obstructed`, `withdrawn`.",
    _columns("""
        issue_id fence# lease_id owner target base commit_id tree path_count# paths_digest witness
        cover_id seq# recorded_ms# status
    """),
    ("issue_id",),
    index=("status", "target"),
)
TARGET = Table(
    "glue_target",
    "Branches that sections are glued to, where each was left, and the move that is authorised.",
    _columns("target head glued# pending_old pending_new pending_sections pending_fence#"),
    ("target",),
)
OBSTRUCTION = Table(
    "obstruction",
    "Why a section was not glued.",
    _columns("""
        obstruction_id target section_id others kind onto paths check_id witness ended new_id seq#
        at_ms#
    """),
    ("obstruction_id",),
    index=("seq",),
)

SCHEMA = (
    ISSUE, DEPENDENCY, LEASE, SUBLEASE, INSTANCE, FIBER,
    CHAIN_SPEC, JOB, SPEC_LEASE, DISPATCH_LEASE, KIND_LIMIT, SCHEDULE, PAUSE, SPEND, TALLY, BUDGET,
    COVER, SECTION, TARGET, OBSTRUCTION, WATERMARK,
)  # fmt: skip


def ddl(dialect: Dialect) -> str:
    """All tables, empty, behind row 0."""
    made = "".join(table.ddl(dialect) for table in SCHEMA)
    return f"{made}INSERT INTO watermark (one, seq) VALUES (1, 0);\n"
