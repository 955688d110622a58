"""A scene: a fresh journal, requests through doors, and their answers, on any boundary mode.

Vectors are scenes with expectations. A scene is a table with these members:

    import      lines of issues.jsonl, taken over first through the command line's door
    door        the transport of the door that requests come through, `mcp` unless said
    requests    what is asked: requests, or steps (`request`, `raw`, `rawBase64`, `rawRepeat`,
                `restart`) that can name a door of their own
    together    decide all requests in one batch instead of one by one
"""

import base64
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import orjson

from ...contracts import Door, canonical, contract_digest, parse
from ..engine import ffi
from ..engine.engine import recover
from ..journal.state_dir import create_state_dir, open_journal
from ..journal.state_files import TRAJECTORY
from ..law.image import dump, load
from ..law.state import State, check_invariants
from ..service.local import Office
from ..service.native_local import NativeOffice
from ..views.issues_file import import_payloads, read_issues
from ..views.replay import replay
from ..views.trajectory import verify
from .picture import faults
from .served import Served

NODE = "vector"  # the name of the authority's clock in every vector
CONTRACT_DIGEST = "$contractDigest"  # stands for the digest of the contract in force
_DAWN = "1970-01-01T00:00:00Z"
_STEPS = frozenset({"request", "raw", "rawBase64", "rawRepeat", "restart"})


class Boundary(Protocol):
    """An authority that runs on a state directory, in one of the boundary modes."""

    def submit(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        """One answer for each line, decided in order as one batch."""

    def close(self) -> None:
        """Let go of the state directory."""


class Reference:
    """The law itself, in this process."""

    def __init__(self, state_dir: Path) -> None:
        self.office = Office(state_dir, writable=True)

    def submit(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        return self.office.submit([parse(data, door) for data, door in lines])

    def close(self) -> None:
        self.office.close()


class Native:
    """C in this process, and the law for whatever is cold."""

    def __init__(self, state_dir: Path) -> None:
        self.office = NativeOffice(state_dir, writable=True)

    def submit(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        return self.office.submit_lines(lines)

    def close(self) -> None:
        self.office.close()


BOUNDARIES: dict[str, Callable[[Path], Boundary]] = {"reference": Reference, "sidecar": Served}
if ffi.available():
    BOUNDARIES["native"] = Native


class UnknownBoundary(ValueError):
    """No boundary mode has this name."""


class BadScene(ValueError):
    """The scene itself is wrong, so that it shows nothing about the authority."""


@dataclass(frozen=True, slots=True)
class SceneAnswer:
    """What came back for one request."""

    data: bytes
    journaled: bool  # a row was written for it
    compared: bool = True  # a retry between the requests is not part of what variants share

    @property
    def value(self) -> dict[str, Any]:
        value: dict[str, Any] = orjson.loads(self.data)
        return value


@dataclass(frozen=True, slots=True)
class SceneStep:
    """One line through one door; without a line the authority is closed and opened again."""

    line: bytes | None
    door: Door
    compared: bool


def require_boundary(name: str) -> Callable[[Path], Boundary]:
    """How to open an authority in the boundary mode of this name."""
    if name not in BOUNDARIES:
        raise UnknownBoundary(f"no boundary `{name}`; there is {', '.join(sorted(BOUNDARIES))}")
    return BOUNDARIES[name]


def scratch() -> "TemporaryDirectory[str]":
    """A folder for one run; in memory where there is such a place, for no vector loses power."""
    memory = "/dev/shm"  # noqa: S108 - the folder below it has a name of its own
    usable = os.access(memory, os.W_OK)
    return TemporaryDirectory(prefix="understudy-", dir=memory if usable else None)


def make_state(state_dir: Path) -> None:
    """An empty journal whose clock has the name that all vectors share.

    A folder that remembers a database already has its journal there.
    """
    create_state_dir(state_dir, NODE)


def play(scene: Mapping[str, Any], boundary: str, state_dir: Path) -> list[SceneAnswer]:
    """Ask everything in order; the answers, without those of the import."""
    opened = require_boundary(boundary)
    authority = opened(state_dir)
    seen: set[int] = set()
    answers: list[SceneAnswer] = []
    try:
        for line in _import_lines(scene):
            _imported(authority.submit([(line, Door("cli"))])[0], seen)
        for batch in _batches(scene):
            if batch[0].line is None:
                authority.close()
                authority = opened(state_dir)
                continue
            lines = [(step.line or b"", step.door) for step in batch]
            for step, data in zip(batch, authority.submit(lines), strict=True):
                answers.append(_answer(data, seen, compared=step.compared))
    finally:
        authority.close()
    return answers


def proof(state_dir: Path) -> tuple[str, int, list[str]]:
    """The journal's last digest, how many rows it has, and everything that does not prove itself:
    replay, trajectory, invariants, snapshots and tables."""
    problems: list[str] = []
    with open_journal(state_dir, read_only=True) as journal:
        state, head, _ = recover(journal)
        if mismatch := replay(journal).mismatch:
            problems.append(f"replay: {mismatch}")
        if problem := verify(state_dir / TRAJECTORY, journal)[1]:
            problems.append(f"trajectory: {problem}")
        with closing(journal.tables(state_dir)) as tables:
            problems += (f"tables: {each}" for each in faults(tables, state, head.seq))
    problems += _state_problems(state)
    return head.digest, head.seq, problems


def _state_problems(state: State) -> list[str]:
    try:
        check_invariants(state)
        image = dump(state)
        again = load(image)
        check_invariants(again)
    except AssertionError as error:
        return [f"invariant: {error}"]
    return [] if dump(again) == image else ["snapshot: the state that it gives back differs"]


def _answer(data: bytes, seen: set[int], *, compared: bool) -> SceneAnswer:
    value = orjson.loads(data)
    seq, effect = value["seq"], value.get("effect", {})
    journaled = effect.get("prev") is not None and seq not in seen
    if journaled:
        seen.add(seq)
    return SceneAnswer(data, journaled, compared)


# --- what is asked ------------------------------------------------------------------------------


def _import_lines(scene: Mapping[str, Any]) -> Iterator[bytes]:
    text = "".join(json.dumps(line) + "\n" for line in scene.get("import", ()))
    records, problems, _ = read_issues(text.encode(), _DAWN)
    if problems:
        raise BadScene(f"import line {problems[0].line}: {problems[0].message}")
    for payload in import_payloads(records):
        yield canonical.encode({"action": "issue.import", "payload": payload})


def _imported(data: bytes, seen: set[int]) -> None:
    answer = _answer(data, seen, compared=False)
    if answer.value["result"] != "accepted":
        raise BadScene(f"import: {answer.value['diagnostic']}")


def _batches(scene: Mapping[str, Any]) -> list[list[SceneStep]]:
    door = scene.get("door", "mcp")
    steps = [_step(item, door) for item in scene["requests"]]
    if scene.get("together") and any(step.line is None for step in steps):
        raise BadScene("a restart has no place in one batch")
    return [steps] if scene.get("together") else [[step] for step in steps]


def _step(item: Mapping[str, Any], door: str) -> SceneStep:
    if not _STEPS & item.keys():
        return SceneStep(_encoded(item), Door(_transport(door), frozen_clock=True), compared=True)
    through = Door(_transport(item.get("door", door)), frozen_clock=item.get("frozenClock", True))
    line = None if "restart" in item else _raw(item)
    return SceneStep(line, through, compared=item.get("compared", True))


def _raw(item: Mapping[str, Any]) -> bytes:
    if "request" in item:
        return _encoded(item["request"])
    if "raw" in item:
        return str(item["raw"]).encode()
    if "rawBase64" in item:
        return base64.b64decode(item["rawBase64"])
    part = item["rawRepeat"]
    text: str = part["head"] + part["unit"] * part["times"] + part["tail"]
    return text.encode()


def _encoded(request: Mapping[str, Any]) -> bytes:
    return canonical.encode(request).replace(CONTRACT_DIGEST.encode(), contract_digest().encode())


def _transport(name: str) -> Any:  # a literal type that data cannot have
    return name
