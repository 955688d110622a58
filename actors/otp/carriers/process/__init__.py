"""Cells as processes, carried by Thespian. `system` is what a program starts.

system          what a program holds        host         the process behind it
thespian_actor  the Thespian actor          cell         the cell in it
private_socket  who can connect             signed_mail  whose messages are opened
hooks           what Thespian does wrong, and how it is stopped from doing so
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .frames import NotImportable as NotImportable
    from .system import AlreadyRunning as AlreadyRunning
    from .system import StartupFailed as StartupFailed
    from .system import SystemEnded as SystemEnded
    from .system import Troupe as Troupe
    from .system import end_by_force as end_by_force

__all__ = [
    "AlreadyRunning",
    "NotImportable",
    "StartupFailed",
    "SystemEnded",
    "Troupe",
    "end_by_force",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = ".frames" if name == "NotImportable" else ".system"
    return getattr(import_module(home, __name__), name)
