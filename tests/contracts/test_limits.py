"""Every limit, from both sides: what just fits is taken, and one more is refused with a class."""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from mcp.shared.exceptions import MCPError

from tests.authority.sidecar.peer import OVERLOADED, Peer, add, results, show
from tests.authority.sidecar.serving import Serving
from tests.fakes.desk import START_MS, Desk, asked
from tests.fakes.journal import MemoryJournal
from tests.fakes.policy import envelope, passed, policy
from tests.mcp.door.agents import HANDSHAKE, Wire
from tests.mcp.door.agents import Door as AgentsDoor
from tests.patience import PATIENCE_SECONDS, eventually
from understudy.actors.agents.holds import AgentHolds
from understudy.actors.agents.holds import KeepPolicy as AgentPolicy
from understudy.actors.leasing.moment import Moment
from understudy.actors.leasing.work_kind import HeldLease
from understudy.authority.journal import relay_message, state_dir
from understudy.authority.journal.clock import HybridClock
from understudy.authority.journal.journal import Unavailable
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.journal.state_dir import create_state_dir
from understudy.authority.journal.state_files import JOURNAL
from understudy.authority.law.outcome import (
    Answered,
    DependencyAdded,
    IssueAdded,
    LeasePut,
    SubleasePut,
)
from understudy.authority.law.state import State, apply
from understudy.authority.service.local import Office
from understudy.authority.service.relay import Relay
from understudy.authority.views.issues_file import import_payloads, read_issues
from understudy.contracts import (
    CheckPolicy,
    Schedule,
    Unreadable,
    canonical,
    check_policy,
    due,
    join_check,
    jsonl,
    limits,
    rfc3339,
)
from understudy.contracts.reason import Reason
from understudy.contracts.records.records import Dependency, Issue, Lease, Stamp, Sublease
from understudy.contracts.registry.check import validator
from understudy.contracts.requests.request import Door, Garbage, Request, parse
from understudy.contracts.requests.shapes import CallerStamp
from understudy.surfaces.mcp.reading import resources
from understudy.surfaces.mcp.reading.subscriptions import Watches
from understudy.surfaces.mcp.tools.result_text import told
from understudy.surfaces.mcp.tools.work_tools import is_wait

Test = TypeVar("Test", bound=Callable[..., None])
STOOD_ON: set[str] = set()
MOMENT = rfc3339.record_text(START_MS)


def stands_on(*names: str) -> Callable[[Test], Test]:
    def note(test: Test) -> Test:
        STOOD_ON.update(names)
        return test

    return note


def test_every_limit_has_a_test_that_stands_on_both_sides_of_it() -> None:
    assert {name for name in vars(limits) if name.isupper()} == STOOD_ON


# --- MCP ------------------------------------------------------------------------------------------

# These take a server to try; `tests/mcp` has the stand for it.
stands_on(
    *("HTTP_CONNECTIONS_MAX", "HTTP_SESSIONS_MAX", "HTTP_SESSION_IDLE_SECONDS"),
    *("HTTP_STRANGERS_MAX", "HTTP_STRANGER_SECONDS", "HTTP_BODY_SECONDS"),
    *("HTTP_GUESTS_MAX", "HTTP_TOKEN_LENGTH_MIN"),
    *("TASKS_MAX", "TASKS_RUNNING_MAX", "TASK_TTL_MS", "TASK_QUESTIONS_MAX", "TASK_TURNS_MAX"),
    *("TASK_WATCHED_MAX", "TASK_NEWS_MAX"),
)(test_every_limit_has_a_test_that_stands_on_both_sides_of_it)


class FullDesk:
    """A desk with so many issues behind it, and changes that nobody makes."""

    def __init__(self, count: int) -> None:
        self._issues = [{"id": f"{n:06}", "status": "open", "title": "t"} for n in range(count)]

    async def ask(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        assert action == "issue.list"
        return {"result": "accepted", "issues": self._issues}

    def subscribe(self, listener: object) -> Callable[[], None]:
        return lambda: None


@stands_on("MCP_PAGE_MAX")
def test_a_page_of_resources_has_an_end() -> None:
    def more(count: int) -> bool:
        page = asyncio.run(resources.listed(FullDesk(count), None))  # type: ignore[arg-type]  # no whole desk
        return "nextCursor" in page

    assert not more(limits.MCP_PAGE_MAX)
    assert more(limits.MCP_PAGE_MAX + 1)


@stands_on("MCP_WATCHES_MAX")
def test_a_connection_watches_so_many_resources() -> None:
    async def watch() -> None:
        watches = Watches(FullDesk(0))  # type: ignore[arg-type]  # no whole desk
        ctx: Any = SimpleNamespace(request=None, session=None)
        for number in range(limits.MCP_WATCHES_MAX):
            watches.add(ctx, f"issue://{number}")
        with pytest.raises(MCPError, match="limit"):
            watches.add(ctx, "issue://more")
        watches.close()

    asyncio.run(watch())


@stands_on("MCP_WAIT_SECONDS_MAX")
def test_work_is_waited_for_so_long() -> None:
    assert is_wait(limits.MCP_WAIT_SECONDS_MAX)
    assert not is_wait(limits.MCP_WAIT_SECONDS_MAX + 1)


@stands_on("MCP_TEXT_LENGTH_MAX")
def test_a_model_reads_so_much_of_an_answer() -> None:
    def is_cut(size: int) -> bool:
        room = size - len('{"notes":""}')
        answer = {"result": "accepted", "action": "a", "seq": 1, "notes": "x" * room}
        return "(cut here" in told(answer)["content"][0]["text"]

    assert not is_cut(limits.MCP_TEXT_LENGTH_MAX)
    assert is_cut(limits.MCP_TEXT_LENGTH_MAX + 1)


# --- numbers and text -----------------------------------------------------------------------------


def fits(action: str, payload: dict[str, Any], context: dict[str, Any] | None = None) -> bool:
    """Whether the shapes take it; whoever refuses a shape names the payload or the request."""
    request = asked(action, payload, context=context)
    if isinstance(request, Garbage):
        endings = ("_invalid_payload", "_invalid_request", "_invalid_shape")
        assert request.reason.wire.endswith(endings)
        return False
    return True


@stands_on("INTEGER_MAX")
def test_integers_are_exact_up_to_the_limit() -> None:
    held = {"id": "a", "assignee": "x", "leaseId": "l"}
    assert fits("issue.lease_release", held | {"fence": limits.INTEGER_MAX})
    assert not fits("issue.lease_release", held | {"fence": limits.INTEGER_MAX + 1})
    assert canonical.decode(b"%d" % -limits.INTEGER_MAX) == -limits.INTEGER_MAX
    with pytest.raises(canonical.NotCanonical):
        canonical.decode(b"%d" % (-limits.INTEGER_MAX - 1))


@stands_on("JSON_DEPTH_MAX")
def test_nesting_has_an_end() -> None:
    def nested(depth: int) -> bytes:
        return b'{"action":"issue.add","payload":' + b"[" * depth + b"]" * depth + b"}"

    deepest = parse(nested(limits.JSON_DEPTH_MAX - 1), Door("cli"))
    assert isinstance(deepest, Garbage)
    assert deepest.reason is Reason.ISSUE_PAYLOAD_INVALID
    deeper = parse(nested(limits.JSON_DEPTH_MAX), Door("cli"))
    assert isinstance(deeper, Garbage)
    assert deeper.reason is Reason.REQUEST_INVALID


@stands_on("REQUEST_BYTES_MAX")
def test_a_line_has_a_greatest_length() -> None:
    line = canonical.encode({"action": "issue.ready", "payload": {}})
    assert isinstance(parse(line.ljust(limits.REQUEST_BYTES_MAX), Door("cli")), Request)
    longer = parse(line.ljust(limits.REQUEST_BYTES_MAX + 1), Door("cli"))
    assert isinstance(longer, Garbage)
    assert longer.reason is Reason.REQUEST_TOO_LARGE


TEXTS: list[tuple[str, int, str, Callable[[str], dict[str, Any]]]] = [
    ("ID_LENGTH_MAX", limits.ID_LENGTH_MAX, "issue.add", lambda x: {"id": x, "title": "t"}),
    (
        "ID_LENGTH_MAX",
        limits.ID_LENGTH_MAX,
        "issue.add",
        lambda x: {"title": "t", "labels": [x]},
    ),
    ("ID_LENGTH_MAX", limits.ID_LENGTH_MAX, "issue.show", lambda x: {"id": x}),
    (
        "NAME_LENGTH_MAX",
        limits.NAME_LENGTH_MAX,
        "issue.claim",
        lambda x: {"id": "a", "assignee": x},
    ),
    (
        "NAME_LENGTH_MAX",
        limits.NAME_LENGTH_MAX,
        "issue.claim",
        lambda x: {"id": "a", "requestId": x},
    ),
    (
        "NAME_LENGTH_MAX",
        limits.NAME_LENGTH_MAX,
        "issue.claim",
        lambda x: {"id": "a", "leaseId": x},
    ),
    ("TITLE_LENGTH_MAX", limits.TITLE_LENGTH_MAX, "issue.add", lambda x: {"title": x}),
    (
        "TEXT_LENGTH_MAX",
        limits.TEXT_LENGTH_MAX,
        "issue.add",
        lambda x: {"title": "t", "description": x},
    ),
    ("TEXT_LENGTH_MAX", limits.TEXT_LENGTH_MAX, "issue.update", lambda x: {"id": "a", "notes": x}),
    (
        "REASON_LENGTH_MAX",
        limits.REASON_LENGTH_MAX,
        "issue.lease_break",
        lambda x: {"id": "a", "reason": x},
    ),
    (
        "REASON_LENGTH_MAX",
        limits.REASON_LENGTH_MAX,
        "issue.close",
        lambda x: {"id": "a", "reason": x},
    ),
    (
        "REF_LENGTH_MAX",
        limits.REF_LENGTH_MAX,
        "instance.open",
        lambda x: {"id": "a", "instanceId": "w", "worktreeRef": x},
    ),
]  # fmt: skip


@stands_on(*{name for name, _, _, _ in TEXTS})
@pytest.mark.parametrize(
    ("length", "action", "payload"),
    [(length, action, payload) for _, length, action, payload in TEXTS],
    ids=[f"{name.lower()}-{action}" for name, _, action, _ in TEXTS],
)
def test_texts_have_a_greatest_length(
    length: int, action: str, payload: Callable[[str], dict[str, Any]]
) -> None:
    assert fits(action, payload("x" * length))
    assert not fits(action, payload("x" * (length + 1)))


def test_the_mark_of_a_request_is_a_name_too() -> None:
    assert isinstance(asked("issue.ready", mark="x" * limits.NAME_LENGTH_MAX), Request)
    assert isinstance(asked("issue.ready", mark="x" * (limits.NAME_LENGTH_MAX + 1)), Garbage)


@stands_on("LABELS_MAX")
def test_an_issue_has_so_many_labels() -> None:
    labels = [f"l{place}" for place in range(limits.LABELS_MAX + 1)]
    assert fits("issue.add", {"title": "t", "labels": labels[1:]})
    assert not fits("issue.add", {"title": "t", "labels": labels})


@stands_on("CAPABILITIES_MAX")
def test_a_request_claims_so_many_capabilities() -> None:
    claims = ["c"] * (limits.CAPABILITIES_MAX + 1)
    assert fits("issue.ready", {}, {"capabilityClaims": claims[1:]})
    assert not fits("issue.ready", {}, {"capabilityClaims": claims})
    lent = {"id": "a", "holder": "h"}
    assert fits("sublease.grant", lent | {"capabilityScope": claims[1:]})
    assert not fits("sublease.grant", lent | {"capabilityScope": claims})


# --- leases ---------------------------------------------------------------------------------------


def claimed(**payload: object) -> str | None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    return desk.refusal("issue.claim", id="a", assignee="ann", **payload)


@stands_on("TTL_SECONDS_MIN", "TTL_SECONDS_MAX")
def test_a_lease_lasts_neither_shorter_nor_longer() -> None:
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MIN) is None
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MAX) is None
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MIN - 1) == "lease_invalid_ttl"
    assert claimed(leaseTtlSeconds=limits.TTL_SECONDS_MAX + 1) == "lease_invalid_ttl"


@pytest.mark.parametrize(
    ("bound_s", "outward_ms"), [(limits.TTL_SECONDS_MIN, -1), (limits.TTL_SECONDS_MAX, 1)]
)
def test_a_moment_has_the_same_bounds_as_a_duration(bound_s: int, outward_ms: int) -> None:
    on_the_bound = START_MS + bound_s * 1000
    beyond = on_the_bound + outward_ms
    assert claimed(leaseExpiresAt=rfc3339.answer_text(on_the_bound)) is None
    found = claimed(leaseExpiresAt=rfc3339.answer_text(beyond))
    assert found == "lease_invalid_expires_at"


@stands_on("TTL_SECONDS_DEFAULT")
def test_a_claim_that_says_nothing_gets_the_default_and_no_more() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    desk.time.passes(limits.TTL_SECONDS_DEFAULT * 1000)
    desk.grant("issue.update", **ann, title="on the tick")
    desk.time.passes(1)
    assert desk.refusal("issue.update", **ann, title="past it") == "lease_stale"


@stands_on("SUBLEASES_PER_LEASE_MAX")
def test_a_lease_has_so_many_subleases() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    puts = [
        SubleasePut(
            Sublease(
                resource="issue/a",
                sublease_id=f"s{place}",
                parent_lease_id=str(ann["leaseId"]),
                holder="h",
                capability_scope=(),
                granted_ms=START_MS,
                deadline_ms=START_MS,
            )
        )
        for place in range(limits.SUBLEASES_PER_LEASE_MAX - 1)
    ]
    apply(desk.authority.state, tuple(puts))
    lent = ann | {"holder": "h", "capabilityScope": ["issue.update"]}
    assert desk.refusal("sublease.grant", **lent) is None
    assert desk.refusal("sublease.grant", **lent) == "lease_subleases_full"


@stands_on("INSTANCES_PER_LEASE_MAX")
def test_a_lease_has_so_many_instances() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.INSTANCES_PER_LEASE_MAX):
        assert desk.refusal("instance.open", **ann, instanceId=f"w{place}") is None
    assert desk.refusal("instance.open", **ann, instanceId="w") == "lease_instances_full"


@stands_on("FIBERS_PER_LEASE_MAX")
def test_so_many_fibers_run_under_a_lease() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.FIBERS_PER_LEASE_MAX):
        assert desk.refusal("fiber.spawn", **ann, taskRef="t", fiberId=f"f{place}") is None
    assert desk.refusal("fiber.spawn", **ann, taskRef="t") == "fiber_scope_full"
    everyone = [f"f{place}" for place in range(limits.FIBERS_PER_LEASE_MAX)]
    assert fits("fiber.join", {"id": "a", "fiberId": "f0", "joinSet": everyone})
    assert not fits("fiber.join", {"id": "a", "fiberId": "f0", "joinSet": [*everyone, "f"]})
    desk.grant("fiber.join", **ann, fiberId="f0")
    assert desk.refusal("fiber.spawn", **ann, taskRef="t") is None, "only those that run count"


@stands_on("FIBERS_ENDED_MAX")
def test_so_many_ended_fibers_are_remembered() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.FIBERS_ENDED_MAX + 1):
        desk.grant("fiber.spawn", **ann, taskRef="t", fiberId=f"f{place}")
        if place == limits.FIBERS_ENDED_MAX:
            assert desk.refusal("fiber.join", **ann, fiberId="f0") == "fiber_ended"
        desk.grant("fiber.join", **ann, fiberId=f"f{place}")
    assert desk.refusal("fiber.join", **ann, fiberId="f0") == "fiber_not_found"
    assert desk.refusal("fiber.join", **ann, fiberId="f1") == "fiber_ended"


@stands_on("FIBER_DEPTH_MAX")
def test_fibers_lie_so_deep() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    above: dict[str, str] = {}
    for place in range(limits.FIBER_DEPTH_MAX):
        spawned = desk.grant("fiber.spawn", **ann, taskRef="t", fiberId=f"f{place}", **above)
        above = {"parentFiberId": spawned["fiberId"]}
    assert desk.refusal("fiber.spawn", **ann, taskRef="t", **above) == "fiber_too_deep"


# --- what workers leave behind --------------------------------------------------------------------


@stands_on("SUMMARY_LENGTH_MAX", "CHECKPOINT_NOTES_MAX", "CHECKPOINT_ITEMS_MAX")
def test_a_checkpoint_has_a_greatest_size() -> None:
    def taken(**members: object) -> bool:
        return fits("issue.handover", {"id": "a", "checkpoint": {"summary": "s", **members}})

    assert taken(summary="s" * limits.SUMMARY_LENGTH_MAX)
    assert not taken(summary="s" * (limits.SUMMARY_LENGTH_MAX + 1))
    assert taken(notes="s" * limits.CHECKPOINT_NOTES_MAX)
    assert not taken(notes="s" * (limits.CHECKPOINT_NOTES_MAX + 1))
    for name in ("done", "next", "artifacts"):
        assert taken(**{name: ["x"] * limits.CHECKPOINT_ITEMS_MAX})
        assert not taken(**{name: ["x"] * (limits.CHECKPOINT_ITEMS_MAX + 1)})


@stands_on("HANDOVERS_PER_ISSUE_MAX")
def test_so_many_handovers_of_an_issue_are_kept() -> None:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    for place in range(limits.HANDOVERS_PER_ISSUE_MAX + 1):
        desk.grant("issue.handover", **ann, checkpoint={"summary": f"number {place}"})
        kept = desk.authority.state.handovers["a"]
        assert len(kept) == min(place + 1, limits.HANDOVERS_PER_ISSUE_MAX)
    assert kept[0].checkpoint.summary == "number 1", "the oldest is gone"


@stands_on("REFS_MAX")
def test_so_many_references_of_a_kind() -> None:
    def taken(count: int) -> bool:
        return fits("harness.session.write", {"worker": "a", "witnessRefs": ["r"] * count})

    assert taken(limits.REFS_MAX)
    assert not taken(limits.REFS_MAX + 1)


@stands_on("SESSIONS_MAX")
def test_so_many_sessions_are_active(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "SESSIONS_MAX", 3)
    desk = Desk()
    for place in range(limits.SESSIONS_MAX):
        desk.grant("harness.session.write", worker=f"w{place}")
    assert desk.refusal("harness.session.write", worker="more") == "harness_sessions_full"
    desk.grant("harness.session.write", worker="w1", state="stopped")
    desk.grant("harness.session.write", worker="more")
    assert sorted(desk.authority.state.sessions) == ["more", "w0", "w2"]


@stands_on("FEATURES_PER_WORKER_MAX")
def test_so_many_features_stand_in_a_ledger() -> None:
    desk = Desk()
    desk.grant("harness.session.write", worker="w")
    for place in range(limits.FEATURES_PER_WORKER_MAX):
        desk.grant("harness.feature.write", worker="w", featureId=f"f{place}")
    full = desk.refusal("harness.feature.write", worker="w", featureId="more")
    assert full == "harness_features_full"
    feature = {"featureId": "f", "status": "pending", "updatedAt": "t"}
    ledger = {"ledgerKind": "premath.harness.feature_ledger.v1", "updatedAt": "t"}
    shown = ledger | {"features": [feature] * limits.FEATURES_PER_WORKER_MAX}
    assert fits("harness.feature.check", {"ledger": shown})
    shown["features"] = [*shown["features"], feature]
    assert not fits("harness.feature.check", {"ledger": shown})


@stands_on("PAST_ROWS_MAX", "QUERY_ITEMS_MAX")
def test_a_query_looks_so_far_back_and_shows_so_much() -> None:
    desk = Desk()
    step = asked("harness.trajectory.append", {"worker": "w", "action": "a", "resultClass": "ok"})
    desk.authority.submit([step] * (limits.PAST_ROWS_MAX + 1))
    seen = desk.grant("harness.trajectory.query", limit=limits.QUERY_ITEMS_MAX)["trajectory"]
    assert (seen["totalCount"], seen["count"]) == (limits.PAST_ROWS_MAX, limits.QUERY_ITEMS_MAX)
    assert (seen["firstSeq"], seen["lastSeq"]) == (2, limits.PAST_ROWS_MAX + 1)
    assert not fits("harness.trajectory.query", {"limit": limits.QUERY_ITEMS_MAX + 1})


@stands_on("ATTENTION_ITEMS_MAX", "ATTENTION_ATTEMPTS")
def test_so_much_asks_for_attention() -> None:
    desk = Desk()
    for place in range(limits.ATTENTION_ITEMS_MAX):
        desk.grant("issue.add", id=f"i{place}", title="t")
        desk.grant("issue.update", id=f"i{place}", status="blocked")
    seen = desk.grant("observe.needs_attention")["attention"]
    assert (seen["count"], seen["truncated"]) == (limits.ATTENTION_ITEMS_MAX, False)
    desk.grant("issue.add", id="a", title="t")
    for turn in range(limits.ATTENTION_ATTEMPTS):
        kinds = {
            item["kind"] for item in desk.grant("observe.needs_attention")["attention"]["items"]
        }
        assert "attempts" not in kinds, turn
        desk.grant("issue.lease_release", **desk.claim("a", "ann"))
    seen = desk.grant("observe.needs_attention")["attention"]
    assert seen["truncated"]
    assert (seen["count"], seen["items"][0]["kind"]) == (limits.ATTENTION_ITEMS_MAX, "attempts")


@stands_on("JOIN_SECTIONS_MAX", "JOIN_PATHS_MAX")
def test_so_many_sections_and_paths_are_joined() -> None:
    def judged(sections: int, paths: int) -> bool:
        one = [
            {"ref": f"r{n}", "changedPaths": [f"{n}/{p}" for p in range(paths)]}
            for n in range(sections)
        ]
        return not isinstance(join_check({"sections": one}), Unreadable)

    assert judged(limits.JOIN_SECTIONS_MAX, 1)
    assert not judged(limits.JOIN_SECTIONS_MAX + 1, 1)
    assert judged(1, limits.JOIN_PATHS_MAX)
    assert not judged(1, limits.JOIN_PATHS_MAX + 1)
    names = [f"i{place}" for place in range(limits.JOIN_SECTIONS_MAX + 1)]
    assert fits("harness.join.check", {"issueIds": names[1:]})
    assert not fits("harness.join.check", {"issueIds": names})


# --- checks ---------------------------------------------------------------------------------------


def test_every_list_of_a_check_policy_has_a_greatest_length() -> None:
    def taken(**members: object) -> bool:
        document = policy(**members)
        judged = validator("check-policy").is_valid(document)
        found = check_policy(document)
        assert isinstance(found, CheckPolicy) is judged
        return judged

    def check(place: int = 0, words: int = 1, seconds: int = 1) -> dict[str, Any]:
        command = ["c"] * words
        return {"checkId": f"c{place}", "command": command, "timeoutSeconds": seconds}

    bare: dict[str, object] = {"rules": [], "defaultChecks": [], "allowedChecks": []}
    for count, expected in ((limits.CHECKS_MAX, True), (limits.CHECKS_MAX + 1, False)):
        assert taken(**bare, checks=[check(place) for place in range(count)]) is expected
    for count, expected in ((limits.CHECK_RULES_MAX, True), (limits.CHECK_RULES_MAX + 1, False)):
        rules = [{"ruleId": f"r{place}", "paths": [], "checks": []} for place in range(count)]
        assert taken(rules=rules) is expected
    for count, expected in ((limits.GLOBS_MAX, True), (limits.GLOBS_MAX + 1, False)):
        assert taken(docsPaths=["*"] * count) is expected
    words_max = limits.CHECK_COMMAND_WORDS_MAX
    for count, expected in ((0, False), (words_max, True), (words_max + 1, False)):
        assert taken(**bare, checks=[check(words=count)]) is expected
    seconds_max = limits.CHECK_TIMEOUT_SECONDS_MAX
    for seconds, expected in ((0, False), (seconds_max, True), (seconds_max + 1, False)):
        assert taken(**bare, checks=[check(seconds=seconds)]) is expected


STOOD_ON |= {
    "CHECKS_MAX", "CHECK_RULES_MAX", "GLOBS_MAX", "CHECK_COMMAND_WORDS_MAX",
    "CHECK_TIMEOUT_SECONDS_MAX",
}  # fmt: skip


@stands_on("CHANGED_PATHS_MAX")
def test_a_change_has_so_many_paths() -> None:
    paths = [f"p{place}" for place in range(limits.CHANGED_PATHS_MAX)]
    assert fits("required.projection", {"changedPaths": paths})
    assert not fits("required.projection", {"changedPaths": [*paths, "p"]})


@stands_on("WITNESSES_MAX")
def test_so_many_witnesses_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WITNESSES_MAX", 3)
    desk = Desk()
    desk.grant("policy.set", "cli", checks=policy())
    asked = {"envelope": envelope(), "results": passed("lint")}
    other = asked | {"envelope": envelope(intent="another")}
    for name in ("i1", "i2", "i3"):
        desk.grant("instruction.run", "cli", instructionId=name, **asked)
    conflict = "instruction_id_conflict"
    assert desk.refusal("instruction.run", "cli", instructionId="i1", **other) == conflict
    desk.grant("instruction.run", "cli", instructionId="i4", **asked)
    assert desk.refusal("instruction.run", "cli", instructionId="i1", **other) is None
    assert desk.refusal("instruction.run", "cli", instructionId="i3", **other) == conflict
    desk.prove()


# --- what the authority remembers -----------------------------------------------------------------


def an_issue(key: str, **members: Any) -> Issue:
    return Issue(id=key, title="t", created_at=MOMENT, updated_at=MOMENT, **members)


@stands_on("ISSUES_MAX")
def test_the_store_has_room_for_so_many_issues(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.ISSUES_MAX == 2**22
    monkeypatch.setattr(limits, "ISSUES_MAX", 2)  # four million would take a while
    desk = Desk()
    assert desk.refusal("issue.add", id="a", title="t") is None
    assert desk.refusal("issue.discover", id="a", newId="b", title="t") is None
    assert desk.refusal("issue.add", id="c", title="t") == "issue_store_full"
    assert desk.refusal("issue.discover", id="a", newId="c", title="t") == "issue_store_full"
    record = {"id": "c", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    assert desk.refusal("issue.import", "cli", records=[record]) == "issue_store_full"


@stands_on("DEPENDENCIES_PER_ISSUE_MAX")
def test_an_issue_has_so_many_dependencies() -> None:
    desk = Desk()
    keys = [f"i{place}" for place in range(limits.DEPENDENCIES_PER_ISSUE_MAX + 1)]
    apply(desk.authority.state, [IssueAdded(an_issue(key)) for key in ["a", *keys]])
    links = [DependencyAdded(Dependency("a", key, "blocks")) for key in keys[2:]]
    apply(desk.authority.state, tuple(links))
    assert desk.refusal("dep.add", id="a", dependsOnId="i0") is None
    assert desk.refusal("dep.add", id="a", dependsOnId="i1") == "dep_full"


def test_an_imported_issue_has_no_more_dependencies_than_others() -> None:
    record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    links = [{"depends_on_id": f"i{n}"} for n in range(limits.DEPENDENCIES_PER_ISSUE_MAX + 1)]
    found = Desk().refusal("issue.import", "cli", records=[record | {"dependencies": links}])
    assert found is not None


@stands_on("ANSWERS_MAX")
def test_the_newest_request_ids_are_remembered_and_older_ones_are_not() -> None:
    state = State()
    ids = [f"r{place}" for place in range(limits.ANSWERS_MAX + 1)]
    apply(state, [Answered(each, "issue.add", "he1_", seq) for seq, each in enumerate(ids[:-1], 1)])
    assert ids[0] in state.answers
    assert len(state.answers) == limits.ANSWERS_MAX
    apply(state, [Answered(ids[-1], "issue.add", "he1_", len(ids))])
    assert ids[0] not in state.answers
    assert ids[1] in state.answers
    assert len(state.answers) == len(state.forgetting) == limits.ANSWERS_MAX


@stands_on("PROJECTION_IDS_MAX")
@pytest.mark.parametrize("extra", [0, 1])
def test_an_answer_lists_so_many_stale_ids_and_counts_them_all(extra: int) -> None:
    desk = Desk()
    count = limits.PROJECTION_IDS_MAX + extra
    for place in range(count):
        key = f"i{place:03d}"
        lease = Lease(
            resource=f"issue/{key}",
            lease_id="l",
            owner="ann",
            fence=place + 1,
            ttl_ms=1,
            granted_ms=0,
            deadline_ms=1,
        )
        issue = an_issue(key, status="in_progress", assignee="ann")
        apply(desk.authority.state, [IssueAdded(issue), LeasePut(lease)])
    projection = desk.grant("issue.ready")["leaseProjection"]
    assert projection["staleCount"] == count
    assert len(projection["staleIssueIds"]) == limits.PROJECTION_IDS_MAX


@stands_on("LIST_MAX")
@pytest.mark.parametrize("extra", [0, 1])
def test_a_read_lists_so_many_issues_and_says_whether_there_are_more(extra: int) -> None:
    desk = Desk()
    count = limits.LIST_MAX + extra
    apply(desk.authority.state, [IssueAdded(an_issue(f"i{place}")) for place in range(count)])
    for action in ("issue.list", "issue.ready"):
        answer = desk.grant(action)
        assert (answer["count"], answer["truncated"]) == (limits.LIST_MAX, bool(extra))
        assert len(answer["issues"]) == limits.LIST_MAX


@stands_on("IMPORT_RECORDS_MAX")
def test_a_row_imports_so_many_records() -> None:
    records = [
        {"id": f"i{place}", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
        for place in range(limits.IMPORT_RECORDS_MAX + 1)
    ]
    assert fits("issue.import", {"records": records[1:]})
    assert not fits("issue.import", {"records": records})


@stands_on("TEXT_DEPTH_MAX")
def test_a_text_that_is_carried_along_is_nested_only_so_deep() -> None:
    text = "[" * limits.TEXT_DEPTH_MAX + "]" * limits.TEXT_DEPTH_MAX
    assert jsonl.parse_text(text) is not None
    with pytest.raises(ValueError, match="deeper"):
        jsonl.parse_text(f"[{text}]")
    assert jsonl.parse_text('"' + "[" * 999 + '"') == "[" * 999


@stands_on("COMMENTS_MAX")
def test_a_record_keeps_so_many_comments() -> None:
    record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
    comments = ["# c"] * (limits.COMMENTS_MAX + 1)
    assert fits("issue.import", {"records": [record | {"comments": comments[1:]}]})
    assert not fits("issue.import", {"records": [record | {"comments": comments}]})


@stands_on("IMPORT_BYTES_MAX")
def test_a_row_of_records_has_a_greatest_length_and_so_has_each_of_them() -> None:
    records = [
        {"id": f"i{place}", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
        | {"notes": "x" * 100_000}
        for place in range(11)
    ]
    payloads = list(import_payloads(records))
    sizes = [len(canonical.encode(payload)) for payload in payloads]
    assert [len(payload["records"]) for payload in payloads] == [10, 1]
    assert max(sizes) <= limits.IMPORT_BYTES_MAX + len(b'{"records":[]}')
    assert len(canonical.encode({"records": records})) > limits.IMPORT_BYTES_MAX
    record = dict.fromkeys(("notes", "design", "description"), "é" * limits.TEXT_LENGTH_MAX)
    half = limits.TEXT_LENGTH_MAX // 2
    record |= {"id": "a", "title": "", "acceptance_criteria": "é" * half + "x" * half}
    record |= {"created_at": MOMENT, "updated_at": MOMENT}
    room = limits.IMPORT_BYTES_MAX - len(canonical.encode(record | {"extra": ""}))
    for title, problems in (("t" * room, 0), ("t" * (room + 1), 1)):
        found = read_issues(canonical.encode(record | {"title": title}) + b"\n", MOMENT)
        assert (len(found[0]), len(found[1])) == (1 - problems, problems)


# --- jobs ---------------------------------------------------------------------------------------


def scheduled(desk: Desk, job_id: str = "a", **payload: object) -> None:
    desk.grant("job.schedule", jobId=job_id, kind="k", **payload)


@stands_on("JOBS_MAX", "DIRECTIVES_MAX", "MEMBERS_MAX")
def test_there_are_so_many_jobs_routes_and_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (limits.JOBS_MAX, limits.DIRECTIVES_MAX, limits.MEMBERS_MAX) == (2**22, 2**12, 2**16)
    for name in ("JOBS_MAX", "DIRECTIVES_MAX", "MEMBERS_MAX"):
        monkeypatch.setattr(limits, name, 1)
    desk = Desk()
    scheduled(desk)
    assert desk.refusal("job.schedule", jobId="b", kind="k") == "job_store_full"
    for action, name, full in (
        ("route.set", "kind", "job_directives_full"),
        ("node.register", "node", "job_members_full"),
    ):
        assert desk.refusal(action, "cli", **{name: "x"}) is None
        assert desk.refusal(action, "cli", **{name: "x"}) is None, "what is there may change"
        assert desk.refusal(action, "cli", **{name: "y"}) == full


@stands_on("JOB_PAYLOAD_MEMBERS_MAX", "CAUSAL_DEPS_MAX", "ARTIFACTS_MAX")
@stands_on("OPERATIONS_PER_BATCH_MAX", "ROSTER_PAGE_MAX", "ROSTER_PAGE_DEFAULT")
@stands_on("KIND_PREFIXES_MAX")
def test_payloads_of_jobs_have_their_bounds() -> None:
    named = {"jobId": "a", "kind": "k"}
    artifact = {"artifactId": "x", "artifactType": "t"}
    stamp = {"wallMs": 0, "counter": 0, "node": "n"}
    operation = {"kind": "ClaimWork", "author": "n", "stamp": stamp, "payload": {}}
    for extra in (0, 1):
        members = {f"m{place}": 1 for place in range(limits.JOB_PAYLOAD_MEMBERS_MAX + extra)}
        assert fits("job.schedule", named | {"payload": members}) is not bool(extra)
        deps = ["complete/x"] * (limits.CAUSAL_DEPS_MAX + extra)
        assert fits("job.schedule", named | {"causalDeps": deps}) is not bool(extra)
        produced = {"jobId": "a", "outputArtifacts": [artifact] * (limits.ARTIFACTS_MAX + extra)}
        assert fits("job.complete", produced) is not bool(extra)
        batch = {"operations": [operation] * (limits.OPERATIONS_PER_BATCH_MAX + extra)}
        assert fits("job.admit", batch) is not bool(extra)
        kinds = {"node": "n", "kindPrefixes": ["k"] * (limits.KIND_PREFIXES_MAX + extra)}
        assert fits("node.register", kinds) is not bool(extra)
        page = {"limit": limits.ROSTER_PAGE_MAX + extra}
        assert fits("job.roster", page) is not bool(extra)
    desk = Desk()
    for place in range(limits.ROSTER_PAGE_DEFAULT + 1):
        scheduled(desk, f"j{place}")
    assert desk.grant("job.roster")["count"] == limits.ROSTER_PAGE_DEFAULT


@stands_on("AUTHORS_MAX", "STAMPS_PER_AUTHOR_MAX")
def test_so_many_stamps_of_so_many_nodes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (limits.AUTHORS_MAX, limits.STAMPS_PER_AUTHOR_MAX) == (2**16, 64)
    monkeypatch.setattr(limits, "AUTHORS_MAX", 1)
    monkeypatch.setattr(limits, "STAMPS_PER_AUTHOR_MAX", 2)
    desk = Desk()

    def admitted(node: str, at: int, job_id: str) -> str | None:
        stamp = {"wallMs": at, "counter": 0, "node": node}
        payload = {"jobId": job_id, "kind": "k"}
        signed = {"kind": "ScheduleJob", "author": node, "stamp": stamp, "payload": payload}
        return desk.refusal("job.admit", operations=[signed])

    for at in (1, 2, 3):
        assert admitted("ann", at, f"a{at}") is None
    assert admitted("ann", 2, "again") == "operation_stamp_conflict"
    assert admitted("ann", 1, "forgotten") is None
    assert [admitted("bob", 1, each) for each in ("b1", "b2")] == [None, None], "no room for bob"
    desk.grant("node.register", "cli", node="eve", capabilities=["job.schedule"])
    assert [admitted("eve", 1, each) for each in ("e1", "e2")] == [None, "operation_stamp_conflict"]


@stands_on("JOB_ATTEMPTS_MAX")
def test_a_job_is_claimed_so_often() -> None:
    desk = Desk()
    scheduled(desk)
    for _ in range(limits.JOB_ATTEMPTS_MAX):
        lease = desk.grant("job.claim", jobId="a", worker="ann")["job"]["lease"]
        held = {"worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        desk.grant("job.yield", jobId="a", **held)
    assert desk.refusal("job.claim", jobId="a", worker="ann") == "job_attempts_spent"


@stands_on("JOB_DELAY_MS_MAX", "JOB_TIMEOUT_MS_MIN", "JOB_TIMEOUT_MS_MAX")
def test_a_job_waits_and_lasts_so_long() -> None:
    desk = Desk()
    for name, bound, beyond, refusal in (
        ("delayMs", limits.JOB_DELAY_MS_MAX, 1, "job_run_at_invalid"),
        ("timeoutMs", limits.JOB_TIMEOUT_MS_MIN, -1, "job_limit_invalid"),
        ("timeoutMs", limits.JOB_TIMEOUT_MS_MAX, 1, "job_limit_invalid"),
    ):
        named = {"jobId": f"{name}{bound}", "kind": "k"}
        assert desk.refusal("job.schedule", **named, **{name: bound + beyond}) == refusal
        assert desk.refusal("job.schedule", **named, **{name: bound}) is None


@stands_on("JOB_SCAN_MAX")
def test_a_page_of_jobs_looks_at_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.JOB_SCAN_MAX == 2**12
    monkeypatch.setattr(limits, "JOB_SCAN_MAX", 2)
    desk = Desk()
    for name in "abc":
        scheduled(desk, name)
    desk.grant("job.claim", jobId="c", worker="ann")
    first = desk.grant("job.list", state="claimed")
    assert (first["count"], first["cursor"]) == (0, "2/b")
    second = desk.grant("job.list", state="claimed", cursor=first["cursor"])
    assert [each["jobId"] for each in second["jobs"]] == ["c"]
    assert "cursor" not in second


@stands_on("KIND_LIMITS_MAX", "KIND_CONCURRENCY_MAX", "KIND_RATE_MAX")
def test_a_kind_is_limited_to_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk()
    for name, bound in (
        ("concurrency", limits.KIND_CONCURRENCY_MAX),
        ("ratePerMinute", limits.KIND_RATE_MAX),
    ):
        for extra in (0, 1):
            refusal = desk.refusal("limit.set", "cli", kind="k", **{name: bound + extra})
            assert refusal == ("job_limit_invalid" if extra else None)
    assert limits.KIND_LIMITS_MAX == 2**10
    monkeypatch.setattr(limits, "KIND_LIMITS_MAX", 1)
    assert desk.refusal("limit.set", "cli", kind="l", concurrency=1) == "job_limits_full"


@stands_on("SCHEDULES_MAX", "SCHEDULE_EVERY_MS_MIN", "SCHEDULE_GRACE_MS")
def test_so_many_schedules_fire_so_often_and_so_late(monkeypatch: pytest.MonkeyPatch) -> None:
    desk, job = Desk(), {"kind": "k"}
    least, grace = limits.SCHEDULE_EVERY_MS_MIN, limits.SCHEDULE_GRACE_MS
    named = {"scheduleId": "s", "job": job, "missed": "skip", "startMs": START_MS}
    short = desk.refusal("schedule.set", "cli", **named, everyMs=least - 1)
    assert short == "schedule_times_invalid"
    desk.grant("schedule.set", "cli", **named, everyMs=least)
    desk.time.passes(grace + 1)
    fired = {"scheduleId": "s", "dueMs": START_MS}
    assert desk.refusal("schedule.fire", "cli", **fired) == "schedule_missed"
    desk.time.passes(least - 1)
    desk.grant("schedule.fire", "cli", scheduleId="s", dueMs=START_MS + least)
    assert limits.SCHEDULES_MAX == 2**10
    monkeypatch.setattr(limits, "SCHEDULES_MAX", 1)
    another = {"scheduleId": "t", "job": job, "everyMs": least}
    assert desk.refusal("schedule.set", "cli", **another) == "schedule_store_full"


@stands_on("SCHEDULE_MISSED_MAX")
def test_so_many_firings_are_made_up_for() -> None:
    schedule = Schedule(
        schedule_id="s", every_ms=1_000, start_ms=0, template="{}", makes="job", last_due_ms=0,
        set_ms=0,
    )  # fmt: skip
    most = limits.SCHEDULE_MISSED_MAX
    assert len(due.due_between(schedule, 0, most * 1_000)) == most
    found = due.due_between(schedule, 0, START_MS)
    assert (len(found), found[-1]) == (most, START_MS), "the newest, and none took long"


@stands_on("JOB_WAIT_MS_MAX", "COORDINATOR_QUIET_MS_MAX")
def test_waiting_and_silence_have_an_end() -> None:
    desk = Desk()
    scheduled(desk, causalDeps=["complete/b"])
    desk.grant("coordinator.designate", "cli", node="ann")
    desk.time.passes(limits.COORDINATOR_QUIET_MS_MAX)
    assert not desk.grant("job.roster")["coordinator"]["quiet"]
    desk.time.passes(1)
    assert desk.grant("job.roster")["coordinator"]["quiet"]
    desk.time.passes(limits.JOB_WAIT_MS_MAX - limits.COORDINATOR_QUIET_MS_MAX - 1)
    assert desk.refusal("job.claim", jobId="a", worker="ann") == "job_waiting_dependency"
    desk.time.passes(1)
    assert desk.refusal("job.claim", jobId="a", worker="ann") == "job_dependency_blocked"


# --- specs --------------------------------------------------------------------------------------


def stepped(count: int) -> list[dict[str, str]]:
    return [{"stepKey": f"s{place}", "kind": "k"} for place in range(count)]


def run_by(desk: Desk, spec_id: str = "a", **payload: object) -> dict[str, Any]:
    """Claim a spec, and give back what its runner has to show."""
    lease = desk.grant("spec.claim", specId=spec_id, runner="ann", **payload)["spec"]["lease"]
    shown = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
    return {"specId": spec_id, "runner": "ann", **shown}


@stands_on("SPECS_MAX")
def test_there_are_so_many_specs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert limits.SPECS_MAX == 2**20
    monkeypatch.setattr(limits, "SPECS_MAX", 1)
    desk = Desk()
    assert desk.refusal("spec.submit", specId="a", steps=stepped(1)) is None
    assert desk.refusal("spec.submit", specId="a", steps=stepped(1)) is None, "it is there"
    assert desk.refusal("spec.submit", specId="b", steps=stepped(1)) == "spec_store_full"


@stands_on("SPEC_STEPS_MAX", "SPEC_BATCH_MAX")
def test_a_spec_has_so_many_steps_and_a_row_makes_so_many_jobs() -> None:
    desk = Desk()
    for extra in (0, 1):
        spec = {"specId": "a", "steps": stepped(limits.SPEC_STEPS_MAX + extra)}
        assert fits("spec.submit", spec) is not bool(extra)
        keys = [f"s{place}" for place in range(limits.SPEC_BATCH_MAX + extra)]
        assert fits("spec.materialize", {"specId": "a", "stepKeys": keys}) is not bool(extra)
    assert not fits("spec.submit", {"specId": "a", "steps": []})
    assert not fits("spec.materialize", {"specId": "a", "stepKeys": []})
    desk.grant("spec.submit", specId="a", steps=stepped(limits.SPEC_STEPS_MAX))
    held = run_by(desk)
    for _ in range(limits.SPEC_STEPS_MAX // limits.SPEC_BATCH_MAX):
        spec = desk.grant("spec.show", specId="a")["spec"]
        assert len(spec["missing"]) == limits.SPEC_BATCH_MAX
        desk.grant("spec.materialize", **held, stepKeys=spec["missing"])
    assert desk.grant("spec.show", specId="a")["spec"]["state"] == "materialized"


def test_jobs_of_a_spec_count_as_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "JOBS_MAX", 2)
    desk = Desk()
    desk.grant("spec.submit", specId="a", steps=stepped(3))
    held = run_by(desk)
    keys = ["s0", "s1", "s2"]
    assert desk.refusal("spec.materialize", **held, stepKeys=keys) == "job_store_full"
    assert desk.grant("spec.materialize", **held, stepKeys=keys[:2])["created"] == ["a:s0", "a:s1"]
    assert desk.refusal("spec.materialize", **held, stepKeys=keys) == "job_store_full"


@stands_on("SPEC_TTL_MS_DEFAULT")
def test_a_runner_that_says_nothing_has_a_minute() -> None:
    desk = Desk()
    desk.grant("spec.submit", specId="a", steps=stepped(1))
    held = run_by(desk)
    desk.time.passes(limits.SPEC_TTL_MS_DEFAULT)
    assert desk.refusal("spec.release", **held) is None
    held = run_by(desk)
    desk.time.passes(limits.SPEC_TTL_MS_DEFAULT + 1)
    assert desk.refusal("spec.release", **held) == "lease_stale"
    for duration_ms, class_ in ((29_999, "lease_invalid_ttl"), (86_400_001, "lease_invalid_ttl")):
        asked = {"specId": "a", "runner": "bob", "leaseDurationMs": duration_ms}
        assert desk.refusal("spec.claim", **asked) == class_
    run_by(desk, leaseDurationMs=86_400_000)


@stands_on("LAPSED_SCAN_MAX")
def test_a_page_looks_at_so_many_lapsed_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "LAPSED_SCAN_MAX", 2)
    desk = Desk()
    for name in "abcd":
        desk.grant("spec.submit", specId=name, steps=stepped(1))
    for name in "cba":
        run_by(desk, name)
        desk.time.passes(1)
    desk.time.passes(limits.SPEC_TTL_MS_DEFAULT + 1)
    found = [each["specId"] for each in desk.grant("spec.list")["specs"]]
    assert found == ["b", "c", "d"], "those that lapsed first, and what was never held"
    run_by(desk, "c")
    assert [each["specId"] for each in desk.grant("spec.list")["specs"]] == ["a", "b", "d"]


@stands_on("JOB_ID_LENGTH_MAX", "OPERATION_ID_LENGTH_MAX")
def test_the_longest_names_go_through_every_action() -> None:
    desk = Desk()
    spec_id, key = "s" * limits.ID_LENGTH_MAX, "k" * limits.ID_LENGTH_MAX
    job_id = f"{spec_id}:{key}"
    assert len(job_id) == limits.JOB_ID_LENGTH_MAX
    steps = [{"stepKey": key, "kind": "k"}, {"stepKey": "z", "kind": "k", "dependsOn": [key]}]
    desk.grant("spec.submit", specId=spec_id, steps=steps)
    desk.grant("spec.materialize", **run_by(desk, spec_id), stepKeys=[key, "z"])
    lease = desk.grant("dispatch.claim", jobId=job_id, dispatcher="d")["job"]["dispatchLease"]
    shown = {"dispatcher": "d", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    desk.grant("dispatch.release", jobId=job_id, **shown)
    lease = desk.grant("job.claim", jobId=job_id, worker="w")["job"]["lease"]
    desk.grant("job.schedule", jobId="o", kind="k", causalDeps=[f"complete/{job_id}"])
    shown = {"worker": "w", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    assert sorted(desk.grant("job.complete", jobId=job_id, **shown)["freed"]) == [
        "o", f"{spec_id}:z",
    ]  # fmt: skip
    for extra in (0, 1):
        longer = {"jobId": job_id + "x" * extra}
        assert fits("job.show", longer) is not bool(extra)
        cursor = {"cursor": "c" * (limits.OPERATION_ID_LENGTH_MAX + extra)}
        assert fits("dispatch.roster", cursor) is not bool(extra)
    assert not fits("job.schedule", {"jobId": "a:b", "kind": "k"}), "these are for specs"


# --- time -----------------------------------------------------------------------------------------


@stands_on("CLOCK_DRIFT_MS_MAX")
def test_a_caller_may_be_so_far_ahead() -> None:
    def found(ahead_ms: int) -> list[str]:
        desk = Desk()
        stamp = {"wallMs": START_MS + ahead_ms, "counter": 0, "node": "far"}
        request = asked("issue.add", {"id": "a", "title": "t"}, context={"stamp": stamp})
        answers, _ = desk.authority.submit([request])
        classes: list[str] = canonical.decode(answers[0])["failureClasses"]
        return classes

    assert found(limits.CLOCK_DRIFT_MS_MAX) == []
    assert found(limits.CLOCK_DRIFT_MS_MAX + 1) == ["clock_drift_exceeded"]


@stands_on("WALL_MS_MAX")
def test_the_last_moment_has_a_name_and_the_next_has_none() -> None:
    assert rfc3339.parse_ms("9999-12-31T23:59:59.999Z") == limits.WALL_MS_MAX
    assert rfc3339.parse_ms("9999-12-31T23:59:59.999-00:01") is None
    stamp = {"wallMs": limits.WALL_MS_MAX, "counter": 0, "node": "n"}
    assert fits("issue.ready", {}, {"stamp": stamp})
    assert not fits("issue.ready", {}, {"stamp": stamp | {"wallMs": limits.WALL_MS_MAX + 1}})


@stands_on("NOW_MS_MAX")
def test_a_frozen_clock_leaves_room_for_the_longest_lease() -> None:
    desk = Desk()
    desk.authority.submit([asked("issue.add", {"id": "a", "title": "t"}, now=limits.NOW_MS_MAX)])
    longest = {"id": "a", "assignee": "ann", "leaseTtlSeconds": limits.TTL_SECONDS_MAX}
    answers, _ = desk.authority.submit([asked("issue.claim", longest, now=limits.NOW_MS_MAX)])
    lease = canonical.decode(answers[0])["issue"]["lease"]
    deadline_ms = rfc3339.parse_ms(lease["expiresAt"])
    assert deadline_ms == limits.NOW_MS_MAX + limits.TTL_SECONDS_MAX * 1000 <= limits.WALL_MS_MAX
    assert isinstance(asked("issue.ready", now=limits.NOW_MS_MAX + 1), Garbage)
    assert isinstance(asked("issue.ready", now=0), Request)
    assert isinstance(asked("issue.ready", now=-1), Garbage)


@stands_on("COUNTER_MAX")
def test_a_millisecond_has_so_many_stamps_and_then_the_next_is_borrowed() -> None:
    clock = HybridClock("n", lambda: 1_000, 1_000, limits.COUNTER_MAX - 1)
    last = clock.next_stamp(1)
    assert (last.wall_ms, last.counter) == (1_000, limits.COUNTER_MAX)
    clock.advance(last)
    borrowed = clock.next_stamp(2)
    assert (borrowed.wall_ms, borrowed.counter) == (1_001, 0)
    at_the_end = CallerStamp(wall_ms=1_000, counter=limits.COUNTER_MAX, node="far")
    assert clock.next_stamp(2, caller=at_the_end) == Stamp(2, 1_001, 0, "n")
    stamp = {"wallMs": 0, "counter": limits.COUNTER_MAX, "node": "n"}
    assert fits("issue.ready", {}, {"stamp": stamp})
    assert not fits("issue.ready", {}, {"stamp": stamp | {"counter": limits.COUNTER_MAX + 1}})


# --- commit ---------------------------------------------------------------------------------------


@stands_on("SNAPSHOT_ROWS")
def test_a_snapshot_is_made_after_so_many_rows() -> None:
    journal = MemoryJournal()
    desk = Desk(journal)
    adds = [asked("issue.add", {"title": "t"}) for _ in range(limits.SNAPSHOT_ROWS - 1)]
    desk.authority.submit(adds)
    assert journal.disk.saved is None
    desk.authority.submit(adds[:1])
    assert journal.disk.saved is not None
    assert journal.disk.saved.head.seq == limits.SNAPSHOT_ROWS
    before = journal.disk.saved
    desk.authority.submit(adds[:1])
    assert journal.disk.saved is before


@stands_on("BATCH_MAX")
def test_a_full_batch_is_one_commit() -> None:
    # The doors cut batches to size; the authority takes what they bring.
    journal = MemoryJournal()
    desk = Desk(journal)
    batch = [asked("issue.add", {"title": "t"}) for _ in range(limits.BATCH_MAX)]
    answers, rows = desk.authority.submit(batch)
    assert len(answers) == len(rows) == len(journal.disk.rows) == limits.BATCH_MAX


@stands_on("LOCK_WAIT_MS")
def test_a_second_writer_waits_so_long_and_then_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SqliteJournal.create(tmp_path / JOURNAL, "n1")
    passed_s = [0.0]
    pauses = SimpleNamespace(
        monotonic=lambda: sum(passed_s),
        sleep=passed_s.append,
    )
    monkeypatch.setattr(state_dir, "time", pauses)
    with Office(tmp_path):
        with pytest.raises(Unavailable) as refused:
            Office(tmp_path)
        assert refused.value.reason is Reason.AUTHORITY_BUSY
        assert str(os.getpid()) in str(refused.value)
    assert limits.LOCK_WAIT_MS <= sum(passed_s) * 1000 <= limits.LOCK_WAIT_MS + 100
    Office(tmp_path).close()


# --- the sidecar's door ---------------------------------------------------------------------------


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    SqliteJournal.create(tmp_path / JOURNAL, "n1")
    with Serving(tmp_path) as running:
        yield running


@stands_on("QUEUE_MAX")
def test_so_many_requests_wait_in_a_sidecar(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 3)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(3)))
        assert results(peer.answers(3)) == {0: None, 1: None, 2: None}
        peer.send(*(add(mark) for mark in range(10, 14)))
        assert results(peer.answers(4)) == {10: None, 11: None, 12: None, 13: OVERLOADED}


@stands_on("INFLIGHT_MAX")
def test_so_many_of_them_are_one_connection_s(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 2)
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        serving.commits.hold()
        peer.send(add(1), add(2), add(3))
        assert results([peer.answer()]) == {3: OVERLOADED}
        other.send(add(4), add(5))
        assert other.is_still_unanswered()
        serving.commits.go()
        assert results(peer.answers(2)) == {1: None, 2: None}
        assert results(other.answers(2)) == {4: None, 5: None}


@stands_on("QUEUE_BYTES_MAX")
def test_so_many_bytes_wait_in_a_sidecar(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "QUEUE_BYTES_MAX", 2_000)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark, notes="x" * 1_000) for mark in range(3)))
        assert results(peer.answers(3)) == {0: None, 1: None, 2: OVERLOADED}
        peer.send(*(add(mark, notes="x" * 1_000) for mark in range(10, 12)))
        assert results(peer.answers(2)) == {10: None, 11: None}


@stands_on("SNAPSHOT_ROWS_MAX")
def test_a_busy_sidecar_makes_a_snapshot_after_so_many_rows(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_ROWS_MAX", 3)
    with Peer(serving.state_dir) as peer:
        peer.ask(add(1))
        peer.ask(add(2))
        assert serving.office.authority.unsaved_rows == 2
        peer.ask(add(3))
        eventually(lambda: serving.office.authority.unsaved_rows == 0)


@stands_on("EVIDENCE_BEHIND_MAX")
def test_the_trajectory_is_so_far_behind_at_most(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "EVIDENCE_BEHIND_MAX", 3)
    monkeypatch.setattr(limits, "BATCH_MAX", 2)
    way = threading.Event()
    follow = serving.office.follow

    def held() -> None:
        assert way.wait(PATIENCE_SECONDS)
        follow()

    monkeypatch.setattr(serving.office, "follow", held)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(7)))
        assert results(peer.answers(4)) == dict.fromkeys(range(4))
        assert peer.is_still_unanswered()
        way.set()
        assert results(peer.answers(3)) == dict.fromkeys(range(4, 7))


@stands_on("CONNECTIONS_MAX")
def test_so_many_connections_are_let_in(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_MAX", 2)
    with Peer(serving.state_dir) as first, Peer(serving.state_dir) as second:
        with Peer(serving.state_dir, hello=None) as third:
            assert third.rest() == []
        assert results([first.ask(add(1)), second.ask(add(2))]) == {1: None, 2: None}


@stands_on("OUTPUT_BYTES_MAX")
def test_so_much_may_a_connection_leave_unread(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTPUT_BYTES_MAX", 2_000_000)
    monkeypatch.setattr(limits, "BATCH_MAX", 8)  # answers of one batch are written together
    text = "x" * limits.TEXT_LENGTH_MAX
    with Peer(serving.state_dir) as modest, Peer(serving.state_dir) as slow:
        modest.ask(add(0, notes=text))
        modest.send(*(show(mark, "i0") for mark in range(14)))
        slow.send(*(show(mark, "i0") for mark in range(60)))
        assert len(slow.rest()) < 60
        assert results(modest.answers(14)) == dict.fromkeys(range(14))


# --- errands --------------------------------------------------------------------------------------

# These take a database to try; `tests/authority/postgres` has one.
stands_on("ERRANDS_TAKEN_MAX", "ERRAND_AGE_MS", "REPLY_AGE_MS")(
    test_every_limit_has_a_test_that_stands_on_both_sides_of_it
)


@stands_on("ERRAND_LINES_MAX")
def test_so_many_lines_are_in_one_errand() -> None:
    lines = [(Door("mcp"), b"{}")] * (limits.ERRAND_LINES_MAX + 1)
    assert [len(each) for each in relay_message.parcels(lines)] == [limits.ERRAND_LINES_MAX, 1]
    found = relay_message.unpacked(relay_message.packed(lines[1:]), frozen_clock=False)
    assert found == [(Door("mcp"), [b"{}"] * limits.ERRAND_LINES_MAX)]
    more = relay_message.unpacked(relay_message.packed(lines), frozen_clock=False)
    assert isinstance(more, Garbage)
    assert more.reason is Reason.AUTHORITY_ERRAND_INVALID


@stands_on("ERRAND_BYTES_MAX")
def test_so_many_bytes_are_in_one_errand() -> None:
    longest = (Door("mcp"), b"x" * limits.REQUEST_BYTES_MAX)
    for each in relay_message.parcels([longest, (Door("cli"), b"{}")] * 5):
        assert len(relay_message.packed(each)) <= limits.ERRAND_BYTES_MAX
    body = relay_message.packed([longest, longest])
    fits = body[: limits.ERRAND_BYTES_MAX]
    assert not isinstance(relay_message.unpacked(fits, frozen_clock=False), Garbage)
    assert isinstance(relay_message.unpacked(body, frozen_clock=False), Garbage)


@stands_on("REPLY_BYTES_MAX")
def test_so_many_bytes_are_in_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "REPLY_BYTES_MAX", 100)
    answers = [b'{"id":%d,"x":"%s"}' % (mark, b"x" * 30) for mark in range(2)]
    fits = b"".join(each + b"\n" for each in answers)
    assert relay_message.bounded(fits, 7) == fits
    over = relay_message.bounded(fits + b'{"id":2,"x":"12"}\n', 7).splitlines()
    assert over[:2] == answers
    assert b'"id":2' in over[2]
    assert b"authority_answer_too_long" in over[2]


@stands_on("ERRAND_PATIENCE_MS")
def test_an_errand_is_waited_for_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = relay_message.Errand([(Door("mcp"), b"{}")], 0)
    wait_s = limits.ERRAND_PATIENCE_MS / 1000
    monkeypatch.setattr(
        "understudy.authority.journal.relay_message.time.monotonic", lambda: sent.begun_s + wait_s
    )
    assert not sent.is_late
    monkeypatch.setattr(
        "understudy.authority.journal.relay_message.time.monotonic",
        lambda: sent.begun_s + wait_s + 0.001,
    )
    assert sent.is_late


@stands_on("ERRANDS_SENT_MAX")
def test_so_many_errands_of_a_standby_are_on_their_way(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[relay_message.Errand] = []
    post = SimpleNamespace(messenger=lambda _: SimpleNamespace(send=sent.append))
    monkeypatch.setattr(serving.office.journal, "post", post, raising=False)

    async def fill() -> None:
        relay = Relay(serving.office, lambda: None, frozen_clock=False)
        while relay.has_room:
            relay.hand_on([(SimpleNamespace(door=Door("mcp")), [b"{}"])])

    asyncio.run(fill())
    assert len(sent) == limits.ERRANDS_SENT_MAX


# --- agents ---------------------------------------------------------------------------------------


@stands_on("MCP_HOLDS_MAX")
def test_so_many_leases_are_renewed_for_one_agent() -> None:
    holds, moment = AgentHolds("a", AgentPolicy(), 0), Moment(0, lambda: 0)

    def keep(lease: HeldLease) -> bool:
        return holds.keep(lease, 30_000, 0, None, moment) is not None

    for number in range(limits.MCP_HOLDS_MAX):
        assert keep(HeldLease(f"us-{number}", "ann", "lease", number))
    more = HeldLease("more", "ann", "lease", 10_000)
    assert not keep(more)
    holds.resume(more, 30_000, 0, None, 0)
    assert len(holds) == limits.MCP_HOLDS_MAX
    assert keep(HeldLease("us-0", "ann", "lease", 0))


@stands_on("MCP_INFLIGHT_MAX")
def test_so_many_requests_of_an_agent_are_in_flight(tmp_path: Path) -> None:
    create_state_dir(tmp_path / "state", "local")
    with AgentsDoor(tmp_path / "state") as door:
        door.ready()
        with Wire(door.state_dir) as line:
            line.ask(0, "initialize", HANDSHAKE)
            assert line.answer()["id"] == 0
            count = limits.MCP_INFLIGHT_MAX + 50
            for mark in range(1, count + 1):
                waits = {"name": "work_next", "arguments": {"waitSeconds": 600}}
                line.ask(mark, "tools/call", waits)
            refused = {line.answer()["id"] for _ in range(50)}
            assert refused == set(range(limits.MCP_INFLIGHT_MAX + 1, count + 1))
