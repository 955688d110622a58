"""Taking over an operation log: what was done elsewhere is done here too, by the owner's own hand.

Jobs, specs and routes travel, leases do not: what was claimed there is pending here. Nodes and the
coordinator travel if that is asked for. Everything goes through the rules as ordinary requests, so
that nothing comes in that could not have happened: the job of a step is made of its spec, which is
submitted first.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import orjson
from msgspec import Struct

from ...contracts import (
    Door,
    JobMove,
    JobState,
    Operation,
    build,
    canonical,
    job_step,
    limits,
    step_job,
)
from ..law.jobs.oplog import fold
from ..law.jobs.routes import directive_view
from .local import Office


class Unsound(ValueError):
    """The log contradicts itself; the message names the operations."""


class ImportedOplog(Struct, frozen=True):
    """What came of it. `problems` are the diagnostics of what was refused."""

    scheduled: int
    completed: int
    routes: int
    specs: int  # that were submitted
    nodes: int  # registered, or registered otherwise
    coordinator: str | None  # who was designated
    problems: tuple[str, ...]


def take_over(
    office: Office, log: Iterable[Operation], *, with_nodes: bool = False
) -> ImportedOplog:
    """Submit, schedule, complete and route what the log says; with its nodes, those too.

    Done again, it changes nothing.
    """
    lines = {each.op_id: each for each in log}
    folded = fold(lines.values())
    if folded.refused:
        raise Unsound(", ".join(folded.refused[:3]))
    by_place = sorted(lines.values(), key=lambda each: each.place)
    scheduled = [
        each.body | {"causalDeps": list(each.causal_deps)}
        for each in by_place
        if each.kind == JobMove.SCHEDULE and job_step(each.body["jobId"]) is None
    ]
    steps = [
        found
        for each in by_place
        if each.kind == JobMove.SCHEDULE and (found := job_step(each.body["jobId"]))
    ]
    results = {
        each.body["jobId"]: each.body["artifacts"]
        for each in by_place
        if each.kind == JobMove.COMPLETE
        and folded.entries[each.body["jobId"]].state is JobState.COMPLETED
    }
    lane = office.authority.state.lane
    submitted = _asked(office, "spec.submit", [*folded.specs.values()])
    made, unmade = _materialize(office, steps)
    answers = _asked(office, "job.schedule", scheduled)
    problems = [*_problems(submitted), *unmade, *_problems(answers)]
    completed, refused = _complete(office, results)
    dead = [key for key, each in folded.entries.items() if each.state is JobState.CANCELLED]
    left = [{"jobId": key} for key in dead if lane.jobs[key].state is not JobState.CANCELLED]
    problems += _problems(_asked(office, "job.cancel", left))
    said = {kind: directive_view(each) for kind, each in lane.directives.items()}
    news = [_given(each) for kind, each in folded.routes.items() if said.get(kind) != each]
    routes = _asked(office, "route.set", news)
    members = [_given(each) for each in _nodes(by_place).values()] if with_nodes else []
    nodes = _asked(office, "node.register", members)
    named = folded.coordinator if with_nodes else ""
    is_known = lane.designation is not None and lane.designation.node == named
    wanted = [{"node": named}] if named and not is_known else []
    designated = _asked(office, "coordinator.designate", wanted)
    return ImportedOplog(
        scheduled=made + sum(bool(each.get("changed")) for each in answers),
        completed=completed,
        routes=sum(bool(each.get("changed")) for each in routes),
        specs=sum(bool(each.get("changed")) for each in submitted),
        nodes=sum(bool(each.get("changed")) for each in nodes),
        coordinator=next((named for each in designated if each.get("changed")), None),
        problems=(*problems, *refused, *_problems([*routes, *nodes, *designated])),
    )


def _materialize(office: Office, steps: Sequence[tuple[str, str]]) -> tuple[int, list[str]]:
    """Make the jobs of steps that are missing here, spec by spec, and lay the specs down again."""
    lane, count, problems = office.authority.state.lane, 0, list[str]()
    wanted: dict[str, list[str]] = {}
    for spec_id, step_key in steps:
        if step_job(spec_id, step_key) not in lane.jobs:
            wanted.setdefault(spec_id, []).append(step_key)
    runner = office.journal.node()
    claims = _asked(office, "spec.claim", [{"specId": each, "runner": runner} for each in wanted])
    problems += _problems(claims)
    for answer in claims:
        if answer["result"] != "accepted":
            continue
        spec = answer["spec"]
        held = {
            "specId": spec["specId"],
            "runner": runner,
            "leaseId": spec["lease"]["leaseId"],
            "fence": spec["lease"]["fence"],
        }
        keys = wanted[spec["specId"]]
        size = limits.SPEC_BATCH_MAX
        parts = [keys[at : at + size] for at in range(0, len(keys), size)]
        made = _asked(office, "spec.materialize", [held | {"stepKeys": each} for each in parts])
        count += sum(len(each.get("created", ())) for each in made)
        problems += _problems(made)
        if made[-1].get("spec", {}).get("state") != "materialized":
            problems += _problems(_asked(office, "spec.release", [held]))
    return count, problems


def _nodes(log: Iterable[Operation]) -> dict[str, dict[str, Any]]:
    """Every node as it was registered last. One whose stamps were at fault since is quarantined."""
    nodes: dict[str, dict[str, Any]] = {}
    for each in log:
        node = str(each.body.get("node"))
        if each.kind == "RegisterNode":
            nodes[node] = each.body
        elif each.kind == "UnregisterNode":
            nodes.pop(node, None)
        elif each.kind == JobMove.FAULT and node in nodes:
            nodes[node] = nodes[node] | {"quarantined": True}
    return nodes


def _complete(office: Office, results: dict[str, list[dict[str, Any]]]) -> tuple[int, list[str]]:
    """Claim and complete, many at once, up to where one waits for those before it."""
    lane, count, problems = office.authority.state.lane, 0, list[str]()
    wave: list[str] = []
    left = [each for each in results if each in lane.jobs and not lane.jobs[each].completed_ms]
    for job_id in [*left, None]:
        if wave and (job_id is None or lane.missing(lane.jobs[job_id])):
            answers = _completed(office, {each: results[each] for each in wave})
            count += sum(each["result"] == "accepted" for each in answers)
            problems += _problems(answers)
            wave = []
        if job_id is not None:
            wave.append(job_id)
    return count, problems


def _completed(office: Office, results: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What was answered to the completions, or to claims that were refused."""
    worker = office.journal.node()
    claims = _asked(office, "job.claim", [{"jobId": each, "worker": worker} for each in results])
    granted = [each["job"] for each in claims if each["result"] == "accepted"]
    completions = [
        {
            "jobId": each["jobId"],
            "worker": worker,
            "leaseId": each["lease"]["leaseId"],
            "fence": each["lease"]["fence"],
            "outputArtifacts": results[each["jobId"]],
        }
        for each in granted
    ]
    refused = [each for each in claims if each["result"] != "accepted"]
    return _asked(office, "job.complete", completions) + refused


def _asked(office: Office, action: str, payloads: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests at the command line's door, committed together as far as a batch goes."""
    answers: list[dict[str, Any]] = []
    for start in range(0, len(payloads), limits.BATCH_MAX):
        part = payloads[start : start + limits.BATCH_MAX]
        batch = [build({"action": action, "payload": each}, Door("cli")) for each in part]
        answers += [orjson.loads(line) for line in office.submit(batch)]
    return answers


def _problems(answers: Iterable[dict[str, Any]]) -> list[str]:
    return [each["diagnostic"] for each in answers if each["result"] != "accepted"]


def _given(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def read_log(data: bytes) -> list[Operation]:
    """The operations of a file, a JSON object a line. Raises `ValueError` for others."""
    log = list[Operation]()
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            operation = msgspec.convert(canonical.decode(line), Operation)
            msgspec.convert(operation.body, _BODIES[operation.kind])
        except KeyError as error:
            raise ValueError(f"line {number}: unknown kind {error}") from None
        except ValueError as error:
            raise ValueError(f"line {number}: {error}") from None
        log.append(operation)
    return log


class _OfJob(Struct, rename="camel"):
    job_id: str


class _Schedule(_OfJob, rename="camel"):
    kind: str
    payload: dict[str, Any]


class _Claim(_OfJob, rename="camel"):
    worker: str
    fence: int
    deadline_ms: int


class _Complete(_OfJob, rename="camel"):
    artifacts: list[dict[str, Any]]


class _Route(Struct):
    kind: str


class _OfNode(Struct):
    node: str


class _Submit(Struct, rename="camel"):
    spec_id: str
    steps: list[dict[str, Any]]


# What the body of an operation has at least, for it to be folded.
_BODIES: dict[str, type[Struct]] = {
    JobMove.SCHEDULE: _Schedule,
    JobMove.CLAIM: _Claim,
    JobMove.COMPLETE: _Complete,
    JobMove.YIELD: _OfJob,
    JobMove.EXPIRE: _OfJob,
    JobMove.FAULT: _OfJob,
    JobMove.CANCEL: _OfJob,
    JobMove.RETRY: _OfJob,
    JobMove.RULE: _OfJob,
    "RouteKind": _Route,
    "DesignateCoordinator": _OfNode,
    "RegisterNode": _OfNode,
    "UnregisterNode": _OfNode,
    "SubmitSpec": _Submit,
}
