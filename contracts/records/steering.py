"""What operators say about work: pauses by scope, and approvals that a person gives.

    approval   (none) --ask--> waiting --approve--> approved
                                  ^  \\--reject--> rejected
                                  \\--retry-----------/

A scope names work: `*` is all of it, `label/L` issues, `kind/K` jobs, `issue/ID` and `job/ID` one.
"""

from enum import StrEnum

from msgspec import Struct


class Approval(StrEnum):
    WAITING = "waiting"
    APPROVED = "approved"
    REJECTED = "rejected"


class ScopePause(Struct, frozen=True, kw_only=True):
    """No new term begins on work in the scope."""

    scope: str
    reason: str = ""
    by_name: str = ""
    since_ms: int


ALL_WORK = "*"
