"""A lease that we hold, and until when we may believe so by our own clock.

I1  A term counts from when it was asked for, not from when the grant was heard: the authority
    counts from some time between. An answer that was long under way is never believed for longer.
"""

from dataclasses import dataclass
from typing import Any, Self

_RENEW_PART = 3  # more time is asked for when this part of the term is gone


@dataclass(slots=True)
class Hold:
    """Of a spec or of the dispatch of a job."""

    subject: str  # its id
    lease_id: str
    fence: int
    ttl_ms: int
    since_ms: int  # when the grant, or more time, was asked for (I1)

    @classmethod
    def granted(cls, subject: str, lease: dict[str, Any], ttl_ms: int, since_ms: int) -> Self:
        return cls(subject, lease["leaseId"], lease["fence"], ttl_ms, since_ms)

    @property
    def until_ms(self) -> int:
        return self.since_ms + self.ttl_ms

    @property
    def renew_ms(self) -> int:
        return self.since_ms + self.ttl_ms // _RENEW_PART

    def renewed(self, asked_ms: int) -> None:
        self.since_ms = max(self.since_ms, asked_ms)

    @property
    def proof(self) -> dict[str, Any]:
        return {"leaseId": self.lease_id, "fence": self.fence}
