"""The journal as spans of traces: what was done for each piece of work, by whom, and for how long.

    issue, job, spec        a root span, from when it is added until it is done or cancelled
      attempt, dispatch     one term: a lease from its grant to its end; renewals are events
      section               what a term made of a branch, until it is glued or does not fit
        glue                from the moment that a move of the branch is authorised until its seal
      refused               a request under a fence that was over; its parent is that term
    pass                    a term of a gluer, in a trace of its own

It is a projection: the same rows give the same spans, byte for byte, wherever they are read. Ids
are derived (`contracts/trace_id.py`), so a span can name a parent that ended long ago.

I1  A span that has ended is given once, with the row that ended it, and never changes again.
I2  What is open began with some row: a fold that begins before the first of them goes on alike.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import orjson

from ...contracts import (
    TERMINAL,
    Issue,
    JobRecord,
    Lease,
    Obstruction,
    Reason,
    Section,
    SectionState,
    SpanContext,
    Spec,
    SpecState,
    canonical,
    dispatch_resource,
    glue_resource,
    issue_resource,
    job_resource,
    limits,
    span_id,
    spec_resource,
    term_context,
    work_trace,
)
from ..journal.journal import Row, Unavailable, changes_of
from ..law import outcome

Status = Literal["unset", "ok", "error"]
Attributes = dict[str, str | int]

_OVER: Final = ("closed", "cancelled")  # statuses of an issue that end its span
_TERMS = {"dispatch": "dispatch", "glue": "pass"}  # other terms are attempts
# What the end of a term is called, by the action that ended it; others have the action's own name.
_ENDS: Final = {
    "descent.section": "section",
    "dispatch.complete": "completed",
    "dispatch.release": "released",
    "glue.release": "released",
    "issue.cancel": "cancelled",
    "issue.close": "completed",
    "issue.lease_break": "broken",
    "issue.lease_release": "released",
    "job.cancel": "cancelled",
    "job.complete": "completed",
    "job.expire": "lapsed",
    "job.yield": "yielded",
    "pause.set": "paused",
    "spec.materialize": "completed",
    "spec.release": "released",
    "spend.report": "budget_exceeded",
}
_GOOD = frozenset({"closed", "completed", "glued", "materialized", "sealed", "section"})
_BAD = frozenset(
    {"broken", "budget_exceeded", "cancelled", "failed", "lapsed", "obstructed", "yielded"}
)
_GLUING = frozenset({"descent.glue", "descent.obstruct", "descent.overlap", "descent.seal"})
_UNKNOWN = frozenset({Reason.LEASE_NOT_FOUND.wire, Reason.FENCE_UNKNOWN.wire})


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened in a span."""

    name: str
    at_ms: int
    attributes: Attributes


@dataclass(frozen=True, slots=True)
class WorkSpan:
    """One span. It is open while `end_ms` is None."""

    context: SpanContext
    parent_id: str  # in the same trace; none of a root
    name: str
    resource: str
    start_ms: int
    seq: int  # the row that it began with
    attributes: Attributes
    end_ms: int | None = None
    end_seq: int | None = None
    status: Status = "unset"
    events: tuple[SpanEvent, ...] = ()
    links: tuple[SpanContext, ...] = ()

    def document(self) -> dict[str, Any]:
        """For programs; its canonical JSON is the same on every machine."""
        return {
            "traceId": self.context.trace_id,
            "spanId": self.context.span_id,
            "parentSpanId": self.parent_id or None,
            "name": self.name,
            "startMs": self.start_ms,
            "endMs": self.end_ms,
            "status": self.status,
            "attributes": self.attributes,
            "events": [
                {"name": each.name, "atMs": each.at_ms, "attributes": each.attributes}
                for each in self.events
            ],
            "links": [{"traceId": each.trace_id, "spanId": each.span_id} for each in self.links],
        }


def encoded(spans: Iterable[WorkSpan]) -> bytes:
    """Spans as canonical JSON, a line each."""
    return b"".join(canonical.encode(each.document()) + b"\n" for each in spans)


@dataclass(slots=True)
class _OpenSpan:
    """A span that has begun, and what is still counted of it."""

    span: WorkSpan
    fence: int = 0
    deadline_ms: int = 0
    events: list[SpanEvent] = field(default_factory=list)
    dropped: int = 0

    def note(self, name: str, row: Row, **attributes: str | int) -> None:
        if len(self.events) >= limits.SPAN_EVENTS_MAX:
            self.dropped += 1
            return
        known: Attributes = {"understudy.seq": row.seq}
        known |= {f"understudy.{key}": value for key, value in attributes.items()}
        self.events.append(SpanEvent(name, row.wall_ms, known))

    def seen(self, **members: Any) -> WorkSpan:
        """The span as it is now."""
        more: Attributes = {"understudy.events_dropped": self.dropped} if self.dropped else {}
        attributes = self.span.attributes | members.pop("attributes", {}) | more
        return replace(self.span, attributes=attributes, events=tuple(self.events), **members)


class SpanFold:
    """Takes rows in order, and gives the spans that each of them ended."""

    def __init__(self, origin: str) -> None:
        self._origin = origin
        self._works: dict[str, _OpenSpan] = {}  # by resource
        self._terms: dict[str, _OpenSpan] = {}
        self._sections: dict[str, _OpenSpan] = {}  # by their id
        self._glues: dict[str, _OpenSpan] = {}
        self._ended: list[WorkSpan] = []

    def take(self, row: Row) -> list[WorkSpan]:
        """The spans that ended with this row."""
        self._ended = []
        changes = changes_of(row)
        try:
            response = orjson.loads(row.response)
            action: str = response["action"]
            if response["failureClasses"]:
                self._refused(row, response, orjson.loads(row.request)["payload"])
                return self._ended
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {row.seq}: its answer") from error
        attempts = _attempts(changes)
        for change in changes:
            self._apply(row, action, change, attempts, changes)
        return self._ended

    def open_spans(self) -> list[WorkSpan]:
        """What has not ended, in the order in which it began."""
        return sorted((each.seen() for each in self._all()), key=lambda each: each.seq)

    @property
    def begun_after(self) -> int | None:
        """The row before the first one that something open began with; None where nothing is."""
        return min((each.span.seq - 1 for each in self._all()), default=None)

    def _all(self) -> Iterator[_OpenSpan]:
        for opened in (self._works, self._terms, self._sections, self._glues):
            yield from opened.values()

    def _apply(
        self,
        row: Row,
        action: str,
        change: outcome.Change,
        attempts: Mapping[str, int],
        beside: list[outcome.Change],
    ) -> None:
        match change:
            case outcome.IssueAdded(issue):
                self._issue(row, issue.id, issue.status, issue)
            case outcome.IssueSet(issue_id, members) if "status" in members:
                self._issue(row, issue_id, members["status"], None)
            case outcome.JobPut(job):
                self._job(row, job)
            case outcome.SpecPut(spec):
                self._spec(row, spec)
            case outcome.SpecMoved(spec_id=spec_id, state=SpecState.MATERIALIZED):
                self._end(row, self._works, spec_resource(spec_id), "materialized")
            case outcome.LeasePut(lease):
                self._lease(row, lease, attempts.get(lease.resource))
            case outcome.LeaseDropped(resource):
                self._drop(row, action, resource, beside)
            case outcome.Lapsed(wall_ms):
                self._lapse(row, wall_ms)
            case outcome.SectionPut(section):
                self._section(row, section, beside)
            case _:
                pass

    # --- work ---------------------------------------------------------------------------------

    def _issue(self, row: Row, issue_id: str, status: str, added: Issue | None) -> None:
        resource = issue_resource(issue_id)
        if status in _OVER:
            self._end(row, self._works, resource, status)
        elif resource not in self._works:
            about: Attributes = {} if added is None else {"understudy.title": added.title}
            self._begin(row, resource, "issue", about, again=added is None)

    def _job(self, row: Row, job: JobRecord) -> None:
        resource = job_resource(job.job_id)
        if job.state in TERMINAL:
            self._end(row, self._works, resource, str(job.state))
        elif resource not in self._works:
            links: tuple[SpanContext, ...] = ()
            if job.spec_id:
                links = (term_context(self._origin, spec_resource(job.spec_id), 0),)
            self._begin(row, resource, "job", {"understudy.kind": job.kind}, links=links)

    def _spec(self, row: Row, spec: Spec) -> None:
        resource = spec_resource(spec.spec_id)
        if resource not in self._works:
            self._begin(row, resource, "spec", {"understudy.title": spec.title})

    def _begin(
        self,
        row: Row,
        resource: str,
        name: str,
        about: Attributes,
        *,
        again: bool = False,
        links: tuple[SpanContext, ...] = (),
    ) -> None:
        """The work itself. What is opened again has a span of its own below the first one, which
        has ended (I1)."""
        context = term_context(self._origin, resource, 0)
        parent = ""
        if again:
            parent = context.span_id
            context = replace(context, span_id=span_id(resource, 0, "again", row.seq))
        attributes: Attributes = {"understudy.resource": resource, "understudy.seq": row.seq}
        attributes |= about
        span = WorkSpan(context, parent, name, resource, row.wall_ms, row.seq, attributes)
        self._works[resource] = _OpenSpan(replace(span, links=links))

    def _work_id(self, resource: str) -> str:
        """The span that a term or a section of this work hangs on."""
        family, _, name = resource.partition("/")
        if family == "glue":
            return ""
        work = job_resource(name) if family == "dispatch" else resource
        found = self._works.get(work)
        return found.span.context.span_id if found else span_id(work, 0)

    # --- terms --------------------------------------------------------------------------------

    def _lease(self, row: Row, lease: Lease, attempt: int | None) -> None:
        term = self._terms.get(lease.resource)
        if term is not None and term.fence == lease.fence:
            term.deadline_ms = lease.deadline_ms
            term.note("renewed", row, renewals=lease.renewals)
            return
        if term is not None:
            self._lapsed(row, lease.resource)
        family = lease.resource.partition("/")[0]
        attributes: Attributes = {
            "understudy.resource": lease.resource,
            "understudy.fence": lease.fence,
            "understudy.seq": row.seq,
            "understudy.owner": lease.owner,
        }
        if attempt is not None:
            attributes["understudy.attempt"] = attempt
        span = WorkSpan(
            context=term_context(self._origin, lease.resource, lease.fence),
            parent_id=self._work_id(lease.resource),
            name=_TERMS.get(family, "attempt"),
            resource=lease.resource,
            start_ms=row.wall_ms,
            seq=row.seq,
            attributes=attributes,
        )
        self._terms[lease.resource] = _OpenSpan(span, lease.fence, lease.deadline_ms)

    def _drop(self, row: Row, action: str, resource: str, beside: list[outcome.Change]) -> None:
        term = self._terms.get(resource)
        if term is None:
            return
        if term.deadline_ms < row.wall_ms:
            self._lapsed(row, resource)
            return
        result = _ENDS.get(action, action)
        if action in ("issue.lease_release", "job.yield"):
            payload = orjson.loads(row.request)["payload"]
            result = "handed_back" if payload.get("handedBack") else result
            result = "failed" if result == "released" else result  # it used up an attempt
        why = [each.job.reason for each in beside if isinstance(each, outcome.JobPut)]
        reason: Attributes = {"understudy.reason": why[0]} if why and why[0] else {}
        self._end(row, self._terms, resource, result, reason)

    def _lapse(self, row: Row, wall_ms: int) -> None:
        """Issues alone are filed as overdue; whatever else has lapsed is ended by the next row."""
        over = [
            resource
            for resource, term in self._terms.items()
            if term.deadline_ms < wall_ms and resource.startswith("issue/")
        ]
        for resource in over:
            self._lapsed(row, resource)

    def _lapsed(self, row: Row, resource: str) -> None:
        """Nobody was told; the term ended at its deadline, and this row is the first to say so."""
        at_ms = min(self._terms[resource].deadline_ms, row.wall_ms)
        self._end(row, self._terms, resource, "lapsed", at_ms=at_ms)

    # --- sections -------------------------------------------------------------------------------

    def _section(self, row: Row, section: Section, beside: list[outcome.Change]) -> None:
        key, resource = section.section_id, issue_resource(section.issue_id)
        if section.state is SectionState.OPEN:
            self._end(row, self._glues, key, "voided")
            if key not in self._sections:
                parent = span_id(resource, section.fence)
                self._sections[key] = self._part(row, section, "section", parent)
        elif section.state is SectionState.GLUING:
            links = tuple(
                term_context(self._origin, glue_resource(section.target), each.target.pending.fence)
                for each in beside
                if isinstance(each, outcome.TargetPut) and each.target.pending is not None
            )
            parent = span_id(resource, section.fence, "section")
            self._glues[key] = self._part(row, section, "glue", parent, links, row.seq)
        else:
            sealed = "sealed" if section.state is SectionState.GLUED else "voided"
            self._end(row, self._glues, key, sealed)
            found = [each for each in beside if isinstance(each, outcome.ObstructionPut)]
            why = _obstacle(found[0].obstruction) if found else {}
            self._end(row, self._sections, key, str(section.state), why)

    def _part(
        self,
        row: Row,
        section: Section,
        name: str,
        parent: str,
        links: tuple[SpanContext, ...] = (),
        *parts: int,
    ) -> _OpenSpan:
        resource = issue_resource(section.issue_id)
        attributes: Attributes = {
            "understudy.resource": resource,
            "understudy.fence": section.fence,
            "understudy.seq": row.seq,
            "understudy.target": section.target,
            "understudy.commit": section.commit,
        }
        own = span_id(resource, section.fence, name, *parts)
        context = SpanContext(work_trace(self._origin, resource), own)
        span = WorkSpan(context, parent, name, resource, row.wall_ms, row.seq, attributes)
        return _OpenSpan(replace(span, links=links))

    # --- refusals -----------------------------------------------------------------------------

    def _refused(self, row: Row, response: Mapping[str, Any], payload: Mapping[str, Any]) -> None:
        """An event of the term that is meant, or of the work; where that term is over, a span."""
        action, classes = response["action"], response["failureClasses"]
        resource = _meant(action, response["effect"], payload)
        fence = payload.get("fence")
        if resource is None:
            return
        about: dict[str, str | int] = {"action": action, "failure": classes[0]}
        who = [payload[name] for name in _SPEAKERS if isinstance(payload.get(name), str)]
        about |= {"owner": who[0].strip()} if who else {}
        term = self._terms.get(resource)
        opened = self._works.get(resource)
        if isinstance(fence, int) and 0 < fence < row.seq and classes[0] not in _UNKNOWN:
            if term is None or term.fence != fence:
                self._late(row, resource, fence, about)
                return
            opened = term
        if opened is not None:
            opened.note("refused", row, **about)

    def _late(self, row: Row, resource: str, fence: int, about: dict[str, str | int]) -> None:
        parent = term_context(self._origin, resource, fence)
        attributes: Attributes = {
            "understudy.resource": resource,
            "understudy.fence": fence,
            "understudy.seq": row.seq,
            "understudy.result": "refused",
        }
        self._ended.append(
            WorkSpan(
                context=replace(parent, span_id=span_id(resource, fence, "refused", row.seq)),
                parent_id=parent.span_id,
                name="refused",
                resource=resource,
                start_ms=row.wall_ms,
                seq=row.seq,
                attributes=attributes | {f"understudy.{key}": each for key, each in about.items()},
                end_ms=row.wall_ms,
                end_seq=row.seq,
                status="error",
            )
        )

    # --- ends ---------------------------------------------------------------------------------

    def _end(
        self,
        row: Row,
        opened: dict[str, _OpenSpan],
        key: str,
        result: str,
        about: Attributes | None = None,
        *,
        at_ms: int | None = None,
    ) -> None:
        found = opened.pop(key, None)
        if found is None:
            return
        ended: Attributes = {"understudy.result": result, "understudy.end_seq": row.seq}
        status: Status = "ok" if result in _GOOD else "error" if result in _BAD else "unset"
        at_ms = row.wall_ms if at_ms is None else max(at_ms, found.span.start_ms)
        attributes = ended | (about or {})
        self._ended.append(
            found.seen(end_ms=at_ms, end_seq=row.seq, status=status, attributes=attributes)
        )


_SPEAKERS = ("assignee", "worker", "runner", "dispatcher", "gluer")


def _attempts(changes: Iterable[outcome.Change]) -> dict[str, int]:
    """Which attempt at its work a term is that these changes grant."""
    found: dict[str, int] = {}
    for change in changes:
        match change:
            case outcome.IssueSet(issue_id, members) if "attempts" in members:
                found[issue_resource(issue_id)] = members["attempts"]
            case outcome.JobPut(job):
                found[job_resource(job.job_id)] = job.attempts
            case outcome.SpecMoved(spec_id=spec_id, attempts=attempts):
                found[spec_resource(spec_id)] = attempts
            case _:
                pass
    return found


def _meant(action: str, effect: Mapping[str, Any], payload: Mapping[str, Any]) -> str | None:
    """The resource that a refused request was about."""
    if action.startswith("glue.") or action in _GLUING:
        target = payload.get("target")
        return glue_resource(target) if isinstance(target, str) else None
    if job_id := effect.get("jobId"):
        is_dispatch = action.startswith("dispatch.")
        return dispatch_resource(job_id) if is_dispatch else job_resource(job_id)
    if spec_id := effect.get("specId"):
        return spec_resource(spec_id)
    return issue_resource(effect["issueId"]) if effect.get("issueId") else None


def _obstacle(obstruction: Obstruction) -> Attributes:
    """Why a section is not glued."""
    about: Attributes = {"understudy.obstruction": obstruction.kind}
    if obstruction.check:
        about["understudy.check"] = obstruction.check
    return about
