"""Options that several commands share, and how they become payloads and contexts."""

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from ...contracts import canonical

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

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

holder = stack(
    click.option("--assignee", help="Who holds the lease."),
    click.option("--lease-id", help="The lease's id, from the claim."),
    click.option("--fence", type=int, help="The fence, from the claim."),
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


_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def span_ms(text: str) -> int:
    """A time as people write it, in milliseconds: `500ms`, `90s`, `10m`, `1h` or `2d`."""
    found = re.fullmatch(r"([0-9]{1,12})(ms|s|m|h|d)", text)
    if found is None:
        raise click.BadParameter(f"{text!r} is no time; write 90s, 10m or 1h")
    return int(found[1]) * _UNITS[found[2]]


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


def read_document(path: Path) -> dict[str, Any]:
    """A JSON object from a file."""
    try:
        document = canonical.decode(path.read_bytes())
    except canonical.NotCanonical as error:
        raise click.UsageError(f"{path}: {error}") from None
    if not isinstance(document, dict):
        raise click.UsageError(f"{path}: this is no object")
    return document


def json_object(text: str) -> dict[str, Any]:
    """A JSON object from an option or a line."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"not JSON: {error}") from None
    if not isinstance(value, dict):
        raise click.UsageError("a JSON object is wanted")
    return value


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
