"""Reads a spec as people write it, in YAML or JSON, and says in which line or step it is wrong.

YAML guesses what a bare word means. Guesses that surprise are refused, with the way to write what
was meant: `no` and `on`, dates, numbers with a fraction, a leading zero or colons, and keys that
come twice. Anchors count as often as they are used.
"""

import re
from collections.abc import Sequence
from typing import Any

import click
import msgspec
import yaml

from ...contracts import SubmitSpec, canonical, limits

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")
_PATH = re.compile(r"\.(\w+)|\[(\d+)\]")
_DIGITS_MAX = 17  # of an integer that may be within bounds, and its sign
_SHOWN_MAX = 64  # characters of what is wrong
_GUESSES = {
    "float": "a number that is no integer",
    "timestamp": "a moment",
    "merge": "a merge of mappings",
}


def read_spec(text: bytes, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """The payload of spec.submit, with what was given beside the file in place of what it says.

    Raises `click.UsageError` for what cannot be one.
    """
    if name.endswith(".json") or _is_json(text):
        node, document = None, _from_json(text, name)
    else:
        node = _composed(text, name)
        document = _Reading(name).value(node, [])
    if not isinstance(document, dict):
        raise click.UsageError(f"{name}: this is no mapping with specId and steps")
    document |= given
    try:
        msgspec.convert(document, SubmitSpec)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        raise click.UsageError(f"{_place(name, node, document, path)}: {message}") from None
    return document


# --- JSON ---------------------------------------------------------------------------------------


def _is_json(text: bytes) -> bool:
    try:
        msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (ValueError, RecursionError):
        return False
    return True


def _from_json(text: bytes, name: str) -> Any:
    try:
        return canonical.decode(text)
    except canonical.NotCanonical as error:
        raise click.UsageError(f"{name}{_json_step(text)}: {error}") from None


def _json_step(text: bytes) -> str:
    """The step of a JSON document that has no canonical form, if it is a step that has none."""
    try:
        steps = msgspec.json.decode(text)["steps"]
        for step in steps:
            try:
                canonical.decode(msgspec.json.encode(step))
            except canonical.NotCanonical:
                return f", step {step['stepKey']}"
    except (ValueError, RecursionError, LookupError, TypeError):
        pass
    return ""


# --- YAML ---------------------------------------------------------------------------------------


def _composed(text: bytes, name: str) -> yaml.Node:
    """The one document of the text, as nodes that know their lines."""
    try:
        _refuse_depth(text, name)
        node: yaml.Node | None = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise click.UsageError(f"{name}{line}: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        first = str(error).splitlines()[0]
        raise click.UsageError(f"{name}: this is neither YAML nor JSON: {first}") from None
    if node is None:
        raise click.UsageError(f"{name}: there is nothing in it")
    return node


def _refuse_depth(text: bytes, name: str) -> None:
    """Before anything recurses into it."""
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent)
        depth -= isinstance(event, yaml.CollectionEndEvent)
        if depth > limits.JSON_DEPTH_MAX:
            line = event.start_mark.line + 1
            deepest = limits.JSON_DEPTH_MAX
            raise click.UsageError(f"{name}, line {line}: nested deeper than {deepest}")


class _Reading:
    """Makes values of nodes, and counts what they come to."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._size = 0
        self._step = ""

    def value(self, node: yaml.Node, path: list[str]) -> Any:
        self._size += 1 + (len(node.value) if isinstance(node, yaml.ScalarNode) else 0)
        if self._size > limits.REQUEST_BYTES_MAX:
            raise self._wrong(node, path, "with its aliases written out, the spec is too large")
        if len(path) > limits.JSON_DEPTH_MAX:
            raise self._wrong(node, path, f"nested deeper than {limits.JSON_DEPTH_MAX}")
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, path)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(each, [*path, f"[{at}]"]) for at, each in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        raise self._wrong(node, path, f"{node.tag} means nothing here")

    def _mapping(self, node: yaml.MappingNode, path: list[str]) -> dict[str, Any]:
        if len(path) == 2 and path[0] == ".steps":
            self._step = _key_of_step(node)
        members: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if key_node.tag != f"{_TAG}str":
                shown = _short(str(key_node.value))
                problem = f"the key `{shown}` is not read as text; put it in quotes"
                raise self._wrong(key_node, path, problem)
            key = key_node.value
            if key in members:
                raise self._wrong(key_node, path, f"the key `{_short(key)}` comes twice")
            if not key.isascii() or "\0" in key:
                raise self._wrong(key_node, path, f"the key {_short(key)!r} is not plain ASCII")
            members[key] = self.value(value_node, [*path, f".{key}"])
        return members

    def _scalar(self, node: yaml.ScalarNode, path: list[str]) -> Any:
        text, tag = node.value, node.tag.removeprefix(_TAG)
        if tag == "str" and "\0" not in text:
            return text
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        if tag == "bool":
            raise self._wrong(
                node, path, f"`{text}` is true or false to YAML; write that, or quote it"
            )
        if tag == "int" and _INTEGER.fullmatch(text):
            if len(text) <= _DIGITS_MAX and abs(int(text)) <= limits.INTEGER_MAX:
                return int(text)
            raise self._wrong(node, path, f"{_short(text)} is beyond 2^53 - 1; put it in quotes")
        guess = "a number in another notation" if tag == "int" else _GUESSES.get(tag, node.tag)
        problem = f"{_short(text)!r} is {guess}; write an integer, or put it in quotes"
        raise self._wrong(node, path, problem)

    def _wrong(self, node: yaml.Node, path: Sequence[str], problem: str) -> click.UsageError:
        step = f", step {self._step}" if self._step and path[:1] == [".steps"] else ""
        where = "".join(path[2:] if step else path).lstrip(".")
        place = f"{self._name}, line {node.start_mark.line + 1}{step}"
        return click.UsageError(f"{place}: {f'{where}: ' if where else ''}{problem}")


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."


def _key_of_step(node: yaml.Node) -> str:
    """The name of a step for people, read before the rest of it is."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == "stepKey" and isinstance(value, yaml.ScalarNode):
                return str(value.value)
    return ""


def _place(name: str, node: yaml.Node | None, document: dict[str, Any], path: str) -> str:
    """Where a member stands that has the wrong shape: file, line, step, member."""
    parts = [field or int(at) for field, at in _PATH.findall(path)]
    line, steps = "", document.get("steps")
    if node is not None:
        line = f", line {_line(node, parts)}"
    if parts[:1] != ["steps"] or len(parts) < 2 or not isinstance(steps, list):
        return f"{name}{line}" + (f": {path.lstrip('.').rstrip('`')}" if parts else "")
    step = steps[int(parts[1])]
    key = step.get("stepKey") if isinstance(step, dict) else None
    named = f"step {key}" if isinstance(key, str) else f"the step at place {int(parts[1]) + 1}"
    member = "".join(f".{part}" for part in parts[2:]).lstrip(".")
    return f"{name}{line}, {named}" + (f": {member}" if member else "")


def _line(node: yaml.Node, parts: Sequence[str | int]) -> int:
    """The line of the deepest part that there is."""
    for part in parts:
        found = None
        if isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            found = node.value[part] if part < len(node.value) else None
        elif isinstance(node, yaml.MappingNode):
            found = next((value for key, value in node.value if key.value == part), None)
        if found is None:
            break
        node = found
    return int(node.start_mark.line) + 1
