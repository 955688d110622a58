"""What workers leave behind beside the work itself: hand-overs."""

from msgspec import Struct

from .shapes import Checkpoint


class Handover(Struct, frozen=True, kw_only=True):
    """A checkpoint of one holder in one term, for whoever works on the issue next."""

    issue_id: str
    owner: str
    lease_id: str
    fence: int
    seq: int
    at_ms: int
    checkpoint: Checkpoint
