"""Agents that work through a door: who calls, what each one holds, and who renews it.

    door --KeptCaller, HttpCallers--> LeaseKeeper --renews, releases--> AuthorityLink --> sidecar
                                                                          \\-- Changes: what is new

Nothing here knows how a door speaks: what a door carries it hands in as plain values and calls.
"""

from ..process.guard.descendants import now_ms
from .agent_door import AgentDoor
from .authority_link import AuthorityLink, refusal
from .caller import AgentCaller
from .changes import LISTED, READY, Changes
from .holds import KeepPolicy
from .http_callers import SESSION_HEADER, HttpCallers
from .keeper import KeptCaller, LeaseKeeper
from .sidecar_owner import SidecarOwner
from .task_runner import LongTask, TaskAnswered, TaskAsking, TaskFailed, TaskReply, TaskRunner
from .worktrees import AgentWorktrees, WorktreeWish

__all__ = [
    "LISTED",
    "READY",
    "SESSION_HEADER",
    "AgentCaller",
    "AgentDoor",
    "AgentWorktrees",
    "AuthorityLink",
    "Changes",
    "HttpCallers",
    "KeepPolicy",
    "KeptCaller",
    "LeaseKeeper",
    "LongTask",
    "SidecarOwner",
    "TaskAnswered",
    "TaskAsking",
    "TaskFailed",
    "TaskReply",
    "TaskRunner",
    "WorktreeWish",
    "gateway_lock",
    "now_ms",
    "refusal",
]
