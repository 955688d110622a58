"""Children that are started in order, watched, started again by a rule, and stopped in reverse.

What OTP's supervisor does in one go and with a blocked mailbox is here a *piece of work*: a
generator that waits for one child at a time. Pieces are done one after the other, in the order in
which their causes arrived; messages are taken in meanwhile.

    boot --all started--> [idle] <--> end of a child, start_child, terminate_child, try again ...
      \\                     \\--parent ends, intensity exceeded, auto_shutdown--> close --> gone
       \\--one failed---------------------------------------------------------------/

I1  A restart that fails is counted and tried again at the end of the queue, so that questions and
    orders come in between.
I2  Questions are answered at once, in the middle of any work; orders wait for their turn.
I3  The end of the parent comes before all other work.
"""

from collections import deque
from collections.abc import Sequence
from typing import Final

from . import report
from .calls import Caller
from .cell import SHUTDOWN, Exited, ExitReason, Ref, Start, Started
from .children import (
    ChildRefused,
    CountChildren,
    DeleteChild,
    Done,
    GetChildSpec,
    RestartChild,
    StartChild,
    TerminateChild,
    WhichChildren,
)
from .crew import Child, Crew, Event, Overdue, Waiting
from .gen_server import LATER, NO_REPLY, GenServer, Next, Word
from .restart import Window, gives_up, group, verdict
from .spec import ChildSpec, Flags, SpecInvalid, check_children

Order = StartChild | TerminateChild | RestartChild | DeleteChild
_ORDERS: Final = (StartChild, TerminateChild, RestartChild, DeleteChild)


def supervise(
    children: Sequence[ChildSpec], flags: Flags | None = None, name: str | None = None
) -> Start:
    """How to start a supervisor; what is wrong with its children is said here already."""
    flags = flags or Flags()
    check_children(flags, children)
    return Start(Supervisor, (tuple(children), flags, name), name or "supervisor")


class Supervisor(GenServer):
    """Answers the requests of `children`."""

    def __init__(
        self,
        children: Sequence[ChildSpec] = (),
        flags: Flags | None = None,
        name: str | None = None,
    ) -> None:
        self.flags = flags or Flags()
        check_children(self.flags, children)
        self.name = name
        self._crew = Crew(children)
        self._window = Window()
        self._queue: deque[Waiting[None]] = deque()
        self._work: Waiting[None] | None = None
        self._awaited: Ref | None = None
        self._closing = False

    # --- as a server ------------------------------------------------------------------------------

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        self._crew.cell = self.cell
        self._do(self._boot())
        return LATER

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, _ORDERS):
            self._do(self._obey(request, caller))
            return NO_REPLY
        match request:  # I2
            case WhichChildren():
                return self._crew.which()
            case CountChildren():
                return self._crew.counts()
            case GetChildSpec(id=name):
                child = self._crew.get(name)
                return ChildRefused("not_found") if child is None else child.spec
            case _:
                return super().handle_call(request, caller)

    def handle_info(self, message: object) -> Next:
        if isinstance(message, Overdue):
            if self._awaited is not None and message.wait == self._crew.waits:
                self._go_on(message)
        elif isinstance(message, Started | Exited):
            self._take(message)
        else:
            return super().handle_info(message)
        return None

    def leave(self, reason: ExitReason) -> None:
        """Drop all other work and stop the children, then end (I3)."""
        if not self._closing:
            self._queue.clear()
            if self._work is not None:
                self._work.close()
            self._work = self._awaited = None
            self._do(self._close(reason))

    def state(self) -> object:
        return {"flags": self.flags, "children": self._crew.which()}

    def summary(self) -> object:
        return {
            "type": type(self).__name__,
            "strategy": self.flags.strategy,
            "children": {child.spec.id: child.state for child in self._crew},
            "restarts": len(self._window.at_ms),
        }

    # --- work, one piece at a time ----------------------------------------------------------------

    def _do(self, work: Waiting[None]) -> None:
        self._queue.append(work)
        if self._work is None:
            self._go_on(None)

    def _go_on(self, event: Event | None) -> None:
        """Give the work what it waited for; when it is done, begin with the next."""
        while True:
            if self._work is None:
                if self.leaving or not self._queue:
                    return
                self._work, event = self._queue.popleft(), None
            try:
                self._awaited = self._work.send(event)  # type: ignore[arg-type]  # it awaits this very kind
                return
            except StopIteration:
                self._work = self._awaited = None

    def _take(self, event: Started | Exited) -> None:
        if event.ref == self._awaited:
            self._go_on(event)
        elif isinstance(event, Exited) and event.ref in self._crew:
            self._crew.ended[event.ref] = event.reason
            self._do(self._settle_exit(event.ref))

    # --- what there is to do ----------------------------------------------------------------------

    def _boot(self) -> Waiting[None]:
        failed = yield from self._crew.start_all(self._crew.names())
        if failed is None:
            self.cell.ready()
            return
        child, reason = failed
        detail = f"failed_to_start_child {child.spec.id}: {reason.kind} {reason.detail}".rstrip()
        # It grows with every level that gives up, and the outermost words say the most.
        yield from self._close(
            ExitReason("shutdown", report.clipped(detail, report.TEXT_LENGTH_MAX))
        )

    def _close(self, reason: ExitReason) -> Waiting[None]:
        self._closing = True
        yield from self._crew.stop_all(reversed(self._crew.names()))
        super().leave(reason)

    def _settle_exit(self, ref: Ref) -> Waiting[None]:
        """A child ended by itself."""
        reason = self._crew.ended.pop(ref, None)
        if reason is None:  # it was stopped with others before its end had its turn
            return
        child = self._crew.owner(ref)
        self._crew.set(child, "undefined")
        outcome = verdict(child.spec.restart, reason)
        if outcome == "restart" or not reason.is_clean:
            self._blame("child_terminated", child, ref, reason)
        if outcome == "restart":
            yield from self._restart(child)
            return
        if outcome == "drop":
            self._crew.remove(child.spec.id)
        others = [(each.spec, each.state != "undefined") for each in self._crew]
        if gives_up(self.flags.auto_shutdown, child.spec, others):
            yield from self._close(SHUTDOWN)

    def _restart(self, child: Child) -> Waiting[None]:
        self._window = self._window.add(self.cell.now_ms(), self.flags.period_ms)
        if self._window.exceeds(self.flags.intensity):
            self._crew.set(child, "undefined")
            self._blame(
                "gave_up", child, None, ExitReason("shutdown", "reached_max_restart_intensity")
            )
            yield from self._close(SHUTDOWN)
            return
        affected = group(self.flags.strategy, self._crew.specs(), child.spec.id)
        yield from self._crew.stop_all(affected.stop)
        failed = yield from self._crew.start_all(affected.start, again=True)
        if failed is not None:
            self._crew.set(failed[0], "restarting")
            self._queue.append(self._try_again(failed[0].spec.id))  # I1

    def _try_again(self, name: str) -> Waiting[None]:
        child = self._crew.get(name)
        if child is not None and child.state == "restarting":
            yield from self._restart(child)

    def _blame(
        self, context: report.Context, child: Child, ref: Ref | None, reason: ExitReason
    ) -> None:
        report.blame(self.cell, context, child.spec, ref, reason, restarts=len(self._window.at_ms))

    # --- orders -----------------------------------------------------------------------------------

    def _obey(self, order: Order, caller: Caller) -> Waiting[None]:
        match order:
            case StartChild(spec):
                answer = yield from self._add(spec)
            case TerminateChild(name):
                answer = yield from self._terminate(name)
            case RestartChild(name):
                answer = yield from self._start_again(name)
            case DeleteChild(name):
                answer = self._delete(name)
        self.reply(caller, answer)

    def _add(self, spec: ChildSpec) -> Waiting[Done | ChildRefused]:
        try:
            check_children(self.flags, [spec])
        except SpecInvalid as error:
            return ChildRefused("invalid_spec", reason=ExitReason("crash", str(error)))
        old = self._crew.get(spec.id)
        if old is not None and old.ref is not None:
            return ChildRefused("already_started", old.ref)
        if old is not None:
            return ChildRefused("already_present")
        child = self._crew.add(spec)
        failure = yield from self._crew.start(child)
        if failure is not None:
            self._crew.remove(spec.id)
            return ChildRefused("start_failed", reason=failure)
        return Done(child.ref)

    def _terminate(self, name: object) -> Waiting[Done | ChildRefused]:
        child = self._crew.get(name)
        if child is None:
            return ChildRefused("not_found")
        yield from self._crew.stop_all([child.spec.id])
        return Done()

    def _start_again(self, name: str) -> Waiting[Done | ChildRefused]:
        child = self._crew.get(name)
        if child is None or child.state != "undefined":
            return _why_not(child)
        failure = yield from self._crew.start(child)
        return Done(child.ref) if failure is None else ChildRefused("start_failed", reason=failure)

    def _delete(self, name: str) -> Done | ChildRefused:
        child = self._crew.get(name)
        if child is None or child.state != "undefined":
            return _why_not(child)
        self._crew.remove(name)
        return Done()


def _why_not(child: Child | None) -> ChildRefused:
    if child is None:
        return ChildRefused("not_found")
    return (
        ChildRefused("restarting")
        if child.state == "restarting"
        else ChildRefused("running", child.ref)
    )
