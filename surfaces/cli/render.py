"""Answers as text for people. Colour only on a terminal, and never where NO_COLOR is set."""

import os
from typing import Any

import click

from ...contracts import BLOCKING_TYPES
from .tree_text import pause_lines

_COLOURS = {
    "open": "green",
    "in_progress": "yellow",
    "gluing": "cyan",
    "blocked": "red",
    "closed": "bright_black",
    "cancelled": "bright_black",
}
_TITLE_WIDTH = 60
_SHOWN_MAX = 10  # ids in a line


def one_line(issue: dict[str, Any]) -> str:
    return f"{issue['id']}  {_styled(issue['status'])}  {_short(issue['title'])}"


def withheld(answer: dict[str, Any]) -> list[str]:
    """What people keep from being claimed, a line each, with what lets it go on."""
    lines = pause_lines(answer.get("pauses", ()))
    if lines:
        lines.append("`understudy unpause` with the same scope lets it go on")
    if ids := answer.get("waitsForPerson"):
        names = ", ".join(ids[:_SHOWN_MAX]) + (", ..." if len(ids) > _SHOWN_MAX else "")
        lines.append(f"waits for a person: {names}; `understudy approve ID` or `reject ID`")
    return lines


def withheld_job(job: dict[str, Any]) -> list[str]:
    """The same of one job, in words."""
    approval = job.get("approval")
    words = [f"paused by {job['pause']['scope']}"] if "pause" in job else []
    if approval == "waiting":
        words.append("waits for a person's approval")
    return [*words, "rejected"] if approval == "rejected" else words


def table(issues: list[dict[str, Any]], *, waiting: bool = False) -> str:
    """Issues, a line each."""
    if not issues:
        return "nothing"
    width = max(len(each["id"]) for each in issues)
    lines = []
    for each in issues:
        status = _styled(each["status"], 11)
        line = f"{each['id']:<{width}}  P{each['priority']}  {status}  {_short(each['title'])}"
        if lease := each.get("lease"):
            line += f"  [{lease['owner']}, fence {lease['fence']}, {lease['state']}]"
        elif each["assignee"]:
            line += f"  [{each['assignee']}]"
        if waiting and each["blockedBy"]:
            line += f"  waits for {', '.join(each['blockedBy'])}"
        lines.append(line)
    return "\n".join(lines)


def claimed(answer: dict[str, Any]) -> str:
    """What a holder needs to know, and how to say it back to us."""
    if "issue" not in answer:
        return "\n".join(["nothing is ready", *withheld(answer)])
    issue = answer["issue"]
    lease = issue["lease"]
    lines = [
        one_line(issue),
        f"  holder  {lease['owner']}, until {lease['expiresAt']}",
        f"  fence   {lease['fence']}",
        f"  lease   {lease['leaseId']}",
    ]
    if orphans := answer.get("orphanedFibers"):
        lines.append(f"  fibers  {', '.join(orphans)} ran when the last lease ended")
    return "\n".join(lines)


def detail(issue: dict[str, Any]) -> str:
    """One issue whole."""
    lines = [one_line(issue)]
    for name, key in (
        ("priority", "priority"), ("type", "issueType"), ("assignee", "assignee"),
        ("owner", "owner"), ("labels", "labels"), ("scope", "scope"), ("attempts", "attempts"),
        ("created", "createdAt"), ("updated", "updatedAt"), ("closed", "closedAt"),
        ("waits for", "blockedBy"),
    ):  # fmt: skip
        if value := issue.get(key):
            text = ", ".join(value) if isinstance(value, list) else value
            lines.append(f"  {name:<10}{text}")
    if pause := issue.get("pause"):
        lines += [f"  {line}" for line in pause_lines([pause])]
    if approval := issue.get("approval"):
        words = "waits for a person" if approval == "waiting" else approval
        lines.append(f"  {'approval':<10}{words}")
    if steered := issue.get("steered"):
        said = ": ".join(filter(None, (steered["byName"], steered["reason"])))
        lines += [f"  {'operator':<10}{said}"] if said else []
    if spend := issue.get("spend"):
        see = f"; see `understudy spend report --issue {issue['id']}`"
        dear = see if issue["status"] == "blocked" else ""  # a budget may be why
        lines.append(f"  {'spent':<10}{amount_text(spend['total'])}{dear}")
    if lease := issue.get("lease"):
        lines.append(f"  {'lease':<10}{lease['leaseId']} of {lease['owner']} ({lease['state']})")
        lines.append(f"  {'fence':<10}{lease['fence']}, until {lease['expiresAt']}")
    if section := issue.get("section"):
        lines.append(f"  {'section':<10}{_section_text(section)}")
    if running := [each["fiberId"] for each in issue["fibers"] if each["state"] == "running"]:
        lines.append(f"  {'fibers':<10}{', '.join(running)}")
    for link in issue["dependencies"]:
        name = "after" if link["type"] in BLOCKING_TYPES else link["type"]
        lines.append(f"  {name:<10}{link['dependsOnId']}")
    for key in ("description", "design", "acceptanceCriteria", "notes"):
        if issue[key]:
            lines += ["", issue[key]]
    return "\n".join(lines)


def _section_text(section: dict[str, Any]) -> str:
    paths = section["pathCount"]
    count = "1 path" if paths == 1 else f"{paths} paths"
    where = f"{section['sectionId']} for {section['target']}"
    return f"{where}: {section['state']}, {count}, commit {section['commit'][:12]}"


def amount_text(amount: dict[str, int]) -> str:
    """Dollars, tokens and time, as far as there are any."""
    micros, ms = amount.get("usdMicros", 0), amount.get("milliseconds", 0)
    words = [f"{micros // 1_000_000}.{micros % 1_000_000:06} USD"] if micros else []
    words += [f"{amount['tokens']} tokens"] if amount.get("tokens") else []
    words += [f"{ms // 1_000}.{ms % 1_000:03} s"] if ms else []
    return ", ".join(words) or "nothing"


def leases_table(items: list[dict[str, Any]]) -> str:
    if not items:
        return "no leases"
    width = max(len(each["id"]) for each in items)
    lines = []
    for each in items:
        lease = each["lease"]
        state = "contended" if each["contended"] else lease["state"]
        lines.append(
            f"{each['id']:<{width}}  fence {lease['fence']}  {state}  {lease['owner']}  "
            f"until {lease['expiresAt']}  {lease['leaseId']}"
        )
    return "\n".join(lines)


def coloured(text: str, colour: str, *, bold: bool = False) -> str:
    """Styled text; click takes the style off again where the output is no terminal."""
    return text if os.environ.get("NO_COLOR") else click.style(text, fg=colour, bold=bold)


def _styled(status: str, width: int = 0) -> str:
    return coloured(f"{status:<{width}}", _COLOURS.get(status, "white"))


def _short(title: str) -> str:
    return title if len(title) <= _TITLE_WIDTH else title[: _TITLE_WIDTH - 1] + "…"
