"""Conformance vectors: proofs by example, each run twice unless asked, byte for byte.

A vector is a file `contracts/vectors/<suite>/<shelf>/<name>.json`. Whoever writes one says what
must come out (`expect`); the digests of the very bytes (`sha256`, `journal`) are filled in by
`rewrite`, which leaves everything else alone and refuses where an expectation does not hold.

    golden        what is asked is granted
    adversarial   what is asked is refused
    invariance    what must make no difference makes none
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...contracts import canonical, contract_digest, documents, limits
from . import attempts, faults, verdicts
from .pointer import ABSENT, find
from .scene import CONTRACT_DIGEST, SceneAnswer, make_state, play, proof, require_boundary, scratch

ROOT = documents.ROOT / "vectors"
SHELVES = ("golden", "adversarial", "invariance")
WRITTEN = ("sha256", "journal")  # the members that `rewrite` fills in

# Short names of what most expectations are about; what the answer lacks counts as null.
_SHORT = {
    "result": "/result",
    "failureClasses": "/failureClasses",
    "changed": "/changed",
    "status": "/issue/status",
    "assignee": "/issue/assignee",
    "leaseState": "/issue/lease/state",
}
_VERDICT = ("/result", "/failureClasses", "/effect/witnessRefs", "/effect/argsDigest")


@dataclass(frozen=True, slots=True)
class Vector:
    """One file, read."""

    path: Path
    suite: str
    shelf: str
    name: str
    body: Mapping[str, Any]

    @property
    def id(self) -> str:
        return f"{self.suite}/{self.shelf}/{self.name}"


@dataclass(frozen=True, slots=True)
class Result:
    """How a vector went. `problems` are broken expectations, `stale` are digests that differ."""

    vector: Vector
    problems: tuple[str, ...]
    stale: tuple[str, ...] = ()
    written: Mapping[str, str] = field(default_factory=dict)
    answers: tuple[bytes, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.problems and not self.stale


@dataclass(frozen=True, slots=True)
class Run:
    """What one run gave: the bytes that must repeat, and what is wrong with them."""

    output: bytes
    problems: tuple[str, ...] = ()
    journal: str | None = None
    answers: tuple[bytes, ...] = ()


def load_vectors(root: Path = ROOT) -> list[Vector]:
    """Every vector below a folder, in the order of their ids."""
    vectors = [_loaded(path) for path in root.glob("*/*/*.json")]
    return sorted(vectors, key=lambda vector: vector.id)


def run_vector(vector: Vector, boundary: str = "reference", times: int = 2) -> Result:
    """Run a vector, and hold all its runs against the file and against each other."""
    require_boundary(boundary)
    try:
        with _lowered(vector.body.get("limits", {})):
            first, *others = [_run(vector.body, boundary) for _ in range(times)]
    except Exception as error:  # noqa: BLE001 - whatever is raised, the next vector still runs
        return Result(vector, (f"{type(error).__name__}: {error}",))
    problems = list(first.problems)
    if any((first.output, first.journal) != (again.output, again.journal) for again in others):
        problems.append("the second run gives other bytes than the first")
    written = {"sha256": hashlib.sha256(first.output).hexdigest()}
    if first.journal is not None:
        written["journal"] = first.journal
    stale = tuple(
        f"{name}: the file has {vector.body.get(name)}, the run gives {written.get(name)}"
        for name in WRITTEN
        if vector.body.get(name) != written.get(name)
    )
    return Result(vector, tuple(problems), stale, written, first.answers)


def rewrite(vector: Vector, boundary: str = "reference") -> Result:
    """Fill in the digests of a vector whose expectations hold; a broken one stays as it is."""
    result = run_vector(vector, boundary)
    if result.problems or not result.stale:
        return result
    body = {name: value for name, value in vector.body.items() if name not in WRITTEN}
    vector.path.write_text(text({**body, **result.written}), "utf-8")
    return run_vector(_loaded(vector.path), boundary)


def text(body: Mapping[str, Any]) -> str:
    """A vector as it stands in its file."""
    return json.dumps(body, ensure_ascii=False, indent=2, sort_keys=True) + "\n"


def failure_classes(vector: Vector) -> set[str]:
    """Every failure class that a vector expects to see."""
    expected = vector.body["expect"]
    items = expected if isinstance(expected, list) else [expected]
    return {name for item in items for name in item.get("failureClasses", ())}


def asks(vector: Vector) -> bool:
    """Whether an authority is asked, so that the boundary could make a difference."""
    variants = vector.body.get("variants", [])
    return vector.body["kind"] == "dispatch" or any("rounds" in e for e in (vector.body, *variants))


def _loaded(path: Path) -> Vector:
    suite, shelf, _ = path.parts[-3:]
    return Vector(path, suite, shelf, path.stem, json.loads(path.read_text("utf-8")))


@contextmanager
def _lowered(values: Mapping[str, int]) -> Iterator[None]:
    """Lower some limits for as long as a vector runs."""
    with ExitStack() as stack:
        for name, value in values.items():
            stack.enter_context(faults.swapped(limits, name, value))
        yield


def _run(body: Mapping[str, Any], boundary: str) -> Run:
    match body["kind"]:
        case "dispatch" if "variants" in body:
            return _variants(body, boundary)
        case "dispatch":
            return _dispatch(body, boundary)
        case "fault":
            return _verdict(body, faults.inflict)
        case "check":
            return _verdict(body, verdicts.check)
        case "evidence":
            return _verdict(body, verdicts.evidence)
        case "retry":
            return _verdict(body, lambda each: attempts.retry(each, boundary))
        case "import":
            return _verdict(body, verdicts.imported)
        case other:
            raise ValueError(f"there is no kind of vector `{other}`")


def _verdict(body: Mapping[str, Any], judge: Callable[[Mapping[str, Any]], dict[str, Any]]) -> Run:
    """Judge a vector; where it has variants, all of them must come out the same."""
    verdict, *others = [judge({**body, **each}) for each in body.get("variants", [{}])]
    problems = [
        f"{name}: expected {_shown(value)}, got {_shown(verdict.get(name))}"
        for name, value in body["expect"].items()
        if name != "has" and verdict.get(name) != value
    ]
    problems += _pointer_problems(body["expect"].get("has", {}), verdict)
    problems += [
        f"variant {number}: the verdict is not that of variant 1"
        for number, other in enumerate(others, start=2)
        if other != verdict
    ]
    return Run(canonical.encode(verdict), tuple(problems))


# --- requests and answers -----------------------------------------------------------------------


def _dispatch(body: Mapping[str, Any], boundary: str) -> Run:
    answers, head, problems = _played(body, boundary)
    problems += _answer_problems(body["expect"], answers)
    lines = tuple(answer.data for answer in answers)
    return Run(b"\n".join(lines), tuple(problems), head, lines)


def _variants(body: Mapping[str, Any], boundary: str) -> Run:
    """Play every variant; what they share must come out the same."""
    runs = []
    problems: list[str] = []
    for number, variant in enumerate(body["variants"], start=1):
        answers, head, found = _played(variant, boundary)
        shared = [answer for answer in answers if answer.compared]
        found += _answer_problems(body["expect"], shared)
        problems += [f"variant {number}: {problem}" for problem in found]
        runs.append((shared, head))
    answers, head = runs[0]
    for number, (others, other_head) in enumerate(runs[1:], start=2):
        if body["compare"] == "bytes":
            if other_head != head:
                problems.append(f"variant {number}: the journal ends with another row")
            problems += _differences(number, answers, others, lambda answer: answer.data)
        else:
            problems += _differences(number, answers, others, _essence)
    lines = tuple(answer.data for answer in answers)
    every = tuple(answer.data for shared, _ in runs for answer in shared)
    return Run(b"\n".join(lines), tuple(problems), head, every)


def _differences(
    number: int,
    answers: Sequence[SceneAnswer],
    others: Sequence[SceneAnswer],
    part: Callable[[SceneAnswer], object],
) -> list[str]:
    return [
        f"variant {number}: answer {index} is not that of variant 1"
        for index, (one, other) in enumerate(zip(answers, others, strict=False), start=1)
        if part(one) != part(other)
    ]


def _essence(answer: SceneAnswer) -> object:
    """What a verdict is, apart from the door and the moment that it came through."""
    value = answer.value
    return [find(value, pointer) for pointer in _VERDICT]


def _played(scene: Mapping[str, Any], boundary: str) -> tuple[list[SceneAnswer], str, list[str]]:
    with scratch() as folder:
        state_dir = Path(folder)
        make_state(state_dir)
        answers = play(scene, boundary, state_dir)
        head, _, problems = proof(state_dir)
    return answers, head, problems


def _answer_problems(
    expected: Sequence[Mapping[str, Any]], answers: Sequence[SceneAnswer]
) -> list[str]:
    if len(expected) != len(answers):
        return [f"{len(expected)} answers are expected, {len(answers)} came"]
    return [
        f"answer {number}: {problem}"
        for number, (each, answer) in enumerate(zip(expected, answers, strict=True), start=1)
        for problem in _mismatches(each, answer)
    ]


def _mismatches(expected: Mapping[str, Any], answer: SceneAnswer) -> Iterator[str]:
    value = answer.value
    for name, wanted in expected.items():
        match name:
            case "journaled":
                found: object = answer.journaled
            case "fence":
                lease_fence = find(value, "/issue/lease/fence")
                found = find(value, "/effect/fence") if lease_fence is ABSENT else lease_fence
            case "has" | "lacks":
                continue
            case _:
                found = find(value, _SHORT[name])
        found = None if found is ABSENT else found
        if found != wanted:
            yield f"{name}: expected {_shown(wanted)}, got {_shown(found)}"
    yield from _pointer_problems(expected.get("has", {}), value)
    for pointer in expected.get("lacks", ()):
        if find(value, pointer) is not ABSENT:
            yield f"{pointer}: expected nothing, got {_shown(find(value, pointer))}"


def _pointer_problems(expected: Mapping[str, Any], value: object) -> list[str]:
    return [
        f"{pointer}: expected {_shown(wanted)}, got {_shown(found)}"
        for pointer, wanted in expected.items()
        if (found := find(value, pointer)) is ABSENT or found != _known(wanted)
    ]


def _known(wanted: object) -> object:
    return contract_digest() if wanted == CONTRACT_DIGEST else wanted


def _shown(value: object) -> str:
    return "nothing" if value is ABSENT else json.dumps(value, ensure_ascii=False)
