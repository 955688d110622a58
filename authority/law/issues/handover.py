"""Hand-overs: what a holder leaves for the next one.

A hand-over is bound to the lease that it was made under and passes the ladder of every fenced
action, so a deposed holder cannot leave one. It ends nothing: the holder goes on, and may leave a
newer one. The newest few of an issue are kept, of all its holders, until they are pushed out.
"""

from msgspec.structs import replace

from ....contracts import Checkpoint, Handover, HandOverIssue, Reason
from ..lease import hold
from ..outcome import Accepted, HandoverPut, Outcome, Refused
from ..turn import Turn
from ..view import handover_view


def hand_over(turn: Turn, request: HandOverIssue) -> Outcome:
    """Keep what the live holder says about how far the work is."""
    checkpoint = _trim(request.checkpoint)
    if not checkpoint.summary:
        return Refused(Reason.HANDOVER_SUMMARY_MISSING, f"issue {request.id}", request.id)
    lease = hold(turn, request, "issue.handover")
    if isinstance(lease, Refused):
        return lease
    handover = Handover(
        issue_id=request.id,
        owner=lease.owner,
        lease_id=lease.lease_id,
        fence=lease.fence,
        seq=turn.stamp.seq,
        at_ms=turn.stamp.wall_ms,
        checkpoint=checkpoint,
    )
    body = {"changed": True, "handover": handover_view(handover)}
    return Accepted((HandoverPut(handover),), body, request.id, lease.fence)


def _trim(checkpoint: Checkpoint) -> Checkpoint:
    """Without blank items, and without space around what is said."""
    lists = {
        name: tuple(text for item in getattr(checkpoint, name) if (text := item.strip()))
        for name in ("done", "next", "artifacts")
    }
    return replace(
        checkpoint,
        summary=checkpoint.summary.strip(),
        notes=checkpoint.notes.strip(),
        **lists,
    )
