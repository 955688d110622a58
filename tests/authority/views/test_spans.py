"""Spans are a projection of the journal: the same rows, the same bytes, wherever one begins."""

from collections.abc import Iterable
from pathlib import Path

import orjson
import pytest

from tests.authority.glue_world import GlueWorld
from tests.authority.law.test_descent import B, gluer, in_the_way, move, section, work
from tests.authority.simulator import World
from tests.fakes.desk import Desk
from tests.fakes.journal import MemoryJournal
from tests.limits import stands_on
from understudy.authority import create_state_dir
from understudy.authority.journal.journal import Row, Unavailable
from understudy.authority.journal.origin import of_state_dir
from understudy.authority.service.local import Office
from understudy.authority.views.spans import SpanFold, WorkSpan, encoded
from understudy.contracts import Reason, limits
from understudy.contracts.trace_id import span_id, term_context, work_trace

ORIGIN = "row1_x"


def folded(rows: Iterable[Row]) -> list[WorkSpan]:
    """All spans, those that are open last."""
    fold = SpanFold(ORIGIN)
    ended = [span for row in rows for span in fold.take(row)]
    return ended + fold.open_spans()


def of(desk: Desk) -> list[WorkSpan]:
    return folded(desk.journal.read())


def named(spans: Iterable[WorkSpan], name: str) -> list[WorkSpan]:
    return [each for each in spans if each.name == name]


def said(span: WorkSpan, *names: str) -> list[object]:
    return [span.attributes.get(f"understudy.{name}") for name in names]


# --- issues ---------------------------------------------------------------------------------------


def test_an_issue_that_is_done_is_a_span_with_one_for_its_attempt() -> None:
    desk = work("a")
    desk.time.passes(1_000)
    ann = desk.claim("a", "ann")
    desk.time.passes(2_000)
    desk.grant("issue.lease_renew", **ann)
    desk.time.passes(3_000)
    desk.grant("issue.close", **ann)
    attempt, issue = of(desk)
    assert attempt.context == term_context(ORIGIN, "issue/a", ann["fence"])
    assert issue.context.trace_id == attempt.context.trace_id
    assert (issue.name, issue.parent_id, issue.status) == ("issue", "", "ok")
    assert attempt.parent_id == issue.context.span_id
    assert said(attempt, "resource", "fence", "seq", "attempt", "owner", "result", "end_seq") == [
        "issue/a", 2, 2, 1, "ann", "completed", 4,
    ]  # fmt: skip
    assert attempt.end_ms is not None
    assert issue.end_ms is not None
    assert (attempt.end_ms - attempt.start_ms, issue.end_ms - issue.start_ms) == (5_000, 6_000)
    (renewed,) = attempt.events
    assert (renewed.name, renewed.at_ms - attempt.start_ms) == ("renewed", 2_000)


def test_a_zombie_is_refused_below_the_term_that_it_had() -> None:
    desk = work("a")
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.time.passes(31_000)
    bob = desk.claim("a", "bob")
    assert desk.refusal("issue.close", **ann) is not None
    desk.grant("issue.close", **bob)
    assert desk.refusal("issue.close", **ann) is not None
    spans = of(desk)
    first, second = named(spans, "attempt")
    assert said(first, "owner", "result") == ["ann", "lapsed"]
    assert (first.status, first.end_ms) == ("error", first.start_ms + 30_000), "at its deadline"
    assert said(second, "owner", "attempt", "result") == ["bob", 2, "completed"]
    late = named(spans, "refused")
    assert [each.parent_id for each in late] == [first.context.span_id] * 2
    assert {each.status for each in late} == {"error"}
    assert [said(each, "failure")[0] for each in late] == [
        "lease_fence_stale", "lease_issue_closed",
    ]  # fmt: skip
    assert {each.context.trace_id for each in spans} == {work_trace(ORIGIN, "issue/a")}


def test_refusals_of_others_are_events_of_what_they_wanted() -> None:
    desk = work("a")
    ann = desk.claim("a", "ann")
    assert desk.refusal("issue.claim", id="a", assignee="bob") is not None
    assert desk.refusal("issue.lease_renew", **ann | {"leaseId": "x"}) == "lease_id_mismatch"
    assert desk.refusal("issue.close", **ann | {"fence": 9_999}) == "lease_fence_unknown"
    assert desk.refusal("issue.claim", id="nothing", assignee="bob") == "lease_not_found"
    issue, attempt = of(desk)
    assert [each.attributes["understudy.owner"] for each in issue.events] == ["bob", "ann"]
    assert [each.attributes["understudy.action"] for each in attempt.events] == [
        "issue.lease_renew"
    ]
    assert (issue.end_ms, attempt.end_ms) == (None, None)


@pytest.mark.parametrize(
    ("action", "more", "result", "status"),
    [
        ("issue.lease_release", {}, "failed", "error"),
        ("issue.lease_release", {"handedBack": True}, "handed_back", "unset"),
    ],
)
def test_how_a_term_ended_is_told(
    action: str, more: dict[str, object], result: str, status: str
) -> None:
    desk = work("a")
    desk.grant(action, "coordinator", **desk.claim("a", "ann"), **more)
    (attempt,) = named(of(desk), "attempt")
    assert (said(attempt, "result"), attempt.status) == ([result], status)


def test_what_is_cancelled_ends_and_what_is_opened_again_has_a_span_below_the_first() -> None:
    desk = work("a")
    desk.claim("a", "ann")
    desk.grant("issue.cancel", "cli", id="a", byName="op")
    desk.grant("issue.retry", "cli", id="a", byName="op")
    desk.claim("a", "bob")
    spans = of(desk)
    first, again = named(spans, "issue")
    assert (said(first, "result"), first.status) == (["cancelled"], "error")
    assert (again.parent_id, again.end_ms) == (span_id("issue/a", 0), None)
    assert [each.parent_id for each in named(spans, "attempt")] == [
        first.context.span_id, again.context.span_id,
    ]  # fmt: skip


@stands_on("SPAN_EVENTS_MAX")
def test_a_span_keeps_so_many_events_and_counts_the_rest() -> None:
    desk = work("a")
    ann = desk.claim("a", "ann")
    for _ in range(limits.SPAN_EVENTS_MAX):
        desk.grant("issue.lease_renew", **ann)
    (attempt,) = named(of(desk), "attempt")
    assert (len(attempt.events), said(attempt, "events_dropped")) == (
        limits.SPAN_EVENTS_MAX,
        [None],
    )
    desk.grant("issue.lease_renew", **ann)
    (attempt,) = named(of(desk), "attempt")
    assert (len(attempt.events), said(attempt, "events_dropped")) == (limits.SPAN_EVENTS_MAX, [1])


# --- jobs and specs -------------------------------------------------------------------------------


def test_a_job_of_a_spec_has_its_dispatch_in_its_trace_and_a_link_to_the_spec() -> None:
    desk = Desk()
    desk.grant("spec.submit", "cli", specId="s", steps=[{"stepKey": "x", "kind": "k"}])
    lease = desk.grant("spec.claim", "coordinator", specId="s", runner="r")["spec"]["lease"]
    proof = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
    desk.grant("spec.materialize", "coordinator", specId="s", runner="r", stepKeys=["x"], **proof)
    desk.grant("dispatch.claim", "coordinator", jobId="s:x", dispatcher="d")
    job = desk.grant("job.claim", "coordinator", jobId="s:x", worker="w")["job"]
    proof = {"leaseId": job["lease"]["leaseId"], "fence": job["lease"]["fence"]}
    held = {"jobId": "s:x", "worker": "w", **proof}
    desk.grant("job.yield", "coordinator", **held, reason="no disk")
    assert desk.refusal("job.complete", "coordinator", **held) is not None
    spans = of(desk)
    (spec,), (found,) = named(spans, "spec"), named(spans, "job")
    assert spec.status == "ok"
    assert found.links == (spec.context,)
    (dispatch,) = named(spans, "dispatch")
    assert dispatch.context.trace_id == found.context.trace_id == work_trace(ORIGIN, "job/s:x")
    assert dispatch.parent_id == found.context.span_id
    attempt = next(each for each in named(spans, "attempt") if each.resource == "job/s:x")
    assert said(attempt, "result", "reason", "attempt") == ["yielded", "no disk", 1]
    (late,) = named(spans, "refused")
    assert late.parent_id == attempt.context.span_id


# --- glue -----------------------------------------------------------------------------------------


def test_a_section_is_glued_in_the_trace_of_its_issue_with_a_link_to_the_pass() -> None:
    desk = work("a", "b")
    first, second = section(desk, "a"), section(desk, "b")
    held = gluer(desk)
    desk.grant("descent.glue", "cli", **held, **move(first))
    desk.grant("descent.seal", "cli", **held, result="void", head="a" * 40)
    desk.grant("descent.glue", "cli", **held, **move(first))
    desk.grant("descent.seal", "cli", **held, result="moved", head=B)
    desk.grant("descent.obstruct", "cli", **held, **in_the_way(second, end="return"))
    desk.grant("glue.release", "cli", **held)
    spans = of(desk)
    (turn,) = named(spans, "pass")
    assert (turn.parent_id, turn.resource) == ("", "glue/main")
    voided, sealed = named(spans, "glue")
    assert [said(each, "result")[0] for each in (voided, sealed)] == ["voided", "sealed"]
    assert sealed.links == voided.links == (turn.context,)
    assert sealed.context.trace_id == work_trace(ORIGIN, "issue/a")
    glued, obstructed = named(spans, "section")
    assert sealed.parent_id == glued.context.span_id
    assert said(obstructed, "result", "obstruction") == ["obstructed", "conflict"]
    assert (glued.status, obstructed.status) == ("ok", "error")
    made = [each for each in named(spans, "attempt") if each.resource == "issue/a"]
    assert said(made[0], "result") == ["section"]
    assert glued.parent_id == made[0].context.span_id
    assert {each.resource: each.end_ms is None for each in named(spans, "issue")} == {
        "issue/a": False, "issue/b": True,
    }  # fmt: skip


# --- the projection -------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [World, GlueWorld])
@pytest.mark.parametrize("seed", range(4))
def test_worlds_that_go_wrong_give_the_same_spans_from_wherever_one_goes_on(
    make: type[World], seed: int
) -> None:
    world = make(seed)
    world.run()
    rows = list(MemoryJournal(world.disk).read())
    whole = SpanFold(ORIGIN)
    ended: list[WorkSpan] = []
    cuts: list[tuple[int, int, int]] = []  # how far it came, where one must begin, how many ended
    for row in rows:
        ended += whole.take(row)
        begun = whole.begun_after
        cuts.append((row.seq, row.seq if begun is None else begun, len(ended)))
    assert encoded(ended + whole.open_spans()) == encoded(folded(rows))
    ids = [(each.context.trace_id, each.context.span_id) for each in ended]
    assert len(set(ids)) == len(ids), "a span is given once"
    for sent, after, count in cuts[:: max(1, len(cuts) // 12)]:
        fold = SpanFold(ORIGIN)
        spans = [(row.seq, span) for row in rows if row.seq > after for span in fold.take(row)]
        assert encoded(span for seq, span in spans if seq > sent) == encoded(ended[count:])
        assert encoded(fold.open_spans()) == encoded(whole.open_spans())


@pytest.mark.parametrize("part", ["response", "request", "changes"])
def test_a_row_that_is_damaged_is_named(part: str) -> None:
    desk = work("a")
    desk.refusal("issue.close", id="a", assignee="x", leaseId="l", fence=1)
    *_, row = desk.journal.read()
    damaged = Row(**row._asdict() | {part: b"{}"})
    with pytest.raises(Unavailable, match="row 2") as refused:
        SpanFold(ORIGIN).take(damaged)
    assert refused.value.reason is Reason.JOURNAL_CORRUPT


def test_a_document_is_json_that_anyone_can_read() -> None:
    (line,) = encoded(of(work("a"))).splitlines()
    assert orjson.loads(line)["attributes"]["understudy.title"] == "a"


def test_the_origin_is_the_first_row_and_is_read_when_there_is_one(tmp_path: Path) -> None:
    assert of_state_dir(tmp_path) is None
    folder = tmp_path / "state"
    create_state_dir(folder, "local")
    assert of_state_dir(folder) is None
    with Office(folder) as office:
        digest = office.ask("issue.add", {"id": "a", "title": "t"})["effect"]["prev"]
        assert digest.endswith("0" * 64)
    found = of_state_dir(folder)
    assert found is not None
    assert found.startswith("row1_")
    assert not found.endswith("0" * 64)
