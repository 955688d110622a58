"""The join check: whether what parallel parts did can be put together.

One turn's evidence is closed when every tool call has a result and every result a use, when its
context was made under the policies of the call, and when nothing was handed off, cut or split
against the constraints. Sections of several workers can be joined when no two of them changed the
same path. Pure and total: what cannot be read is `Unreadable`, never an exception of ours.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from .. import limits
from ..reason import Reason
from ..records.harness import normal_refs
from .agent_turn import CallSpec, Handoff, Part, TurnEvidence, Word, normalized, turn_flaws

JOIN_CHECK_KIND = "premath.harness.join_check.v1"
GOVERNANCE_CLAIM = "profile.doctrine_inf_governance.v0"

# --- what is read -------------------------------------------------------------------------------


class Provenance(Part, frozen=True, kw_only=True):
    pinned: bool
    package_ref: str = ""
    expected_digest: str = ""
    bound_digest: str = ""


class Governance(Part, frozen=True, kw_only=True):
    claim_id: str = ""
    claimed: bool
    policy_provenance: Provenance | None = None


class ProtocolConstraints(Part, frozen=True, kw_only=True):
    parallel_transport_order_valid: bool | None = None


class HandoffConstraints(Part, frozen=True, kw_only=True):
    required_artifact_refs: tuple[str, ...] = ()
    allowed_targets: tuple[str, ...] = ()
    require_return_path: bool = False


class TruncationConstraints(Part, frozen=True, kw_only=True):
    required: bool = False
    valid: bool = False


class DecompositionConstraints(Part, frozen=True, kw_only=True):
    admissible: bool | None = None
    expected_execution_pattern: str = ""
    expected_policy_digest: str = ""


class JoinSection(Part, frozen=True, kw_only=True):
    """What one worker changed. A path that ends in a slash is all that lies below it."""

    ref: Word
    changed_paths: Annotated[tuple[Word, ...], Meta(max_length=limits.JOIN_PATHS_MAX)] = ()


class JoinInput(Part, frozen=True, kw_only=True):
    evidence: TurnEvidence | None = None
    governance_profile: Governance | None = None
    protocol_constraints: ProtocolConstraints | None = None
    handoff_constraints: HandoffConstraints | None = None
    truncation_constraints: TruncationConstraints | None = None
    decomposition_constraints: DecompositionConstraints | None = None
    sections: Annotated[tuple[JoinSection, ...], Meta(max_length=limits.JOIN_SECTIONS_MAX)] = ()


class Unreadable(NamedTuple):
    """Why a document is no input of a join check."""

    detail: str


class Joined(NamedTuple):
    """The verdict: every class that applies, in order, and what it was found in."""

    reasons: tuple[Reason, ...]
    overlaps: tuple["Overlap", ...]
    normalized: dict[str, Any] | None

    @property
    def report(self) -> dict[str, Any]:
        """As the protocol's own command prints it."""
        report: dict[str, Any] = {
            "action": "harness.join.check",
            "result": "rejected" if self.reasons else "accepted",
            "failureClasses": [reason.wire for reason in self.reasons],
            "joinClosed": not self.reasons,
            "overlaps": [each._asdict() for each in self.overlaps],
        }
        if self.normalized is not None:
            report["witness"] = {
                "schema": 1,
                "witnessKind": JOIN_CHECK_KIND,
                "digests": self.normalized["digests"],
                "joinInput": self.normalized["joinState"],
                "mutationInput": self.normalized["contextState"],
            }
            report["normalized"] = self.normalized
        return report


class Overlap(NamedTuple):
    """Two sections that changed the same path."""

    left: str
    right: str
    path: str


def join_check(document: object, more: Sequence[JoinSection] = ()) -> Joined | Unreadable:
    """Judge a document, together with sections from elsewhere."""
    try:
        given = msgspec.convert(document, JoinInput)
        normal = normalized(given.evidence) if given.evidence else None
    except (msgspec.ValidationError, ValueError) as error:
        return Unreadable(str(error))
    overlaps = tuple(overlapping((*given.sections, *more)))
    reasons = set(_constraint_flaws(given))
    if given.evidence and normal:
        reasons.update(turn_flaws(given.evidence, normal))
    if overlaps:
        reasons.add(Reason.JOIN_OVERLAP)
    return Joined(tuple(sorted(reasons)), overlaps, normal)


# --- sections -----------------------------------------------------------------------------------


def overlapping(sections: Sequence[JoinSection]) -> Iterator[Overlap]:
    """Every path that two different sections changed, by the names of the sections."""
    for left, right in combinations(sorted(sections, key=lambda each: each.ref), 2):
        if left.ref == right.ref:
            continue
        shared = {
            one if len(one) >= len(other) else other
            for one in left.changed_paths
            for other in right.changed_paths
            if _meet(one, other)
        }
        yield from (Overlap(left.ref, right.ref, path) for path in sorted(shared))


def _meet(one: str, other: str) -> bool:
    if one == other:
        return True
    return (one.endswith("/") and other.startswith(one)) or (
        other.endswith("/") and one.startswith(other)
    )


# --- constraints --------------------------------------------------------------------------------


def _constraint_flaws(given: JoinInput) -> Iterator[Reason]:
    protocol, truncation = given.protocol_constraints, given.truncation_constraints
    if protocol and protocol.parallel_transport_order_valid is False:
        yield Reason.JOIN_PARALLEL_ORDER
    if truncation and truncation.required and not truncation.valid:
        yield Reason.JOIN_TRUNCATED
    if given.handoff_constraints:
        handoff = given.evidence.handoff if given.evidence else None
        yield from _handoff_flaws(given.handoff_constraints, handoff)
    split = given.decomposition_constraints
    if split and given.evidence and not _splits_well(split, given.evidence.call_spec):
        yield Reason.JOIN_DECOMPOSITION
    if given.governance_profile:
        yield from _governance_flaws(given.governance_profile)


def _handoff_flaws(wanted: HandoffConstraints, handoff: Handoff | None) -> Iterator[Reason]:
    given = set(normal_refs(handoff.required_artifact_refs)) if handoff else set()
    if not set(normal_refs(wanted.required_artifact_refs)) <= given:
        yield Reason.JOIN_HANDOFF_ARTIFACT
    targets = normal_refs(wanted.allowed_targets)
    if targets and (handoff is None or handoff.target.strip() not in targets):
        yield Reason.JOIN_HANDOFF_TARGET
    if wanted.require_return_path and not (handoff and (handoff.return_path_ref or "").strip()):
        yield Reason.JOIN_HANDOFF_RETURN


def _splits_well(wanted: DecompositionConstraints, spec: CallSpec) -> bool:
    pattern = wanted.expected_execution_pattern.strip().lower()
    policy = wanted.expected_policy_digest.strip()
    return (
        wanted.admissible is not False
        and pattern in ("", spec.execution_pattern.strip().lower())
        and policy in ("", spec.decomposition_policy_digest.strip())
    )


def _governance_flaws(profile: Governance) -> Iterator[Reason]:
    if profile.claim_id.strip() not in ("", GOVERNANCE_CLAIM):
        yield Reason.JOIN_CLAIM_ID
        return
    if not profile.claimed:
        return
    origin = profile.policy_provenance
    texts = (origin.package_ref, origin.expected_digest, origin.bound_digest) if origin else ()
    if origin is None or not origin.pinned or not all(text.strip() for text in texts):
        yield Reason.JOIN_POLICY_UNPINNED
    elif origin.expected_digest.strip() != origin.bound_digest.strip():
        yield Reason.JOIN_POLICY_MISMATCH
