"""Log lines of our processes as JSON objects, with the ids that traces have.

    {"at":"2026-02-03T04:05:06.007Z","level":"warning","message":"...","resource":"issue/us-1",
     "fence":17,"traceId":"...","spanId":"..."}

A record that is about a lease has it as `held`. The ids are derived, as those of spans are.
"""

import logging
from pathlib import Path
from typing import Any, Literal

import click
import orjson

from ...actors.leasing import HeldLease
from ...authority.journal import origin
from ...contracts import rfc3339, term_context, work_trace

LogFormat = Literal["text", "json"]

log_format = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="How lines of the log are written, on standard error.",
)


class JsonFormatter(logging.Formatter):
    """A record as one line, whatever it says."""

    def __init__(self, state_dir: Path) -> None:
        super().__init__()
        self._state_dir = state_dir

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": rfc3339.record_text(int(record.created * 1_000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        held = getattr(record, "held", None)
        if isinstance(held, HeldLease):
            line |= {"resource": held.resource, "fence": held.fence}
            line |= span_ids(self._state_dir, held.resource, held.fence)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line).decode()


def set_up(log_format: LogFormat, state_dir: Path) -> None:
    """Have this process log on standard error."""
    handler = logging.StreamHandler()
    plain = logging.Formatter("%(asctime)s %(levelname)s %(message)s")
    handler.setFormatter(JsonFormatter(state_dir) if log_format == "json" else plain)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


def span_ids(state_dir: Path, resource: str, fence: int | None) -> dict[str, str]:
    """What a line about work is found by, beside its spans; of a term, where its fence is known."""
    begun = origin.of_state_dir(state_dir)
    if begun is None:
        return {}
    if fence is None:
        return {"traceId": work_trace(begun, resource)}
    span = term_context(begun, resource, fence)
    return {"traceId": span.trace_id, "spanId": span.span_id}
