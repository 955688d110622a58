"""Links and monitors of one cell, and those it keeps for a cell that is away.

A cell that is away cannot read the roll of its system, and no cell at home sees the end of its
process. Both have the same way out: the parent that is at home watches, and tells.

    away --watch--> its parent --ties--> kernel and roll
    home --watch--> parent of the one that is away --hears of it from Thespian

The children of a cell that is away are seen by that cell alone: from home they can be written to,
but not watched, and so not called.
"""

import pickle
from typing import Final, Protocol

from ...cell import NOPROC, Down, ExitReason, Ref, Target
from .mailbox import Item
from .poller import Vigil
from .registry import RegistryFolder, Roll
from .watches import Tie, Ties

_SELF: Final = "@"  # begins the name of a monitor that the carrier itself has set


class Holder(Protocol):
    """The cell whose bonds these are."""

    me: Ref

    @property
    def is_away(self) -> bool: ...

    def put(self, kind: str, value: object) -> None:
        """Into its inbox."""

    def post(self, to: Target, item: Item) -> None: ...

    def post_parent(self, kind: str, value: object) -> None: ...

    def found(self, target: Target) -> Ref | None: ...

    def is_parent_of(self, ref: Ref) -> bool: ...

    def signalled(self, sender: Ref, reason: ExitReason) -> None: ...


class Bonds:
    def __init__(self, holder: Holder, roll: Roll, vigil: Vigil) -> None:
        self._holder = holder
        self._ties = Ties(roll, vigil)
        self._monitors: dict[str, Ref | None] = {}
        self._errands: dict[str, tuple[Ref, str]] = {}  # monitors that were set for another cell
        self._counted = 0

    # --- what the cell does -----------------------------------------------------------------------

    def link(self, ref: Ref) -> None:
        if ref != self._holder.me and self.linked_by(ref):
            self._holder.post(ref, ("link", b""))

    def unlink(self, ref: Ref) -> None:
        self.unlinked_by(ref)
        self._holder.post(ref, ("unlink", b""))

    def monitor(self, target: Target) -> str:
        holder = self._holder
        self._counted += 1
        monitor = f"{holder.me.serial}m{self._counted}"
        if holder.is_away and isinstance(target, str):
            self._monitors[monitor] = None
            holder.post_parent("watch", (monitor, target))
            return monitor
        ref = holder.found(target)
        tie = None if ref is None else self._tie(ref)
        self._monitors[monitor] = ref
        if tie is None:
            holder.put("down", Down(monitor, ref, NOPROC))
        else:
            tie.monitors[monitor] = None
        return monitor

    def demonitor(self, monitor: str) -> None:
        ref = self._monitors.pop(monitor, None)
        tie = None if ref is None else self._ties.get(ref)
        if tie is not None:
            tie.monitors.pop(monitor, None)
            self._ties.loosen(tie)

    def heard(self, down: Down) -> Down | None:
        """A `Down` whose turn has come; None where it is for no cell, or for another."""
        if down.monitor not in self._monitors:
            return None
        del self._monitors[down.monitor]
        errand = self._errands.pop(down.monitor, None)
        if errand is None:
            return down
        asker, monitor = errand
        self._holder.post(asker, ("down", pickle.dumps(Down(monitor, down.ref, down.reason))))
        return None

    # --- what others do ---------------------------------------------------------------------------

    def linked_by(self, ref: Ref) -> bool:
        """False where it is gone; then that is its signal."""
        tie = self._tie(ref)
        if tie is None:
            self._holder.signalled(ref, NOPROC)
            return False
        tie.is_link = True
        return True

    def unlinked_by(self, ref: Ref) -> None:
        tie = self._ties.get(ref)
        if tie is not None:
            tie.is_link = False
            self._ties.loosen(tie)

    def asked_to_watch(self, asker: Ref, monitor: str, target: Target) -> None:
        self._errands[self.monitor(target)] = (asker, monitor)

    def told(self, down: Down) -> None:
        """The end of a cell that another has watched for us."""
        if not down.monitor.startswith(_SELF):
            self._holder.put("down", down)
        elif down.ref is not None and (tie := self._ties.told(down.ref)) is not None:
            self._tell(tie, down.reason)

    # --- ends -------------------------------------------------------------------------------------

    @property
    def is_unclear(self) -> bool:
        """A cell has ended, and how is not known yet: look again soon."""
        return self._ties.is_unclear

    def process_ended(self, pid: int, now_ms: int) -> None:
        self._ties.process_ended(pid, now_ms)

    def child_ended(self, ref: Ref, reason: ExitReason) -> None:
        tie = self._ties.told(ref)
        if tie is not None:
            tie.is_link = False  # a parent hears `Exited`, and never ends by it
            self._tell(tie, reason)

    def look_again(self, now_ms: int) -> None:
        for tie, reason in self._ties.explained(now_ms):
            self._tell(tie, reason)

    def _tell(self, tie: Tie, reason: ExitReason) -> None:
        for monitor in tie.monitors:
            self._holder.put("down", Down(monitor, tie.ref, reason))
        if tie.is_link:
            self._holder.signalled(tie.ref, reason)

    def _tie(self, ref: Ref) -> Tie | None:
        """A tie to another cell; None if it has ended."""
        holder = self._holder
        found = self._ties.get(ref)
        if found is not None:
            return found
        if ref == holder.me or holder.is_parent_of(ref):
            return self._ties.trust(ref)
        if holder.is_away:
            holder.post_parent("watch", (_SELF + ref.serial, ref))
            return self._ties.trust(ref)
        tie = self._ties.watch(ref)
        if tie is not None and tie.pid is None and tie.entry is not None:
            # It is away, and its parent hears of its end.
            keeper = tie.entry.keeper
            place = RegistryFolder(holder.me.system, keeper.pid, keeper.ticks)
            parent = Ref(holder.me.system, tie.entry.parent, "", place)
            holder.post(parent, ("watch", pickle.dumps((_SELF + ref.serial, ref))))
        return tie
