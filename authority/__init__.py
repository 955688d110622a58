"""The law: the only room where a lease changes hands.

Other rooms take what they need from here; `asking`, `client`, `exchange`, `glance`, `kernel`,
`native`, `oplog`, `place`, `removal`, `replay`, `sidecar`, `tables`, `takeover`, `trajectory` and
`conformance` are modules that a command loads when it needs them. The names below are imported when
they are first used, so that `glance` stays cheap.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .folder import SOCKET as SOCKET
    from .folder import TABLES as TABLES
    from .folder import TRAJECTORY as TRAJECTORY
    from .folder import create_state_dir as create_state_dir
    from .folder import evidence_locked as evidence_locked
    from .folder import held as held
    from .folder import locked as locked
    from .folder import open_journal as open_journal
    from .journal import GENESIS as GENESIS
    from .journal import Storage as Storage
    from .journal import Unavailable as Unavailable
    from .office import Evidence as Evidence
    from .office import Office as Office

_HOMES = {
    "GENESIS": ".journal",
    "SOCKET": ".folder",
    "TABLES": ".folder",
    "TRAJECTORY": ".folder",
    "Evidence": ".office",
    "Office": ".office",
    "Storage": ".journal",
    "Unavailable": ".journal",
    "create_state_dir": ".folder",
    "evidence_locked": ".folder",
    "held": ".folder",
    "locked": ".folder",
    "open_journal": ".folder",
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
