"""What all commands share: the state directory, the door, printing, and leaving with a code."""

import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TextIO

import click
import orjson

from ...authority import (
    BOUNDARIES,
    BoundaryMissing,
    Office,
    Unavailable,
    create_state_dir,
    open_authority,
    open_office,
)
from ...contracts import BY_WIRE, FAILURES, Exit, Reason, Transport
from .state_place import StatePlace, chosen

if TYPE_CHECKING:
    from ...authority import LocalClient
    from ...authority.service import client

Text = Callable[[dict[str, Any]], str]  # an answer for people


class Session:
    """One run of a command: where it works, and how it speaks."""

    def __init__(self, place: StatePlace, boundary: str | None, *, as_json: bool) -> None:
        self.place = place
        self.state_dir = Path(place.path)
        self.boundary = boundary
        self.as_json = as_json
        self._opened: list[client.Client | LocalClient] = []
        self._done_as: str | None = None  # what was asked for last, by name

    def office(self, *, writable: bool = True) -> Office:
        """The authority of the state directory in this process, for what is no request."""
        return open_office(self.state_dir, self.boundary, writable=writable)

    def open(
        self, transport: Transport, *, writable: bool = True, frozen_clock: bool = False
    ) -> "client.Client | LocalClient":
        """Who answers requests through this door: the sidecar, where one serves."""
        opened = open_authority(
            self.state_dir,
            transport,
            boundary=self.boundary,
            writable=writable,
            frozen_clock=frozen_clock,
        )
        self._opened.append(opened)
        return opened

    @property
    def left_behind(self) -> str | None:
        """Why what was committed has no evidence yet; a sidecar sees to its own."""
        return next((why for each in self._opened if (why := each.left_behind)), None)

    def own_up(self) -> None:
        """Say of what is done that its evidence is missing, so that no caller repeats it."""
        if self.left_behind is None:
            return
        done = f"committed as {self._done_as}" if self._done_as else "it is committed"
        words = f"{done}; evidence is behind until there is room: {self.left_behind}"
        click.echo(f"warning: {words} (do not repeat it)", err=True)
        raise LeaveCommand(Exit.EVIDENCE_BEHIND)

    def settle(self, journal_url: str | None) -> None:
        """Make the state directory, if a command names the journal that it is to have."""
        if journal_url is not None:
            create_state_dir(self.state_dir, "local", journal_url)

    def ask(
        self,
        action: str,
        payload: dict[str, Any],
        context: dict[str, Any] | None = None,
        *,
        writable: bool = True,
        transport: Transport = "cli",
    ) -> dict[str, Any]:
        """One request through this door, and its answer."""
        try:
            with self.open(transport, writable=writable) as authority:
                return authority.ask(action, payload, context)
        except ValueError as error:
            raise click.UsageError(f"an argument is no text or number: {error}") from None

    def read(self, action: str, payload: dict[str, Any], text: Text) -> None:
        """Ask what changes nothing, and print the answer."""
        self.finish(self.ask(action, payload, writable=False), text)

    def finish(self, answer: dict[str, Any], text: Text) -> None:
        """Print an answer, and leave with the code of its first failure class."""
        issue = answer.get("issue")
        self._done_as = issue["id"] if isinstance(issue, dict) else f"row {answer.get('seq')}"
        if self.as_json:
            behind = self.left_behind
            print_json(answer if behind is None else answer | {"evidenceBehind": behind})
        elif answer["result"] == "accepted":
            if said := text(answer):
                click.echo(said)
        else:
            classes = ", ".join(answer["failureClasses"])
            click.echo(f"error: {answer['diagnostic']} ({classes})", err=True)
        if answer["result"] != "accepted":
            raise LeaveCommand(FAILURES[BY_WIRE[answer["failureClasses"][0]]].exit)

    def accept(self, text: str, /, **members: object) -> None:
        """Say that a command did what it was told; the members are for programs."""
        self.finish({"result": "accepted", "failureClasses": [], **members}, lambda _: text)

    def refuse(self, code: int, failure: str | None, diagnostic: str, **more: object) -> NoReturn:
        """Say why a command cannot do what it was told, and leave with this code."""
        if self.as_json:
            classes = [failure] if failure else []
            refusal = {"result": "rejected", "failureClasses": classes, "diagnostic": diagnostic}
            print_json(refusal | more)
        else:
            click.echo(f"error: {diagnostic}", err=True)
        raise LeaveCommand(code)


class LeaveCommand(Exception):
    """End the command with this exit code; everything has been said."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = int(code)


def common(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options that all commands have, and a `Session` in their place."""

    @click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
    @click.option("--state-dir", metavar="DIR", help="Where the journal lives.")
    @click.option("--boundary", metavar="MODE", help="Who decides.")
    @click.pass_context
    @wraps(command)
    def wrapped(
        ctx: click.Context,
        /,
        *args: Any,
        as_json: bool,
        state_dir: str | None,
        boundary: str | None,
        **options: Any,
    ) -> Any:
        root = ctx.find_root().obj or {}
        boundary = boundary or root.get("boundary")
        if boundary not in (None, *BOUNDARIES):
            raise click.UsageError(f"no boundary `{boundary}`; there is {', '.join(BOUNDARIES)}")
        place = chosen(state_dir or root.get("state_dir"))
        ctx.ensure_object(dict)
        ctx.find_root().obj = root | {"as_json": as_json}
        session = Session(place, boundary, as_json=as_json)
        try:
            result = command(session, *args, **options)
        except BoundaryMissing as error:
            raise click.UsageError(str(error)) from None
        session.own_up()
        return result

    return wrapped


def print_json(value: object, *, to: TextIO | None = None) -> None:
    try:
        line = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        # A path or an argument that is not UTF-8, for which JSON has no spelling.
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        line = text.encode(errors="replace")
    print_bytes(line + b"\n", to=to)


def print_bytes(data: bytes, *, to: TextIO | None = None) -> None:
    """Standard output, or another stream; our parent may have closed it."""
    stream = sys.stdout if to is None else to
    if stream is not None:
        stream.buffer.write(data)
        stream.buffer.flush()


def run(cli: click.Group, arguments: Sequence[str] | None) -> int:
    """Run a command; whatever goes wrong becomes a message and an exit code, never a traceback."""
    as_json = "--json" in (sys.argv[1:] if arguments is None else arguments)
    try:
        cli.main(arguments, prog_name="understudy", standalone_mode=False)
    except LeaveCommand as leave:
        return leave.code
    except Unavailable as error:
        failure = FAILURES[error.reason]
        _complain(failure.wire, str(error), as_json=as_json)
        return failure.exit
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as wrong:
        advised = _advised(wrong)
        if as_json:
            _complain(Reason.REQUEST_INVALID.wire, advised.format_message(), as_json=True)
        else:
            advised.show()
        return Exit.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("interrupted", err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; there is no one left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return Exit.FAILED
    except OSError as error:
        _complain("os_error", f"{error.filename or ''}: {error.strerror or error}", as_json=as_json)
        return Exit.FAILED
    return Exit.OK


def _advised(error: click.ClickException) -> click.ClickException:
    """Commands know --json, and groups of them do not; the nearest option would be bad advice."""
    if not isinstance(error, click.NoSuchOption) or error.option_name != "--json":
        return error
    if error.ctx is None or not isinstance(error.ctx.command, click.Group):
        return error
    advice = "--json goes behind the command: understudy issue list --json"
    return click.UsageError(advice, error.ctx)


def _complain(wire: str, message: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"result": "rejected", "failureClasses": [wire], "diagnostic": message})
    else:
        click.echo(f"error: {message} ({wire})", err=True)
