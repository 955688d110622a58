"""Understudy: exactly one worker holds each piece of work, and every decision can be replayed.

    with understudy.Office(Path(".premath")) as office:
        answer = office.ask("issue.claim", {"id": "us-1", "assignee": "alice"})

`Office` is the authority in this process, `Client` and `AsyncClient` ask a sidecar. Public names
are imported when they are first used, so that the command line starts fast.
"""

from importlib import import_module

TYPE_CHECKING = False  # `typing` would be a third of a fast command
if TYPE_CHECKING:
    from .authority.journal.journal import Unavailable as Unavailable
    from .authority.journal.state_dir import create_state_dir as create_state_dir
    from .authority.service.client import AsyncClient as AsyncClient
    from .authority.service.client import Call as Call
    from .authority.service.client import Client as Client
    from .authority.service.local import Office as Office
    from .authority.views.replay import replay as replay
    from .contracts.reason import Reason as Reason

__version__ = "0.1.0"

_HOMES = {
    "AsyncClient": ".authority.service.client",
    "Call": ".authority.service.client",
    "Client": ".authority.service.client",
    "Office": ".authority.service.local",
    "Reason": ".contracts.reason",
    "Unavailable": ".authority.journal.journal",
    "create_state_dir": ".authority.journal.state_dir",
    "replay": ".authority.views.replay",
}

__all__ = [
    "AsyncClient",
    "Call",
    "Client",
    "Office",
    "Reason",
    "Unavailable",
    "__version__",
    "create_state_dir",
    "replay",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    """What `help` and completion show."""
    return sorted({*globals(), *__all__})
