"""The children of one supervisor, and how one of them is started and stopped.

Starting and stopping take time, and a supervisor must not wait. So they are generators: they yield
the reference of the child that they wait for, and are sent what happens to it.

    undefined --start--> starting --Started--> running --stop--> stopping --Exited--> undefined
        ^                    \\--Exited, too late--> restarting, if it was a restart

I1  Child k+1 is started after child k is ready.
I2  A stopped child is gone before the next one is stopped.
I3  A child that does not end in its time is killed, and waited for.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from . import report
from .cell import KILL, SHUTDOWN, Cell, Exited, ExitReason, Ref, Started
from .children import ChildInfo, ChildState, Counts
from .gen_server import IGNORED
from .spec import ChildSpec


@dataclass(frozen=True, slots=True)
class Overdue:
    """The child that is waited for took too long."""

    wait: int


Event = Started | Exited | Overdue
T = TypeVar("T")
Waiting = Generator[Ref, Event, T]  # yields whom it waits for, and in the end has a result


@dataclass(slots=True)
class Child:
    spec: ChildSpec
    state: ChildState = "undefined"
    ref: Ref | None = None
    pid: int | None = None
    restarts: int = 0
    since_ms: int = 0

    def info(self) -> ChildInfo:
        spec = self.spec
        return ChildInfo(
            spec.id, self.ref, self.state, spec.type, self.pid, self.restarts, self.since_ms
        )


class Crew:
    """Children by name, in the order of their start."""

    cell: Cell

    def __init__(self, specs: Iterable[ChildSpec]) -> None:
        self._children = {spec.id: Child(spec) for spec in specs}
        self._by_ref: dict[Ref, Child] = {}
        self.ended: dict[Ref, ExitReason] = {}  # of children whose end still waits for its turn
        self.waits = 0  # the number of the newest wait

    def __iter__(self) -> Iterator[Child]:
        return iter(self._children.values())

    def __contains__(self, ref: Ref) -> bool:
        return ref in self._by_ref

    def get(self, name: object) -> Child | None:
        return self._children.get(name) if isinstance(name, str) else None

    def owner(self, ref: Ref) -> Child:
        return self._by_ref[ref]

    def names(self) -> list[str]:
        return list(self._children)

    def specs(self) -> list[ChildSpec]:
        return [child.spec for child in self]

    def add(self, spec: ChildSpec) -> Child:
        child = self._children[spec.id] = Child(spec)
        return child

    def remove(self, name: str) -> None:
        del self._children[name]

    def which(self) -> list[ChildInfo]:
        return [child.info() for child in reversed(self._children.values())]

    def counts(self) -> Counts:
        supervisors = sum(child.spec.type == "supervisor" for child in self)
        active = sum(child.ref is not None and child.ref not in self.ended for child in self)
        total = len(self._children)
        return Counts(total, active, supervisors, total - supervisors)

    def set(
        self, child: Child, state: ChildState, ref: Ref | None = None, pid: int | None = None
    ) -> None:
        if child.ref is not None and child.ref != ref:
            del self._by_ref[child.ref]
        if ref is not None:
            self._by_ref[ref] = child
        child.state, child.ref, child.pid = state, ref, pid
        child.since_ms = self.cell.now_ms()

    # --- starting ---------------------------------------------------------------------------------

    def start_all(
        self, names: Iterable[str], *, again: bool = False
    ) -> Waiting[tuple[Child, ExitReason] | None]:
        """In order (I1); the first that fails ends it, and says why."""
        for name in names:
            child = self._children[name]
            failure = yield from self.start(child, again=again)
            if failure is not None:
                return child, failure
        return None

    def start(self, child: Child, *, again: bool = False) -> Waiting[ExitReason | None]:
        """None where it is up, or found nothing to do; else why it failed."""
        child.restarts += again
        ref = self.cell.spawn(child.spec.start)
        self.set(child, "starting", ref)
        event = yield from self._wait(ref, child.spec.start_timeout_ms)
        if isinstance(event, Started):
            self.set(child, "running", ref, event.pid)
            now_ms = self.cell.now_ms()
            report.emit(
                self.cell, report.progress(self.cell.me, child.spec, ref, event.pid, now_ms)
            )
            return None
        if isinstance(event, Overdue):
            reason = ExitReason("timeout", f"not ready in {child.spec.start_timeout_ms} ms")
            yield from self._kill(ref)
        else:
            reason = event.reason
        self.set(child, "undefined")
        if reason == IGNORED:
            if child.spec.restart == "temporary":
                self.remove(child.spec.id)
            return None
        self._blame("start_error", child, ref, reason)
        return reason

    # --- stopping ---------------------------------------------------------------------------------

    def stop_all(self, names: Iterable[str]) -> Waiting[None]:
        """In the order given (I2); temporary children are forgotten."""
        for name in names:
            child = self._children[name]
            if child.ref is not None:
                yield from self._stop(child, child.ref)
            self.set(child, "undefined")
            if child.spec.restart == "temporary":
                self.remove(name)

    def _stop(self, child: Child, ref: Ref) -> Waiting[None]:
        reason = self.ended.pop(ref, None)
        if reason is None:
            self.set(child, "stopping", ref, child.pid)
            reason = yield from self._shut(child.spec, ref)
        if not report.is_expected(child.spec, reason):
            report.blame(
                self.cell, "shutdown_error", child.spec, ref, reason, restarts=child.restarts
            )

    def _shut(self, spec: ChildSpec, ref: Ref) -> Waiting[ExitReason]:
        if spec.shutdown == "brutal_kill":
            return (yield from self._kill(ref))
        self.cell.signal(ref, SHUTDOWN)
        limit_ms = spec.shutdown if isinstance(spec.shutdown, int) else None
        event: Event = Started(ref)
        while isinstance(event, Started):  # it may have become ready just now
            event = yield from self._wait(ref, limit_ms)
        return event.reason if isinstance(event, Exited) else (yield from self._kill(ref))

    def _kill(self, ref: Ref) -> Waiting[ExitReason]:
        self.cell.signal(ref, KILL)
        while True:
            event = yield ref
            if isinstance(event, Exited):
                return event.reason

    def _wait(self, ref: Ref, limit_ms: int | None) -> Waiting[Event]:
        self.waits += 1
        if limit_ms is None:
            return (yield ref)
        timer = self.cell.after(limit_ms, Overdue(self.waits))
        try:
            return (yield ref)
        finally:
            self.cell.cancel(timer)

    def _blame(self, context: report.Context, child: Child, ref: Ref, reason: ExitReason) -> None:
        report.blame(self.cell, context, child.spec, ref, reason, restarts=child.restarts)
