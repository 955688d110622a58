"""Instructions: whether an envelope may be carried out, and the witness of what came of it.

`check` says yes or no and which commands to run; a caller that may hand in results runs them; `run`
records what they gave. A witness holds no time of its own, so the same results give the same bytes.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from ....contracts import (
    CheckInstruction,
    CheckPolicy,
    CheckResult,
    Flaw,
    Instruction,
    Reason,
    RunInstruction,
    Witness,
    canonical,
    document_of,
    read_instruction,
    typed_core,
    verdict,
)
from ..outcome import Accepted, Outcome, Refused, WitnessPut
from ..turn import Turn

WITNESS_KIND = "ci.instruction.v1"


def check(turn: Turn, request: CheckInstruction) -> Outcome:
    """Whether the policy in force allows the envelope, and what it would run."""
    instruction = read_instruction(request.instruction_id, request.envelope, turn.state.checks)
    if isinstance(instruction, Flaw):
        return _refuse(request, instruction)
    assert turn.state.checks is not None, "no envelope is bound to no policy"
    body = {
        "instruction": instruction.view(),
        "checks": commands(turn.state.checks, instruction.requested_checks),
    }
    return Accepted(body=body)


def run(turn: Turn, request: RunInstruction) -> Outcome:
    """Record what the requested checks gave, once for each of them."""
    refusal = hearsay(turn, "instruction.run")
    if refusal is not None:
        return refusal
    instruction = read_instruction(request.instruction_id, request.envelope, turn.state.checks)
    if isinstance(instruction, Flaw):
        return _refuse(request, instruction)
    name = f"instruction {instruction.instruction_id}"
    if not instruction.executes:
        return Refused(Reason.INSTRUCTION_UNROUTABLE, f"{name}: {instruction.instruction_type}")
    key = f"instruction/{instruction.instruction_id}"
    known = turn.state.witnesses.get(key)
    if known is not None and known.digest != instruction.digest:
        return Refused(Reason.INSTRUCTION_CONFLICT, f"{name}: row {known.seq}")
    problem = results_problem(instruction.requested_checks, request.results)
    if problem is not None:
        return Refused(Reason.INSTRUCTION_RESULTS, f"{name}: {problem}")
    witness = _witness(instruction, in_order(instruction.requested_checks, request.results))
    digest = canonical.digest("wit1", canonical.encode(witness))
    ref = f"ciwitness://instruction/{instruction.instruction_id}/{digest}"
    put = Witness(
        key=key, digest=instruction.digest, verdict=witness["verdictClass"], seq=turn.stamp.seq
    )
    body = {"changed": True, "witness": witness, "witnessRef": ref}
    return Accepted((WitnessPut(put),), body, witnesses=(ref,))


def _refuse(request: CheckInstruction | RunInstruction, flaw: Flaw) -> Refused:
    return Refused(flaw.reason, f"instruction {request.instruction_id}: {flaw.detail}")


def _witness(instruction: Instruction, results: list[dict[str, Any]]) -> dict[str, Any]:
    members = instruction.view()
    del members["executionDecision"]
    required = members.pop("requestedChecks")
    judged = verdict(results)
    core = {
        "instructionDigest": instruction.digest,
        "requiredChecks": required,
        "results": outcomes(results),
        **judged,
    }
    return {
        "ciSchema": 1,
        "witnessKind": WITNESS_KIND,
        **members,
        "requiredChecks": required,
        **judged,
        **execution(results),
        **typed_core(core, instruction.normalizer_id, instruction.policy_digest),
    }


# --- results, as `required` needs them too --------------------------------------------------------


def hearsay(turn: Turn, action: str) -> Refused | None:
    """Results count only from doors behind which the checks were run, not from every caller."""
    if {turn.door, turn.transport} <= {"cli", "coordinator"}:
        return None
    return Refused(Reason.CHECK_RESULTS_FORBIDDEN, f"{action}: {turn.door}")


def commands(policy: CheckPolicy, check_ids: Iterable[str]) -> list[dict[str, Any]]:
    """What to run for these checks: the policy alone says it."""
    return [document_of(each) for each in policy.named(check_ids)]


def results_problem(wanted: Sequence[str], results: Sequence[CheckResult]) -> str | None:
    """Why these are not the results of the wanted checks."""
    given = [result.check_id for result in results]
    if odd := sorted(set(given) ^ set(wanted)):
        return f"{odd[0]} is {'not asked for' if odd[0] in given else 'missing'}"
    if len(given) != len(set(given)):
        return "a check has two results"
    for result in results:
        if (result.status == "passed") is not (result.exit_code == 0):
            return f"{result.check_id} {result.status} with exit code {result.exit_code}"
    return None


def in_order(wanted: Sequence[str], results: Sequence[CheckResult]) -> list[dict[str, Any]]:
    """The results as JSON, in the order of the checks, however they came."""
    by_id = {result.check_id: result for result in results}
    return [msgspec.to_builtins(by_id[check_id]) for check_id in wanted]


def outcomes(results: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What identifies results: how each ended, not how long it took or what it printed."""
    return [{name: each[name] for name in ("checkId", "status", "exitCode")} for each in results]


def execution(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The part of a witness that says what ran."""
    idle = ("unavailable", "cancelled")
    return {
        "executedChecks": [each["checkId"] for each in results if each["status"] not in idle],
        "results": list(results),
        "runDurationMs": sum(each["durationMs"] for each in results),
    }
