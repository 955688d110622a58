"""Spans as OpenTelemetry has them, sent by OTLP over HTTP. Only here is its SDK imported.

The variables of OpenTelemetry are heeded: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _TIMEOUT,
OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, and those of traces alone.
"""

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, Final
from urllib.parse import urlsplit

from ...authority.views import spans as views
from ...contracts import SpanContext

MISSING: Final = "OpenTelemetry is missing: pip install 'understudy[traces]'"
SERVICE: Final = "understudy"
ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_TIMEOUTS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
_TIMEOUT_SECONDS = 5.0  # for one batch, with what the SDK tries again by itself
_PATH = "/v1/traces"
_MODULES = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter")


def is_installed() -> bool:
    """Whether the extra is there; nothing of it is run."""
    try:
        return all(find_spec(name) is not None for name in _MODULES)
    except ModuleNotFoundError:
        return False


def is_configured() -> bool:
    """Whether the environment names a collector."""
    return any(os.environ.get(name) for name in ENDPOINTS)


def endpoint_problem(url: str) -> str | None:
    """Why spans cannot be sent there."""
    try:
        parts = urlsplit(url)
        is_fit = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_fit = False
    return None if is_fit else f"{url}: it takes a URL such as http://127.0.0.1:4318"


class OtlpExporter:
    """Where spans are sent: to a URL, or to where the environment says."""

    def __init__(self, endpoint: str | None = None) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        from ... import __version__

        url = None if endpoint is None else traces_url(endpoint)
        timeout = None if any(os.environ.get(name) for name in _TIMEOUTS) else _TIMEOUT_SECONDS
        # The SDK takes seconds; its stubs have said `int` in some versions.
        settings: dict[str, Any] = {"endpoint": url, "timeout": timeout}
        self._exporter: Any = OTLPSpanExporter(**settings)  # parts of it have no types
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {SERVICE_NAME: SERVICE}
        given = os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
        named = {} if f"{SERVICE_NAME}=" in given else named
        self._resource = Resource.create(named)
        self._scope = InstrumentationScope(SERVICE, __version__)

    def send(self, spans: Sequence[views.WorkSpan]) -> bool:
        """Whether the collector has taken them."""
        from opentelemetry.sdk.trace.export import SpanExportResult

        found = [self._readable(each) for each in spans]
        return bool(self._exporter.export(found) is SpanExportResult.SUCCESS)

    def close(self) -> None:
        self._exporter.shutdown()

    def _readable(self, span: views.WorkSpan) -> Any:
        from opentelemetry.sdk.trace import Event, ReadableSpan
        from opentelemetry.trace import Link, SpanKind
        from opentelemetry.trace.status import Status, StatusCode

        assert span.end_ms is not None, "what is open is not sent"
        codes = {"unset": StatusCode.UNSET, "ok": StatusCode.OK, "error": StatusCode.ERROR}
        said = span.attributes.get("understudy.failure") or span.attributes.get("understudy.result")
        parent = SpanContext(span.context.trace_id, span.parent_id)
        return ReadableSpan(
            name=span.name,
            context=_context(span.context),
            parent=_context(parent) if span.parent_id else None,
            resource=self._resource,
            attributes=span.attributes,
            events=[
                Event(each.name, each.attributes, each.at_ms * 1_000_000) for each in span.events
            ],
            links=[Link(_context(each, is_remote=True)) for each in span.links],
            kind=SpanKind.INTERNAL,
            status=Status(codes[span.status], str(said) if span.status == "error" else None),
            start_time=span.start_ms * 1_000_000,
            end_time=span.end_ms * 1_000_000,
            instrumentation_scope=self._scope,
        )


def traces_url(endpoint: str) -> str:
    """The whole URL, of a collector as people name it."""
    return endpoint if endpoint.endswith(_PATH) else endpoint.rstrip("/") + _PATH


def _context(context: SpanContext, *, is_remote: bool = False) -> Any:
    from opentelemetry.trace import SpanContext as OtelContext
    from opentelemetry.trace import TraceFlags

    sampled = TraceFlags(TraceFlags.SAMPLED)
    trace, span = int(context.trace_id, 16), int(context.span_id, 16)
    return OtelContext(trace, span, is_remote, sampled)
