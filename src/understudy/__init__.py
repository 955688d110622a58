"""Understudy: exactly one worker holds each piece of work, and every decision can be replayed.

    with understudy.Office(Path(".premath")) as office:
        answer = office.ask("issue.claim", {"id": "us-1", "assignee": "alice"})

Public names are imported when they are first used, so that the command line starts fast.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` would be a third of a fast command
if TYPE_CHECKING:
    from .authority.journal.journal import Unavailable as Unavailable
    from .authority.journal.state_dir import create_state_dir as create_state_dir
    from .authority.service.local import Office as Office
    from .authority.views.replay import replay as replay
    from .contracts.reason import Reason as Reason

__version__ = "0.1.0"

_HOMES = {
    "Office": ".authority.service.local",
    "Reason": ".contracts.reason",
    "Unavailable": ".authority.journal.journal",
    "create_state_dir": ".authority.journal.state_dir",
    "replay": ".authority.views.replay",
}

__all__ = ["Office", "Reason", "Unavailable", "__version__", "create_state_dir", "replay"]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
