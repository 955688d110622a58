"""Payloads about the authority itself."""

from typing import Annotated, Literal

from msgspec import Meta

from ... import limits
from .atoms import Document, Mutation, Name, Scope, Shape


class SetPolicy(Mutation, frozen=True, kw_only=True):
    mutation: Literal["open", "instruction-linked"] | None = None
    evidence_reads: bool | None = None
    checks: Document | None = None  # a check policy, which takes the place of the one before
    # Scopes whose work waits for a person, in place of those before.
    approve: Annotated[tuple[Scope, ...], Meta(max_length=limits.APPROVE_SCOPES_MAX)] | None = None


class RouteBinding(Shape, frozen=True, kw_only=True):
    operation_action: Name
