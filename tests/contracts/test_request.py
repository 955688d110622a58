"""From bytes to a request: what is one, what is none and why, and the way back from a journal."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.contracts import canonical, limits
from understudy.contracts.reason import Reason
from understudy.contracts.requests.host_actions import contract_digest, host_actions
from understudy.contracts.requests.request import Door, Garbage, Request, journaled, parse, restore

MCP, FROZEN = Door("mcp"), Door("mcp", frozen_clock=True)
READY = {"action": "issue.ready", "payload": {}}

NONE: list[tuple[bytes, Reason, str | None, str | int | None]] = [
    # bytes, class, the action and the mark that the answer can name
    (b"x" * (limits.REQUEST_BYTES_MAX + 1), Reason.REQUEST_TOO_LARGE, None, None),
    (b"", Reason.REQUEST_INVALID, None, None),
    (b"[]", Reason.REQUEST_INVALID, None, None),
    (b'"issue.ready"', Reason.REQUEST_INVALID, None, None),
    (b'{"action":"issue.ready","action":"issue.list"}', Reason.REQUEST_INVALID, None, None),
    (b'{"id":true,"action":"issue.ready"}', Reason.REQUEST_INVALID, None, None),
    (b'{"id":[],"action":"issue.ready"}', Reason.REQUEST_INVALID, None, None),
    (b'{"id":1}', Reason.REQUEST_INVALID, None, 1),
    (b'{"id":"m","action":7}', Reason.REQUEST_INVALID, None, "m"),
    (b'{"action":""}', Reason.REQUEST_INVALID, None, None),
    (b'{"id":2,"action":"issue.ready","odd":1}', Reason.REQUEST_INVALID, "issue.ready", 2),
    (b'{"action":"issue.ready","now":1}', Reason.CLOCK_NOT_FROZEN, "issue.ready", None),
    (b'{"action":"issue.ready","now":true}', Reason.REQUEST_INVALID, "issue.ready", None),
    (b'{"action":"issue.ready","now":"1"}', Reason.REQUEST_INVALID, "issue.ready", None),
    (b'{"id":3,"action":"no.such"}', Reason.ACTION_UNKNOWN, "no.such", 3),
    (
        b'{"action":"observe.instruction"}',
        Reason.HARNESS_PAYLOAD_INVALID,
        "observe.instruction",
        None,
    ),
    (b'{"action":"instruction.run"}', Reason.INSTRUCTION_SHAPE, "instruction.run", None),
    (b'{"action":"required.delta"}', Reason.CHECK_PAYLOAD_INVALID, "required.delta", None),
    (b'{"action":"fiber.spawn"}', Reason.FIBER_PAYLOAD_INVALID, "fiber.spawn", None),
    (b'{"action":"issue.ready","context":{"odd":1}}', Reason.REQUEST_INVALID, "issue.ready", None),
    (b'{"action":"issue.ready","context":[]}', Reason.REQUEST_INVALID, "issue.ready", None),
    (b'{"action":"issue.add"}', Reason.ISSUE_PAYLOAD_INVALID, "issue.add", None),
    (b'{"action":"issue.claim"}', Reason.LEASE_PAYLOAD_INVALID, "issue.claim", None),
    (b'{"action":"issue.lease_break"}', Reason.LEASE_PAYLOAD_INVALID, "issue.lease_break", None),
    (b'{"action":"sublease.grant"}', Reason.LEASE_PAYLOAD_INVALID, "sublease.grant", None),
    (b'{"action":"instance.open"}', Reason.LEASE_PAYLOAD_INVALID, "instance.open", None),
    (b'{"action":"dep.add"}', Reason.DEPENDENCY_PAYLOAD_INVALID, "dep.add", None),
    (b'{"action":"issue.ready","payload":[]}', Reason.ISSUE_PAYLOAD_INVALID, "issue.ready", None),
]


@together(("data", "reason", "action", "mark"), NONE, ids=lambda x: repr(x)[:40])
def test_what_is_no_request_is_garbage_with_a_class(
    data: bytes, reason: Reason, action: str | None, mark: str | int | None
) -> None:
    found = parse(data, MCP)
    assert isinstance(found, Garbage)
    assert (found.reason, found.action, found.id) == (reason, action, mark)
    assert found.detail


def test_a_frozen_door_takes_the_time_of_the_request() -> None:
    found = parse(orjson.dumps(READY | {"now": 5, "id": 9}), FROZEN)
    assert isinstance(found, Request)
    assert (found.now_ms, found.id, found.door, found.transport) == (5, 9, "mcp", "mcp")


@pytest.mark.parametrize("absent", [{}, {"payload": None, "context": None, "now": None}])
def test_members_that_are_null_count_as_absent(absent: dict[str, Any]) -> None:
    found = parse(orjson.dumps({"action": "issue.ready"} | absent), MCP)
    assert isinstance(found, Request)
    assert (found.args, found.now_ms, found.id, found.request_id) == (b"{}", None, None, None)
    assert found.policy == contract_digest()


def test_arguments_are_digested_in_canonical_form() -> None:
    one = parse(b'{"action":"issue.add","payload":{"title":"t","id":"a"}}', MCP)
    two = parse(b'{ "payload": {"id": "\\u0061", "title": "t"}, "action": "issue.add" }', MCP)
    assert isinstance(one, Request)
    assert isinstance(two, Request)
    assert one.args_digest == two.args_digest
    assert one.args_digest == canonical.digest("he1", b'{"id":"a","title":"t"}')


contexts = st.fixed_dictionaries(
    {},
    optional={
        "transport": st.sampled_from(["local-repl", "cli", "mcp"]),
        "escalatedFrom": st.sampled_from(["local-repl", "cli"]),
        "policyDigest": st.sampled_from(["pol1_x", "", contract_digest()]),
        "instructionRef": st.sampled_from(["", "i", "é"]),
        "capabilityClaims": st.lists(st.sampled_from(["a", "b"]), max_size=2),
        "stamp": st.just({"wallMs": 1, "counter": 2, "node": "n"}),
    },
)


@given(contexts, st.none() | st.integers(0, 99), st.sampled_from(["t", ":", '"', "é\x7f"]))
def test_what_a_journal_keeps_is_canonical_and_gives_the_request_back(
    context: dict[str, Any], now_ms: int | None, notes: str
) -> None:
    payload = {"title": "t", "notes": notes, "requestId": "r"}
    value = {"action": "issue.add", "payload": payload, "context": context, "now": now_ms}
    request = parse(canonical.encode(value | {"id": 5}), FROZEN)
    assert isinstance(request, Request)
    data = journaled(request)
    assert data == canonical.encode(orjson.loads(data))
    again = restore(data)
    assert isinstance(again, Request)
    assert journaled(again) == data
    assert again.id is None
    parts = ("action", "payload", "context", "door", "policy", "args", "now_ms", "request_id")
    for part in parts:
        assert getattr(again, part) == getattr(request, part), part


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


@given(
    st.sampled_from(sorted(host_actions())),
    st.dictionaries(
        st.sampled_from(["id", "title", "assignee", "fence", "records", "labels"]), json_values
    ),
)
def test_any_payload_is_a_request_or_garbage_and_never_an_exception(
    action: str, payload: dict[str, Any]
) -> None:
    data = json.dumps({"action": action, "payload": payload}).encode()
    assert isinstance(parse(data, FROZEN), Request | Garbage)


@given(st.binary(max_size=80))
def test_any_bytes_are_a_request_or_garbage_and_never_an_exception(data: bytes) -> None:
    assert isinstance(parse(data, MCP), Request | Garbage)
