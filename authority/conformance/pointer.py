"""JSON pointers (RFC 6901), and the three patches (RFC 6902) that vectors damage documents with."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

ABSENT = object()  # what a pointer into nowhere finds


def find(value: object, pointer: str) -> object:
    """What the pointer names, or `ABSENT`."""
    for part in _parts(pointer):
        if isinstance(value, dict):
            value = value.get(part, ABSENT)
        elif isinstance(value, list) and part.isdecimal() and int(part) < len(value):
            value = value[int(part)]
        else:
            return ABSENT
    return value


def patched(document: Any, patches: Sequence[Mapping[str, Any]]) -> Any:
    """A changed copy. A path that leads nowhere raises `LookupError`: the patch shows nothing."""
    document = deepcopy(document)
    for patch in patches:
        if patch["path"] == "":
            document = deepcopy(patch["value"])
        else:
            _change(document, patch)
    return document


def _change(document: object, patch: Mapping[str, Any]) -> None:
    folder, _, name = patch["path"].rpartition("/")
    place: Any = find(document, folder)
    key: Any = _plain(name)
    if isinstance(place, list):
        key = len(place) if key == "-" else int(key)
    elif not isinstance(place, dict):
        raise LookupError(f"{patch['path']} leads nowhere")  # noqa: TRY004 - data, not a type
    if patch["op"] != "add" and find(document, patch["path"]) is ABSENT:
        raise LookupError(f"{patch['path']} is not there")
    match patch["op"], place:
        case "add", list():
            place.insert(key, patch["value"])
        case "add" | "replace", _:
            place[key] = patch["value"]
        case "remove", _:
            del place[key]
        case _:
            raise LookupError(f"there is no operation {patch['op']}")


def _parts(pointer: str) -> list[str]:
    return [_plain(part) for part in pointer.split("/")[1:]]


def _plain(part: str) -> str:
    return part.replace("~1", "/").replace("~0", "~")
