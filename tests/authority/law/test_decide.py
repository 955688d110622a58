"""The one decision: who is let in, what is remembered, and that the same comes out everywhere."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any, TypeVar

import orjson
import pytest

from tests.fakes.desk import START_MS, Desk, asked, records
from tests.together import together
from understudy.authority.law.decide import decide, looks_back
from understudy.authority.law.outcome import Accepted, Outcome, Refused
from understudy.authority.law.state import State
from understudy.authority.law.workers.history import PastStep
from understudy.contracts.reason import Reason
from understudy.contracts.records.records import Stamp
from understudy.contracts.requests.host_actions import host_actions
from understudy.contracts.requests.request import Request
from understudy.contracts.requests.shapes import STRENGTH, Transport

Result = TypeVar("Result")
DOORS: tuple[Transport, ...] = ("local-repl", "cli", "mcp", "coordinator")
MOMENT = "2027-01-15T08:00:00Z"


def decided(request: object, state: State | None = None) -> Outcome:
    assert isinstance(request, Request)
    return decide(state or State(), request, Stamp(1, START_MS, 0, "n1"))


# --- doors ----------------------------------------------------------------------------------------


@together("door", DOORS)
@together("named", [None, *DOORS])
def test_a_request_may_weaken_its_door_and_never_strengthen_it(
    door: Transport, named: Transport | None
) -> None:
    context = {"transport": named} if named else {}
    outcome = decided(asked("issue.add", {"title": "t"}, context=context, door=door))
    if STRENGTH[named or door] > STRENGTH[door]:
        assert isinstance(outcome, Refused)
        assert outcome.reason is Reason.TRANSPORT_ESCALATION
    else:
        assert isinstance(outcome, Accepted)


SAMPLES: dict[str, dict[str, Any]] = {
    "issue.lease_renew": {"id": "a"},
    "issue.lease_release": {"id": "a"},
    "issue.import": {"records": []},
    "policy.set": {},
    "issue.claim": {"id": "a"},
    "issue.ready": {},
}


@together("action", SAMPLES)
@together("door", DOORS)
def test_an_action_is_bound_to_its_transports(action: str, door: Transport) -> None:
    outcome = decided(asked(action, SAMPLES[action], door=door))
    allowed = host_actions()[action].transports
    barred = {Reason.TRANSPORT_MCP_REQUIRED, Reason.TRANSPORT_FORBIDDEN}
    found = outcome.reason if isinstance(outcome, Refused) else None
    assert (found in barred) == (door not in allowed)
    if action in ("issue.lease_renew", "issue.lease_release"):
        assert (found is Reason.TRANSPORT_MCP_REQUIRED) == (door in ("local-repl", "cli"))


def test_the_door_is_asked_before_the_ladder_and_leaves_no_memory() -> None:
    desk = Desk()
    payload = {"id": "nowhere", "requestId": "r"}
    expected = "control_plane_host_action_mcp_transport_required"
    assert desk.refusal("issue.lease_renew", "cli", **payload) == expected
    assert desk.authority.state.answers == {}
    assert desk.refusal("issue.lease_renew", **payload, assignee="ann") == "lease_not_found"
    assert desk.authority.state.answers.keys() == {"r"}


def test_the_evidence_names_transport_and_where_a_request_was_escalated_from() -> None:
    desk = Desk()
    context = {"transport": "cli", "escalatedFrom": "local-repl", "instructionRef": " do it "}
    answers, _ = desk.authority.submit([asked("issue.add", {"title": "t"}, context=context)])
    effect = orjson.loads(answers[0])["effect"]
    assert (effect["transport"], effect["escalatedFrom"]) == ("cli", "local-repl")
    assert effect["instructionRef"] == "do it"
    desk.prove()


# --- memory ---------------------------------------------------------------------------------------


def test_the_first_answer_is_given_again_even_when_it_was_a_refusal() -> None:
    desk = Desk()
    first = desk.raw("issue.claim", id="a", assignee="ann", requestId="r")
    desk.grant("issue.add", id="a", title="t")
    assert desk.raw("issue.claim", id="a", assignee="ann", requestId="r") == first
    assert b"lease_not_found" in first
    assert desk.authority.head.seq == 2


@pytest.mark.parametrize(
    ("action", "payload"),
    [("issue.add", {"id": "b", "title": "t"}), ("issue.claim", {"id": "a", "assignee": "ann"})],
)
def test_an_id_that_stands_for_something_else_is_refused_and_stays(
    action: str, payload: dict[str, Any]
) -> None:
    desk = Desk()
    first = desk.raw("issue.add", id="a", title="t", requestId="r")
    before = records(desk.authority.state)
    assert desk.refusal(action, **payload, requestId="r") == "request_id_conflict"
    assert records(desk.authority.state) == before
    assert desk.raw("issue.add", id="a", title="t", requestId="r") == first
    desk.prove()


def test_an_id_is_remembered_over_a_restart_and_a_snapshot() -> None:
    desk = Desk()
    first = desk.raw("issue.add", id="a", title="t", requestId="r")
    desk.restart()
    assert desk.raw("issue.add", id="a", title="t", requestId="r") == first
    desk.authority.snapshot()
    desk.restart()
    assert desk.raw("issue.add", id="a", title="t", requestId="r") == first


# --- everywhere the same --------------------------------------------------------------------------


NEEDED: dict[str, dict[str, Any]] = {
    "issue.show": {"id": "a"},
    "world.route_binding": {"operationAction": "x"},
    "job.show": {"jobId": "a"},
    "spec.show": {"specId": "a"},
    "harness.session.read": {"worker": "w"},
    "harness.session.bootstrap": {"worker": "w"},
    "harness.feature.read": {"worker": "w"},
    "harness.feature.next": {"worker": "w"},
    "observe.instruction": {"instructionRef": "i"},
    "instruction.check": {"instructionId": "i", "envelope": {}},
    "required.projection": {"changedPaths": []},
    "required.delta": {"changedPaths": []},
    "required.gate_ref": {"checkId": "c", "artifactRelPath": "a", "artifact": {}},
    "required.witness_verify": {"witness": {}},
    "required.decision_verify": {"decision": {}, "witness": {}},
}


class Hidden(Sequence[PastStep]):
    """A past that notices who looks at it."""

    def __getitem__(self, at: Any) -> Any:  # as a sequence has it
        raise PermissionError(at)

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    "action", [each for each, row in host_actions().items() if not row.mutates]
)
def test_every_read_has_a_rule_that_looks_back_only_where_it_says_so(action: str) -> None:
    request = asked(action, NEEDED.get(action, {}))
    assert isinstance(request, Request)
    decided(request)
    with pytest.raises(PermissionError) if looks_back(request) else nullcontext():
        decide(State(), request, Stamp(1, START_MS, 0, "n1"), Hidden())


def deep_down(levels: int, call: Callable[[], Result]) -> Result:
    return call() if levels == 0 else deep_down(levels - 1, call)


def test_a_decision_does_not_depend_on_how_deep_the_stack_is() -> None:
    """Replay runs under other frames than the door that took the request."""
    for depth in (30, 300, 600, 800, 900, 1_000, 5_000):
        text = "[" * depth + "]" * depth
        record = {"id": "a", "title": "t", "created_at": MOMENT, "updated_at": MOMENT}
        request = asked("issue.import", {"records": [record | {"metadata": text}]}, door="cli")
        found = [
            type(deep_down(levels, lambda: decided(request)))  # noqa: B023 - called at once
            for levels in (0, 100, 300)
        ]
        assert len(set(found)) == 1, f"{depth} levels: {found}"
