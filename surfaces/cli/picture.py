"""A running tree as lines of text, for `up`, `status`, `tree` and `top`."""

from collections.abc import Iterator
from typing import Any

import click

_STATE_COLOURS = {"running": "green", "starting": "yellow", "stopping": "yellow"}
_REPORTS = 6  # newest last


def summary(picture: dict[str, Any]) -> str:
    """One line."""
    dispatcher, authority = picture["dispatcher"], picture["authority"]
    terms = dispatcher.get("terms", [])
    workers = f"{len(terms)} of {dispatcher.get('slots', '?')} workers busy"
    gateway, specs = picture.get("gateway"), picture.get("specs")
    parts = []
    if gateway is not None:
        parts.append(
            f"{gateway.get('clients', '?')} agents with {gateway.get('leases', '?')} leases"
        )
    if specs is not None:
        parts += [_runner(specs["runner"]), _courier(specs["dispatcher"])]
    if not parts or any(child["id"] == "lease_dispatcher" for child in picture["tree"]):
        parts.insert(0, workers)
    busy = ", ".join(parts)
    if dispatcher.get("stopping"):
        busy = f"stopping: {dispatcher['stopping']}"
    restarts = sum(child["restarts"] for child in picture["tree"]) + authority.get("restarts", 0)
    up = _duration(picture["upSeconds"])
    return f"up {up}, {busy}, row {picture['evidence'].get('seq', '?')}, {restarts} restarts"


def drawn(picture: dict[str, Any]) -> Iterator[tuple[str, str | None]]:
    """The tree, then what is worked on; lines and their colours."""
    yield f"coord_sup  {summary(picture)}", "bold"
    children = picture["tree"]
    for place, child in enumerate(children):
        last = place == len(children) - 1
        yield from _branch(child, picture, "└─ " if last else "├─ ", "   " if last else "│  ")
    terms = picture["dispatcher"].get("terms", [])
    if terms:
        yield "", None
        yield f"{'ISSUE':<16} {'ATTEMPT':>7} {'FENCE':>6}  {'LEASE':>6}  {'PHASE':<9} WORKER", "dim"
    for term in terms:
        left = term.get("remainingMs")
        lease = "?" if left is None else _duration(max(0, left) // 1000)
        line = f"{term['issue']:<16.16} {term['attempt']:>7} {term['fence']:>6}  {lease:>6}"
        colour = None if term["phase"] == "running" else "yellow"
        yield f"{line}  {term['phase']:<9} {term['worker']}", colour
    reports = told(picture)[-_REPORTS:]
    if reports:
        yield "", None
    for row in reports:
        about = f"{row['issue']}: " if row.get("issue") else ""
        yield f"{row['what']:<16} {about}{row['detail']}"[:160], "dim"


def told(picture: dict[str, Any]) -> list[dict[str, Any]]:
    """What those who hand out work have reported, newest last."""
    specs = picture.get("specs") or {}
    rows = [
        row
        for known in (picture["dispatcher"], *specs.values())
        for row in known.get("reports", [])
    ]
    return sorted(rows, key=lambda row: row.get("at_ms", 0))


def painted(line: str, colour: str | None) -> str:
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
