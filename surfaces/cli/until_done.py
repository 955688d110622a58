"""Whether nothing is left to do for a tree, so that it may end, and what came of its work."""

import time
from typing import Any

from ...actors import tree as trees
from ...actors.tree import Plan
from ...contracts import GLUING, limits
from .session import Session


def is_done(session: Session, plan: Plan, found: dict[str, Any]) -> bool:
    """Whether nothing is worked on, and nothing can be without a person's help.

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


class Outlook:
    """How work has ended since a tree began, over all runs of its dispatchers.

    A dispatcher that dies takes its last counts along; so where the exit code hangs on it, what is
    blocked is asked as well.
    """

    def __init__(self, session: Session, plan: Plan, *, asks: bool) -> None:
        self.fault: dict[str, Any] | None = None  # of the tree itself
        self._session, self._plan, self._asks = session, plan, asks
        self._runs: dict[str, dict[str, int]] = {}
        self._begun = time.monotonic()
        self._blocked_before = self._blocked()
        self._glued_before = self._glued()

    def take(self, found: dict[str, Any]) -> bool:
        """Take a picture in; whether a loop is at fault, and has nothing in hand any more."""
        over = False
        for loop in (found["dispatcher"], found["jobs"] or {}):
            if "tally" in loop:
                self._runs[loop["run"]] = loop["tally"]
            if loop.get("fault") is not None:
                self.fault = self.fault or loop["fault"]
                over = over or not (loop["terms"] or loop["claiming"])
        return over

    def total(self) -> dict[str, int]:
        runs = self._runs.values()
        names = ("done", "blocked", "escalated", "handedBack", "attempts")
        total = {name: sum(each.get(name, 0) for each in runs) for name in names}
        fresh = self._blocked() - self._blocked_before
        total["blocked"] = max(total["blocked"], len(fresh))
        total["done"] += self._glued() - self._glued_before
        return total | {"seconds": int(time.monotonic() - self._begun)}

    def _glued(self) -> int:
        """Sections so far; what was glued by others while the tree ran counts as well."""
        if not self._plan.gluer:
            return 0
        shown = self._session.ask("descent.show", {}, writable=False)
        return sum(each["glued"] for each in shown.get("targets", ()))

    def _blocked(self) -> set[str]:
        return _blocked(self._session, self._plan) if self._asks else set()


def tally_text(total: dict[str, int]) -> str:
    """One line."""
    words = f"{total['done']} done, {total['blocked']} blocked, {total['escalated']} escalated"
    return f"{words}, {total['attempts']} attempts, {total['seconds']} s"


def _blocked(session: Session, plan: Plan) -> set[str]:
    """What a person must look at; nothing where it cannot be asked just now."""
    found: set[str] = set()
    if plan.argv:
        answer = session.ask("issue.list", {"status": "blocked"}, writable=False)
        listed = [trees.listing(each) for each in answer.get("issues", [])]
        found |= {each.issue_id for each in listed if plan.wanted.fits(each)}
    if plan.kinds:
        page = {"query": "waiting", "limit": limits.ROSTER_PAGE_MAX}
        for job in session.ask("job.roster", page, writable=False).get("jobs", []):
            if job["state"] == "blocked" and plan.kinds.command_of(job["kind"]) is not None:
                found.add(f"job/{job['jobId']}")
    return found


# --- issues and jobs ------------------------------------------------------------------------------


def _labour_is_done(session: Session, plan: Plan) -> bool:
    reads = ("issue.list", "issue.ready") if plan.argv else ()
    answers = [session.ask(action, {}, writable=False) for action in (*reads, "pause.list")]
    pages = [_page(session, plan, kind) for kind in plan.kinds.asked()]
    pages += [_page(session, plan, None, each) for each in ("claimed", "delayed") if plan.kinds]
    if any(each["result"] != "accepted" for each in answers + pages):
        return False  # another host is active
    if len({each["seq"] for each in answers + pages}) > 1:
        return False  # something was decided in between
    *listed, paused = answers
    if paused["count"]:
        return False  # what is withheld goes on later
    return not _has_issues(plan, *listed) and not any(_has_jobs(plan, page) for page in pages)


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
    if plan.gluer:  # what does not fit comes back as work
        waits = waits or any(each["status"] == GLUING for each in listed["issues"])
    return waits or any(each.get("lease") for each in listed["issues"])


def _has_jobs(plan: Plan, page: dict[str, Any]) -> bool:
    """Jobs of ours on a page, or room for them behind it, or some that a limit holds back. A job
    that waits is freed by one that is pending or held; if there is none, it waits for a person's
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
        return True  # or that is not known
    page: dict[str, Any] = {"query": "pending", "limit": limits.ROSTER_PAGE_MAX}
    while True:
        found = session.ask("job.roster", page, writable=False)
        if found["result"] != "accepted":
            return True
        if any(map(_is_undispatched, found["jobs"])):
            return True
        if "cursor" not in found:
            return False
        page["cursor"] = found["cursor"]


def _is_undispatched(job: dict[str, Any]) -> bool:
    """Whether its file is to be written; what waits for a person has none."""
    waits = job.get("approval", "approved") != "approved"
    return "specId" in job and "dispatched" not in job and not waits
