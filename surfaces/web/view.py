"""One request as the pages see it: who asks, for what, and the desk that knows."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from .desk import ConsoleDesk, DeskTime
from .markup import Markup
from .sessions import Visitor
from .tasks import ProofTasks


class PageView(NamedTuple):
    """What a page is made from."""

    desk: ConsoleDesk
    visitor: Visitor
    request: Request
    time: DeskTime
    tasks: ProofTasks

    def asked(self, name: str, default: str = "") -> str:
        """A filter in the URL, without blanks around it."""
        return self.request.query_params.get(name, default).strip()

    def asked_number(self, name: str) -> int | None:
        """A number in the URL; None where there is none."""
        text = self.asked(name)
        return int(text) if text.isdecimal() and len(text) <= 16 else None

    @property
    def here(self) -> str:
        """This page's own address, to come back to."""
        query = self.request.url.query
        return f"{self.request.url.path}?{query}" if query else self.request.url.path


class Page(NamedTuple):
    """What a page shows: the part between head and foot, and its title."""

    title: str
    main: Markup
    status: int = 200


Render = Callable[[PageView], Awaitable[Page | Response]]
