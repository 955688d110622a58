"""`understudy authority`: the authority as a process of its own, behind a Unix socket."""

import asyncio
import gc
import logging
import signal
import threading
from collections.abc import Callable

import click

from ....authority import Evidence, open_server
from ....authority.service import client, sidecar
from ..log_format import LogFormat, log_format, set_up
from ..options import journal
from ..session import Session, common

_LOG = logging.getLogger(__name__)


@click.group()
def authority() -> None:
    """Run the authority as a process of its own.

    While it runs, every command of the same state directory goes through it by itself.
    """


@authority.command()
@click.option("--frozen-clock", is_flag=True, help="Let requests bring their own time in `now`.")
@click.option(
    "--evidence",
    type=click.Choice(["inside", "outside"]),
    default="inside",
    show_default=True,
    help="Write the trajectory, or leave it to `understudy authority evidence`.",
)
@click.option(
    "--metrics", type=click.IntRange(0, 65_535), metavar="PORT", help="Serve /metrics here."
)
@log_format
@journal
@common
def serve(
    session: Session,
    *,
    frozen_clock: bool,
    evidence: Evidence,
    journal_url: str | None,
    log_format: LogFormat,
    metrics: int | None,
) -> None:
    """Own the journal and answer newline-delimited JSON on `authority.sock`.

    Requests that wait are decided in order and committed together; an answer leaves after its row
    is on disk. Decisions are made in C where it could be built; `--boundary reference`
    makes them in Python, with the same bytes. SIGTERM stops it after everything that it took in is
    answered.

    Where the journal is in PostgreSQL and another authority is active, this one is a standby: it
    follows the journal, hands requests on to the active one through the database, and takes over
    when that ends or gives no sign of life. One that was deposed meanwhile ends with exit code 75.
    """
    if metrics is not None:
        _require_metrics()
    session.settle(journal_url)
    if log_format == "json":
        set_up(log_format, session.state_dir)
    say = _LOG.info if log_format == "json" else _say
    with open_server(
        session.state_dir, session.boundary, evidence, lambda error: say(f"waiting: {error}")
    ) as office:
        server = sidecar.Sidecar(office, frozen_clock=frozen_clock)
        mode = f"{office.boundary} decisions"
        if office.evidence == "outside":
            mode += ", evidence is left to another process"
        say(f"serving {session.state_dir}, process {server.pid}, {mode}")
        gc.collect()
        gc.freeze()  # a large state is no garbage, and takes long to look through
        asyncio.run(_until_told(server, metrics, say))


def _say(text: str) -> None:
    click.echo(text, err=True)


def _require_metrics() -> None:
    from ...metrics import exposition  # only where they are wanted

    try:
        exposition.require()
    except exposition.MetricsMissing as error:
        raise click.UsageError(str(error)) from None


async def _until_told(
    server: sidecar.Sidecar, metrics: int | None, say: Callable[[str], None]
) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    if metrics is None:
        await server.run()
        return
    from ...metrics.exposition import as_text  # only where they are wanted
    from ...metrics.reading import read_sidecar
    from ...metrics.server import metrics_served

    async def text() -> bytes:
        return as_text(list(read_sidecar(server.counts.as_json())))

    async with metrics_served(metrics, text) as port:
        say(f"metrics at http://127.0.0.1:{port}/metrics")
        await server.run()


@authority.command()
@common
def evidence(session: Session) -> None:
    """Write the trajectory of a sidecar that was started with `--evidence outside`.

    Follows the journal until SIGTERM, and then to its end. What is missing is filled in, and the
    rest of a line that a crash cut off is cut away. Only one process at a time writes.
    """
    from ....actors.run import evidence_process as writing  # no other command needs the room

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    writing.follow(session.state_dir, stop)


@authority.command()
@common
def status(session: Session) -> None:
    """Say whether a sidecar serves the state directory; exit 7 if none does."""
    with client.Client(session.state_dir, "cli") as connection:
        server = connection.server
    standing = ""
    if server.get("standby"):
        standing = f", as a standby: it relays to {server.get('relaysTo', 'another')}"
    session.accept(f"process {server['pid']} serves {session.state_dir}{standing}", sidecar=server)
