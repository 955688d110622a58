"""What a request may hold, from both sides: what just fits is taken, and one more is refused."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.fakes.desk import asked, fits
from tests.limits import stands_on
from understudy.contracts import (
    canonical,
    limits,
)
from understudy.contracts.reason import Reason
from understudy.contracts.requests.request import Door, Garbage, Request, parse


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


@stands_on(
    "ID_LENGTH_MAX",
    "NAME_LENGTH_MAX",
    "REASON_LENGTH_MAX",
    "REF_LENGTH_MAX",
    "TEXT_LENGTH_MAX",
    "TITLE_LENGTH_MAX",
)
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
