"""A trace for people: spans as a tree, each with how long it took and what came of it."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...authority.views import spans as views
from ...contracts import rfc3339

_SECONDS_MAX = 100  # shown with milliseconds below that


def trace_text(spans: Sequence[views.WorkSpan]) -> str:
    """All traces of these spans, the oldest first."""
    by_trace: dict[str, list[views.WorkSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda each: each.seq):
        by_trace[span.context.trace_id].append(span)
    return "\n".join(line for each in by_trace.values() for line in _trace(each))


def _trace(spans: list[views.WorkSpan]) -> Iterator[str]:
    known = {each.context.span_id for each in spans}
    below: dict[str, list[views.WorkSpan]] = defaultdict(list)
    for each in spans:
        below[each.parent_id if each.parent_id in known else ""].append(each)
    yield f"trace {spans[0].context.trace_id}"
    waiting = [(each, 1) for each in reversed(below[""])]
    while waiting:
        span, depth = waiting.pop()
        yield "  " * depth + _line(span)
        yield from ("  " * (depth + 1) + each for each in _event_lines(span))
        waiting += [(each, depth + 1) for each in reversed(below[span.context.span_id])]


def _line(span: views.WorkSpan) -> str:
    said = span.attributes.get
    words = [span.name, *_about(span), rfc3339.record_text(span.start_ms), _took(span)]
    result = said("understudy.result", "")
    words.append(
        f"{result} ({said('understudy.failure')})" if said("understudy.failure") else str(result)
    )
    return _plain("  ".join(word for word in words if word))


def _about(span: views.WorkSpan) -> Iterator[str]:
    said = span.attributes.get
    if "understudy.attempt" in span.attributes and span.name == "attempt":
        yield f"{said('understudy.attempt')}"
    if span.parent_id == "" or span.name in ("issue", "job", "spec"):
        yield span.resource
        yield str(said("understudy.title") or said("understudy.kind") or "")
    if span.name == "refused":
        yield str(said("understudy.action"))
    if "understudy.fence" in span.attributes:
        yield f"fence {said('understudy.fence')}"
    yield str(said("understudy.owner") or said("understudy.target") or "")


def _event_lines(span: views.WorkSpan) -> Iterator[str]:
    """Renewals are counted; refusals are told one by one."""
    renewed = sum(each.name == "renewed" for each in span.events)
    if renewed:
        yield f"renewed {renewed} times" if renewed > 1 else "renewed once"
    for each in span.events:
        if each.name == "refused":
            said = each.attributes.get
            by = f" by {said('understudy.owner')}" if said("understudy.owner") else ""
            yield _plain(f"refused {said('understudy.action')}{by}: {said('understudy.failure')}")


def _took(span: views.WorkSpan) -> str:
    if span.end_ms is None:
        return "open"
    seconds, ms = divmod(span.end_ms - span.start_ms, 1_000)
    if seconds < _SECONDS_MAX:
        return f"{seconds}.{ms:03d}s"
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes}m{seconds:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def _plain(text: str) -> str:
    """One line, whatever a title is made of."""
    return "".join(each if each.isprintable() else " " for each in text)
