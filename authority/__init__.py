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
    from .journal.state_dir import create_state_dir as create_state_dir
    from .journal.state_dir import evidence_locked as evidence_locked
    from .journal.state_dir import held as held
    from .journal.state_dir import locked as locked
    from .journal.state_dir import open_journal as open_journal
    from .journal.state_files import SOCKET as SOCKET
    from .journal.state_files import TABLES as TABLES
    from .journal.state_files import TRAJECTORY as TRAJECTORY
    from .service.local import Evidence as Evidence
    from .service.local import Office as Office
    from .service.open import BOUNDARIES as BOUNDARIES
    from .service.open import BoundaryMissing as BoundaryMissing
    from .service.open import LocalClient as LocalClient
    from .service.open import decider as decider
    from .service.open import open_authority as open_authority
    from .service.open import open_office as open_office
    from .service.open import open_server as open_server

_HOMES = {
    "BOUNDARIES": ".service.open",
    "BoundaryMissing": ".service.open",
    "GENESIS": ".journal.journal",
    "SOCKET": ".journal.state_files",
    "TABLES": ".journal.state_files",
    "TRAJECTORY": ".journal.state_files",
    "Evidence": ".service.local",
    "LocalClient": ".service.open",
    "Office": ".service.local",
    "Storage": ".journal.journal",
    "Unavailable": ".journal.journal",
    "create_state_dir": ".journal.state_dir",
    "decider": ".service.open",
    "evidence_locked": ".journal.state_dir",
    "held": ".journal.state_dir",
    "locked": ".journal.state_dir",
    "open_authority": ".service.open",
    "open_journal": ".journal.state_dir",
    "open_office": ".service.open",
    "open_server": ".service.open",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name], __name__), name)
    globals()[name] = value
    return value
