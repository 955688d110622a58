"""The life of a fiber, as one table. Code, `docs/protocol.md` and tests are made from it.

    unspawned --spawn--> running --join--> joined
                           |  \\--cancel--> cancelled
                           \\--(the term of its lease ends)--> orphaned --spawn--> running

`orphan` and `forget` are seen, not asked for. What ran when a term ended is remembered as orphaned
during the next term, whose holder may use the id again; what had ended is forgotten with its term.
"""

from enum import StrEnum


class FiberState(StrEnum):
    UNSPAWNED = "unspawned"
    RUNNING = "running"
    JOINED = "joined"
    CANCELLED = "cancelled"
    ORPHANED = "orphaned"


class FiberMove(StrEnum):
    SPAWN = "spawn"
    JOIN = "join"
    CANCEL = "cancel"
    ORPHAN = "orphan"  # the term of its lease ends
    FORGET = "forget"  # its term, the work or the memory of ended fibers is over


_S, _M = FiberState, FiberMove

FIBER_TRANSITIONS: dict[tuple[FiberState, FiberMove], FiberState] = {
    (_S.UNSPAWNED, _M.SPAWN): _S.RUNNING,
    (_S.ORPHANED, _M.SPAWN): _S.RUNNING,
    (_S.RUNNING, _M.JOIN): _S.JOINED,
    (_S.RUNNING, _M.CANCEL): _S.CANCELLED,
    (_S.RUNNING, _M.ORPHAN): _S.ORPHANED,
    (_S.JOINED, _M.FORGET): _S.UNSPAWNED,
    (_S.CANCELLED, _M.FORGET): _S.UNSPAWNED,
    (_S.ORPHANED, _M.FORGET): _S.UNSPAWNED,
}
