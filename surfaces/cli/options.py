"""Options that several commands share, and how they become payloads and contexts."""

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ...contracts import canonical, limits, regular_file

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

FILE = click.Path(path_type=Path, exists=True, readable=True, dir_okay=False)
_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000}
_CONTEXT = ("policy_digest", "instruction_ref", "capability_claims")


def stack(*options: Decorator) -> Decorator:
    """Several options as one decorator, in the order in which `--help` shows them."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


evidence = stack(
    click.option("--policy-digest", help="The policy that this change is bound to."),
    click.option("--instruction", "instruction_ref", help="The instruction behind this change."),
    click.option(
        "--capability", "capability_claims", multiple=True, help="A capability that you claim."
    ),
)

mutation = stack(
    click.option("--request-id", help="The same id with the same arguments gets the same answer."),
    evidence,
)


def lease_by(role: str, what: str) -> Decorator:
    """The lease of a holder in this role on such a thing."""
    return stack(
        click.option(f"--{role}", help=f"Who holds the {what}."),
        click.option("--lease-id", help="The lease's id, from the claim."),
        click.option("--fence", type=int, help="The fence, from the claim."),
    )


holder = stack(
    lease_by("assignee", "lease"),
    click.option("--sublease-id", help="Act under this sublease."),
)

journal = click.option(
    "--journal",
    "journal_url",
    metavar="URL",
    help="postgresql://...: where the journal is, if it is no file.",
)

duration = stack(
    click.option(
        "--ttl", "lease_ttl_seconds", type=int, help="Seconds to hold it, 30 to 86400.  [3600]"
    ),
    click.option("--expires-at", "lease_expires_at", help="Hold it until this RFC 3339 moment."),
)


def span_ms(text: str) -> int:
    """The type of an option that is a time: 90, 90s, 10m or 1h, in milliseconds."""
    found_ms = _time_ms(text)
    if found_ms is None:
        raise click.BadParameter(f"`{text}` is no time such as 90s, 10m or 1h")
    return found_ms


def seconds_up_to(seconds_max: int) -> Callable[[str], int]:
    """The type of an option that is a time: 90, 90s, 10m or 1h, and no longer than that."""

    def seconds(text: str) -> int:
        found_ms = span_ms(text)
        if found_ms > seconds_max * 1_000:
            raise click.BadParameter(f"{text} is longer than {seconds_max} s")
        return found_ms // 1_000

    return seconds


def pauses(text: str) -> tuple[int, int]:
    """The type of an option `5s`, or `5s..5m`: the first pause and the longest, in milliseconds."""
    first, _, last = text.partition("..")
    low, high = _time_ms(first), _time_ms(last or first)
    if low is None or high is None or low > high:
        raise click.BadParameter(f"{text!r} is no pause: say 5s, or 5s..5m")
    return low, high


def _time_ms(text: str) -> int | None:
    """A time such as 90s, 10m or 1h; a number alone is seconds."""
    match = re.fullmatch(r"([0-9]{1,9})(ms|s|m|h)?", text.strip())
    return int(match[1]) * _UNITS_MS[match[2] or "s"] if match else None


def payload(options: dict[str, Any]) -> dict[str, Any]:
    """The options that were given, as the members of a payload."""
    return {
        _camel(name): list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if name not in _CONTEXT and value is not None and value != ()
    }


def context(options: dict[str, Any]) -> dict[str, Any]:
    """The evidence that a change brings along."""
    return {
        _camel(name): list(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if name in _CONTEXT and value
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
