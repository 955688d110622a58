"""Ids of traces and spans, derived from what every process knows that holds a piece of work.

    trace   SHA-256 over a word of ours, the origin of the journal, and the work; 16 bytes of it
    span    SHA-256 over another word, and what the span is about; 8 bytes of it

The work is the resource of a lease. A dispatch belongs to its job, and the glue of a branch, which
is never done with, has a trace for each term. So no process has to tell another one its ids, and a
span that is sent twice is the same span. The origin is the digest of the journal's first row.
"""

import hashlib
from dataclasses import dataclass
from typing import Final

TRACEPARENT: Final = "TRACEPARENT"  # the variable of a command's environment
_TRACE = "understudy.trace.v1"
_SPAN = "understudy.span.v1"
_SAMPLED = "01"


@dataclass(frozen=True, slots=True)
class SpanContext:
    """A span, as the rest of the world refers to it; both ids in hex."""

    trace_id: str
    span_id: str

    @property
    def traceparent(self) -> str:
        """The header of W3C Trace Context, version 00; what we make is always sampled."""
        return f"00-{self.trace_id}-{self.span_id}-{_SAMPLED}"


def term_context(origin: str, resource: str, fence: int) -> SpanContext:
    """The span of one term: one attempt under one lease."""
    return SpanContext(work_trace(origin, resource, fence), span_id(resource, fence))


def work_trace(origin: str, resource: str, fence: int = 0) -> str:
    """The trace that a lease belongs to; its fence tells the terms of a gluer apart."""
    family, _, name = resource.partition("/")
    if family == "glue":
        return _hex(16, _TRACE, origin, resource, fence)
    work = f"job/{name}" if family == "dispatch" else resource
    return _hex(16, _TRACE, origin, work)


def span_id(resource: str, fence: int, *parts: str | int) -> str:
    """A span in the trace of a resource: fence 0 is the work, and parts tell others apart."""
    return _hex(8, _SPAN, resource, fence, *parts)


def read_traceparent(text: object) -> SpanContext | None:
    """What another program says its span is; None where that is no traceparent."""
    parts = text.split("-") if isinstance(text, str) else []
    if len(parts) < 4 or [len(each) for each in parts[:4]] != [2, 32, 16, 2]:
        return None
    version, trace, span, flags = parts[:4]
    is_hex = not set(version + trace + span + flags) - set("0123456789abcdef")
    is_exact = len(parts) == 4 or version != "00"
    if not is_hex or not is_exact or version == "ff" or not int(trace, 16) or not int(span, 16):
        return None
    return SpanContext(trace, span)


def _hex(size: int, *parts: str | int) -> str:
    """So many bytes of the digest; never all zero, which would mean that there is no id."""
    found = hashlib.sha256("\0".join(map(str, parts)).encode()).digest()[:size]
    return (found if any(found) else bytes(size - 1) + b"\1").hex()
