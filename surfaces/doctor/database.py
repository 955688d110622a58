"""Checks of a journal that is in a database: the server, who is active, and what is written."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from ...authority import TRAJECTORY, Unavailable
from ...authority.journal import journal_url
from ...authority.views import high_water
from ...contracts import FAILURES, Reason
from . import journal as written_down
from .finding import DoctorFinding
from .folder import holder_of

_SLOW_MS = 20  # for a round trip; every commit waits for at least one
_DURABLE = ("fsync", "full_page_writes", "synchronous_commit")


def written(folder: Path, shared: journal_url.JournalUrl) -> Iterator[DoctorFinding]:
    """Everything that is there and in the state directory, looked at as one."""
    known = high_water.high_water_marks(folder)  # first: they are never ahead of the journal
    evidence = written_down.end_of(folder / TRAJECTORY)
    busy = holder_of(folder) is not None
    try:
        engine = journal_url.engine().PostgresJournal
        with closing(engine(shared, read_only=True)) as journal:
            asked = time.monotonic()
            settings = journal.settings(_DURABLE)
            yield _server(shared, settings, (time.monotonic() - asked) * 1000)
            facts = {"active": journal.who(), "epoch": journal.epoch()}
            yield DoctorFinding("active", "ok", f"active: {facts['active']}", facts=facts)
            yield from written_down.recovered(journal)
            yield from written_down.rewound(journal, known)
            yield written_down.followed(journal, evidence, busy=busy)
            with closing(journal.tables(folder)) as tables:
                seq = tables.watermark()  # first: they are never ahead of the journal
            head_seq = journal.last_seq()
            led = journal.standing().holder is not None
            yield written_down.tables_at(seq, head_seq, busy=busy or led)
    except Unavailable as error:
        remedy = FAILURES[error.reason].remedy
        yield DoctorFinding("journal", "problem", str(error), remedy, error.reason.wire)


def _server(
    shared: journal_url.JournalUrl, settings: dict[str, str], took_ms: float
) -> DoctorFinding:
    """Whether what it says is written is on a disk, and how long it takes to say so."""
    facts: dict[str, Any] = {"database": str(shared), "roundTripMs": round(took_ms, 1)} | settings
    loose = [name for name in ("fsync", "full_page_writes") if settings[name] == "off"]
    if loose:
        words = f"{' and '.join(loose)} is off on the server: a power cut loses answered requests"
        failure = Reason.JOURNAL_WRITE_FAILED.wire
        remedy = "turn it on in postgresql.conf"
        return DoctorFinding("database", "problem", words, remedy, failure, facts)
    words = f"{shared} answers in {took_ms:.1f} ms"
    if settings["synchronous_commit"] == "off":
        words += "; synchronous_commit is off there, and on for us"
    if took_ms > _SLOW_MS:
        remedy = "bring the authority nearer to the database"
        return DoctorFinding("database", "note", words, remedy, facts=facts)
    return DoctorFinding("database", "ok", words, facts=facts)
