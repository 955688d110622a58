"""Work in a worktree of one's own: how it is taken, finished as a section, and left.

    work_next --claim, worktree--> told where      work_complete --commit, checks--> section
         \\--git refuses--> handed back                  \\--checks fail--> told, and goes on

The server makes the commit and runs the checks, so it vouches for both: what comes of them goes
through the coordinator's door, as the results of an instruction do.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import anyio
from anyio.lowlevel import checkpoint

from ....actors.agents import WorktreeWish, refusal
from ....actors.descent import git
from ....actors.leasing import WORK, HeldLease
from ....contracts import GLUING, Reason, limits
from .calls import Answer, ToolCall
from .catalogue import HANDOVER
from .long_work import watch
from .result_text import holding

Told = tuple[Answer, str | None]

GIT_REFUSED = "git_refused"
_NEXT = "issue.claim_next"
_SECTION = "descent.section"
_PROOF = ("id", "assignee", "leaseId", "fence", "requestId", "context")
_TAIL_BYTES = 2_000  # of what a check that failed has printed
_WISHES = ("into", "base")
_UNCLAIMED = (
    "Nothing was claimed. Worktrees are made in the repository that the state directory lies in."
    " Mend what is named and ask again, or ask without worktree."
)


# --- taking it ------------------------------------------------------------------------------------


def wished(asked: dict[str, Any]) -> WorktreeWish | Answer | None:
    """Takes out of the arguments what they say of a worktree; the refusal where that is unsound."""
    wanted = asked.pop("worktree", False)
    named = {name: asked.pop(name) for name in _WISHES if name in asked}
    if not isinstance(wanted, bool):
        return _unsound("worktree is no truth value")
    if named and not wanted:
        return _unsound(f"{' and '.join(named)} go with worktree: true")
    for name, value in named.items():
        is_name = isinstance(value, str) and value.isprintable() and not value.startswith("-")
        if not is_name or not 0 < len(value) <= limits.BRANCH_LENGTH_MAX:
            return _unsound(f"{name} names no branch or commit")
    return WorktreeWish(**named) if wanted else None


def _unsound(detail: str) -> Answer:
    return refusal(_NEXT, Reason.LEASE_PAYLOAD_INVALID, detail)


async def unfit(call: ToolCall, wish: WorktreeWish) -> Answer | None:
    """Why no worktree can be made, before anything is claimed."""
    try:
        await call.door.worktrees.refuse_unfit(wish)
    except (git.GitRefused, OSError) as error:
        return _git_refusal(_NEXT, error, _UNCLAIMED)
    return None


async def begin(call: ToolCall, found: Answer, wish: WorktreeWish, context: object) -> Told:
    """Make the worktree of what was claimed; where that fails, the claim is handed back."""
    held = WORK["issue"].held(found["issue"])
    worktrees = call.door.worktrees
    try:
        with anyio.CancelScope(shield=True):
            told, refused = await worktrees.begin(held, wish, _asking(call, context))
        await checkpoint()
    except (git.GitRefused, OSError) as error:
        return await _unmade(call, held, error, context), None
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await worktrees.put_away(held.name, held.fence)
            await _hand_back(call, held, context)
        raise
    if refused is not None:
        return refused, None
    return found | told, f"{holding(found)}\n{_where(told)}"


async def _unmade(call: ToolCall, held: HeldLease, error: Exception, context: object) -> Answer:
    released = await _hand_back(call, held, context)
    is_free = released["result"] == "accepted"
    became = "is free again" if is_free else "is free when its lease runs out"
    follow = f"{held.name} {became}, and no attempt was counted. Mend what is named and ask again."
    return _git_refusal(_NEXT, error, follow) | {"id": held.name}


async def _hand_back(call: ToolCall, held: HeldLease, context: object) -> Answer:
    action, payload = WORK["issue"].release(held, "", handed_back=True)
    return await call.ask(action, payload | _context(context), "-unmade")


def _where(told: Mapping[str, Any]) -> str:
    place = told["worktree"]
    where = (
        f"Work in {place['path']} and nowhere else: it is a git worktree of your own, on branch"
        f" {place['branch']}, from {place['base'][:12]}. Stay on that branch; you need not commit."
        " work_complete commits what is there, runs the required checks in it, and has it glued to"
        f" {place['target']}."
    )
    lines = [where]
    if told["asides"]:
        last = told["asides"][-1]["ref"]
        lines.append(
            f"A holder before you left work. To go on from it: git merge --no-commit {last}"
        )
    if "obstruction" in told:
        lines.append("The last try did not fit; obstruction says where. Make yours fit.")
    return "\n".join(lines)


# --- finishing it ---------------------------------------------------------------------------------


async def complete(call: ToolCall, asked: dict[str, Any], result: object) -> Told | None:
    """Make a section of what changed, and record it; None where it is to be closed as usual."""
    issue = await _own(call, asked)
    if issue is None:
        return await _recorded(call, asked)
    if asked.get("subleaseId") is not None:
        detail = f"issue {asked['id']}: its worktree is finished by the holder of the lease"
        return refusal(_SECTION, Reason.CAPABILITY_MISSING, detail), None
    held = _held(call, asked)
    worktrees, context = call.door.worktrees, asked.get("context")
    try:
        made = await watch(
            call,
            lambda **how: worktrees.finish(held, issue["title"], _asking(call, context), **how),
        )
    except (git.GitRefused, OSError) as error:
        follow = "You still hold it. Mend what is named in the worktree, then call work_complete."
        return _git_refusal(_SECTION, error, follow), None
    if made is None:
        return None
    if not isinstance(made, dict):
        return _failed(made), None
    return await _record(call, asked, held, made, result)


async def leave(call: ToolCall, asked: Mapping[str, Any]) -> str | None:
    """Set the worktree aside before its issue is released; the ref, if anything is in it."""
    if await _own(call, asked) is None:
        return None
    return await _put_away(call, str(asked["id"]), int(asked["fence"]))


async def _put_away(call: ToolCall, issue_id: str, fence: int) -> str | None:
    """One that cannot be put away stays; what ends with the lease tries again, and logs why."""
    with suppress(git.GitRefused, OSError):
        return await call.door.worktrees.put_away(issue_id, fence)
    return None


async def _own(call: ToolCall, asked: Mapping[str, Any]) -> dict[str, Any] | None:
    """The issue, if it has a worktree under this fence, and the caller holds it."""
    issue_id, fence = asked.get("id"), asked.get("fence")
    if not call.door.worktrees.has(issue_id, fence):
        return None
    shown = await call.ask("issue.show", {"id": issue_id})
    issue: dict[str, Any] = shown.get("issue", {})
    lease = issue.get("lease", {})
    is_current = lease.get("state") == "active" and lease.get("owner") == call.speaker(asked)
    # Of a lease that is not the caller's own, the fence is not shown.
    return issue if is_current and lease.get("fence", fence) == fence else None


def _held(call: ToolCall, asked: Mapping[str, Any]) -> HeldLease:
    owner = str(call.speaker(asked))
    return HeldLease(str(asked["id"]), owner, str(asked.get("leaseId")), int(asked["fence"]))


async def _recorded(call: ToolCall, asked: Mapping[str, Any]) -> Told | None:
    """The section that was recorded by this very call, before its gateway died."""
    if not call.door.worktrees.are_used:
        return None
    shown = await call.ask("issue.show", {"id": asked["id"]})
    issue = shown.get("issue", {})
    section, name = issue.get("section", {}), f"{asked['id']}/{asked['fence']}"
    is_own = section.get("sectionId") == name and section["owner"] == call.speaker(asked)
    if issue.get("status") != GLUING or not is_own:
        return None
    return shown | {"section": section}, _done(section)


async def _record(
    call: ToolCall, asked: dict[str, Any], held: HeldLease, made: dict[str, Any], result: object
) -> Told:
    proof = {name: asked[name] for name in _PROOF if name in asked}
    if result is not None:
        stored = await call.ask(HANDOVER, proof | {"checkpoint": result}, "-result")
        if stored["result"] != "accepted":
            return stored, None
    answer = await call.hand_on(_SECTION, proof | made, "-section")
    if answer["result"] != "accepted":
        return answer, None
    await _put_away(call, held.name, held.fence)
    return answer, _done(made)


def _done(section: Mapping[str, Any]) -> str:
    count = f"{section['pathCount']} path{'s' * (section['pathCount'] != 1)}"
    return (
        f"Done: {count} in commit {section['commit'][:12]}, which is glued to {section['target']}"
        " in its turn; then the issue is closed. Your lease has ended, and the worktree is gone."
        " Take the next piece of work with work_next."
    )


def _failed(failed: Any) -> Answer:
    """What the checks said, for an agent that goes on."""
    checks = [
        {name: each[name] for name in ("checkId", "status", "exitCode")}
        | ({"output": _tail(failed.logs, each)} if each["status"] != "passed" else {})
        for each in failed.results
    ]
    answer = refusal(_SECTION, Reason.CLOSE_UNATTESTED, failed.diagnostic)
    follow = "You still hold it, and the worktree is as it was. Mend it, then call work_complete."
    said = "\n".join(each["output"] for each in checks if each.get("output"))
    return answer | {"checks": checks, "next": f"{follow}\n{said}" if said else follow}


def _tail(logs: Path | None, result: Mapping[str, Any]) -> str:
    if logs is None:
        return ""
    try:
        with (logs / f"{result['checkId']}.log").open("rb") as log:
            log.seek(0, 2)
            log.seek(max(0, log.tell() - _TAIL_BYTES))
            return log.read().decode(errors="replace")
    except OSError:
        return ""


# --- both -----------------------------------------------------------------------------------------


def _asking(call: ToolCall, context: object) -> Any:
    async def ask(action: str, payload: dict[str, Any]) -> Answer:
        return await call.door.vouch(action, payload, context)

    return ask


def _context(context: object) -> dict[str, Any]:
    return {} if context is None else {"context": context}


def _git_refusal(action: str, error: Exception, follow: str) -> Answer:
    """Git is no authority: its refusal leaves no row, and has a class of its own."""
    return {
        "action": action,
        "result": "rejected",
        "failureClasses": [GIT_REFUSED],
        "diagnostic": str(error),
        "next": follow,
    }
