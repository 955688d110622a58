"""Whether nothing is left to do for those who make jobs of specs, and hand them out."""

from typing import Any

from ...contracts import limits
from .session import Session


def specs_are_done(session: Session) -> bool:
    """Every spec has all its jobs, and every job of a spec that can run has its file.

    Whoever else holds one of them may have died with it, so these count as not done either.
    """
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
