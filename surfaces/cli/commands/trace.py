"""`understudy trace`: what was done for a piece of work, as spans, and where they are sent."""

import signal
import sys
import threading
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import orjson

from ....actors.run import otlp, span_sender
from ....actors.tree import RUN_FOLDER
from ....authority import Storage, Unavailable, open_journal
from ....authority.journal import journal as journals
from ....authority.journal import origin
from ....authority.views import spans as views
from ....contracts import Exit, Reason, rfc3339, work_trace
from .. import known_ids
from ..session import Session, common
from ..trace_text import trace_text

_REST_SECONDS = 30.0  # of a tree's tracer that cannot read or write what it needs
_FAMILIES = ("issue", "job", "spec", "glue", "dispatch")
_LAPSE = b'"change":"lapsed"'  # ends terms of work that it does not name


class _TraceGroup(click.Group):
    """A word that is no command of ours is the work that is to be shown."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args or args[0] not in (*self.commands, "-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_TraceGroup)
def trace() -> None:
    """Show what was done for a piece of work, step by step; or send it to a collector.

    \b
      understudy trace us-1
      understudy trace export --follow --endpoint http://127.0.0.1:4318
    """


@trace.command()
@click.argument("work", required=False, shell_complete=known_ids.issues_and_jobs)
@common
def show(session: Session, work: str | None) -> None:
    """Show the spans of WORK, or of everything: attempts, renewals, refusals, sections.

    WORK is the id of an issue, or job/ID, spec/ID or glue/BRANCH. With --json all spans as one
    object, with the ids that `TRACEPARENT` has in the environment of commands.
    """
    resource = _resource(work) if work else None
    with open_journal(session.state_dir, read_only=True) as journal:
        since_ms = _since_ms(session, resource) if resource else 0
        spans = _spans(journal, resource, since_ms)
        if since_ms and not spans:  # an imported issue may say that it is younger than its row
            spans = _spans(journal, resource, 0)
    if resource is not None and not spans:
        said = (
            f"{work}: the journal knows no such work; `understudy issue list` shows what there is"
        )
        session.refuse(Exit.NOT_FOUND, Reason.LEASE_NOT_FOUND.wire, said)
    text = trace_text(spans) or "nothing was done yet"
    session.accept(text, spans=[each.document() for each in spans])


@trace.command()
@click.option("--follow", "-f", is_flag=True, help="Go on until SIGTERM or Ctrl-C.")
@click.option(
    "--endpoint",
    metavar="URL",
    help="The collector, as http://127.0.0.1:4318.  [OTEL_EXPORTER_OTLP_ENDPOINT]",
)
@click.option("--from-start", is_flag=True, help="Send all again, also what was sent before.")
@click.option("--tree", "in_tree", is_flag=True, hidden=True, help="It is the tracer of a tree.")
@common
def export(
    session: Session, endpoint: str | None, *, follow: bool, from_start: bool, in_tree: bool
) -> None:
    """Send the spans that have ended to a collector, by OTLP over HTTP.

    How far it came is kept in the run folder of the state directory, so the next one goes on there.
    A span is sent at least once, and always with the same ids. Where the collector is away, nothing
    is lost: --follow tries again, and without it the exit code is 7. Headers, time-outs and the
    name of the service come from the variables of OpenTelemetry (OTEL_...).
    """
    check_endpoint(endpoint)
    run_dir, stop = session.state_dir.absolute() / RUN_FOLDER, _told_to_stop()
    with closing(otlp.OtlpExporter(endpoint)) as exporter:
        while True:
            try:
                told, is_sent = _sent(
                    session, run_dir, exporter, stop, follow=follow, from_start=from_start
                )
                break
            except (Unavailable, OSError) as error:
                if not in_tree:
                    raise
                # A tree that ends for this would take the workers along.
                click.echo(f"traces wait: {error}", err=True)
            if stop.wait(_REST_SECONDS):
                return
    if not is_sent:
        said = f"{told['sent']} spans were sent; the collector does not take the next ones"
        session.refuse(Exit.UNREACHABLE, "collector_unreachable", f"{said}: try again", **told)
    session.accept(f"{told['sent']} spans sent, up to row {told['seq']}", **told)


def _sent(
    session: Session,
    run_dir: Path,
    exporter: otlp.OtlpExporter,
    stop: threading.Event,
    *,
    follow: bool,
    from_start: bool,
) -> tuple[dict[str, int], bool]:
    """How much was sent, and whether that is all."""
    with span_sender.SpanSender(
        session.state_dir, run_dir, exporter.send, from_start=from_start
    ) as sender:
        if follow:
            span_sender.follow(sender, stop)
        is_sent = follow or span_sender.send_all(sender)
        return {"sent": sender.count, "seq": sender.sent_seq}, is_sent


def tracer_words(state_dir: Path, endpoint: str | None) -> tuple[str, ...]:
    """The tracer that a tree looks after."""
    words = [sys.executable, "-m", "understudy", "trace", "export", "--follow", "--tree"]
    words += ["--state-dir", str(state_dir)]
    return (*words, "--endpoint", endpoint) if endpoint else tuple(words)


def check_endpoint(endpoint: str | None) -> None:
    """Raise `UsageError` where spans cannot be sent: the extra is missing, or no URL is known."""
    if not otlp.is_installed():
        raise click.UsageError(otlp.MISSING)
    if endpoint is None and not otlp.is_configured():
        raise click.UsageError("say where to: --endpoint URL, or OTEL_EXPORTER_OTLP_ENDPOINT")
    if endpoint is not None and (problem := otlp.endpoint_problem(endpoint)):
        raise click.UsageError(problem)


def _told_to_stop() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


# --- the spans of one piece of work ---------------------------------------------------------------


def _resource(work: str) -> str:
    family, slash, name = work.partition("/")
    return work if slash and name and family in _FAMILIES else f"issue/{work}"


def _spans(journal: Storage, resource: str | None, since_ms: int) -> list[views.WorkSpan]:
    begun = origin.of_journal(journal)
    if begun is None:
        return []
    fold = views.SpanFold(begun)
    spans = [span for row in _rows(journal, resource, since_ms) for span in fold.take(row)]
    spans = sorted(spans + fold.open_spans(), key=lambda each: each.seq)
    if resource is None:
        return spans
    if resource.startswith("glue/"):  # each term has a trace of its own
        return [each for each in spans if each.resource == resource]
    wanted = work_trace(begun, resource)
    return [each for each in spans if each.context.trace_id == wanted]


def _rows(journal: Storage, resource: str | None, since_ms: int) -> Iterator[journals.Row]:
    """The rows that may be about it; a long past is not read for what is young."""
    if resource is None:
        yield from journal.read()
        return
    last_seq = journal.last_seq()
    first = bisect_left(range(1, last_seq + 1), since_ms, key=lambda seq: _wall_ms(journal, seq))
    name = orjson.dumps(resource.partition("/")[2])[1:-1]
    for row in journal.read(first):
        if name in row.changes or name in row.request or _LAPSE in row.changes:
            yield row


def _wall_ms(journal: Storage, seq: int) -> int:
    row = journal.row(seq)
    return 0 if row is None else row.wall_ms


def _since_ms(session: Session, resource: str) -> int:
    """When it was added, as far as that can be told; everything about it came later."""
    family, _, name = resource.partition("/")
    if family == "issue":
        issue = session.ask("issue.show", {"id": name}, writable=False).get("issue", {})
        return rfc3339.parse_ms(issue.get("createdAt", "")) or 0
    if family in ("job", "dispatch"):
        job = session.ask("job.show", {"jobId": name}, writable=False).get("job", {})
        return int(job.get("scheduledMs", 0))
    return 0
