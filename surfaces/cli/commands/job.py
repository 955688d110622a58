"""`understudy job`, `route`, `coordinator` and `node`: jobs of a mesh, and who does which."""

import json
from pathlib import Path
from typing import Any

import click

from ....contracts import rfc3339
from .. import known_ids
from ..options import (
    FILE,
    acting,
    context,
    duration_ms,
    job_id,
    json_object,
    lease_by,
    milliseconds,
    moment_ms,
    mutation,
    payload,
    read_file,
    with_holder,
)
from ..render import withheld, withheld_job
from ..request import Answer, change, held_change, read
from ..session import Session, common
from .job_log import log

_holder = lease_by("worker", "job")
_dispatcher = lease_by("dispatcher", "job")


@click.group()
def job() -> None:
    """Schedule jobs, claim them for a time, complete them once.

    A claim is a lease with a fence; its holder gets more time by claiming again with the fence.
    Once the deadline has passed, anybody may expire the claim, and the job is pending again.

    \b
    understudy job schedule build --kind ci.build --payload '{"ref": "main"}'
    understudy job schedule test --kind ci.test --after build
    understudy job roster --as w1
    understudy job claim build --as w1 --ttl 60s
    understudy job complete build --as w1 --lease-id LEASE --fence FENCE
    """


@job.command()
@click.argument("job_id")
@click.option("--kind", required=True, help="What sort of work it is, such as ci.build.")
@click.option("--payload", "data", metavar="JSON", help="What the handler needs: a JSON object.")
@click.option(
    "--after",
    multiple=True,
    metavar="JOB",
    shell_complete=known_ids.jobs,
    help="Wait until this job is completed.",
)
@click.option("--dep", "causal_deps", multiple=True, metavar="OP", help="Wait for an operation.")
@acting("author", "--author", help="The node that schedules.  [the owner]")
@click.option("--priority", type=int, help="Small is urgent.  [2]")
@click.option(
    "--at", "run_at_ms", type=moment_ms, metavar="TIME", help="Not before this RFC 3339 moment."
)
@click.option(
    "--delay",
    "delay_ms",
    type=milliseconds(),
    help="Not before so long from now, such as 10m.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=milliseconds(),
    help="How long it may be held, such as 1h.",
)
@mutation
@common
def schedule(session: Session, data: str | None, after: tuple[str, ...], **options: Any) -> None:
    """Schedule JOB_ID; scheduled again, it is left as it is."""
    options["causal_deps"] = (*options["causal_deps"], *(f"complete/{each}" for each in after))
    asked = payload(options)
    if data is not None:
        asked["payload"] = json_object(data)
    answer = session.ask("job.schedule", asked, context(options))
    session.finish(answer, lambda said: _line(said["job"]))


@job.command()
@job_id
@acting("worker", "--worker", required=True, help="Who takes it.")
@duration_ms("1h")
@click.option("--lease-id", help="The lease's id, for more time.")
@click.option("--fence", type=int, help="The fence of your claim, for more time.")
@change("job.claim")
def claim(said: Answer) -> str:
    """Take JOB_ID; or, with the fence of your claim, keep it longer."""
    one = said["job"]
    lease = one["lease"]
    lines = [
        _line(one),
        f"  fence   {lease['fence']}",
        f"  lease   {lease['leaseId']}",
        f"  claim   {lease['claim']}",
    ]
    if late := one.get("quarantined"):
        lines.append(f"  late    {late['worker']} left a result; complete with --adopt to take it")
    return "\n".join(lines)


@job.command()
@job_id
@click.option(
    "--artifact", "artifacts", multiple=True, metavar="JSON", help="An artefact it produced."
)
@click.option("--adopt", is_flag=True, help="Take over the late result of an earlier holder.")
@_holder
@mutation
@common
def complete(session: Session, artifacts: tuple[str, ...], **options: Any) -> None:
    """JOB_ID, which you hold, is done."""
    asked = payload(with_holder(options))
    if artifacts:
        asked["outputArtifacts"] = [json_object(each) for each in artifacts]
    answer = session.ask("job.complete", asked, context(options))
    session.finish(answer, _completed)


@job.command("yield")
@job_id
@click.option("--reason", help="Why, for the next holder.")
@held_change("job.yield", by=_holder)
def yield_(said: Answer) -> str:
    """Give JOB_ID back."""
    return _line(said["job"])


@job.command()
@job_id
@acting("worker", "--worker", required=True, help="Who expires it.")
@click.option("--claim", required=True, help="The claim, as the roster names it.")
@click.option("--fence", type=int, required=True, help="Its fence.")
@change("job.expire")
def expire(said: Answer) -> str:
    """Free JOB_ID, whose claim has lapsed."""
    return _line(said["job"])


@job.command()
@click.argument("file", type=FILE)
@mutation
@common
def admit(session: Session, file: Path, **options: Any) -> None:
    """Admit the operations in FILE together, a JSON object a line, in the order of their stamps."""
    lines = enumerate(read_file(file).split(b"\n"), 1)
    found = [json_object(each, f"{file}, line {at}: ") for at, each in lines if each.strip()]
    asked = payload(options) | {"operations": found}
    answer = session.ask("job.admit", asked, context(options))
    session.finish(answer, lambda said: "\n".join(map(_admitted, said["operations"])))


@job.command()
@job_id
@read("job.show")
def show(said: Answer) -> str:
    """Show one job whole."""
    one = said["job"]
    lines = [_line(one), f"  payload   {json.dumps(one['payload'])}"]
    lines += [f"  artefact  {each['artifactId']}" for each in one["artifacts"]]
    return "\n".join(lines)


@job.command()
@click.option(
    "--query",
    type=click.Choice(["pending", "overdue", "waiting", "claimed", "delayed"]),
    help="What can be claimed, expired, has to wait, is held, or comes later.  [pending]",
)
@click.option("--kind", help="Jobs of this kind, or with a dot at its end of all below it.")
@acting("worker", "--worker", help="Only what the routes let you claim, or what you hold.")
@click.option("--cursor", help="Where the page before ended.")
@click.option("--limit", type=int, help="Jobs on a page, up to 256.  [64]")
@read("job.roster")
def roster(said: Answer) -> str:
    """List jobs, a page at a time."""
    limited = ", ".join(said.get("limited", ()))
    why = f"at their limit: {limited}; `understudy limit list` shows it"
    return "\n".join([_page(said), *([why] if limited else []), *withheld(said)])


@job.command("list")
@click.option(
    "--state",
    type=click.Choice(["pending", "claimed", "completed", "waiting", "blocked", "cancelled"]),
)
@click.option("--kind", help="Jobs of this kind, or with a dot at its end of all below it.")
@click.option("--cursor", help="Where the page before ended.")
@click.option("--limit", type=int, help="Jobs on a page, up to 256.  [64]")
@read("job.list")
def list_(said: Answer) -> str:
    """List all jobs in the order in which they were scheduled, a page at a time."""
    return _page(said)


@job.group()
def dispatch() -> None:
    """Hand on the jobs of specs that are free to run, each one once.

    Dispatchers do so by themselves: `understudy up --specs`. A lease that has lapsed is taken
    over by the next claim.
    """


@dispatch.command("claim")
@job_id
@acting("dispatcher", "--dispatcher", required=True, help="Who hands it on.")
@duration_ms("60s")
@click.option("--lease-id", help="The lease's id, for more time.")
@click.option("--fence", type=int, help="The fence of your claim, for more time.")
@change("dispatch.claim")
def claim_dispatch(said: Answer) -> str:
    """Take JOB_ID to hand it on; or, with the fence of your claim, keep it longer."""
    one = said["job"]
    lease = one["dispatchLease"]
    lines = [_line(one), f"  fence   {lease['fence']}", f"  lease   {lease['leaseId']}"]
    return "\n".join(lines)


@dispatch.command("complete")
@job_id
@click.option("--file", "file", required=True, help="Where the file of the job is.")
@click.option("--digest", required=True, help="The digest of what it holds.")
@_dispatcher
@change("dispatch.complete")
def complete_dispatch(said: Answer) -> str:
    """JOB_ID, which you hold, was handed on."""
    return _line(said["job"])


@dispatch.command("release")
@job_id
@click.option("--reason", help="Why, for the record.")
@_dispatcher
@change("dispatch.release")
def release_dispatch(said: Answer) -> str:
    """Give JOB_ID back, not handed on."""
    return _line(said["job"])


@dispatch.command("roster")
@click.option("--cursor", help="Where the page before ended.")
@click.option("--limit", type=int, help="Jobs on a page, up to 256.  [64]")
@read("dispatch.roster")
def dispatch_roster(said: Answer) -> str:
    """List the jobs that can be handed on now, the oldest first."""
    return _page(said)


job.add_command(log)


# --- text for people ------------------------------------------------------------------------------


def _line(one: dict[str, Any]) -> str:
    words = [one["jobId"], one["state"], one["kind"]]
    if lease := one.get("lease"):
        words.append(f"[{lease['owner']}, fence {lease['fence']}, {lease['state']}]")
    if lease := one.get("dispatchLease"):
        words.append(f"(handed on by {lease['owner']}, fence {lease['fence']}, {lease['state']})")
    if mark := one.get("dispatched"):
        words.append(f"dispatched to {mark['file']}")
    if waits := one.get("waitsFor"):
        words.append(f"waits for {', '.join(waits)}")
    if "priority" in one:
        words.append(f"P{one['priority']}")
    if "runAtMs" in one and one["state"] == "waiting":
        words.append(f"from {rfc3339.answer_text(one['runAtMs'])} on")
    if one["state"] in ("pending", "waiting", "blocked"):
        words += withheld_job(one)
    return "  ".join([*words, *([one["reason"]] if "reason" in one else [])])


def _completed(said: dict[str, Any]) -> str:
    freed = f"; free now: {', '.join(said['freed'])}" if "freed" in said else ""
    return f"completed {said['job']['jobId']}{freed}"


def _page(said: dict[str, Any]) -> str:
    lines = [_line(each) for each in said["jobs"]] or ["nothing"]
    if said.get("coordinator", {}).get("quiet"):
        lines.append(f"the coordinator {said['coordinator']['node']} is quiet")
    if "cursor" in said:
        lines.append(f"more: --cursor {said['cursor']}")
    return "\n".join(lines)


def _admitted(one: dict[str, Any]) -> str:
    return "  ".join([one["result"], one["kind"], one["author"], *one["failureClasses"]])
