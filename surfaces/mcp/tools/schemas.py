"""The JSON Schemas of tools, made from the published schemas of requests and answers.

A tool's schema stands alone: what it refers to is written in place, since not every client follows
references, and no model should have to. It is wider than the published one where that makes it
shorter; the authority judges every request by the published one.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson

from ....contracts import documents, limits
from .tool_texts import ARGUMENTS

Schema = dict[str, Any]

_END = r"$(?!\n)"  # the end in every dialect; several clients know no lookahead, and `$` will do
_LINE = r"^[^\u0000-\u001f\u007f]*$"  # one line of text, which a model writes anyway
_ENVELOPE = ("action", "result", "failureClasses", "diagnostic", "changed", "seq", "stamp")
_EFFECT = ("argsDigest", "witnessRefs", "policyDigest", "transport", "fence")
_CONTEXT = ("instructionRef", "policyDigest", "capabilityClaims")
_NEEDED = ["result", "failureClasses"]  # what even an authority that cannot be reached says
_DEPTH_MAX = 2  # of objects in an answer whose members are named
_FOLDED = frozenset({"handover", "section"})  # of an issue; some answers have them beside it
# What an answer keeps to and no reader has to check.
_BOUNDS = frozenset(
    {"pattern", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems"}
    | {"minimum", "maximum", "additionalProperties", "required"}
)
_NAMES = frozenset({"assignee", "worker", "runner", "dispatcher"})  # it is the connection's own
# What the rules ask for and the published shapes do not.
_BOUNDED: dict[str, Schema] = {
    "leaseTtlSeconds": {"minimum": limits.TTL_SECONDS_MIN, "maximum": limits.TTL_SECONDS_MAX},
    "leaseDurationMs": {
        "minimum": limits.TTL_SECONDS_MIN * 1000,
        "maximum": limits.TTL_SECONDS_MAX * 1000,
    },
}
_NEEDED_TOO = {"issue.lease_break": ("reason",)}


def arguments(action: str) -> Schema:
    """What a tool for a host action takes, without what the server says in the agent's place."""
    shape = _close(_payloads().get(action, {"type": "object"}))
    unsaid = {"requestId"} | (_NAMES - {name for name in _NAMES if f"{action}.{name}" in ARGUMENTS})
    named = shape.get("properties", {}).items()
    properties = {
        name: value | _BOUNDED.get(name, {}) | _said(f"{action}.{name}")
        for name, value in named
        if name not in unsaid
    }
    needed = [*shape.get("required", []), *_NEEDED_TOO.get(action, ())]
    return {"type": "object", "properties": properties, "required": needed}


def evidence() -> Schema:
    """What a change brings along where the policy is instruction-linked."""
    published = _document("request")["$defs"]["context"]["properties"]
    return {
        "description": "Evidence: the authority's policy is instruction-linked.",
        "type": "object",
        "properties": {name: _close(published[name]) | _said(name) for name in _CONTEXT},
    }


def argument(definition: str) -> Schema:
    """One definition of the request's schema, standing alone."""
    return _close(_document("request")["$defs"][definition])


def answer(members: Iterable[str], more: Mapping[str, Any] | None = None) -> Schema:
    """What a tool gives back: the authority's answer, of which these members are its own."""
    published = _document("response")["properties"]
    names = [*_ENVELOPE, *(name for name in members if name in published)]
    properties = {name: _answered("response", published[name], 0) for name in names}
    effect = _document("host-effect")["properties"]
    properties["effect"] = {
        "description": "The row of evidence that this call left, the same through every door.",
        "type": "object",
        "properties": {name: _answered("host-effect", effect[name], 0) for name in _EFFECT},
    }
    return {"type": "object", "properties": properties | dict(more or {}), "required": _NEEDED}


def answered(definition: str) -> Schema:
    """One definition of the answer's schema, standing alone."""
    return _answered("response", _document("response")["$defs"][definition], 0)


@cache
def _document(name: str) -> Schema:
    path = documents.ROOT / "schemas" / f"{name}.schema.json"
    schema: Schema = orjson.loads(path.read_bytes())
    return schema


@cache
def _payloads() -> dict[str, Schema]:
    """The payload's schema by action, as the request's schema tells them apart."""
    found = {}
    for rule in _document("request")["allOf"]:
        told = rule["if"]["properties"]["action"]
        for action in told.get("enum", [told.get("const")]):
            found[action] = rule["then"]["properties"]["payload"]
    return found


def _close(schema: Schema) -> Schema:
    """A part of the request's schema, closed. To leave a member out says the same as null."""
    _, schema = _resolved("request", schema)
    kinds = [kind for kind in schema.get("anyOf", []) if kind.get("type") != "null"]
    if len(kinds) == 1:
        return _close(kinds[0])
    closed = _kind(schema) | _without(schema, {"title", "description"})
    if "pattern" in closed:
        closed["pattern"] = closed["pattern"].replace(_END, "$")
        if closed["pattern"] == _LINE:
            del closed["pattern"]
    if "properties" in closed:
        named = closed["properties"].items()
        closed["properties"] = {name: _close(value) | _said(name) for name, value in named}
    if isinstance(closed.get("items"), dict):
        closed["items"] = _close(closed["items"])
    if kinds:
        closed["anyOf"] = [_close(kind) for kind in kinds]
    return closed


def _said(name: str) -> Schema:
    return {"description": ARGUMENTS[name]} if name in ARGUMENTS else {}


def _answered(document: str, schema: Schema, depth: int) -> Schema:
    """A part of an answer's schema, closed: kinds and names, without bounds."""
    document, schema = _resolved(document, schema)
    closed = _kind(schema) | _without(schema, _BOUNDS)
    if depth >= _DEPTH_MAX and "properties" in closed:
        return {"type": "object"}
    if "properties" in closed:
        named = closed["properties"].items()
        closed["properties"] = {
            name: {"type": "object"} if name in _FOLDED else _answered(document, value, depth + 1)
            for name, value in named
        }
    if isinstance(closed.get("items"), dict):
        closed["items"] = _answered(document, closed["items"], depth + 1)
    if "anyOf" in closed:
        closed["anyOf"] = [_answered(document, kind, depth) for kind in closed["anyOf"]]
    return closed


def _kind(schema: Schema) -> Schema:
    """Some clients want to hear that a choice of words is text."""
    return {"type": "string"} if "enum" in schema else {}


def _resolved(document: str, schema: Schema) -> tuple[str, Schema]:
    """What a part of a document stands for, and in which document that is."""
    while "$ref" in schema:
        file, _, name = schema["$ref"].partition("#/$defs/")
        document = file.removesuffix(".json") or document
        whole = _without(_document(document), {"$schema", "$id", "$defs"})
        target = _document(document)["$defs"][name] if name else whole
        schema = {**target, **_without(schema, {"$ref"})}
    return document, schema


def _without(schema: Schema, names: Iterable[str]) -> Schema:
    return {name: value for name, value in schema.items() if name not in set(names)}
