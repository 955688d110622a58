"""Ids of traces and spans: the same everywhere and for ever, and never none."""

import hashlib

import pytest

from understudy.contracts import trace_id as ids

ORIGIN = "row1_" + "ab" * 32
# What other programs may have kept: it never changes.
VECTOR = "00-bd879584f1ded57314c52751ab7cb6cb-c81627e5ad6ada60-01"


def independent(size: int, *parts: object) -> str:
    return hashlib.sha256("\0".join(map(str, parts)).encode()).hexdigest()[: 2 * size]


@pytest.mark.parametrize(
    ("resource", "fence", "work"),
    [
        ("issue/us-1", 17, ["issue/us-1"]),
        ("job/j", 2, ["job/j"]),
        ("dispatch/j", 3, ["job/j"]),
        ("spec/s", 4, ["spec/s"]),
        ("glue/feature/x", 5, ["glue/feature/x", 5]),
    ],
)
def test_a_term_has_the_ids_that_follow_from_its_work_and_its_fence(
    resource: str, fence: int, work: list[object]
) -> None:
    span = ids.term_context(ORIGIN, resource, fence)
    assert span.trace_id == independent(16, "understudy.trace.v1", ORIGIN, *work)
    assert span.span_id == independent(8, "understudy.span.v1", resource, fence)
    assert span.traceparent == f"00-{span.trace_id}-{span.span_id}-01"
    assert ids.read_traceparent(span.traceparent) == span


def test_ids_of_before_are_the_ids_of_now() -> None:
    span = ids.term_context(ORIGIN, "issue/us-1", 17)
    assert span.traceparent == VECTOR


def test_journals_works_and_terms_are_told_apart() -> None:
    known = [
        ids.term_context(origin, resource, fence)
        for origin in ("a", "b")
        for resource in ("issue/1", "issue/11", "job/1", "glue/1")
        for fence in (1, 11)
    ]
    assert len({(each.trace_id, each.span_id) for each in known}) == len(known)
    assert len({each.trace_id for each in known}) == 10, "the two terms of a gluer are two traces"


def test_no_id_is_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    class Zeros:
        def digest(self) -> bytes:
            return bytes(32)

    monkeypatch.setattr(hashlib, "sha256", lambda _: Zeros())
    assert ids.work_trace("o", "issue/1") == "0" * 31 + "1"
    assert ids.span_id("issue/1", 1) == "0" * 15 + "1"


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "00",
        "00-" + "a" * 32 + "-" + "b" * 16,
        "00-" + "0" * 32 + "-" + "b" * 16 + "-01",
        "00-" + "a" * 32 + "-" + "0" * 16 + "-01",
        "00-" + "A" * 32 + "-" + "b" * 16 + "-01",
        "00-" + "a" * 31 + "-" + "b" * 16 + "-01",
        "00-" + "a" * 32 + "-" + "b" * 16 + "-01-more",
        "ff-" + "a" * 32 + "-" + "b" * 16 + "-01",
        "00-" + "\u0661" * 32 + "-" + "b" * 16 + "-01",
    ],
)
def test_what_is_no_traceparent_is_none(text: object) -> None:
    assert ids.read_traceparent(text) is None


def test_a_traceparent_of_a_later_version_may_say_more() -> None:
    found = ids.read_traceparent("01-" + "a" * 32 + "-" + "b" * 16 + "-01-more")
    assert found == ids.SpanContext("a" * 32, "b" * 16)
