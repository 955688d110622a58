"""The tool that runs an instruction: its checks are run here, and what they gave is recorded.

A model hands in no results, and the authority takes none through MCP: it names an envelope, the
policy names the commands, and the results are this server's, through the coordinator's door. The
call can take as long as they do; it reports progress, and a client that cancels it ends what runs.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ....actors.agents import refusal
from ....contracts import Reason
from .calls import Answer, ToolCall
from .catalogue import INSTRUCTION_RUN
from .long_work import watch

_CHECK = "instruction.check"


async def run(call: ToolCall, arguments: Mapping[str, Any]) -> tuple[Answer, str | None]:
    """Run the checks that an envelope asks for, where it is allowed, and keep the witness."""
    from ....actors.run import checks  # no other call needs the room

    asked = dict(arguments)
    cwd = asked.pop("cwd", None)
    folder = _folder(call, cwd)
    if "results" in asked or folder is None:
        detail = "results come from running the checks" if folder else f"{cwd} is no folder"
        return refusal(INSTRUCTION_RUN, Reason.REQUEST_INVALID, detail), None
    named = {name: each for name, each in asked.items() if name != "requestId"}
    allowed = await call.ask(_CHECK, named)
    if allowed["result"] != "accepted":
        return allowed, None
    name = allowed["instruction"]["instructionId"]
    state_dir = call.door.state_dir
    results: list[dict[str, Any]] = []
    if allowed["instruction"]["executionDecision"]["state"] == "execute":
        logs = checks.log_folder(state_dir, "instruction", name)
        wanted = partial(checks.run_checks, allowed["checks"], folder, logs=logs)
        results = await watch(call, partial(asyncio.to_thread, wanted))
    answer = await call.hand_on(INSTRUCTION_RUN, asked | {"results": results})
    if answer["result"] == "accepted":
        path = state_dir / checks.FOLDER / f"{name}.json"
        await asyncio.to_thread(checks.write_artifact, path, answer["witness"])
        verdict = answer["witness"]["verdictClass"]
        return answer, f"The verdict is {verdict}; its witness is {answer['witnessRef']}."
    return answer, None


def _folder(call: ToolCall, cwd: object) -> Path | None:
    """Where checks run: beside the state directory, unless the caller works elsewhere."""
    if cwd is None:
        return call.door.state_dir.absolute().parent
    if not isinstance(cwd, str) or "\0" in cwd:
        return None
    folder = Path(cwd)
    return folder if folder.is_absolute() and folder.is_dir() else None
