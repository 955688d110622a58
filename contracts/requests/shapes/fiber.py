"""Payloads about fibers."""

from typing import Annotated, Literal

from msgspec import Meta

from ... import limits
from .atoms import Id, OfHolder, ReasonText, Ref


class SpawnFiber(OfHolder, frozen=True, kw_only=True):
    fiber_id: Id | None = None
    parent_fiber_id: Id | None = None
    task_ref: Ref
    scope_ref: Ref = ""


class JoinFiber(OfHolder, frozen=True, kw_only=True):
    """`join_set` names fibers below `fiber_id` that end in the same decision."""

    fiber_id: Id
    join_set: Annotated[tuple[Id, ...], Meta(max_length=limits.FIBERS_PER_LEASE_MAX)] = ()
    result_class: Literal["accepted", "rejected"] = "accepted"
    result_ref: Ref = ""


class CancelFiber(OfHolder, frozen=True, kw_only=True):
    """One fiber and all below it; or, said explicitly, all fibers of the lease."""

    fiber_id: Id | None = None
    whole_scope: bool = False
    reason: ReasonText = ""
