"""The instruction envelope: what a caller wants checked, under which policy, with which rights.

One ladder reads it; the first rung that breaks names the class. Nothing in it is run from here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from .. import canonical, limits
from ..reason import Reason
from ..requests.shapes import ID_PATTERN, LINE_PATTERN
from .check_policy import CheckPolicy, Flaw

_MEMBERS = frozenset({
    "schema", "intent", "scope", "normalizerId", "policyDigest", "requestedChecks",
    "instructionType", "typingPolicy", "capabilityClaims",
})  # fmt: skip
_POLICY_DIGEST = re.compile(r"pol1_[0-9a-f]{64}")
UNROUTABLE = "instruction_unknown_unroutable"


@dataclass(frozen=True, slots=True)
class Instruction:
    """An envelope that the policy in force allows."""

    instruction_id: str
    intent: str
    scope: str | dict[str, Any]
    normalizer_id: str
    policy_digest: str
    requested_checks: tuple[str, ...]
    instruction_type: str | None
    is_known: bool  # its type is one of the policy's
    allows_unknown: bool
    capability_claims: tuple[str, ...]
    digest: str

    @property
    def executes(self) -> bool:
        return self.is_known or self.allows_unknown

    def view(self) -> dict[str, Any]:
        """What an answer and a witness say about it."""
        decision = {"state": "execute"} if self.executes else _REJECTED
        members: dict[str, Any] = {
            "instructionId": self.instruction_id,
            "instructionRef": f"instruction://{self.instruction_id}/{self.digest}",
            "instructionDigest": self.digest,
            "intent": self.intent,
            "scope": self.scope,
            "normalizerId": self.normalizer_id,
            "policyDigest": self.policy_digest,
            "requestedChecks": list(self.requested_checks),
            "instructionClassification": {
                "state": "typed" if self.is_known else "unknown",
                "kind": self.instruction_type,
            },
            "executionDecision": decision,
            "typingPolicy": {"allowUnknown": self.allows_unknown},
            "capabilityClaims": list(self.capability_claims),
        }
        return members


_REJECTED = {"state": "reject", "reason": UNROUTABLE}


def read_instruction(
    instruction_id: str, envelope: Mapping[str, Any], policy: CheckPolicy | None
) -> Instruction | Flaw:
    """The instruction in an envelope, or the first reason why it is none."""
    if re.match(ID_PATTERN, instruction_id) is None:  # it becomes the name of a file
        return Flaw(Reason.INSTRUCTION_FILENAME, instruction_id)
    if unknown := sorted(envelope.keys() - _MEMBERS):
        return Flaw(Reason.INSTRUCTION_SHAPE, f"unknown member `{unknown[0][:80]}`")
    if type(envelope.get("schema")) is not int or envelope["schema"] < 1:
        return Flaw(Reason.INSTRUCTION_SCHEMA, "schema is not an integer of at least 1")
    intent, normalizer = envelope.get("intent"), envelope.get("normalizerId")
    if not _is_text(intent):
        return Flaw(Reason.INSTRUCTION_INTENT, "intent is not a line of text")
    if not _is_name(normalizer):
        return Flaw(Reason.INSTRUCTION_NORMALIZER, "normalizerId is not a name")
    digest = envelope.get("policyDigest")
    if not isinstance(digest, str) or _POLICY_DIGEST.fullmatch(digest) is None:
        return Flaw(Reason.INSTRUCTION_DIGEST, "policyDigest is not pol1_ and 64 digits")
    scope = envelope.get("scope")
    if scope in (None, "", {}):
        return Flaw(Reason.INSTRUCTION_SCOPE_MISSING, "scope")
    if not _is_text(scope) and not isinstance(scope, dict):
        return Flaw(Reason.INSTRUCTION_SCOPE, "scope is neither a line of text nor an object")
    checks = envelope.get("requestedChecks")
    if not _is_list(checks, limits.CHECKS_MAX) or not checks:
        return Flaw(Reason.INSTRUCTION_CHECKS, "requestedChecks is not a list of different names")
    if policy is None or digest != policy.policy_digest:
        return Flaw(Reason.INSTRUCTION_POLICY_UNKNOWN, digest)
    if refused := [check for check in checks if check not in policy.allowed_checks]:
        return Flaw(Reason.INSTRUCTION_CHECK_REFUSED, refused[0])
    if normalizer not in policy.allowed_normalizers:
        return Flaw(Reason.INSTRUCTION_NORMALIZER_REFUSED, str(normalizer))
    kind = envelope.get("instructionType")
    if "instructionType" in envelope and not _is_name(kind):
        return Flaw(Reason.INSTRUCTION_TYPE, "instructionType is not a name")
    typing = envelope.get("typingPolicy", {"allowUnknown": False})
    if not isinstance(typing, dict) or typing.keys() != {"allowUnknown"}:
        return Flaw(Reason.INSTRUCTION_TYPING, "typingPolicy has other members than allowUnknown")
    if not isinstance(typing["allowUnknown"], bool):
        return Flaw(Reason.INSTRUCTION_TYPING, "allowUnknown is neither true nor false")
    claims = envelope.get("capabilityClaims", [])
    if not _is_list(claims, limits.CAPABILITIES_MAX):
        return Flaw(Reason.INSTRUCTION_CLAIMS, "capabilityClaims is not a list of different names")
    return Instruction(
        instruction_id=instruction_id,
        intent=str(intent),
        scope=scope,
        normalizer_id=str(normalizer),
        policy_digest=digest,
        requested_checks=tuple(checks),
        instruction_type=kind,
        is_known=kind in policy.instruction_types,
        allows_unknown=typing["allowUnknown"],
        capability_claims=tuple(claims),
        digest=canonical.digest("instr1", canonical.encode(envelope)),
    )


def _is_text(value: object, length_max: int = limits.REF_LENGTH_MAX) -> bool:
    """One line, and not blank."""
    if not isinstance(value, str) or not value.strip() or len(value) > length_max:
        return False
    return re.match(LINE_PATTERN, value) is not None


def _is_name(value: object) -> bool:
    return _is_text(value, limits.NAME_LENGTH_MAX)


def _is_list(value: object, count_max: int) -> bool:
    """A list of names, none of them twice."""
    if not isinstance(value, list) or len(value) > count_max or not all(map(_is_name, value)):
        return False
    return len(set(value)) == len(value)
