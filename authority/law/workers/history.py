"""The past as a decision sees it: the newest rows of the journal, as far back as the limit says.

Most decisions see the state alone. Those that look back (`harness.LOOKING_BACK`) are given what the
rows before them say. That is a function of the journal like the state itself, so `decide` stays
pure, replay gives them the same, C need not count anything, and nothing of it lies in memory.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple

import orjson

from ....contracts import Reason, limits
from ...journal.journal import Entry, Journal, Row, Unavailable, unpacked


class Done(NamedTuple):
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


Past = Sequence[Done]  # oldest first


def look_back(journal: Journal, head_seq: int, uncommitted: Iterable[Entry]) -> list[Done]:
    """The newest rows up to the head, on disk and on their way there."""
    fresh = list(unpacked(uncommitted))[-limits.PAST_ROWS_MAX :]
    last = fresh[0].seq - 1 if fresh else head_seq
    first = max(1, head_seq + 1 - limits.PAST_ROWS_MAX)
    older = islice(journal.read(first - 1), max(0, last + 1 - first))
    return [glean(row) for row in (*older, *fresh)]


def glean(row: Row) -> Done:
    """What a row says; `Unavailable` where its bytes are not what an authority writes."""
    try:
        response = orjson.loads(row.response)
        payload = orjson.loads(row.request)["payload"]
        effect, step = response["effect"], response.get("step")
        instruction = effect["instructionRef"]
        refs = {instruction} if instruction else set[str]()
        return Done(
            seq=row.seq,
            wall_ms=row.wall_ms,
            step_id=step_id(row.node, row.seq, effect["action"]),
            host_action=effect["action"],
            action=step["action"] if step else effect["action"],
            result_class=step["resultClass"] if step else effect["resultClass"],
            issue_id=effect["issueId"],
            worker=(payload.get("worker") or payload.get("assignee") or "").strip(),
            instruction_refs=tuple(
                sorted(refs | set(step.get("instructionRefs", ()) if step else ()))
            ),
            step=step,
        )
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unavailable(Reason.JOURNAL_CORRUPT, f"row {row.seq}: its answer") from error


def step_id(node: str, seq: int, host_action: str) -> str:
    """The id of a row in the trajectory. Rows have numbers, so no two steps share one, ever."""
    return f"{node}.{seq}.{host_action}"
