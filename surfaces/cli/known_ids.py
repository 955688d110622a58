"""What the Tab key completes ids with: those that the state directory in use knows.

Only reads, for a moment at most, and says nothing where it cannot. The SQL tables are taken as they
are; no sidecar is started, and no state directory is made.
"""

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from .state_place import chosen

if TYPE_CHECKING:
    from ...authority import Office

Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]
_Look = Callable[[Path, str], Iterable[tuple[str, str]]]  # ids, and what each is called

COUNT_MAX = 100
_SECONDS_MAX = 1.0
_JOB = "job/"  # says that a job is meant, where issues have plain ids


def _completer(*looks: _Look) -> Completer:
    def complete(ctx: click.Context, _: click.Parameter, typed: str) -> list[CompletionItem]:
        named = ctx.params.get("state_dir") or ctx.find_root().params.get("state_dir")
        try:
            with _in_time():
                folder = Path(chosen(named).path)
                found = [each for look in looks for each in look(folder, typed)]
        except Exception:  # noqa: BLE001 - whatever it is, it would be printed into the user's line
            return []
        fitting = [each for each in found if each[0].startswith(typed) and each[0].isprintable()]
        return [CompletionItem(name, help=_line(about)) for name, about in fitting[:COUNT_MAX]]

    return complete


def _line(about: str) -> str | None:
    """A title as a shell can show it beside an id."""
    printable = (each if each.isprintable() else " " for each in about)
    return " ".join("".join(printable).split()) or None


@contextmanager
def _in_time() -> Iterator[None]:
    """Give up after a moment: a person waits."""

    def give_up(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, _SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _table(table: str, name: str, about: str = "''", done: str = "0 = 1", ahead: str = "") -> _Look:
    """From a table; what is done comes last, and not at all where there is much else."""

    def look(folder: Path, typed: str) -> Iterable[tuple[str, str]]:
        from ...authority.views import sql  # apsw, which no other completion needs

        begins = typed[len(ahead) :] if typed.startswith(ahead) else ""
        quoted = begins.replace("'", "''")
        statement = (
            f"SELECT DISTINCT {name}, {about}, CASE WHEN {done} THEN 1 ELSE 0 END AS done "  # noqa: S608 - our own names, and what was typed is quoted
            f"FROM {table} WHERE substr({name}, 1, {len(begins)}) = '{quoted}' "
            f"ORDER BY done, {name} LIMIT {COUNT_MAX}"
        )
        with closing(sql.reader(folder, _SECONDS_MAX)) as reader:
            return [(ahead + each, text or "") for each, text, _ in reader.ask(statement).rows]

    return look


def _state(names: Callable[["Office"], Iterable[str]]) -> _Look:
    """From the state itself, for what no table has."""

    def look(folder: Path, _: str) -> Iterable[tuple[str, str]]:
        from ...authority import open_office  # takes longer than the tables

        with open_office(folder, writable=False) as office:
            return [(name, "") for name in sorted(names(office))]

    return look


def _directed(office: "Office") -> list[str]:
    """Kinds that go somewhere, or are marked; as `route list` has them."""
    found = office.authority.state.lane.directives.items()
    return [kind for kind, each in found if each.route or each.derivation or each.audited]


_ISSUES = _table("issue", "id", "title", "status = 'closed'")
_ENDED = "status IN ('completed', 'cancelled')"

issues = _completer(_ISSUES)
jobs = _completer(_table("job", "job_id", "kind", _ENDED))
issues_and_jobs = _completer(_ISSUES, _table("job", "job_id", "kind", _ENDED, ahead=_JOB))
specs = _completer(_table("chain_spec", "spec_id", "title", "status = 'materialized'"))
schedules = _completer(_table("schedule", "schedule_id"))
holders = _completer(_table("lease", "owner"))
kinds = _completer(_state(_directed))
limited = _completer(_state(lambda office: office.authority.state.lane.limits))
# A shell would make file names of the scope `*`.
scopes = _completer(_state(lambda office: office.authority.state.budgets.keys() - {"*"}))
nodes = _completer(_state(lambda office: office.authority.state.lane.members))
workers = _completer(_state(lambda office: office.authority.state.sessions))
