"""The JSON Schemas of tools, made from the published schemas of requests and answers.

A tool's schema stands alone: what it refers to is written in place, since not every client follows
references, and no model should have to. It is a little wider than the published one where that
costs nothing; the authority judges every request by the published one.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import orjson

from ...contracts import documents

_END = r"$(?!\n)"  # the end in every dialect; several clients know no lookahead, and `$` will do
_ENVELOPE = (
    "action", "result", "failureClasses", "diagnostic", "changed", "seq", "stamp",
)  # fmt: skip
_NEEDED = ["result", "failureClasses"]  # what even an authority that cannot be reached says


def arguments(action: str, *, mutates: bool) -> dict[str, Any]:
    """What a tool for a host action takes; a mutation may bring its evidence along."""
    shape = _closed("request", _payload(action))
    properties = dict(shape.get("properties", {}))
    if mutates:
        properties["context"] = _context()
    return {
        "type": "object",
        "properties": properties,
        "required": shape.get("required", []),
        "additionalProperties": False,
    }


def member(definition: str, document: str = "request") -> dict[str, Any]:
    """One definition of a published schema, standing alone."""
    return _closed(document, _document(document)["$defs"][definition])


def answer(members: Iterable[str], more: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a tool gives back: the authority's answer, of which these members are its own."""
    published = _document("response")["properties"]
    names = [*_ENVELOPE, *(name for name in members if name in published)]
    properties = {name: _closed("response", published[name]) for name in names}
    properties["effect"] = _effect()
    return {
        "type": "object",
        "properties": properties | dict(more or {}),
        "required": _NEEDED,
    }


@cache
def _document(name: str) -> dict[str, Any]:
    path = documents.ROOT / "schemas" / f"{name}.schema.json"
    schema: dict[str, Any] = orjson.loads(path.read_bytes())
    return schema


@cache
def _payloads() -> dict[str, dict[str, Any]]:
    """The payload's schema by action, as the request's schema tells them apart."""
    found = {}
    for rule in _document("request")["allOf"]:
        told = rule["if"]["properties"]["action"]
        for action in told.get("enum", [told.get("const")]):
            found[action] = rule["then"]["properties"]["payload"]
    return found


def _payload(action: str) -> dict[str, Any]:
    return _payloads().get(action, {"type": "object"})


@cache
def _context() -> dict[str, Any]:
    """Of a request's context, what an agent has to say."""
    published = _document("request")["$defs"]["context"]["properties"]
    names = ("instructionRef", "policyDigest", "capabilityClaims")
    return {
        "description": "Evidence, where the authority's policy is instruction-linked.",
        "type": "object",
        "properties": {name: _closed("request", published[name]) for name in names},
    }


@cache
def _effect() -> dict[str, Any]:
    """The evidence of the action: the same through every door."""
    published = _document("host-effect")["properties"]
    names = ("argsDigest", "witnessRefs", "policyDigest", "transport", "fence")
    return {
        "description": "The host-effect envelope: the row of evidence that this call left.",
        "type": "object",
        "properties": {name: _closed("host-effect", published[name]) for name in names},
    }


def _closed(document: str, schema: Any) -> Any:  # noqa: ANN401 - any part of a schema
    """A part of a schema with everything that it refers to written in place."""
    if isinstance(schema, list):
        return [_closed(document, each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        file, _, path = schema["$ref"].partition("#/$defs/")
        target = file.removesuffix(".json") or document
        return _closed(target, _document(target)["$defs"][path])
    if (plain := _given(schema)) is not None:
        return _closed(document, plain)
    return {
        key: value.replace(_END, "$") if key == "pattern" and isinstance(value, str) else
        _closed(document, value)
        for key, value in schema.items()
        if key != "title" or not isinstance(value, str)
    }  # fmt: skip


def _given(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """What may also be null, without the null: to leave a member out says the same."""
    kinds = schema.get("anyOf", [])
    rest = [kind for kind in kinds if kind.get("type") != "null"]
    if len(kinds) != 2 or len(rest) != 1:
        return None
    return {**rest[0], **{key: value for key, value in schema.items() if key != "anyOf"}}
