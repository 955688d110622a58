"""Options that several commands share, and how they become payloads and contexts."""

import json
import os
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import click

from ...contracts import canonical, limits, regular_file, rfc3339
from ...contracts import milliseconds as amount_ms
from . import evidence as kept
from . import known_ids

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path, exists=True, readable=True, dir_okay=False)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_TIME = re.compile(r"((?:[0-9]{1,9})?(?:\.[0-9]{1,9})?(?<=[0-9]))(ms|s|m|h)?")


def stack(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which `--help` shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


evidence = stack(
    *(
        click.option(option, name, multiple=name.endswith("s"), hidden=True)
        for name, (option, _) in kept.OPTIONS.items()
    ),
    kept.help_evidence,
)

mutation = stack(
    click.option("--request-id", help="The same id with the same arguments gets the same answer."),
    evidence,
)

journal = click.option(
    "--journal",
    "journal_url",
    metavar="URL",
    help="postgresql://...: where the journal is, if it is no file.",
)

# --- who asks, and about what ---------------------------------------------------------------------

issue_id = click.argument("id", shell_complete=known_ids.issues)
job_id = click.argument("job_id", shell_complete=known_ids.jobs)
spec_id = click.argument("spec_id", shell_complete=known_ids.specs)
schedule_id = click.argument("schedule_id", shell_complete=known_ids.schedules)
node_name = click.argument("node", shell_complete=known_ids.nodes)
about_issue = click.option(
    "--issue", "issue_id", shell_complete=known_ids.issues, help="The issue that it is about."
)


class Respelled(click.Option):
    """An option that is taken under its old names as well; no help and no shell shows them."""

    def __init__(self, *words: Any, once: tuple[str, ...] = (), **settings: Any) -> None:
        super().__init__(*words, **settings)
        self._once = once

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        shown, self.opts = self.opts, [*self.opts, *self._once]
        super().add_to_parser(parser, ctx)
        self.opts = shown


def acting(member: str, *once: str, **settings: Any) -> Decorator:
    """`--as NAME`: who asks, under the name that the payload has for it."""
    settings = {"metavar": "NAME", "shell_complete": known_ids.holders} | settings
    return click.option("--as", member, cls=Respelled, once=once, **settings)


def lease_by(role: str, what: str, *once: str) -> Decorator:
    """The lease of a holder in this role on such a thing."""
    return stack(
        acting(role, *(once or [f"--{role}"]), help=f"Who holds the {what}."),
        click.option("--lease-id", help="The lease's id, from the claim."),
        click.option("--fence", type=int, help="The fence, from the claim."),
    )


holder = stack(
    lease_by("assignee", "lease"),
    click.option("--sublease-id", help="Act under this sublease."),
)

# --- times ----------------------------------------------------------------------------------------


class TimeSpan(click.ParamType[int]):
    """A time such as 90s, 10m or 1h, as a whole number of units; a number alone is seconds."""

    name = "time"

    def __init__(self, unit: str, least: str = "0s", most: str | None = None) -> None:
        self._unit, self._least, self._most = unit, least, most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found_ms = _time_ms(value)
        if found_ms is None:
            self.fail(f"`{value}` is no time such as 90s, 10m or 1h", param, ctx)
        if self._most and found_ms > (_time_ms(self._most) or 0):
            self.fail(f"{value} is longer than {self._most}", param, ctx)
        if found_ms < (_time_ms(self._least) or 0):
            self.fail(f"{value} is shorter than {self._least}", param, ctx)
        count, rest = divmod(found_ms, _UNITS_MS[self._unit])
        if rest:
            self.fail(f"{value} is no whole number of seconds", param, ctx)
        return count


def seconds(least: str = "0s", most: str | None = None) -> TimeSpan:
    """The type of a time that is counted in seconds."""
    return TimeSpan("s", least, most)


def milliseconds(least: str = "0s", most: str | None = None) -> TimeSpan:
    """The type of a time that is counted in milliseconds."""
    return TimeSpan("ms", least, most)


TTL = seconds(f"{limits.TTL_SECONDS_MIN}s", f"{limits.TTL_SECONDS_MAX}s")
GRACE = seconds(most="1h")

duration = stack(
    click.option(
        "--ttl", "lease_ttl_seconds", type=seconds(), help="Hold it so long, 30s to 24h.  [1h]"
    ),
    click.option("--expires-at", "lease_expires_at", help="Hold it until this RFC 3339 moment."),
)


_OLD_MS = "duration in milliseconds"  # given in its old spelling, which is read first


def duration_ms(usual: str) -> Decorator:
    """How long a job, a spec or a dispatch is held."""
    return stack(
        click.option(
            "--ttl",
            "lease_duration_ms",
            type=milliseconds(),
            callback=lambda ctx, _, value: ctx.meta.get(_OLD_MS) if value is None else value,
            help=f"Hold it so long, such as 90s.  [{usual}]",
        ),
        click.option(
            "--duration-ms",
            type=int,
            hidden=True,
            expose_value=False,
            callback=lambda ctx, _, value: ctx.meta.update({_OLD_MS: value}),
        ),
    )


def pauses(text: str) -> tuple[int, int]:
    """The type of an option `5s`, or `5s..5m`: the first pause and the longest, in milliseconds."""
    first, _, last = text.partition("..")
    low, high = _time_ms(first), _time_ms(last or first)
    if low is None or high is None or low > high:
        raise click.BadParameter(f"{text!r} is no pause: say 5s, or 5s..5m")
    return low, high


def exact_ms(text: str) -> int:
    """The type of an option that is an amount of time; a number alone is seconds, as reported."""
    if not text[-1:].isalpha():
        return amount_ms(text)
    found_ms = _time_ms(text)
    if found_ms is None:
        raise ValueError(f"`{text}` is no time such as 90s, 10m or 1h")
    return found_ms


def moment_ms(text: str) -> int:
    """The type of an option that is a moment of RFC 3339."""
    found_ms = rfc3339.parse_ms(text)
    if found_ms is None:
        raise click.BadParameter(f"{text}: give a moment such as 2027-01-15T08:00:00Z")
    return found_ms


def _time_ms(text: str) -> int | None:
    """A time such as 90s, 10m or 1h; a number alone is seconds."""
    match = _TIME.fullmatch(text.strip())
    return round(Decimal(match[1]) * _UNITS_MS[match[2] or "s"]) if match else None


# --- payloads and contexts ------------------------------------------------------------------------


def payload(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as the members of a payload."""
    return {
        _camel(name): list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if name not in kept.OPTIONS and value is not None and value != ()
    }


def context(options: dict[str, Any]) -> dict[str, Any]:
    """The evidence that a change brings along."""
    return {
        _camel(name): list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if name in kept.OPTIONS and value
    }


def with_holder(options: dict[str, Any]) -> dict[str, Any]:
    """Fill in the holder from the environment that a worker is started with.

    Only for the issue or job that the worker was started for: its fence says nothing about others.
    """
    owner = "worker" if "job_id" in options else "assignee"
    family, name = ("JOB", "job_id") if "job_id" in options else ("ISSUE", "id")
    if os.environ.get(f"UNDERSTUDY_{family}") != options.get(name):
        return options
    fence = os.environ.get("UNDERSTUDY_FENCE", "")
    known = {
        owner: os.environ.get(f"UNDERSTUDY_{owner.upper()}"),
        "lease_id": os.environ.get("UNDERSTUDY_LEASE"),
        "fence": int(fence) if fence.isdecimal() else None,
    }
    given = {name: value for name, value in options.items() if value is not None}
    return known | given


def read_file(path: Path, bytes_max: int = limits.REQUEST_BYTES_MAX) -> bytes:
    """What is in a file that a caller names."""
    try:
        return regular_file.read(path, bytes_max)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None


def read_stdin() -> bytes:
    """What stands on standard input, which may be closed."""
    try:
        stdin = sys.stdin
        return regular_file.read_stream(stdin.buffer, limits.REQUEST_BYTES_MAX) if stdin else b""
    except OSError as error:
        raise click.UsageError(f"standard input: {error.strerror}") from None


def read_document(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        document = canonical.decode(read_file(path))
    except canonical.NotCanonical as error:
        raise click.UsageError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise click.UsageError(f"{path}: this is no object")
    return document


def json_object(text: str | bytes, place: str = "") -> dict[str, Any]:
    """A JSON object from an option, or from a line at such a place."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{place}not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError(f"{place}a JSON object is wanted")
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
