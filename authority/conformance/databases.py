"""Faults of a journal that is in a database, for vectors: they need neither server nor driver.

What the database itself refuses is shown on a real one, by the tests of the engine.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from ...contracts import Garbage, Reason, limits
from ..journal import journal_url
from ..journal.journal import Unavailable
from ..journal.relay_message import Errand, bounded, unpacked
from ..journal.sqlite import SqliteJournal
from ..journal.state_files import URL_FILE
from ..service.local import Office

_URL = "postgresql://db.example/work"


@contextmanager
def _password_written_down(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
    secret = _URL.replace("//", "//ada:secret@")
    (state_dir / URL_FILE).write_text(f"{secret}\n")
    yield


@contextmanager
def _driver_missing(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
    journal_url.remember(state_dir, _URL)
    engine = f"{journal_url.__package__}.postgres"
    with patch.dict(sys.modules, {engine: None}):
        yield


def _refusing(reason: Reason) -> Callable[..., AbstractContextManager[None]]:
    """An engine that cannot open the journal, for this reason."""

    @contextmanager
    def inflicted(state_dir: Path, _: Mapping[str, Any]) -> Iterator[None]:
        journal_url.remember(state_dir, _URL)
        error = Unavailable(reason, _URL)
        with patch.object(journal_url, "engine", side_effect=error):
            yield

    return inflicted


@contextmanager
def _another_is_active(_: Path, __: Mapping[str, Any]) -> Iterator[None]:
    with patch.object(SqliteJournal, "leads", new=False), patch.object(limits, "LOCK_WAIT_MS", 5):
        yield


# --- errands --------------------------------------------------------------------------------------


def carry(errand: Errand, state_dir: Path) -> None:
    """An errand to an authority and back, as it is written down on both ways."""
    runs = unpacked(_there(errand.body()), frozen_clock=True)
    if isinstance(runs, Garbage):
        errand.refuse(runs.reason, runs.detail)
        return
    with Office(state_dir) as office:
        lines = [(line, door) for door, lines in runs for line in lines]
        answers = b"".join(answer + b"\n" for answer in office.submit_lines(lines))
        reply = _back(bounded(answers, office.authority.head.seq))
    if not errand.fill(reply):
        errand.doubt("nobody knows")


def _there(body: bytes) -> bytes:
    return body


def _back(lines: bytes) -> bytes:
    return lines


@contextmanager
def _carried(_: Path, __: Mapping[str, Any]) -> Iterator[None]:
    yield


@contextmanager
def _garbled(_: Path, __: Mapping[str, Any]) -> Iterator[None]:
    with patch(f"{__name__}._there", lambda body: body[1:]):
        yield


@contextmanager
def _unanswered(_: Path, __: Mapping[str, Any]) -> Iterator[None]:
    with patch(f"{__name__}._back", lambda _: b""):
        yield


@contextmanager
def _answer_long(_: Path, __: Mapping[str, Any]) -> Iterator[None]:
    with patch.object(limits, "REPLY_BYTES_MAX", 100):
        yield


FAULTS = {
    "another_is_active": _another_is_active,
    "database_gone": _refusing(Reason.JOURNAL_UNREACHABLE),
    "database_too_new": _refusing(Reason.JOURNAL_TOO_NEW),
    "driver_missing": _driver_missing,
    "errand_answer_long": _answer_long,
    "errand_carried": _carried,
    "errand_garbled": _garbled,
    "errand_unanswered": _unanswered,
    "password_written_down": _password_written_down,
}
