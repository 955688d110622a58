"""Payloads about the authority itself."""

from typing import Literal

from .atoms import Document, Mutation, Name, Shape


class SetPolicy(Mutation, frozen=True, kw_only=True):
    mutation: Literal["open", "instruction-linked"] | None = None
    evidence_reads: bool | None = None
    checks: Document | None = None  # a check policy, which takes the place of the one before


class RouteBinding(Shape, frozen=True, kw_only=True):
    operation_action: Name
