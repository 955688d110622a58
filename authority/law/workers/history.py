"""The past as a decision sees it: the newest rows of the journal, as far back as the limit says.

Most decisions see the state alone. Those that look back (`rules.LOOKS_BACK`) are given what the
rows before them say. That is a function of the journal like the state itself, so `decide` stays
pure, replay gives them the same, C need not count anything, and nothing of it lies in memory.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple


class PastStep(NamedTuple):
    """What one row says: a decision of the authority, or a step that a worker reported."""

    seq: int
    wall_ms: int
    step_id: str
    host_action: str
    action: str  # the worker's own, where it is a step
    result_class: str
    issue_id: str | None
    worker: str
    instruction_refs: tuple[str, ...]
    step: dict[str, Any] | None


Past = Sequence[PastStep]  # oldest first


def step_id(node: str, seq: int, host_action: str) -> str:
    """The id of a row in the trajectory. Rows have numbers, so no two steps share one, ever."""
    return f"{node}.{seq}.{host_action}"
