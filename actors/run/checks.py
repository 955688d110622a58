"""Runs checks: each a command under a warden, one after the other, and says how each ended.

    run_checks(checks, cwd) -> results        as `instruction.run` and `required.witness` take them
    run_instruction(ask, ...) -> answer       checked, run, recorded and written down

I1  When a check has ended, nothing that it started is left, whatever it did to itself.
I2  There is a result for every check, also where the command is missing or it was called off.

It blocks, and may run in any thread; `cancelled` is looked at often and must be quick.
"""

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ...authority.journal import private
from ..process.guard.descendants import now_ms
from ..process.port import GRACE_MS, Command, Ended, ProcessGroup
from ..process.transcript import Transcript

FOLDER = "ciwitness"  # below the state directory
LOGS_KEPT_MAX = 64  # runs whose output stays; each check's has its own bound
_LOOK_MS = 100  # between looks whether it was called off

Result = dict[str, Any]
OnProgress = Callable[[int, int, Result | None, str], None]
Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


def run_checks(
    checks: Sequence[Mapping[str, Any]],
    cwd: Path,
    *,
    logs: Path | None = None,
    env: Mapping[str, str] | None = None,
    on_progress: OnProgress = lambda *_: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Result]:
    """Run what an answer lists as `checks`. `on_progress` hears of each before and after it:
    how many are through, of how many, the result if there is one, and the check's id."""
    results: list[Result] = []
    for check in checks:
        check_id = check["checkId"]
        on_progress(len(results), len(checks), None, check_id)
        log = logs / f"{check_id}.log" if logs is not None else None
        results.append(_run(check, cwd, log, env, cancelled))
        on_progress(len(results), len(checks), results[-1], check_id)
    return results


def run_instruction(
    ask: Ask,
    state_dir: Path,
    instruction: Mapping[str, Any],
    cwd: Path,
    *,
    on_progress: OnProgress = lambda *_: None,
    cancelled: Callable[[], bool] = lambda: False,
) -> dict[str, Any]:
    """Carry out `instructionId` and `envelope`; the answer of whichever action was the last.

    `ask` goes through a door that may hand in results. What is not allowed runs nothing.
    """
    members = {name: instruction[name] for name in ("instructionId", "envelope")}
    answer = ask("instruction.check", members)
    if answer["result"] != "accepted":
        return answer
    name, results = answer["instruction"]["instructionId"], []
    if answer["instruction"]["executionDecision"]["state"] == "execute":
        logs = log_folder(state_dir, "instruction", name)
        results = run_checks(
            answer["checks"], cwd, logs=logs, on_progress=on_progress, cancelled=cancelled
        )
    answer = ask("instruction.run", {**instruction, "results": results})
    if answer["result"] == "accepted":
        write_artifact(state_dir / FOLDER / f"{name}.json", answer["witness"])
    return answer


def log_folder(state_dir: Path, kind: str, name: str) -> Path:
    """Where the output of a run is kept; the oldest make room for it."""
    root = state_dir / FOLDER / "logs"
    folder = root / f"{kind}-{name}"
    private.make_folder(folder)
    os.utime(folder)
    by_age = sorted(root.iterdir(), key=lambda each: each.stat().st_mtime_ns)
    for old in by_age[:-LOGS_KEPT_MAX]:
        shutil.rmtree(old, ignore_errors=True)
    return folder


def write_artifact(path: Path, document: Mapping[str, Any]) -> None:
    """Write a witness or a decision, whole or not at all. The journal has it too."""
    private.make_folder(path.parent)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        private.write(fresh, orjson.dumps(document, option=orjson.OPT_SORT_KEYS))
        fresh.replace(path)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()


def _run(
    check: Mapping[str, Any],
    cwd: Path,
    log: Path | None,
    env: Mapping[str, str] | None,
    cancelled: Callable[[], bool],
) -> Result:
    result = {"checkId": check["checkId"], "outputBytes": 0, "outputDigest": ""}
    if cancelled():
        return result | {"status": "cancelled", "exitCode": None, "durationMs": 0}
    began_ms = now_ms()
    until_ms = began_ms + check["timeoutSeconds"] * 1000
    called_off = False
    command = Command(
        check["command"], env=env, cwd=cwd, log=log, grace_ms=GRACE_MS, until_ms=until_ms
    )
    with ProcessGroup(command) as group:
        while (ended := group.wait(_LOOK_MS)) is None:
            if not called_off and cancelled():
                called_off = True
                group.terminate()
    status = "cancelled" if called_off else _status(ended)
    result |= {
        "status": status,
        "exitCode": ended.code & 255 if ended.code or status == "passed" else None,
        "durationMs": max(0, now_ms() - began_ms),
        "outputBytes": ended.size,
    }
    if log is not None:
        result["outputDigest"] = _output_digest(log)
    return result


def _status(ended: Ended) -> str:
    if ended.late:
        return "timed_out"
    if not ended.began:
        return "unavailable"
    if ended.reason.kind == "signal" or ended.left:
        return "signalled"
    return "passed" if ended.code == 0 else "failed"


def _output_digest(log: Path) -> str:
    """Of what is kept of the output, with the places where something is not."""
    digest = hashlib.sha256()
    for part in Transcript(log).read():
        digest.update(part if isinstance(part, bytes) else f"\0gap {part.size}\0".encode())
    return f"out1_{digest.hexdigest()}"
