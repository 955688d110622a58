"""`understudy schedule` and `limit`: jobs that come by themselves, and how many run at once."""

from itertools import islice
from pathlib import Path
from typing import Any

import click

from ....contracts import due, rfc3339, schedule_of
from .. import known_ids
from ..options import (
    FILE,
    context,
    json_object,
    milliseconds,
    moment_ms,
    mutation,
    payload,
    read_file,
    schedule_id,
)
from ..request import Answer, change, read
from ..session import Session, common
from ..spec_file import read_spec


@click.group()
def schedule() -> None:
    """Have jobs and specs made by themselves, one at each moment that is due.

    A tree with --schedules makes them, however many such trees there are.

    \b
    understudy schedule add "0 3 * * *" nightly.yaml --timezone Europe/Berlin
    understudy schedule add "every 10m" --id poll --kind feed.poll --payload '{"feed": 1}'
    understudy up --schedules --job 'feed.=./feed.sh'
    """


@schedule.command()
@click.argument("when")
@click.argument("file", type=FILE, required=False)
@click.option("--id", "schedule_id", help="Its name.  [the specId of FILE]")
@click.option("--kind", help="Make a job of this kind, instead of the spec in FILE.")
@click.option("--payload", "data", metavar="JSON", help="What its handler needs: a JSON object.")
@click.option("--priority", type=int, help="Of the job; small is urgent.  [2]")
@click.option(
    "--timeout",
    "timeout_ms",
    type=milliseconds(),
    help="How long it may be held, such as 90s.",
)
@click.option("--timezone", help="Of a cron line, such as Europe/Berlin.  [UTC]")
@click.option(
    "--missed",
    type=click.Choice(["skip", "one", "all"]),
    help="What is made up for after a pause: nothing, the last moment, or up to 100.  [one]",
)
@click.option(
    "--start",
    "start_ms",
    type=moment_ms,
    metavar="TIME",
    help="Not before this RFC 3339 moment.  [now]",
)
@mutation
@common
def add(session: Session, when: str, file: Path | None, **options: Any) -> None:
    """Make the spec in FILE, or a job of KIND, whenever WHEN says: a cron line, or "every 10m"."""
    job = {name: options.pop(name) for name in ("kind", "priority", "timeout_ms")}
    data = options.pop("data")
    asked = _when(when)
    if file is not None:
        spec = read_spec(read_file(file), str(file), {})
        asked["spec"] = {name: spec[name] for name in ("title", "steps") if name in spec}
        options["schedule_id"] = options["schedule_id"] or spec["specId"]
    if job["kind"] is not None:
        asked["job"] = payload(job) | ({"payload": json_object(data)} if data else {})
    if not options["schedule_id"]:
        raise click.UsageError("give it a name with --id, and say what it makes: FILE or --kind")
    answer = session.ask("schedule.set", payload(options) | asked, context(options))
    session.finish(answer, lambda said: _line(said["schedule"], said["stamp"]["wallMs"]))


@schedule.command()
@schedule_id
@change("schedule.clear")
def remove(said: Answer) -> str:
    """Forget SCHEDULE_ID; what it has made stays."""
    return f"removed {said['schedule']['scheduleId']}"


@schedule.command("list")
@read("schedule.list")
def list_(said: Answer) -> str:
    """List all schedules, with the moment at which each is due next."""
    now_ms = said["stamp"]["wallMs"]
    return "\n".join(_line(each, now_ms) for each in said["schedules"]) or "no schedules"


@schedule.command()
@schedule_id
@click.option("--due-ms", type=int, required=True, help="The moment, in ms since 1970.")
@change("schedule.fire")
def fire(said: Answer) -> str:
    """Make what SCHEDULE_ID makes for one moment; schedulers do so by themselves."""
    return f"made {said['job']['jobId'] if 'job' in said else said['spec']['specId']}"


@click.group()
def limit() -> None:
    """Limit how many jobs of a kind are held at once, how often one is claimed, and how long.

    \b
    understudy limit set ci. --concurrency 2 --timeout 1h
    understudy limit set mail.send --rate 30 --burst 5
    """


@limit.command("set")
@click.argument("kind")
@click.option("--concurrency", type=int, help="Jobs held at once.")
@click.option("--rate", "rate_per_minute", type=int, help="Claims in a minute.")
@click.option("--burst", type=int, help="Claims at once after a pause, with --rate.  [1]")
@click.option(
    "--timeout",
    "timeout_ms",
    type=milliseconds(),
    help="How long a job is held, such as 10m.",
)
@change("limit.set")
def set_(said: Answer) -> str:
    """Limit KIND, in place of what limited it before; with a dot at its end, all below it."""
    return _limit(said["limit"])


@limit.command()
@click.argument("kind", shell_complete=known_ids.limited)
@change("limit.clear")
def clear(said: Answer) -> str:
    """Take the limits of KIND away."""
    return f"{said['limit']['kind']}  no limit"


@limit.command("list")
@read("limit.list")
def list_limits(said: Answer) -> str:
    """List all limits, and how many jobs are held under each."""
    return "\n".join(map(_limit, said["limits"])) or "no limits"


# --- what people write ----------------------------------------------------------------------------


def _when(text: str) -> dict[str, Any]:
    first, _, rest = text.strip().partition(" ")
    if first == "every":
        return {"everyMs": milliseconds().convert(rest, None, None)}
    return {"cron": text.strip()}


# --- text for people ------------------------------------------------------------------------------


def _line(one: dict[str, Any], now_ms: int) -> str:
    when = one["cron"] or f"every {one['everyMs'] // 1000} s"
    words = [one["scheduleId"], when, one["timezone"], _made(one), f"fired {one['fired']}"]
    coming = islice(due.due_after(schedule_of(one), max(now_ms, one["lastDueMs"])), 1)
    return "  ".join([*words, *(f"next {rfc3339.answer_text(each)}" for each in coming)])


def _made(one: dict[str, Any]) -> str:
    if "job" in one:
        return str(one["job"]["kind"])
    count = len(one["spec"]["steps"])
    return f"spec of {count} step{'s' * (count != 1)}"


def _limit(one: dict[str, Any]) -> str:
    words = [one["kind"]]
    if one["concurrency"]:
        words.append(f"{one['held']} of {one['concurrency']} held")
    if one["ratePerMinute"]:
        words.append(f"{one['ratePerMinute']} a minute, {one['burst']} at once")
    if one["timeoutMs"]:
        words.append(f"at most {one['timeoutMs'] // 1000} s")
    return "  ".join(words)
