"""The tools: one for each host action that an agent may ask for, and some that join several.

Everything is derived: which actions, names, schemas and annotations from the contract, the words
from `lessons`. Nothing here imports the SDK, so that the guide and the docs can be made from it.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from ....contracts import HostAction, host_actions, limits
from . import schemas
from .tool_texts import LESSONS, WORK_COMPLETE, WORK_HANDOVER, WORK_NEXT, Lesson

HANDOVER = "issue.handover"
INSTRUCTION_RUN = "instruction.run"
PROOF = ("id", "leaseId", "fence")  # what says that one holds an issue, beside the name

# What an agent needs to find, take, change, hand over and finish work.
CORE = (
    "work_next",
    "work_handover",
    "work_complete",
    "issue_add",
    "issue_claim",
    "issue_discover",
    "issue_list",
    "issue_show",
    "issue_update",
    "dep_add",
)

# Actions of these families are bound to MCP, and the contract names no tool for them.
_UNNAMED = ("issue.", "fiber.")
# Verbs that take nothing away, and verbs that do more each time.
_ADDITIVE = frozenset(
    {"add", "append", "claim", "claim_next", "discover", "grant", "handover", "join"}
    | {"lease_renew", "materialize", "open", "schedule", "spawn", "submit"}
)
_GROWING = frozenset({"add", "append", "claim_next", "discover", "grant", "report", "run", "spawn"})


@dataclass(frozen=True, slots=True)
class ToolEntry:
    """A tool as it is listed, and the host action behind it; the joined ones have none."""

    tool: Mapping[str, Any]
    action: HostAction | None = None

    @property
    def name(self) -> str:
        return str(self.tool["name"])

    @property
    def reads(self) -> bool:
        return bool(self.tool["annotations"]["readOnlyHint"])


@cache
def entries() -> Mapping[str, ToolEntry]:
    """Every tool by its name, the joined ones first, in an order that never changes."""
    joined, plain = _joined(), {tool_name(action): action for action in offered()}
    rest = sorted(plain.keys() - joined.keys())
    return MappingProxyType(joined | {name: _entry(name, plain[name]) for name in rest})


class UnknownTool(ValueError):
    """No tool has this name."""


@cache
def chosen(words: str) -> frozenset[str]:
    """The tools that `core`, `all` or names, with commas between them, stand for."""
    found: set[str] = set()
    for word in filter(None, map(str.strip, words.split(","))):
        named = {"core": CORE, "all": tuple(entries())}.get(word, (word,))
        if not entries().keys() >= set(named):
            raise UnknownTool(f"there is no tool `{word}`; `understudy agent-guide` lists them")
        found.update(named)
    return frozenset(found)


@cache
def listing(names: frozenset[str] | None = None, *, linked: bool = False) -> list[dict[str, Any]]:
    """The tools as `tools/list` gives them: all of them, or a choice.

    Schemas of answers are long, and only there where all is wanted. Where the policy is
    instruction-linked, changes are told how to bring their evidence.
    """
    wanted = entries().keys() if names is None else names
    whole = wanted >= entries().keys()
    rows = [entry.tool for name, entry in entries().items() if name in wanted]
    return [_listed(tool, whole=whole, linked=linked) for tool in rows]


def _listed(tool: Mapping[str, Any], *, whole: bool, linked: bool) -> dict[str, Any]:
    shown = {name: value for name, value in tool.items() if whole or name != "outputSchema"}
    if linked and not tool["annotations"]["readOnlyHint"]:
        asked = tool["inputSchema"]
        properties = asked["properties"] | {"context": schemas.evidence()}
        shown["inputSchema"] = asked | {"properties": properties}
    return shown


def directory(names: Collection[str]) -> list[dict[str, Any]]:
    """Every tool in a line, and whether it is among these."""
    return [
        {
            "name": entry.name,
            "does": entry.tool["title"],
            "changes": not entry.reads,
            "offered": entry.name in names,
        }
        for entry in entries().values()
    ]


def offered() -> list[HostAction]:
    """The host actions that are tools: bound to MCP, and with a name there."""
    return [
        action
        for name, action in host_actions().items()
        if "mcp" in action.transports and (action.mcp_tool or name.startswith(_UNNAMED))
    ]


def tool_name(action: HostAction) -> str:
    """The contract's own name for the tool; where it has none, the action's."""
    return action.mcp_tool or action.action.replace(".", "_")


def _entry(name: str, action: HostAction) -> ToolEntry:
    lesson = LESSONS[action.action]
    arguments = schemas.arguments(action.action)
    answer = schemas.answer(lesson.gives)
    return ToolEntry(_tool(name, lesson, arguments, answer, _annotations(action)), action)


def _tool(
    name: str,
    lesson: Lesson,
    arguments: dict[str, Any],
    answer: dict[str, Any],
    annotations: dict[str, Any],
) -> dict[str, Any]:
    arguments["properties"]["verbose"] = {"type": "boolean"}
    return {
        "name": name,
        "title": lesson.title,
        "description": lesson.text,
        "inputSchema": arguments,
        "outputSchema": answer,
        "annotations": {"title": lesson.title} | annotations,
    }


def _annotations(action: HostAction) -> dict[str, Any]:
    verb = action.action.partition(".")[2]
    return {
        "readOnlyHint": not action.mutates,
        "destructiveHint": action.mutates and verb not in _ADDITIVE,
        "idempotentHint": not action.mutates or verb not in _GROWING,
        "openWorldHint": action.action == "instruction.run",  # it starts commands
    }


# --- the joined ones ------------------------------------------------------------------------------


def _joined() -> dict[str, ToolEntry]:
    run = _instruction_run(host_actions()[INSTRUCTION_RUN])
    tools = [_work_next(), _work_handover(), _work_complete(), run]
    return {tool["name"]: ToolEntry(tool) for tool in tools}


def _work_next() -> dict[str, Any]:
    arguments = schemas.arguments("issue.claim_next")
    arguments["properties"]["waitSeconds"] = {
        "description": "How long to wait for work if nothing is ready; 0 asks once.",
        "type": "integer",
        "minimum": 0,
        "maximum": limits.MCP_WAIT_SECONDS_MAX,
    }
    arguments["properties"] |= {
        "worktree": {
            "description": "Make a git worktree for it, in which you then work.",
            "type": "boolean",
        },
        "into": {"description": "Its target branch; else the current one.", "type": "string"},
        "base": {"description": "Where it starts; else at the target's head.", "type": "string"},
    }
    issue = schemas.answered("issue")
    more = {
        "found": {"type": "boolean", "description": "Whether there was work to hand out."},
        "lease": schemas.answered("lease"),
        "brief": {
            "description": "What is asked for, and what is known.",
            "type": "object",
            "properties": {
                name: issue["properties"][name]
                for name in ("title", "description", "acceptanceCriteria", "design", "notes")
            }
            | {"attempt": {"type": "integer"}, "dependsOn": _some("Results it builds on.")},
        },
        "handover": {"type": "object", "description": "What the holder before left for you."},
        "worktree": {
            "description": "Where you work, and nowhere else.",
            "type": "object",
            "properties": {
                name: {"type": "string"} for name in ("path", "branch", "base", "target")
            },
        },
        "asides": _some("What holders before you left in theirs, by refs."),
        "obstruction": {"type": "object", "description": "Why the last try did not fit."},
        "blocked": _some("What waits, and for what."),
        "held": _some("Who holds what, and until when."),
        "askAgainSeconds": {"type": "integer", "minimum": 0},
    }
    names = ("issue", "leaseProjection", "orphanedFibers", "pauses", "waitsForPerson")
    answer = schemas.answer(names, more)
    hints = _hints(destructive=False, idempotent=False)
    return _tool("work_next", WORK_NEXT, arguments, answer, hints)


def _work_handover() -> dict[str, Any]:
    arguments = schemas.arguments(HANDOVER)
    arguments["properties"]["keep"] = {
        "description": "Go on holding the issue; without it, it is released.",
        "type": "boolean",
    }
    arguments["required"] = [*PROOF, "checkpoint"]
    aside = {"aside": {"type": "string", "description": "The ref that keeps your worktree's work."}}
    members = ("handover", "issue", "leaseProjection", "orphanedFibers")
    answer = schemas.answer(members, _steps() | aside)
    hints = _hints(destructive=False, idempotent=True)
    return _tool("work_handover", WORK_HANDOVER, arguments, answer, hints)


def _work_complete() -> dict[str, Any]:
    arguments = schemas.arguments("issue.close")
    arguments["required"] = [*PROOF]
    result = schemas.argument("checkpoint")
    result["description"] = "What came of it, for those who depend on it."
    arguments["properties"]["result"] = result
    checks = {"checks": _some("Those that did not let it pass, with the end of their output.")}
    answer = schemas.answer(("issue", "orphanedFibers", "handover", "section"), _steps() | checks)
    hints = _hints(destructive=True, idempotent=True)
    return _tool("work_complete", WORK_COMPLETE, arguments, answer, hints)


def _instruction_run(action: HostAction) -> dict[str, Any]:
    """As the host action, but for the results: the checks are run, not told."""
    lesson = LESSONS[action.action]
    arguments = schemas.arguments(action.action)
    arguments["properties"]["cwd"] = {
        "description": "Where the checks run, an absolute path; left out, beside the state.",
        "type": "string",
    }
    arguments["properties"].pop("results", None)
    arguments["required"] = [name for name in arguments["required"] if name != "results"]
    answer = schemas.answer(lesson.gives)
    return _tool(tool_name(action), lesson, arguments, answer, _annotations(action))


def _steps() -> dict[str, Any]:
    return {"steps": _some("The host actions that this call was made of, with their evidence.")}


def _some(description: str) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "object"}, "description": description}


def _hints(*, destructive: bool, idempotent: bool) -> dict[str, Any]:
    return {
        "readOnlyHint": False,
        "destructiveHint": destructive,
        "idempotentHint": idempotent,
        "openWorldHint": False,
    }
