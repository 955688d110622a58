"""The three tools that join host actions: take the next piece of work, hand it over, finish it.

Each host action in them leaves its own evidence; `steps` of an answer names them. Refused is what
the first refused one of them is.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from itertools import count
from typing import Any

from ....actors.agents import READY, refusal
from ....contracts import BLOCKING_TYPES, Door, Garbage, Reason, build, limits, rfc3339
from . import check_tools, worktree_tools
from .calls import Answer, ToolCall
from .catalogue import HANDOVER
from .result_text import holding

Told = tuple[Answer, str | None]  # the answer, and how its text begins

_LOOK_SECONDS = 15.0  # between two looks of an agent that waits, whatever was heard
_SHOWN_MAX = 10  # of what is blocked or held; issue_blocked lists the rest
_RESULTS_MAX = 16  # of what an issue builds on
_AGAIN_SECONDS = (5, 60)  # the least and the most that an agent is told to wait
_TEXTS = ("title", "description", "acceptanceCriteria", "design", "notes")
_PROOF = ("id", "assignee", "leaseId", "fence", "subleaseId", "requestId", "context")


# --- the next piece of work -----------------------------------------------------------------------


async def next_(call: ToolCall, arguments: Mapping[str, Any]) -> Told:
    """Claim what is ready, and tell all about it; or wait for it; or say why there is nothing."""
    asked = dict(arguments)
    wait_seconds = asked.pop("waitSeconds", 0)
    if not is_wait(wait_seconds):
        detail = f"waitSeconds is no whole number from 0 to {limits.MCP_WAIT_SECONDS_MAX}"
        return refusal("issue.claim_next", Reason.LEASE_PAYLOAD_INVALID, detail), None
    wish = worktree_tools.wished(asked)
    if isinstance(wish, dict):
        return wish, None
    if wish is not None and (unfit := await worktree_tools.unfit(call, wish)) is not None:
        return unfit, None
    stirred = asyncio.Event()
    unsubscribe = call.door.changes.subscribe(_bell(stirred)) if wait_seconds else None
    begun = time.monotonic()
    try:
        for attempt in count():
            stirred.clear()
            answer = await call.ask("issue.claim_next", asked, f"-{attempt}" if attempt else "")
            if answer["result"] != "accepted":
                return answer, None
            if "issue" in answer:
                if (found := await _found(call, answer)) is not None:
                    if wish is None or found["result"] != "accepted":
                        return found, holding(answer)
                    return await worktree_tools.begin(call, found, wish, asked.get("context"))
                continue  # an old answer to a repeated call; its lease is gone
            waited = time.monotonic() - begun
            if waited >= wait_seconds:
                return await _nothing(call, answer)
            await call.report(waited, wait_seconds, "nothing is ready yet")
            await _ring(stirred, min(_LOOK_SECONDS, wait_seconds - waited))
    finally:
        if unsubscribe is not None:
            unsubscribe()
    raise AssertionError("counting never ends")


def is_wait(value: object) -> bool:
    """Whether it is a time that an agent may wait for work."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return is_whole and 0 <= value <= limits.MCP_WAIT_SECONDS_MAX  # type: ignore[operator]  # `is_whole` has looked


def _bell(stirred: asyncio.Event) -> Callable[[str], None]:
    def listen(event: str) -> None:
        if event == READY:
            stirred.set()

    return listen


async def _ring(stirred: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stirred.wait()


async def _found(call: ToolCall, answer: Answer) -> Answer | None:
    """The claim with its brief; None where the lease in it is not the current one."""
    lease = answer["issue"]["lease"]
    shown = await call.ask("issue.show", {"id": answer["issue"]["id"]})
    if shown["result"] != "accepted":
        return shown
    issue = shown["issue"]
    if issue.get("lease", {}).get("fence") != lease["fence"]:
        return None
    brief = {name: issue[name] for name in _TEXTS if issue[name]}
    brief |= {"attempt": issue["attempts"], "dependsOn": await _results(call, issue)}
    found = answer | {"found": True, "lease": issue["lease"], "brief": brief}
    return found | ({"handover": issue["handover"]} if "handover" in issue else {})


async def _results(call: ToolCall, issue: dict[str, Any]) -> list[dict[str, Any]]:
    """What came of the issues that this one waited for."""
    links = [each for each in issue["dependencies"] if each["type"] in BLOCKING_TYPES]
    ids = [each["dependsOnId"] for each in links[:_RESULTS_MAX]]
    answers = await asyncio.gather(*(call.ask("issue.show", {"id": each}) for each in ids))
    names = ("id", "title", "status", "notes", "handover")
    return [
        {name: shown["issue"][name] for name in names if shown["issue"].get(name)}
        for shown in answers
        if shown["result"] == "accepted"
    ]


async def _nothing(call: ToolCall, answer: Answer) -> Told:
    """Why there is nothing, and when there may be something."""
    blocked, leases = await asyncio.gather(
        call.ask("issue.blocked", {}), call.ask("issue.lease_projection", {})
    )
    waiting, items = blocked.get("issues", []), leases.get("items", [])
    held = sorted(items, key=lambda item: str(item["lease"]["expiresAt"]))
    again = _again_seconds(held, answer["stamp"]["wallMs"])
    more = {
        "found": False,
        "blocked": [
            {name: each[name] for name in ("id", "title", "blockedBy")}
            for each in waiting[:_SHOWN_MAX]
        ],
        "held": [
            {"id": each["id"]} | {name: each["lease"][name] for name in ("owner", "expiresAt")}
            for each in held[:_SHOWN_MAX]
        ],
        "askAgainSeconds": again,
    }
    withheld = _withheld(answer)
    lead = (
        f"Nothing is ready: {withheld}{len(waiting)} blocked, {len(held)} held. Ask again in"
        f" {again} s, or wait for work with waitSeconds."
        if waiting or held or withheld
        else "Nothing is left to do."
    )
    return answer | more, lead


def _withheld(answer: Answer) -> str:
    """What people keep from being claimed, in words."""
    scopes = [each["scope"] for each in answer.get("pauses", [])]
    persons = answer.get("waitsForPerson", [])
    words = f"work is paused ({', '.join(scopes[:_SHOWN_MAX])}), " if scopes else ""
    return words + (f"{len(persons)} waits for a person's approval, " if persons else "")


def _again_seconds(held: list[dict[str, Any]], now_ms: int) -> int:
    least, most = _AGAIN_SECONDS
    if not held:
        return most
    deadline_ms = rfc3339.parse_ms(held[0]["lease"]["expiresAt"]) or now_ms
    return max(least, min(most, (deadline_ms - now_ms) // 1000 + 1))


# --- the end of it --------------------------------------------------------------------------------


async def hand_over(call: ToolCall, arguments: Mapping[str, Any]) -> Told:
    """Keep a checkpoint for the next holder and, unless told otherwise, release the issue."""
    asked = dict(arguments)
    keep = asked.pop("keep", False)
    if not isinstance(keep, bool):
        return refusal(HANDOVER, Reason.ISSUE_PAYLOAD_INVALID, "keep is no truth value"), None
    stored = await call.ask(HANDOVER, asked)
    if stored["result"] != "accepted" or keep:
        return stored, "Stored; you still hold the issue." if keep else None
    left = await worktree_tools.leave(call, asked)
    released = await call.ask("issue.lease_release", _proof(asked), "-release")
    lead = "Stored and released: the next holder gets your checkpoint. Write nothing more to it."
    if left is not None:
        return _joined(released, stored) | {"aside": left}, f"{lead} Your work is kept by {left}."
    return _joined(released, stored), lead


async def complete(call: ToolCall, arguments: Mapping[str, Any]) -> Told:
    """Close the issue, with a result if there is one; what is malformed is refused before."""
    asked = dict(arguments)
    lead = "Closed; your lease on it has ended. Take the next piece of work with work_next."
    result = asked.pop("result", None)
    payload = {name: value for name, value in asked.items() if name != "context"}
    sound = not isinstance(
        build({"action": "issue.close", "payload": payload}, Door("mcp")), Garbage
    )
    if sound and (finished := await worktree_tools.complete(call, asked, result)) is not None:
        return finished
    if result is None or not sound:
        return await call.ask("issue.close", asked), lead
    stored = await call.ask(HANDOVER, _proof(asked) | {"checkpoint": result}, "-result")
    if stored["result"] != "accepted":
        return stored, None
    return _joined(await call.ask("issue.close", asked), stored), lead


def _proof(asked: Mapping[str, Any]) -> dict[str, Any]:
    return {name: asked[name] for name in _PROOF if name in asked}


def _joined(last: Answer, stored: Answer) -> Answer:
    names = ("action", "seq", "result", "effect")
    steps = [{name: each[name] for name in names if name in each} for each in (stored, last)]
    if last["result"] != "accepted":
        return last | {"steps": steps}
    return last | {"handover": stored["handover"], "steps": steps}


JOINED: dict[str, Callable[[ToolCall, Mapping[str, Any]], Awaitable[Told]]] = {
    "work_next": next_,
    "work_handover": hand_over,
    "work_complete": complete,
    "instruction_run": check_tools.run,
}
