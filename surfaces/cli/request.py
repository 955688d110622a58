"""Commands that are one request: the function that is decorated says the answer as text."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from .options import Decorator, context, holder, mutation, payload, stack, with_holder
from .session import Session, common

Answer = dict[str, Any]


def read(action: str) -> Decorator:
    """A command that changes nothing."""
    return _command(lambda session, given: session.ask(action, payload(given), writable=False))


def change(action: str) -> Decorator:
    """A command with the options that all changes have."""
    return _command(
        lambda session, given: session.ask(action, payload(given), context(given)), mutation
    )


def held_change(
    action: str, *more: Decorator, by: Decorator = holder, escalated: bool = False
) -> Decorator:
    """A change by the holder of a lease; an escalated one goes through the MCP door."""

    def ask(session: Session, given: dict[str, Any]) -> Answer:
        given = with_holder(given)
        asked, evidence = payload(given), context(given)
        if not escalated:
            return session.ask(action, asked, evidence)
        return session.ask(action, asked, evidence | {"escalatedFrom": "cli"}, transport="mcp")

    return _command(ask, by, *more, mutation)


def _command(ask: Callable[[Session, dict[str, Any]], Answer], *options: Decorator) -> Decorator:
    def decorate(text: Callable[[Answer], str]) -> Callable[..., Any]:
        @stack(*options)
        @common
        @wraps(text)
        def command(session: Session, **given: Any) -> None:
            session.finish(ask(session, given), text)

        return command

    return decorate
