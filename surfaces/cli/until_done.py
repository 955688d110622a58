"""Whether nothing is left to do for a tree, so that it may end."""

from typing import Any

from ...actors import tree as trees
from ...actors.tree import Plan
from ...contracts import limits
from .session import Session


def is_done(session: Session, plan: Plan, found: dict[str, Any]) -> bool:
    """Whether nothing is worked on, and nothing can be without somebody's help.

    What others hold counts as not done either: they may have died with it.
    """
    loops = [found["dispatcher"]] if plan.argv else []
    loops += [found["jobs"]] if plan.kinds else []
    loops += (found["specs"] or {}).values()
    if any("terms" not in loop or loop["terms"] or loop["claiming"] for loop in loops):
        return False
    if plan.job_files is not None and not _specs_are_done(session):
        return False
    return _labour_is_done(session, plan)


# --- issues and jobs ------------------------------------------------------------------------------


def _labour_is_done(session: Session, plan: Plan) -> bool:
    reads = ("issue.list", "issue.ready") if plan.argv else ()
    answers = [session.ask(action, {}, writable=False) for action in reads]
    pages = [_page(session, plan, kind) for kind in plan.kinds.asked()]
    pages += [_page(session, plan, None, each) for each in ("claimed", "delayed") if plan.kinds]
    if any(each["result"] != "accepted" for each in answers + pages):
        return False  # another host is active
    if len({each["seq"] for each in answers + pages}) > 1:
        return False  # something was decided in between
    return not _has_issues(plan, *answers) and not any(_has_jobs(plan, page) for page in pages)


def _page(session: Session, plan: Plan, kind: str | None, query: str = "pending") -> dict[str, Any]:
    payload: dict[str, Any] = {"query": query, "limit": limits.ROSTER_PAGE_MAX}
    payload |= {} if kind is None else {"kind": kind}
    payload |= {} if query != "pending" else {"worker": plan.job_settings("any").name}
    return session.ask("job.roster", payload, writable=False)


def _has_issues(plan: Plan, *answers: dict[str, Any]) -> bool:
    if not answers:
        return False
    listed, ready = answers
    offered = [trees.listing(each) for each in ready["issues"]]
    waits = any(not each.assignee and plan.wanted.fits(each) for each in offered)
    return waits or any(each.get("lease") for each in listed["issues"])


def _has_jobs(plan: Plan, page: dict[str, Any]) -> bool:
    """Jobs of ours on a page, or room for them behind it, or some that a limit holds back. A job
    that waits is freed by one that is pending or held; if there is none, it waits for somebody's
    help."""
    kinds = [each["kind"] for each in page["jobs"]] + page.get("limited", [])
    return "cursor" in page or any(plan.kinds.command_of(each) is not None for each in kinds)


# --- specs ----------------------------------------------------------------------------------------


def _specs_are_done(session: Session) -> bool:
    """Every spec has all its jobs, and every job of a spec that can run has its file."""
    listed = session.ask("spec.list", {"limit": 1}, writable=False)
    if listed["result"] != "accepted":
        return False  # another host is active
    counts = listed["specCounts"]
    return counts["materialized"] == counts["total"] and not _is_any_undispatched(session)


def _is_any_undispatched(session: Session) -> bool:
    free = session.ask("dispatch.roster", {"limit": 1}, writable=False)
    if free["result"] != "accepted" or free["count"]:
        return True  # or nobody knows
    page: dict[str, Any] = {"query": "pending", "limit": limits.ROSTER_PAGE_MAX}
    while True:
        found = session.ask("job.roster", page, writable=False)
        if found["result"] != "accepted":
            return True
        if any("specId" in each and "dispatched" not in each for each in found["jobs"]):
            return True
        if "cursor" not in found:
            return False
        page["cursor"] = found["cursor"]
