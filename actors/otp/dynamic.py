"""A supervisor of many children of a kind, started on demand: each stands for itself.

Children have no order: they are started, stopped and started again side by side, and are known by
their references. Everything is one step per event, so that a thousand cost a thousand times one.

    StartChild --> starting --Started--> running --Exited--> gone, or starting again
                       \\--Exited--> gone; restarting, and tried again, if it was a restart
    TerminateChild, close --> stopping --Exited--> gone

I1  There are never more than `max_children`, those included that start, stop or are tried again.
I2  A child that ends clean or is temporary is forgotten; there are no specs without a child.
I3  The caller of a start or a stop hears of its end, once.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from . import report
from .calls import Caller
from .cell import KILL, SHUTDOWN, Exited, ExitReason, Ref, Start, Started
from .children import (
    ChildInfo,
    ChildRefused,
    CountChildren,
    Counts,
    Done,
    StartChild,
    TerminateChild,
    WhichChildren,
)
from .crew import Child
from .gen_server import IGNORED, NO_REPLY, GenServer, Next, Word
from .restart import Window, verdict
from .spec import ChildSpec, Flags, SpecInvalid, check_children

INTENSITY: Final = 3  # restarts in 5 s, as Elixir has it


@dataclass(frozen=True, slots=True)
class _StartOverdue:
    """A child has not got ready, or not ended, in its time."""

    ref: Ref


@dataclass(frozen=True, slots=True)
class _TryAgain:
    key: int


@dataclass(slots=True)
class _Member(Child):
    key: int = 0
    timer: str | None = None
    starter: Caller | None = None
    stoppers: list[Caller] = field(default_factory=list)
    late: ExitReason | None = None  # why it was killed in its start


def supervise_dynamic(
    max_children: int | None = None, flags: Flags | None = None, name: str | None = None
) -> Start:
    """How to start one; what is wrong with the flags is said here already."""
    DynamicSupervisor(max_children, flags)
    return Start(DynamicSupervisor, (max_children, flags, name), name or "dynamic")


class DynamicSupervisor(GenServer):
    """Answers StartChild, TerminateChild by reference, WhichChildren and CountChildren."""

    def __init__(
        self,
        max_children: int | None = None,
        flags: Flags | None = None,
        name: str | None = None,
    ) -> None:
        self.flags = flags or Flags(intensity=INTENSITY)
        if self.flags.strategy != "one_for_one" or self.flags.auto_shutdown != "never":
            raise SpecInvalid("children that stand for themselves are one_for_one and never end it")
        if max_children is not None and max_children < 0:
            raise SpecInvalid(f"max_children: {max_children} is less than none")
        self.max_children = max_children
        self.name = name
        self._members: dict[int, _Member] = {}
        self._by_ref: dict[Ref, _Member] = {}
        self._keys = count(1)
        self._window = Window()
        self._closing: ExitReason | None = None

    # --- as a server ------------------------------------------------------------------------------

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        return None

    def handle_call(self, request: object, caller: Caller) -> object:
        match request:
            case WhichChildren():
                return list(self._infos())
            case CountChildren():
                return self._counts()
            case StartChild(spec):
                return self._add(spec, caller)
            case TerminateChild(ref):
                return self._terminate(ref, caller)
            case _:
                return super().handle_call(request, caller)

    def handle_info(self, message: object) -> Next:
        match message:
            case Started(ref, pid) if ref in self._by_ref:
                self._record_start(self._by_ref[ref], ref, pid)
            case Exited(ref, reason) if ref in self._by_ref:
                self._record_end(self._by_ref.pop(ref), ref, reason)
            case _StartOverdue(ref):
                self._kill_overdue(ref)
            case _TryAgain(key):
                self._try_again(key)
            case Started() | Exited():
                pass  # of a child that is forgotten
            case _:
                return super().handle_info(message)
        return None

    def leave(self, reason: ExitReason) -> None:
        """Stop all children at once, each in its own time; then end."""
        if self._closing is None:
            self._closing = reason
            for member in list(self._members.values()):
                self._stop(member)
            self._end_if_empty()

    def state(self) -> object:
        return {"flags": self.flags, "children": list(self._infos())}

    def summary(self) -> object:
        return {
            "type": type(self).__name__,
            "children": len(self._members),
            "max_children": self.max_children,
            "restarts": len(self._window.at_ms),
        }

    # --- questions and orders ---------------------------------------------------------------------

    def _infos(self) -> Iterator[ChildInfo]:
        return (member.info() for member in self._members.values())

    def _counts(self) -> Counts:
        members = self._members.values()
        supervisors = sum(member.spec.type == "supervisor" for member in members)
        active = len(self._by_ref)
        return Counts(len(members), active, supervisors, len(members) - supervisors)

    def _add(self, spec: ChildSpec, caller: Caller) -> object:
        try:
            check_children(self.flags, [spec])
        except SpecInvalid as error:
            return ChildRefused("invalid_spec", reason=ExitReason("crash", str(error)))
        if self.max_children is not None and len(self._members) >= self.max_children:  # I1
            return ChildRefused("max_children")
        if self._closing is not None:
            return ChildRefused("start_failed", reason=self._closing)
        member = _Member(spec, key=next(self._keys), starter=caller)
        self._members[member.key] = member
        self._start(member)
        return NO_REPLY

    def _terminate(self, ref: object, caller: Caller) -> object:
        member = self._by_ref.get(ref) if isinstance(ref, Ref) else None
        if member is None:
            return ChildRefused("not_found")
        member.stoppers.append(caller)
        self._stop(member)
        return NO_REPLY

    # --- one child --------------------------------------------------------------------------------

    def _start(self, member: _Member) -> None:
        ref = self.cell.spawn(member.spec.start)
        self._by_ref[ref] = member
        member.late = None
        self._reset(member, ref)
        member.state = "starting"
        self._set_timer(member, ref, member.spec.start_timeout_ms)

    def _stop(self, member: _Member) -> None:
        ref = member.ref
        if ref is None:
            self._forget(member)
            return
        if member.state == "stopping":
            return
        member.state = "stopping"
        shutdown = member.spec.shutdown
        self.cell.signal(ref, KILL if shutdown == "brutal_kill" else SHUTDOWN)
        self._set_timer(member, ref, shutdown if isinstance(shutdown, int) else None)

    def _record_start(self, member: _Member, ref: Ref, pid: int | None) -> None:
        if member.state != "starting":
            return
        self._set_timer(member, ref, None)
        member.state, member.pid = "running", pid
        member.since_ms = self.cell.now_ms()
        row = report.progress(self.cell.me, member.spec, ref, pid, member.since_ms)
        report.emit(self.cell, row)
        self._answer_starter(member, Done(ref))

    def _record_end(self, member: _Member, ref: Ref, reason: ExitReason) -> None:
        self._set_timer(member, ref, None)
        state = member.state
        self._reset(member, None)
        if state == "stopping":
            if not report.is_expected(member.spec, reason):
                self._blame("shutdown_error", member, ref, reason)
            self._answer_starter(member, ChildRefused("start_failed", reason=reason))
            self._forget(member)
        elif state == "starting":
            self._not_started(member, ref, member.late or reason)
        else:
            self._restart_or_forget(member, ref, reason)

    def _not_started(self, member: _Member, ref: Ref, reason: ExitReason) -> None:
        if reason == IGNORED:
            self._answer_starter(member, Done())
            self._forget(member)
            return
        self._blame("start_error", member, ref, reason)
        if member.starter is not None:
            self._answer_starter(member, ChildRefused("start_failed", reason=reason))
            self._forget(member)
            return
        member.state = "restarting"
        self.cell.send(self.cell.me, _TryAgain(member.key))

    def _restart_or_forget(self, member: _Member, ref: Ref, reason: ExitReason) -> None:
        """A child ended by itself."""
        restart = verdict(member.spec.restart, reason) == "restart"
        if restart or not reason.is_clean:
            self._blame("child_terminated", member, ref, reason)
        if restart:
            self._restart(member)
        else:
            self._forget(member)  # I2

    def _restart(self, member: _Member) -> None:
        self._window = self._window.add(self.cell.now_ms(), self.flags.period_ms)
        if self._window.exceeds(self.flags.intensity):
            reason = ExitReason("shutdown", "reached_max_restart_intensity")
            self._blame("gave_up", member, None, reason)
            self._forget(member)
            self.leave(SHUTDOWN)
            return
        member.restarts += 1
        self._start(member)

    def _try_again(self, key: int) -> None:
        member = self._members.get(key)
        if member is not None and member.state == "restarting":
            self._restart(member)

    def _kill_overdue(self, ref: Ref) -> None:
        member = self._by_ref.get(ref)
        if member is None or member.timer is None:
            return
        if member.state == "starting":
            member.late = ExitReason("timeout", f"not ready in {member.spec.start_timeout_ms} ms")
        self.cell.signal(ref, KILL)

    # --- bookkeeping ------------------------------------------------------------------------------

    def _reset(self, member: _Member, ref: Ref | None) -> None:
        member.ref, member.pid = ref, None
        member.state = "undefined"
        member.since_ms = self.cell.now_ms()

    def _set_timer(self, member: _Member, ref: Ref, limit_ms: int | None) -> None:
        """One timer per child: what it does next must happen in this time."""
        if member.timer is not None:
            self.cell.cancel(member.timer)
        member.timer = None if limit_ms is None else self.cell.after(limit_ms, _StartOverdue(ref))

    def _answer_starter(self, member: _Member, answer: Done | ChildRefused) -> None:
        if member.starter is not None:
            self.reply(member.starter, answer)
            member.starter = None

    def _forget(self, member: _Member) -> None:
        del self._members[member.key]
        for caller in member.stoppers:  # I3
            self.reply(caller, Done())
        self._end_if_empty()

    def _end_if_empty(self) -> None:
        if self._closing is not None and not self._members:
            super().leave(self._closing)

    def _blame(
        self, context: report.Context, member: _Member, ref: Ref | None, reason: ExitReason
    ) -> None:
        report.blame(self.cell, context, member.spec, ref, reason, restarts=len(self._window.at_ms))
