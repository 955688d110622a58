"""Is everything in order? Looks at the machine and at a state directory, and changes nothing.

What can be mended without a choice, `mend` mends, if it is asked to.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path

from ...authority.journal import journal_url
from . import database, folder, journal, machine, tree
from .finding import DoctorFinding, Status, looked

__all__ = ["DoctorFinding", "Status", "examine", "mend"]


def _journal(state_dir: Path) -> Iterator[DoctorFinding]:
    """Wherever it is."""
    shared = journal_url.of(state_dir)
    return journal.written(state_dir) if shared is None else database.written(state_dir, shared)


def mend(state_dir: Path) -> int:
    """Close to other users what is ours; how many files and folders that were."""
    return 0 if folder.missing(state_dir) else folder.close_to_others(state_dir)


def examine(
    state_dir: Path, wanted: str | None = None, *, deep: bool = False
) -> Iterator[DoctorFinding]:
    """Every finding, in order; `wanted` is the boundary mode that was asked for."""
    absent = folder.missing(state_dir)
    sidecars = [] if absent else list(looked("sidecar", partial(folder.served, state_dir, wanted)))
    served = any(each.facts.get("running") for each in sidecars)
    checks: dict[str, Callable[[], Iterable[DoctorFinding]]] = {
        "program": machine.program,
        "boundary": partial(machine.boundary, wanted, served=served),
        "contract": machine.contract,
        "sqlite": machine.sqlite,
        "files": machine.files,
        "disk": partial(machine.disk, state_dir),
    }
    if absent is None:
        checks |= {
            "state": partial(folder.reach, state_dir),
            "git": partial(folder.ignored, state_dir),
            "lock": partial(folder.lock, state_dir),
            "sidecar": lambda: sidecars,
            "tree": partial(tree.running, state_dir),
            "journal": partial(_journal, state_dir),
        }
        if deep:
            checks["rows"] = partial(journal.every_row, state_dir)
    for name, look in checks.items():
        yield from looked(name, look)
    if absent is not None:
        yield absent
