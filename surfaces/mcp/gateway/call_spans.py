"""Spans of tool calls that are about work: in the trace of that work, below the caller's term.

    call ends --> queue --> thread --> collector

I1  A call never waits for the collector: a queue that is full loses the span, and counts it.
I2  What the collector does not take is lost: the journal has no rows for it, and keeps the rest.

A client that says which span its call is a part of, by `traceparent` in `_meta`, gets a link there.
"""

import logging
import queue
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ....actors.run import span_sender
from ....authority.journal import origin
from ....authority.views import spans
from ....contracts import (
    SpanContext,
    issue_resource,
    job_resource,
    read_traceparent,
    span_id,
    work_trace,
)

QUEUE_MAX: Final = 4_096  # spans that wait for the collector
_GATHER_SECONDS = 0.5  # calls that end together share a request
_CLOSE_SECONDS = 5.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class EndedCall:
    """A tool call, and the authority's answer to it."""

    tool: str
    key: str  # tells it from every other
    started_ms: int
    arguments: Mapping[str, Any]
    answer: Mapping[str, Any]
    meta: Mapping[str, Any] | None  # of the request


class CallSpans:
    """Takes spans from the event loop, and sends them from a thread of its own."""

    def __init__(self, state_dir: Path, send: span_sender.Send) -> None:
        self._state_dir, self._send = state_dir, send
        self._queue: queue.Queue[spans.WorkSpan] = queue.Queue(QUEUE_MAX)
        self._stopping = threading.Event()
        self.lost = 0
        self._thread = threading.Thread(target=self._run, name="call-spans", daemon=True)
        self._thread.start()

    def note(self, call: EndedCall) -> None:
        """A call has ended."""
        span = self._span(call)
        if span is None:
            return
        try:
            self._queue.put_nowait(span)
        except queue.Full:
            self.lost += 1  # I1

    def close(self) -> None:
        """Send what waits, if that does not take long."""
        self._stopping.set()
        self._thread.join(_CLOSE_SECONDS)

    def _span(self, call: EndedCall) -> spans.WorkSpan | None:
        answer = call.answer
        effect = answer.get("effect") or {}
        resource = _resource(effect)
        begun = origin.of_state_dir(self._state_dir) if resource else None
        if resource is None or begun is None:
            return None
        given = call.arguments.get("fence")
        fence = given if isinstance(given, int) else effect.get("fence") or 0
        failures = answer.get("failureClasses") or []
        attributes: spans.Attributes = {
            "mcp.method.name": "tools/call",
            "gen_ai.tool.name": call.tool,
            "understudy.resource": resource,
            "understudy.result": failures[0] if failures else "accepted",
        }
        attributes |= {"understudy.fence": fence} if fence else {}
        attributes |= {"understudy.seq": answer["seq"]} if answer.get("seq") else {}
        caused = read_traceparent((call.meta or {}).get("traceparent"))
        return spans.WorkSpan(
            context=SpanContext(
                work_trace(begun, resource), span_id(resource, fence, "call", call.key)
            ),
            parent_id=span_id(resource, fence),
            name=f"tools/call {call.tool}",
            resource=resource,
            start_ms=call.started_ms,
            seq=0,
            attributes=attributes,
            end_ms=max(call.started_ms, now_ms()),
            status="error" if failures else "ok",
            links=(caused,) if caused else (),
        )

    def _run(self) -> None:
        while not self._stopping.wait(_GATHER_SECONDS):
            self._send_all()
        self._send_all()

    def _send_all(self) -> None:
        while batch := self._batch():
            try:
                is_sent = self._send(batch)
            except Exception:  # noqa: BLE001 - whatever the SDK does, calls go on
                is_sent = False
            if not is_sent:
                self.lost += len(batch)
                _log.warning("%d spans of calls are lost: no collector took them", len(batch))
                return

    def _batch(self) -> Sequence[spans.WorkSpan]:
        found: list[spans.WorkSpan] = []
        while len(found) < span_sender.BATCH_MAX:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return found


def now_ms() -> int:
    """By the wall clock, as spans have it."""
    return time.time_ns() // 1_000_000


def _resource(effect: Mapping[str, Any]) -> str | None:
    """The work that an answer is about."""
    if job_id := effect.get("jobId"):
        return job_resource(job_id)
    return issue_resource(effect["issueId"]) if effect.get("issueId") else None
