"""A collector of traces on this machine: real HTTP, real protobuf; it can be away for a while."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

Span = dict[str, Any]


class Collector:
    """Keeps what it was sent, in the order of arrival; `is_away` has it answer 503."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.headers: list[dict[str, str]] = []
        self.is_away = False
        self.refused = 0
        self.url = ""
        self._lock = threading.Lock()

    def take(self, body: bytes, headers: dict[str, str]) -> bool:
        with self._lock:
            if self.is_away:
                self.refused += 1
                return False
            request = ExportTraceServiceRequest.FromString(body)
            self.headers.append(headers)
            for group in request.resource_spans:
                named = {each.key: each.value.string_value for each in group.resource.attributes}
                self.services.add(named["service.name"])
                for scope in group.scope_spans:
                    self.spans += [_read(each) for each in scope.spans]
            return True

    def ids(self) -> list[tuple[str, str]]:
        with self._lock:
            return [(each["traceId"], each["spanId"]) for each in self.spans]

    def named(self, name: str) -> list[Span]:
        with self._lock:
            return [each for each in self.spans if each["name"] == name]


@contextmanager
def collecting() -> Iterator[Collector]:
    """A collector at work, on a port of its own."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            taken = self.path == "/v1/traces" and collector.take(
                body, {name.lower(): value for name, value in self.headers.items()}
            )
            answer = ExportTraceServiceResponse().SerializeToString() if taken else b""
            self.send_response(200 if taken else 503)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collector.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield collector
        finally:
            server.shutdown()
            thread.join()


def _read(span: Any) -> Span:
    """As `understudy trace --json` spells it, as far as OTLP has it."""
    return {
        "traceId": span.trace_id.hex(),
        "spanId": span.span_id.hex(),
        "parentSpanId": span.parent_span_id.hex() or None,
        "name": span.name,
        "startMs": span.start_time_unix_nano // 1_000_000,
        "endMs": span.end_time_unix_nano // 1_000_000,
        "status": ("unset", "ok", "error")[span.status.code],
        "attributes": _attributes(span.attributes),
        "events": [
            {
                "name": each.name,
                "atMs": each.time_unix_nano // 1_000_000,
                "attributes": _attributes(each.attributes),
            }
            for each in span.events
        ],
        "links": [
            {"traceId": each.trace_id.hex(), "spanId": each.span_id.hex()} for each in span.links
        ],
    }


def _attributes(pairs: Any) -> dict[str, str | int]:
    return {
        each.key: each.value.int_value
        if each.value.HasField("int_value")
        else each.value.string_value
        for each in pairs
    }
