"""`understudy spec`: documents of steps that become jobs, and how far each has come."""

from collections import Counter
from pathlib import Path
from typing import Any

import click

from .. import known_ids
from ..options import (
    acting,
    context,
    duration_ms,
    lease_by,
    mutation,
    payload,
    read_file,
    read_stdin,
    spec_id,
)
from ..request import Answer, change, read
from ..session import Session, common
from ..spec_file import read_spec

_holder = lease_by("runner", "spec")


@click.group()
def spec() -> None:
    """Submit specs, whose steps become jobs, each one once.

    A spec is a YAML or JSON document. Chain runners make the jobs: `understudy up --specs`, or by
    hand with claim, materialize and release. A runner's lease that has lapsed is taken over.

    \b
    understudy spec submit nightly.yaml
    understudy spec status nightly
    understudy spec claim nightly --as r1
    understudy spec materialize nightly root test --as r1 --lease-id LEASE --fence FENCE
    """


@spec.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, allow_dash=True))
@click.option("--id", "spec_id", help="Submit it under this id, instead of the file's specId.")
@acting("author", "--author", help="The node that submits.  [the owner]")
@mutation
@common
def submit(session: Session, file: Path, **options: Any) -> None:
    """Submit the spec in FILE, or - for standard input; submitted again, it is left as it is.

    \b
    specId: nightly
    title: Build and test
    steps:
      - {stepKey: root, kind: ci.build, inputs: {ref: main}}
      - {stepKey: test, kind: ci.test, dependsOn: [root]}
    """
    given = payload(options)
    stdin = str(file) == "-"
    text = read_stdin() if stdin else read_file(file)
    document = read_spec(text, "<stdin>" if stdin else str(file), given)
    answer = session.ask("spec.submit", document, context(options))
    session.finish(answer, lambda said: _line(said["spec"]))


@spec.command()
@click.argument("spec_id", required=False, shell_complete=known_ids.specs)
@common
def status(session: Session, spec_id: str | None) -> None:
    """Show how far SPEC_ID has come, step by step; without it, all specs."""
    if spec_id is None:
        session.read("spec.list", {"query": "all"}, _page)
        return
    session.read("spec.show", {"specId": spec_id}, lambda said: _detail(said["spec"]))


@spec.command("list")
@click.option(
    "--query",
    type=click.Choice(["open", "all"]),
    help="What a runner can claim now, or all.  [open]",
)
@click.option("--cursor", help="Where the page before ended.")
@click.option("--limit", type=int, help="Specs on a page, up to 256.  [64]")
@read("spec.list")
def list_(said: Answer) -> str:
    """List specs, the oldest first, a page at a time."""
    return _page(said)


@spec.command()
@spec_id
@acting("runner", "--runner", required=True, help="Who takes it.")
@duration_ms("60s")
@click.option("--lease-id", help="The lease's id, for more time.")
@click.option("--fence", type=int, help="The fence of your claim, for more time.")
@change("spec.claim")
def claim(said: Answer) -> str:
    """Take SPEC_ID; or, with the fence of your claim, keep it longer."""
    one = said["spec"]
    lease = one["lease"]
    lines = [_line(one), f"  fence    {lease['fence']}", f"  lease    {lease['leaseId']}"]
    return "\n".join([*lines, f"  missing  {' '.join(one['missing'])}"])


@spec.command()
@spec_id
@click.argument("step_keys", nargs=-1, required=True)
@_holder
@change("spec.materialize")
def materialize(said: Answer) -> str:
    """Make the jobs of STEP_KEYS of SPEC_ID, which you hold; those that exist are left alone."""
    lines = [f"made     {each}" for each in said["created"]]
    lines += [f"existed  {each}" for each in said["existing"]]
    return "\n".join([*lines, _line(said["spec"])])


@spec.command()
@spec_id
@click.option("--reason", help="Why, for the next runner.")
@_holder
@change("spec.release")
def release(said: Answer) -> str:
    """Give SPEC_ID back."""
    return _line(said["spec"])


# --- text for people ------------------------------------------------------------------------------


def _line(one: dict[str, Any]) -> str:
    words = [one["specId"], one["state"], f"{one['createdCount']}/{one['stepCount']} jobs"]
    if lease := one.get("lease"):
        words.append(f"[{lease['owner']}, fence {lease['fence']}, {lease['state']}]")
    return "  ".join([*words, *(one[name] for name in ("title", "reason") if name in one)])


def _detail(one: dict[str, Any]) -> str:
    counts = Counter(each.get("state", "no job") for each in one["steps"])
    told = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
    width = max(len(each["stepKey"]) for each in one["steps"])
    return "\n".join([_line(one), f"  {told}", *(_step(each, width) for each in one["steps"])])


def _step(one: dict[str, Any], width: int) -> str:
    state = one.get("state", "-") + (", dispatched" if one.get("dispatched") else "")
    words = [one["stepKey"].ljust(width), state, one["kind"]]
    if one["dependsOn"]:
        words.append(f"after {', '.join(one['dependsOn'])}")
    return "  " + "  ".join(words)


def _page(said: dict[str, Any]) -> str:
    lines = [_line(each) for each in said["specs"]] or ["nothing"]
    if "cursor" in said:
        lines.append(f"more: --cursor {said['cursor']}")
    return "\n".join(lines)
