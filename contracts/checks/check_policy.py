"""The check policy: which checks there are, who may ask for them, and which paths require them.

The document binds itself by its digest. An operator sets it through the journal, so that a replay
needs no file. Everything here is pure; `actors/run/checks.py` is where commands run.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from .. import canonical, limits
from ..reason import Reason
from ..requests.shapes import Id, Mark, Ref
from ..retry import policy_digest

NORMALIZER_ID = "nf.understudy.v1"

CheckIds = Annotated[tuple[Id, ...], Meta(max_length=limits.CHECKS_MAX)]
Names = Annotated[tuple[Mark, ...], Meta(max_length=limits.CHECKS_MAX)]
Word = Annotated[str, Meta(max_length=limits.REF_LENGTH_MAX)]
Glob = Annotated[Ref, Meta(min_length=1)]
Globs = Annotated[tuple[Glob, ...], Meta(max_length=limits.GLOBS_MAX)]


class _Part(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """A part of the document; all of its members are given, so that it stands for one digest."""


class Check(_Part, frozen=True, kw_only=True):
    """A command that judges a working tree: exit 0 is a pass."""

    check_id: Id
    command: Annotated[
        tuple[Word, ...], Meta(min_length=1, max_length=limits.CHECK_COMMAND_WORDS_MAX)
    ]
    timeout_seconds: Annotated[int, Meta(ge=1, le=limits.CHECK_TIMEOUT_SECONDS_MAX)]


class PathRule(_Part, frozen=True, kw_only=True):
    """What a path requires that one of these globs takes, and no rule before."""

    rule_id: Id
    paths: Globs
    checks: CheckIds


class CheckPolicy(_Part, frozen=True, kw_only=True):
    schema: Literal[1]
    policy_kind: Literal["ci.check.policy.v1"]
    policy_id: Mark
    checks: Annotated[tuple[Check, ...], Meta(max_length=limits.CHECKS_MAX)]
    rules: Annotated[tuple[PathRule, ...], Meta(max_length=limits.CHECK_RULES_MAX)]
    default_checks: CheckIds  # for a path that no rule takes, and where no path is named
    docs_paths: Globs  # a change of nothing else is documentation only
    docs_checks: CheckIds  # and requires these
    allowed_checks: CheckIds  # that an instruction may ask for
    allowed_normalizers: Names
    instruction_types: Names  # that are known
    close_requires: Literal["none", "witness"]
    policy_digest: Mark

    def named(self, check_ids: Iterable[str]) -> list[Check]:
        """These checks, in the order of the policy."""
        wanted = set(check_ids)
        return [check for check in self.checks if check.check_id in wanted]


@dataclass(frozen=True, slots=True)
class Flaw:
    """Why a document is not taken."""

    reason: Reason
    detail: str


def check_policy(document: Mapping[str, Any]) -> CheckPolicy | Flaw:
    """Prove a policy: its shape, that it names only checks that it has, then its digest."""
    shape = Reason.INSTRUCTION_POLICY_SHAPE
    try:
        policy = msgspec.convert(document, CheckPolicy)
    except msgspec.ValidationError as error:
        return Flaw(shape, str(error))
    check_ids = [check.check_id for check in policy.checks]
    rule_ids = [rule.rule_id for rule in policy.rules]
    for name, ids in (("check", check_ids), ("rule", rule_ids)):
        if len(set(ids)) != len(ids):
            return Flaw(shape, f"two {name}s share an id")
    if any(not check.command[0].strip() for check in policy.checks):
        return Flaw(shape, "a command has no name")
    used = {*policy.default_checks, *policy.docs_checks, *policy.allowed_checks}
    used.update(check_id for rule in policy.rules for check_id in rule.checks)
    if unknown := sorted(used - set(check_ids)):
        return Flaw(shape, f"there is no check {unknown[0]}")
    expected = policy_digest(document)
    if policy.policy_digest != expected:
        detail = f"policyDigest is {policy.policy_digest}, the content gives {expected}"
        return Flaw(Reason.INSTRUCTION_POLICY_DIGEST, detail)
    return policy


def document_of(part: Struct) -> dict[str, Any]:
    """A policy or a part of it as JSON."""
    document: dict[str, Any] = msgspec.to_builtins(part)
    return document


# --- what changed paths require -------------------------------------------------------------------


def project(policy: CheckPolicy, changed_paths: Sequence[str]) -> dict[str, Any]:
    """The required checks of a change, each with the first path that asks for it, and a digest."""
    paths = sorted(set(changed_paths))
    docs_only = bool(paths) and all(_taken(policy.docs_paths, path) for path in paths)
    reasons: dict[str, dict[str, str]] = {}
    for path in paths or [""]:
        rule_id, check_ids = _demand(policy, path, docs_only=docs_only)
        for check_id in check_ids:
            reasons.setdefault(
                check_id, {"checkId": check_id, "ruleId": rule_id, "changedPath": path}
            )
    required = [check.check_id for check in policy.named(reasons)]
    projection: dict[str, Any] = {
        "projectionPolicy": policy.policy_digest,
        "changedPaths": paths,
        "requiredChecks": required,
        "docsOnly": docs_only,
        "reasons": [reasons[check_id] for check_id in required],
    }
    digest = canonical.digest("proj1", canonical.encode(projection))
    return projection | {"projectionDigest": digest}


def path_problem(path: str) -> str | None:
    """Why this is not the path of a file below the working tree."""
    parts = path.split("/")
    if not path or path.startswith("/"):
        return "it is empty or absolute"
    return "it has an empty, `.` or `..` part" if {"", ".", ".."} & set(parts) else None


def _demand(policy: CheckPolicy, path: str, *, docs_only: bool) -> tuple[str, tuple[str, ...]]:
    if docs_only:
        return "docs_only", policy.docs_checks
    for rule in policy.rules:
        if _taken(rule.paths, path):
            return rule.rule_id, rule.checks
    return "default", policy.default_checks


def _taken(globs: Iterable[str], path: str) -> bool:
    return any(matches(glob, path) for glob in globs)


_WILD = re.compile(r"[*?]+")
_Item = TypeVar("_Item", bound=str)


def matches(glob: str, path: str) -> bool:
    """`*` and `?` stay within a part of the path, `**` takes any number of parts."""
    literal = _WILD.split(glob)
    if not path.startswith(literal[0].rstrip("/")) or not path.endswith(literal[-1].lstrip("/")):
        return False  # most paths are none of a glob's, and this is a tenth of the cost
    return _match(glob.split("/"), path.split("/"), "**", _part_matches)


def globs_meet(left: str, right: str) -> bool:
    """Whether some path may be taken by both."""
    plain, other = (_WILD.split(glob, maxsplit=1)[0] for glob in (left, right))
    if not (plain.startswith(other) or other.startswith(plain)):
        return False
    return _meet(left.split("/"), right.split("/"), "**", _parts_meet)


def _parts_meet(left: str, right: str) -> bool:
    return _meet(left, right, "*", lambda one, other: one == other or "?" in (one, other))


def _meet(
    left: Sequence[_Item], right: Sequence[_Item], star: str, same: Callable[[str, str], bool]
) -> bool:
    """Both patterns at once: a row says from which places of the right one the end is reached."""
    ends = [all(item == star for item in right[at:]) for at in range(len(right) + 1)]
    for one in reversed(left):
        below, ends = ends, [False] * (len(right) + 1)
        ends[len(right)] = one == star and below[len(right)]
        for at in reversed(range(len(right))):
            if star in (one, right[at]):
                ends[at] = (one == star and below[at]) or ends[at + 1]
                ends[at] = ends[at] or (right[at] == star and below[at])
            else:
                ends[at] = same(one, right[at]) and below[at + 1]
    return ends[0]


def _part_matches(glob: str, part: str) -> bool:
    return _match(glob, part, "*", lambda want, have: want in ("?", have))


def _match(
    pattern: Sequence[_Item], items: Sequence[_Item], star: str, same: Callable[[str, str], bool]
) -> bool:
    """Wildcards without backtracking further than the last star: quadratic at the worst."""
    at = item = 0
    last_star, resume = -1, 0
    while item < len(items):
        if at < len(pattern) and pattern[at] == star:
            last_star, resume = at, item
            at += 1
        elif at < len(pattern) and same(pattern[at], items[item]):
            at += 1
            item += 1
        elif last_star >= 0:
            resume += 1
            at, item = last_star + 1, resume
        else:
            return False
    return all(each == star for each in pattern[at:])


# --- what results mean ----------------------------------------------------------------------------

# How a check can end -> its class, and whether that says something about the work itself.
STATUSES: Mapping[str, tuple[str | None, bool]] = {
    "passed": (None, True),
    "failed": ("check_failed", True),
    "timed_out": ("gate_timeout", False),
    "signalled": ("flaky_execution", False),
    "unavailable": ("executor_unavailable", False),
    "cancelled": ("check_cancelled", False),
}


def verdict(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Accepted where every check passed; else the classes of those that did not."""
    found = {STATUSES[result["status"]] for result in results}
    semantic = sorted(name for name, about_work in found if name and about_work)
    operational = sorted(name for name, about_work in found if name and not about_work)
    return {
        "verdictClass": "rejected" if semantic or operational else "accepted",
        "operationalFailureClasses": operational,
        "semanticFailureClasses": semantic,
        "failureClasses": sorted([*operational, *semantic]),
    }


def typed_core(
    payload: Mapping[str, Any], normalizer_id: str, policy_digest: str
) -> dict[str, str]:
    """What binds a witness: its content without times and texts, the normalizer and the policy."""
    authority = canonical.digest("ap1", canonical.encode(payload))
    core = "".join(part + "\0" for part in (authority, normalizer_id, policy_digest))
    return {
        "authorityPayloadDigest": authority,
        "typedCoreProjectionDigest": canonical.digest("ev1", core.encode()),
    }
