"""A running tree as lines of text, for `up`, `status`, `tree` and `top`."""

import os
import shutil
from collections.abc import Iterable, Iterator
from typing import Any

import click

from . import descent_text

_STATE_COLOURS = {"running": "green", "starting": "yellow", "stopping": "yellow"}
_REPORTS = 6  # newest last
_RESTS = 8
CLEAR = "\033[H\033[J"


def summary(picture: dict[str, Any]) -> str:
    """One line."""
    authority, gateway, jobs = picture["authority"], picture.get("gateway"), picture.get("jobs")
    loops = [picture["dispatcher"], jobs or {}]
    words = []
    if any(child["id"] == "lease_dispatcher" for child in picture["tree"]):
        words.append(f"{_busy(loops[0])} workers busy")
    if jobs is not None:
        words.append(f"{_busy(jobs)} workers busy with jobs")
    if gateway is not None:
        agents = f"{gateway.get('clients', '?')} agents with {gateway.get('leases', '?')} leases"
        words.append(agents)
    if (specs := picture.get("specs")) is not None:
        words += [_runner(specs["runner"]), _courier(specs["dispatcher"])]
    busy = ", ".join(words) or f"{_busy(loops[0])} workers busy"
    stopping = next(filter(None, (loop.get("stopping") for loop in loops)), None)
    if stopping:
        busy = f"stopping: {stopping}"
    restarts = sum(child["restarts"] for child in picture["tree"]) + authority.get("restarts", 0)
    up = _duration(picture["upSeconds"])
    return f"up {up}, {busy}, row {picture['evidence'].get('seq', '?')}, {restarts} restarts"


def terms(picture: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    """What is worked on, by its name."""
    jobs = picture.get("jobs") or {}
    found = [(each["issue"], each) for each in picture["dispatcher"].get("terms", [])]
    return found + [(f"job/{each['job']}", each) for each in jobs.get("terms", [])]


def running_lines(picture: dict[str, Any]) -> Iterator[str]:
    """What is worked on, how long already, and what it is called: a line each."""
    for name, term in terms(picture):
        attempt = f"attempt {term['attempt']}, fence {term['fence']}, {term['worker']}"
        where = f", on {term['branch']}" if "branch" in term else ""
        said = f"{name}  {term['phase']} {_runs(term)}, {attempt}{where}"
        yield f"{said}: {_title(term)}".rstrip(": ")


def count_lines(picture: dict[str, Any]) -> Iterator[str]:
    """How much there is of issues, and of jobs."""
    for family, counts in picture.get("counts", {}).items():
        words = (f"{count} {state}" for state, count in counts.items())
        yield f"{family:<6}  {', '.join(words)}"


def rests(picture: dict[str, Any]) -> Iterator[str]:
    """What is left alone for a while, and why."""
    jobs = picture.get("jobs") or {}
    found = [(each["issue"], each) for each in picture["dispatcher"].get("rests", [])]
    found += [(f"job/{each['job']}", each) for each in jobs.get("rests", [])]
    for name, rest in found:
        yield f"{name} rests {_duration(-(-rest['restMs'] // 1000))}: {rest['why']}"


def reports(picture: dict[str, Any]) -> list[dict[str, Any]]:
    """What the loops have told, the newest last: by the file of reports, which remembers loops that
    died, and by the loops themselves, which remember what a full disk did not take."""
    others = [picture.get(name) or {} for name in ("jobs", "schedules")]
    others += (picture.get("specs") or {}).values()
    found = list(picture.get("reports", ()))
    for loop in (picture["dispatcher"], *others):
        found += [row for row in loop.get("reports", []) if row not in found]
    return sorted(found, key=lambda row: row.get("at_ms", 0))


def about(row: dict[str, Any]) -> str:
    """What a report is about, with a colon; nothing where it is about nothing."""
    if row.get("job"):
        return f"job/{row['job']}: "
    return f"{row['issue']}: " if row.get("issue") else ""


def drawn(picture: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The tree, then what is worked on; lines and their colours."""
    yield f"coord_sup  {summary(picture)}", "bold"
    yield from ((line, None) for line in count_lines(picture))
    yield from ((line, "yellow") for line in pause_lines(picture.get("pauses", ())))
    if descent := picture.get("descent"):
        yield f"descent  {descent_text.summary(descent)}", "yellow" if descent["conflict"] else None
    children = picture["tree"]
    for place, child in enumerate(children):
        last = place == len(children) - 1
        yield from _branch(child, picture, "└─ " if last else "├─ ", "   " if last else "│  ")
    found = terms(picture)
    if found:
        yield "", None
        numbers = f"{'RUNS':>6} {'ATTEMPT':>7} {'FENCE':>6}  {'LEASE':>6}"
        yield f"{'WORK':<16} {numbers}  {'PHASE':<9} {'TITLE':<24} WORKER", "dim"
    for name, term in found:
        left = term.get("remainingMs")
        lease = "?" if left is None else _duration(max(0, left) // 1000)
        numbers = f"{_runs(term):>6} {term['attempt']:>7} {term['fence']:>6}  {lease:>6}"
        colour = None if term["phase"] == "running" else "yellow"
        where = f"  {term['branch']}" if "branch" in term else ""
        words = f"{term['phase']:<9} {_title(term):<24.24} {term['worker']}{where}"
        yield f"{name:<16.16} {numbers}  {words}", colour
    resting = list(rests(picture))
    if resting:
        yield "", None
    for line in resting[:_RESTS]:
        yield line, "yellow"
    if len(resting) > _RESTS:
        yield f"and {len(resting) - _RESTS} more rest", "yellow"
    told = reports(picture)[-_REPORTS:]
    if told:
        yield "", None
    for row in told:
        yield f"{row['what']:<16} {about(row)}{row['detail']}"[:160], "dim"


def pause_lines(pauses: Iterable[dict[str, Any]]) -> list[str]:
    """What operators have paused, a line each."""
    return [
        f"paused  {each['scope']}" + (f"  by {each['byName']}" if each["byName"] else "")
        + (f": {each['reason']}" if each["reason"] else "")
        for each in pauses
    ]  # fmt: skip


def _runs(term: dict[str, Any]) -> str:
    return _duration(term["runsMs"] // 1000) if "runsMs" in term else "?"


def _title(term: dict[str, Any]) -> str:
    """On one line, whatever was written into it."""
    return "".join(each if each.isprintable() else " " for each in term.get("title") or "")


def _busy(loop: dict[str, Any]) -> str:
    return f"{len(loop.get('terms', []))} of {loop.get('slots', '?')}"


def painted(picture: dict[str, Any], size: tuple[int, int] | None = None) -> str:
    """The tree as it is drawn on a terminal, of this many columns and lines where it must fit."""
    lines = drawn(picture) if size is None else fitted(picture, *size)
    return "\n".join(paint(line, colour) for line, colour in lines)


def draw(picture: dict[str, Any]) -> None:
    """On the whole screen."""
    columns, lines_max = shutil.get_terminal_size()
    # The cursor has a line of its own.
    click.echo(CLEAR + painted(picture, (columns, lines_max - 1)))


def fitted(
    picture: dict[str, Any], columns: int, lines_max: int
) -> Iterator[tuple[str, str | None]]:
    """The same on a screen of this size: no line wraps, and the head stays; the end may be cut."""
    lines = list(drawn(picture))
    for line, colour in lines[:lines_max]:
        yield line if len(line) <= columns else f"{line[: max(0, columns - 1)]}…", colour


def paint(line: str, colour: str | None) -> str:
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return line
    if colour in ("bold", "dim"):
        return click.style(line, bold=colour == "bold", dim=colour == "dim")
    return click.style(line, fg=colour)


def _branch(
    child: dict[str, Any], picture: dict[str, Any], joint: str, below: str
) -> Iterator[tuple[str, str | None]]:
    pid = f"pid {child['pid']}" if child["pid"] else ""
    restarts = f"{child['restarts']} restarts" if child["restarts"] else ""
    mail = f"{child['mailbox']} in its mailbox" if child.get("mailbox") else ""
    words = [child["state"], pid, _age(child), restarts, mail, _more(child["id"], picture)]
    text = f"{joint}{child['id']:<17} " + "  ".join(word for word in words if word)
    yield text, _STATE_COLOURS.get(child["state"], "red")
    grandchildren = child.get("children", [])
    for place, each in enumerate(grandchildren):
        corner = "└─ " if place == len(grandchildren) - 1 else "├─ "
        about = f"{each['state']}  pid {each['pid']}  {_age(each)}"
        yield f"{below}{corner}{each['id']:<14} {about}", "dim"


def _age(child: dict[str, Any]) -> str:
    up_ms = child.get("upMs")
    return "" if up_ms is None else f"up {_duration(up_ms // 1000)}"


def _more(name: str, picture: dict[str, Any]) -> str:
    """What is worth saying of one child beyond what all have."""
    authority, evidence = picture["authority"], picture["evidence"]
    if name == "authority_client":
        again = authority.get("restarts", 0)
        said = f"sidecar {authority.get('pid')}, {authority.get('boundary')}"
        said += f", epoch {authority.get('epoch')}"
        return said + (f", started again {again} times" if again else "")
    if name == "evidence_writer":
        return f"row {evidence.get('seq', '?')}"
    if name == "gateway":
        gateway = picture["gateway"] or {}
        return f"process {gateway.get('pid')}" if "pid" in gateway else "does not answer"
    specs = picture.get("specs") or {}
    if name == "chain_runner":
        return _runner(specs.get("runner", {})) + _in_hand(specs.get("runner", {}))
    if name == "job_dispatcher":
        return _courier(specs.get("dispatcher", {})) + _in_hand(specs.get("dispatcher", {}))
    if name == "scheduler":
        known = picture.get("schedules") or {}
        return f"{known.get('schedules', '?')} schedules, fired {known.get('fired', '?')} times"
    return ""


def _runner(known: dict[str, Any]) -> str:
    return f"{known.get('jobs', '?')} jobs made of {known.get('specs', '?')} specs"


def _courier(known: dict[str, Any]) -> str:
    failures = known.get("failures", 0)
    said = f"{known.get('jobs', '?')} jobs dispatched"
    return f"{said}, {failures} files not written" if failures else said


def _in_hand(known: dict[str, Any]) -> str:
    terms = known.get("terms", [])
    return f", {len(terms)} in hand" if terms else ""


def _duration(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes:02}m"
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"
