"""What is written down when cells start, crash and are given up: one JSON-able row each.

Rows go to the carrier: a cell that has a `report` method takes them. Without one they are one line
of JSON in the log `understudy.otp`, with the row itself as `extra`.

    progress    a child is up
    supervisor  a child ended, could not be started or stopped, or the supervisor gave up
    crash       a behaviour raised: reason, traceback, the message it was given, its state
"""

import json
import logging
import reprlib
import traceback
from collections.abc import Callable, Mapping
from typing import Final, Literal

from .cell import Cell, ExitReason, Ref
from .spec import ChildSpec

Row = dict[str, object]
Sink = Callable[[Row], None]
Context = Literal["start_error", "child_terminated", "shutdown_error", "gave_up"]

TEXT_LENGTH_MAX: Final = 500
TRACE_LENGTH_MAX: Final = 4_000

_log = logging.getLogger("understudy.otp")
_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = TEXT_LENGTH_MAX
_short.maxlist = _short.maxtuple = _short.maxdict = 20


def shown(value: object) -> str:
    """A value for people: short, on one line, and made without raising."""
    try:
        text = _short.repr(value)
    except Exception as error:  # noqa: BLE001 - the world may go on unseen
        text = f"<{type(value).__name__}, not shown: {type(error).__name__}>"
    return clipped(text, TEXT_LENGTH_MAX)


def clipped(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 3] + "..."


def crash_reason(error: BaseException) -> ExitReason:
    """Why a cell ended that raised."""
    text = "".join(traceback.format_exception_only(error)).strip()
    return ExitReason("crash", clipped(text, TEXT_LENGTH_MAX))


# --- rows -----------------------------------------------------------------------------------------


def crash(me: Ref, error: BaseException, doing: object, state: object, now_ms: int) -> Row:
    """A behaviour raised while it was `doing` something: with a message, or in its start."""
    trace = "".join(traceback.format_exception(error))
    return {
        "kind": "crash",
        "at_ms": now_ms,
        "cell": _named(me),
        "reason": _reason(crash_reason(error)),
        # The end of a long traceback says where it happened.
        "traceback": trace[-TRACE_LENGTH_MAX:],
        "message": shown(doing),
        "state": plain(state),
    }


def supervisor(
    me: Ref,
    context: Context,
    child: ChildSpec,
    ref: Ref | None,
    reason: ExitReason,
    *,
    restarts: int,
    now_ms: int,
) -> Row:
    return {
        "kind": "supervisor",
        "at_ms": now_ms,
        "cell": _named(me),
        "context": context,
        "child": _child(child),
        "ended": None if ref is None else _named(ref),
        "reason": _reason(reason),
        "restarts": restarts,
    }


def progress(me: Ref, child: ChildSpec, ref: Ref, pid: int | None, now_ms: int) -> Row:
    return {
        "kind": "progress",
        "at_ms": now_ms,
        "cell": _named(me),
        "child": _child(child),
        "started": _named(ref),
        "pid": pid,
    }


def blame(
    cell: Cell,
    context: Context,
    child: ChildSpec,
    ref: Ref | None,
    reason: ExitReason,
    *,
    restarts: int,
) -> None:
    """Say what went wrong with a child."""
    now_ms = cell.now_ms()
    emit(cell, supervisor(cell.me, context, child, ref, reason, restarts=restarts, now_ms=now_ms))


def is_expected(child: ChildSpec, reason: ExitReason) -> bool:
    """Whether a child that was told to stop ended as it should."""
    if reason.kind == "normal":
        return child.restart != "permanent"
    return reason.kind == ("killed" if child.shutdown == "brutal_kill" else "shutdown")


def plain(value: object, depth: int = 3) -> object:
    """The same as JSON has it; what JSON does not have is shown as text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return clipped(value, TEXT_LENGTH_MAX)
    if depth and isinstance(value, Mapping):
        pairs = list(value.items())[:20]
        return {clipped(str(key), 80): plain(each, depth - 1) for key, each in pairs}
    if depth and isinstance(value, list | tuple):
        return [plain(each, depth - 1) for each in value[:20]]
    return shown(value)


def _named(ref: Ref) -> Row:
    return {"system": ref.system, "serial": ref.serial, "label": ref.label}


def _reason(reason: ExitReason) -> Row:
    return {"kind": reason.kind, "detail": reason.detail, "code": reason.code}


def _child(child: ChildSpec) -> Row:
    return {
        "id": child.id,
        "restart": child.restart,
        "shutdown": child.shutdown,
        "type": child.type,
        "significant": child.significant,
    }


# --- where they go --------------------------------------------------------------------------------


def emit(cell: Cell, row: Row) -> None:
    """Hand a row to the carrier of the cell, or to the log where it takes none."""
    sink: Sink = getattr(cell, "report", log)
    sink(row)


def log(row: Row) -> None:
    """One line of JSON."""
    level = logging.INFO if row["kind"] == "progress" else logging.ERROR
    _log.log(level, "%s", json.dumps(row, sort_keys=True, default=shown), extra={"row": row})
