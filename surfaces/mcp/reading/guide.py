"""The page that an agent reads: how to take, keep, hand over and finish work, and what to obey.

`understudy agent-guide` prints it; its first part is what the MCP server says of itself.
"""

from ..tools.catalogue import entries
from ..tools.tool_texts import NEXT

INSTRUCTIONS = """\
Understudy hands out work so that exactly one agent holds each piece. The loop:

1. work_next claims an issue for you and returns its brief, your lease and the hand-over of the \
holder before you. Keep leaseId and fence.
2. Do what the acceptance criteria ask. Pass leaseId and fence with every change of the issue.
3. File what you find on the way with issue_discover. Do not do work that you do not hold.
4. Finish with work_complete. If you cannot, call work_handover with a checkpoint that an agent \
that knows nothing can go on from.

Your lease is renewed while you stay connected; you need not do it. A refusal has isError, a \
failure class and what to do next. If it says that the lease or the fence is lost \
(lease_fence_stale, lease_stale, lease_missing), stop at once and write nothing more, to files \
either: another agent has the work. Every tool takes verbose: true, for the answer with its \
evidence; tools://all lists the tools that you were not given."""

_RULES = """\
## Rules

- One name for one agent: that of your connection. You act under no other, but for subagents to \
whom you lent a part of your lease.
- You hold a few pieces of work at once at most (agent_holds_full). Finish or hand over one first.
- An escalation waits for a person (issue_waits_for_person). Leave it. To ask for a person \
yourself, file one: issue_discover with issueType escalation.
- The fence is the proof. It grows with every new holder, and an old one is refused for good. Give \
it to whatever can check it: `understudy guard --resource issue/ID --fence N` (or job/ID) exits \
with 0 only while it is current.
- With worktree: true, work_next makes a git worktree and a branch for you. Work there, and touch \
nothing in the main tree; other agents have worktrees of their own. You need not commit, and never \
merge or push: work_complete commits, runs the required checks there, and has the change glued to \
its target. If checks fail you are told which, and go on. What you leave behind, by handing over \
or by losing the lease, is kept by a ref (asides), and offered to the next holder.
- Looking does not reserve. What issue_ready lists may be taken before you claim it.
- Parts that run side by side are fibers: fiber_spawn, fiber_join. The issue closes when all have \
ended. Subagents get a sublease with what they may do: sublease_grant.
- Breaking leases is for operators, and refused unless one has granted it to you."""


def page() -> str:
    """The whole guide, as Markdown."""
    parts = (
        "# Understudy for agents",
        INSTRUCTIONS,
        _RULES,
        "## Refusals",
        refusals(),
        "## Tools",
        tools(),
    )
    return "\n\n".join(parts)


def tools() -> str:
    """Every tool with what it is for."""
    rows = [
        f"| `{name}` | {'reads' if entry.reads else 'changes'} | {entry.tool['title']} |"
        for name, entry in entries().items()
    ]
    return "\n".join(["| tool | | what it does |", "| --- | --- | --- |", *rows]) + "\n"


def refusals() -> str:
    """The failure classes that agents meet, and what they do then."""
    rows = [f"| `{wire}` | {text} |" for wire, text in NEXT.items()]
    return "\n".join(["| class | next |", "| --- | --- |", *rows]) + "\n"
