"""Agents that work through a door: who calls, what each one holds, and who renews it.

    door --KeptCaller, HttpCallers--> LeaseKeeper --renews, releases--> AuthorityLink --> sidecar
                                                                          \\-- Changes: what is new

Nothing here knows how a door speaks: what a door carries it hands in as plain values and calls.
"""

from ..process.guard.descendants import now_ms as now_ms
from .authority_link import AuthorityLink as AuthorityLink
from .authority_link import refusal as refusal
from .caller import AgentCaller as AgentCaller
from .caller import PassingCaller as PassingCaller
from .changes import LISTED as LISTED
from .changes import READY as READY
from .changes import Changes as Changes
from .holds import AgentHolds as AgentHolds
from .holds import KeepPolicy as KeepPolicy
from .http_callers import SESSION_HEADER as SESSION_HEADER
from .http_callers import HttpCallers as HttpCallers
from .keeper import KeptCaller as KeptCaller
from .keeper import LeaseKeeper as LeaseKeeper
from .sidecar_owner import SidecarOwner as SidecarOwner
from .task_runner import LongTask as LongTask
from .task_runner import TaskAnswered as TaskAnswered
from .task_runner import TaskAsking as TaskAsking
from .task_runner import TaskFailed as TaskFailed
from .task_runner import TaskReply as TaskReply
from .task_runner import TaskRunner as TaskRunner
