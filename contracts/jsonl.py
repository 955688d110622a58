"""The format of `issues.jsonl`: which members are known, and what a record may carry along.

Members that we do not know travel as JSON text (`extra`, `metadata`), comment lines as they are.
The text of a record must be what it claims to be: nothing in it can stand for a known
member, open a second line, or be anything else than JSON.
"""

import json
import re
from typing import Any

import msgspec

from . import limits
from .requests.shapes import RecordedDependency, RecordedIssue, RecordedLease
from .requests.shapes.atoms import Globs

KNOWN = frozenset(RecordedIssue.__struct_fields__) - {"extra", "comments"}
KNOWN_LEASE = frozenset(RecordedLease.__struct_fields__)
KNOWN_DEPENDENCY = (frozenset(RecordedDependency.__struct_fields__) - {"extra"}) | {
    "issue_id",
    "dep_type",
}

# What a lease has beside ours, and a scope that is none of ours, are kept as they are.
_LOOSE = {"lease", "scope"}
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(r"[\[\]{}]")


def json_text(value: object) -> str:
    """The text that stands for a value; always the same for equal values."""
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
    )


def parse_text(text: str) -> Any:
    """Strict JSON with floats: `ValueError` for double keys, NaN, numbers beyond a double, and
    more nesting than `TEXT_DEPTH_MAX`, which would make the verdict depend on our own stack."""
    if _depth(text) > limits.TEXT_DEPTH_MAX:
        raise ValueError(f"nested deeper than {limits.TEXT_DEPTH_MAX}")
    value = json.loads(text, object_pairs_hook=_object, parse_constant=_refuse_constant)
    json.dumps(value, allow_nan=False)  # 1e999 reads as infinity
    return value


def is_scope(value: object) -> bool:
    """Whether a member of this name is ours: globs of the paths that an issue means to touch."""
    try:
        return bool(msgspec.convert(value, Globs))
    except msgspec.ValidationError:
        return False


def record_problem(record: RecordedIssue) -> str | None:
    """What is wrong with the parts of a record that its shape does not see."""
    try:
        if record.metadata:
            parse_text(record.metadata)
        extra = parse_text(record.extra) if record.extra else {}
        links = [parse_text(link.extra) for link in record.dependencies if link.extra]
    except ValueError as error:
        return f"a text that should be JSON is not: {error}"
    if not isinstance(extra, dict) or extra.keys() & (KNOWN - _LOOSE):
        return "`extra` is not an object of unknown members"
    lease = extra.get("lease", {})
    if not isinstance(lease, dict) or lease.keys() & KNOWN_LEASE:
        return "`extra.lease` is not an object of unknown members"
    if any(not isinstance(link, dict) or link.keys() & KNOWN_DEPENDENCY for link in links):
        return "the `extra` of a dependency is not an object of unknown members"
    targets = [(link.depends_on_id, link.type) for link in record.dependencies]
    if len(set(targets)) != len(targets):
        return "a dependency stands twice"
    if any(not text.startswith("#") or {"\n", "\r"} & set(text) for text in record.comments):
        return "a comment is not one line that begins with #"
    if record.lease and not (record.lease.owner.strip() and record.lease.lease_id.strip()):
        return "its lease has no owner or no id"
    return None


def _depth(text: str) -> int:
    """How deep the brackets go, whether or not the rest is JSON."""
    depth = deepest = 0
    for bracket in _BRACKETS.findall(_STRINGS.sub("", text)):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("an object names the same key twice")
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
