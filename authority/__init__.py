"""The law: the only room where a lease changes hands.

Other rooms take what they need from here, and from the rooms within: the law, the journal, the
engine, the service and the views. The names below are imported when they are first used, so that
`service.fence_check` stays cheap.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .journal.journal import GENESIS as GENESIS
    from .journal.journal import Storage as Storage
    from .journal.journal import Unavailable as Unavailable
    from .journal.state_dir import SOCKET as SOCKET
    from .journal.state_dir import TABLES as TABLES
    from .journal.state_dir import TRAJECTORY as TRAJECTORY
    from .journal.state_dir import create_state_dir as create_state_dir
    from .journal.state_dir import evidence_locked as evidence_locked
    from .journal.state_dir import held as held
    from .journal.state_dir import locked as locked
    from .journal.state_dir import open_journal as open_journal
    from .service.local import Evidence as Evidence
    from .service.local import Office as Office

_HOMES = {
    "GENESIS": ".journal.journal",
    "SOCKET": ".journal.state_dir",
    "TABLES": ".journal.state_dir",
    "TRAJECTORY": ".journal.state_dir",
    "Evidence": ".service.local",
    "Office": ".service.local",
    "Storage": ".journal.journal",
    "Unavailable": ".journal.journal",
    "create_state_dir": ".journal.state_dir",
    "evidence_locked": ".journal.state_dir",
    "held": ".journal.state_dir",
    "locked": ".journal.state_dir",
    "open_journal": ".journal.state_dir",
}

__all__ = [
    "GENESIS",
    "SOCKET",
    "TABLES",
    "TRAJECTORY",
    "Evidence",
    "Office",
    "Storage",
    "Unavailable",
    "create_state_dir",
    "evidence_locked",
    "held",
    "locked",
    "open_journal",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
