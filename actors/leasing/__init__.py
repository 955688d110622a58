"""Holding leases, whatever is leased: take, keep, work within the time, lay down.

    polling      when to look for work, and what of it to claim
    outstanding  what was asked of the authority and is not answered yet
    holding      one lease, and until when it is ours by our own clock
    renewing     more time for all that are due, in one batch
    work_kind    how each kind of work is spelled: issue, job, spec, dispatch, glue

Nothing here has a clock, dice or a connection: the time and the dice come with every step. Whether
a refusal ends a lease is `contracts.ends_lease` alone.
"""

from .holding import Holding, Timing
from .moment import DICE_MAX, Moment
from .outstanding import OpenRequest, Outstanding
from .polling import Candidate, Polling
from .renewing import Renewals, due
from .work_kind import WORK, Ask, Family, HeldLease, WorkKind, for_worker

__all__ = [
    "DICE_MAX",
    "WORK",
    "Ask",
    "Candidate",
    "Family",
    "HeldLease",
    "Holding",
    "Moment",
    "OpenRequest",
    "Outstanding",
    "Polling",
    "Renewals",
    "Timing",
    "WorkKind",
    "due",
    "for_worker",
]
