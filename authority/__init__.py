"""The law: the only room where a lease changes hands.

Other rooms take what they need from here; `client`, `exchange`, `glance`, `kernel`, `native`,
`oplog`, `place`, `replay`, `sidecar`, `tables`, `takeover`, `trajectory` and `conformance` are
modules that a command loads when it needs them. The names below are imported when they are first
used, so that `glance` stays cheap.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .journal import GENESIS as GENESIS
    from .journal import Storage as Storage
    from .journal import Unavailable as Unavailable
    from .service import SOCKET as SOCKET
    from .service import TABLES as TABLES
    from .service import TRAJECTORY as TRAJECTORY
    from .service import Evidence as Evidence
    from .service import Office as Office
    from .service import create_state_dir as create_state_dir
    from .service import evidence_locked as evidence_locked
    from .service import held as held
    from .service import locked as locked
    from .service import open_journal as open_journal

_HOMES = {
    "GENESIS": ".journal",
    "SOCKET": ".service",
    "TABLES": ".service",
    "TRAJECTORY": ".service",
    "Evidence": ".service",
    "Office": ".service",
    "Storage": ".journal",
    "Unavailable": ".journal",
    "create_state_dir": ".service",
    "evidence_locked": ".service",
    "held": ".service",
    "locked": ".service",
    "open_journal": ".service",
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
