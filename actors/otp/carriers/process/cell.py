"""A cell that is a process of its own: its turns, its children, its ties to others, and its end.

    charter --begin--> starting --ready--> up --verdict--> ending --children, mail out--> gone

Everything happens in turns. The wire calls `begin` once, then `arrived`, `woken` and `alarm` as
things happen, and `turn` after each; between turns the process sleeps in Thespian's loop. A cell
that is away, hosted by another system, cannot read the roll of its own: its parent does it.

I1..I5 are those of `cell`. Beyond them:
I6  `Exited` comes when the process is gone, so that no two incarnations of a child overlap.
I7  A turn is short, however much mail there is: signals get through.
"""

import heapq
import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, NoReturn

from ... import report
from ...cell import (
    KILL,
    KILLED,
    NORMAL,
    SHUTDOWN,
    Behaviour,
    Exited,
    ExitReason,
    Located,
    Readable,
    Ref,
    Start,
    Started,
    Target,
)
from ...identity import Identity
from . import report_file
from .birth import Capabilities, Charter, Wire
from .children import UNSEEN, Brood, ChildProcess
from .delivery import SOON_MS, Delivery
from .frames import pickled
from .links import Bonds
from .mailbox import Item, Numbers, Parcel, key_of
from .poller import Vigil
from .registry import RegistryEntry, RegistryFolder, Roll
from .wheel import Wheel

TURN_MS: Final = 10  # then others are heard before the next message
INBOX_MAX: Final = 1_024  # messages read ahead; beyond that a turn goes on until they are fewer
GRACE_MS: Final = 1_000  # that children get when their parent ends
DRAIN_MS: Final = 500  # that the last messages get
PULSE_MS: Final = 2_000  # how often a cell that is away and its parent look for each other


class _Pulse:
    """The time has come to see whether the parent is there."""


class Body:
    """Implements `Cell`; beyond it `watch`, `unwatch`, `report` and `spawn` with `on`."""

    def __init__(
        self, charter: Charter, wire: Wire, place: RegistryFolder, roll: Roll, reports: Path
    ) -> None:
        self.me = Ref(charter.me.system, charter.me.serial, charter.me.label, place)
        self.parent = charter.parent
        self.trap_exits = False
        self.is_away = place.node != charter.me.system
        self.roll = roll
        self._charter = charter
        self._wire = wire
        self._reports = reports
        self._behaviour: Behaviour | None = None
        self._phase: Literal["starting", "up", "ending"] = "starting"
        self._verdict: ExitReason | None = None
        self._inbox: deque[tuple[str, Any]] = deque()
        self._numbers = Numbers()
        self._wheel = Wheel()
        self._alarms: list[int] = []
        self._vigil = Vigil()
        self._bonds = Bonds(self, self.roll, self._vigil)
        self._brood = Brood(self.me, self.roll, self._vigil, wire)
        self._is_reported = False
        self._is_draining = False
        self._is_guest = self.parent is not None and self.parent.place.node != place.node
        self._has_pulse = self._is_guest
        self._deadline_ms = 0
        self._mail = Delivery(self.me, roll, wire, self._lost)
        self._mail.changed = self._mail_changed

    # --- as `Cell` has it -------------------------------------------------------------------------

    def ready(self) -> None:
        if self._phase == "starting":
            self._phase = "up"
            self.post_parent("ready", os.getpid())

    def spawn(self, start: Start, on: Capabilities | None = None) -> Ref:
        """With `on`, in a system of the convention that has these capabilities."""
        return self.spawn_sealed(pickled(start), start.label, on)

    def spawn_sealed(self, start: bytes, label: str, on: Capabilities | None = None) -> Ref:
        """The same with a pickled `Start`, which is opened in the child alone."""
        return self._brood.make(start, label, on or {})

    def send(self, to: Target, message: object) -> None:
        self.post(to, ("message", pickled(message)))

    def signal(self, to: Target, reason: ExitReason) -> None:
        ref = self.found(to)
        if ref is not None and reason == KILL and ref.place.node == self.me.place.node:
            self._kill(ref)
        else:
            self.post(to, ("signal", pickle.dumps(reason)))

    def exit(self, reason: ExitReason) -> None:
        if self._verdict is None:
            self._verdict = reason

    def link(self, ref: Ref) -> None:
        self._bonds.link(ref)

    def unlink(self, ref: Ref) -> None:
        self._bonds.unlink(ref)

    def monitor(self, target: Target) -> str:
        return self._bonds.monitor(target)

    def demonitor(self, monitor: str) -> None:
        self._bonds.demonitor(monitor)

    def after(self, delay_ms: int, message: object) -> str:
        return self._wheel.set(self.now_ms() + max(delay_ms, 0), message)

    def cancel(self, timer: str) -> None:
        self._wheel.cancel(timer)

    def register(self, name: str) -> bool:
        """A cell that is away takes no names: there is no way to look at once."""
        return not self.is_away and self._phase != "ending" and self.roll.take(name, self.me)

    def whereis(self, name: str, reply_with: str) -> None:
        self.put("message", Located(reply_with, self.found(name)))

    def now_ms(self) -> int:
        """The same clock in every cell of a machine."""
        return time.monotonic_ns() // 1_000_000

    # --- beyond it --------------------------------------------------------------------------------

    def backlog(self) -> int:
        return len(self._inbox)

    def watch(self, fd: int) -> bool:
        self._vigil.watch_file(fd)
        return True

    def unwatch(self, fd: int) -> None:
        self._vigil.forget_file(fd)

    def report(self, row: report.Row) -> None:
        """Write a row down; a full disk ends no cell."""
        self._is_reported |= row["kind"] == "crash"
        with suppress(OSError):
            report_file.write(self._reports, row)

    # --- what the wire calls ----------------------------------------------------------------------

    def fileno(self) -> int:
        """Readable when `woken` should be called."""
        return self._vigil.fileno()

    def ring(self) -> None:
        self._vigil.ring()

    def begin(self) -> None:
        """Be found by others, and run `start`."""
        parent = "" if self.parent is None else self.parent.serial
        entry = RegistryEntry(self.me.place, parent, self._charter.keeper)
        self.roll.enter(self.me.serial, entry, anew=True)
        if self._is_guest:
            self._feel_pulse()
        self.post_parent("hello", self.me.place)
        self._guarded("start", self._start)

    def _start(self) -> None:
        start: Start = pickle.loads(self._charter.start)  # noqa: S301 - from our parent
        self._behaviour = start.make(*start.args)
        if self._behaviour.start(self):
            self.ready()

    def arrived(self, parcel: Parcel, host: str, port: int) -> None:
        """Mail. What is for an older incarnation at this address, or came before, is dropped."""
        if parcel.to != key_of(self.me) or not self._numbers.take(parcel):
            return
        self._mail.learned(parcel.sender, host, port)
        for kind, value in parcel.items:
            self._item(parcel.sender, kind, value)

    def woken(self) -> None:
        for kind, number in self._vigil.events():
            if kind == "process":
                self._process_ended(number)
            elif kind == "file":
                self.put("file", number)

    def alarm(self, due_ms: int) -> None:
        """The wire has waited as long as it was asked to."""
        self._alarms.remove(due_ms)
        heapq.heapify(self._alarms)

    def asked_to_end(self) -> None:
        """From outside, by a signal of the operating system."""
        self.signalled(self.parent or self.me, SHUTDOWN)

    def broken(self, error: BaseException) -> NoReturn:
        """Something is wrong with us, not with the behaviour: our parent may try again."""
        self.report(report.crash(self.me, error, "a turn", None, self.now_ms()))
        self._exit_process(report.crash_reason(error))

    def cut_off(self) -> NoReturn:
        """Thespian ends us when this returns; there is no time for more."""
        if self._phase != "ending" and self._behaviour is not None:
            self._guarded("stop", self._behaviour.stop, self, self._verdict or SHUTDOWN)
        self._exit_process(self._verdict or SHUTDOWN)

    def child_exited(self, address: object) -> None:
        """Thespian says so; of those that we see ourselves, the kernel has said it."""
        for child, reason in [*self._brood.elsewhere(address), *self._brood.dead()]:
            self._child_ended(child, reason)

    def turn(self) -> None:
        """Everything that can be done now, and then a bit of what waits (I7)."""
        began_ms = self.now_ms()
        for timer in self._wheel.due(began_ms):
            self.put("timer", timer)
        self._bonds.look_again(began_ms)
        while self._inbox and self._verdict is None:
            self._hand_over(*self._inbox.popleft())
            if self.now_ms() - began_ms > TURN_MS and len(self._inbox) < INBOX_MAX:
                break
        if self._verdict is not None and self._phase != "ending":
            self._end(self._verdict)
        self._mail.pump(self.now_ms())
        if self._phase == "ending":
            self._go_on_ending()
        if self._inbox:
            self._vigil.ring()
        self._arm()

    def _arm(self) -> None:
        """Have the wire wake us in time, if it does not anyway."""
        now_ms = self.now_ms()
        wanted = [self._wheel.next_due_ms(), self._mail.next_ms(now_ms)]
        if self._bonds.is_unclear:
            wanted.append(now_ms + SOON_MS)
        if self._phase == "ending":
            wanted.append(self._deadline_ms)
        due_ms = min((each for each in wanted if each is not None), default=None)
        if due_ms is None or (self._alarms and self._alarms[0] <= due_ms):
            return
        heapq.heappush(self._alarms, due_ms)
        self._wire.wake_at(due_ms, now_ms)

    # --- messages ---------------------------------------------------------------------------------

    def put(self, kind: str, value: object) -> None:
        if self._phase != "ending":
            self._inbox.append((kind, value))

    def _hand_over(self, kind: str, value: Any) -> None:
        opened = self._opened(kind, value)
        if opened is not None:
            assert self._behaviour is not None
            self._guarded(opened[0], self._behaviour.receive, self, opened[0])

    def _opened(self, kind: str, value: Any) -> tuple[object] | None:
        """A message as the behaviour gets it; None where it is no more to be heard."""
        match kind:
            case "raw":
                try:
                    return (pickle.loads(value),)  # noqa: S301 - from a cell of ours
                except Exception as error:  # noqa: BLE001 - whatever a class does when it is made
                    self.report(report_file.unreadable(self.me, error, self.now_ms()))
                    return None
            case "timer":
                found = self._wheel.take(value)
                if found is not None and isinstance(found[0], _Pulse):
                    self._feel_pulse()
                    return None
                return found
            case "down":
                down = self._bonds.heard(value)
                return None if down is None else (down,)
            case "file":
                return (Readable(value),)
            case _:
                return (value,)

    def _guarded(self, doing: object, work: Callable[..., object], *args: object) -> None:
        """Let it crash, once: Thespian would run it again."""
        try:
            work(*args)
        except BaseException as error:  # noqa: BLE001 - nothing may get past us to Thespian
            self._verdict = report.crash_reason(error)
            if not self._is_reported:  # a server tells of it itself
                self.report(report.crash(self.me, error, doing, self._summary(), self.now_ms()))

    def _summary(self) -> object:
        try:
            return None if self._behaviour is None else self._behaviour.summary()
        except Exception as error:  # noqa: BLE001 - the first error is the one to tell of
            return f"no summary: {type(error).__name__}"

    # --- mail -------------------------------------------------------------------------------------

    def post(self, to: Target, item: Item) -> None:
        """What is no message is never refused for want of room."""
        ref = self.found(to)
        exempt = item[0] != "message"
        if self.is_away and (ref is None or not self._can_reach(ref)):
            assert self.parent is not None
            parcel = ("forward", pickle.dumps((to, item)))
            self._mail.put(self.parent, parcel, self.now_ms(), exempt=exempt)
        elif ref == self.me:
            self._item(self.me, *item)
            self._vigil.ring()
        elif ref is not None:
            self._mail.put(ref, item, self.now_ms(), exempt=exempt)

    def post_parent(self, kind: str, value: object) -> None:
        if self.parent is not None:
            self._mail.put(self.parent, (kind, pickle.dumps(value)), self.now_ms(), exempt=True)

    def _can_reach(self, ref: Ref) -> bool:
        """Without the roll of home."""
        return ref == self.me or self.is_parent_of(ref) or self._mail.knows(ref)

    def is_parent_of(self, ref: Ref) -> bool:
        return self._brood.get(ref) is not None

    def found(self, target: Target) -> Ref | None:
        if isinstance(target, Ref):
            child = self._brood.get(target)
            return target if child is None else child.ref
        return None if self.is_away else self.roll.holder(target)

    def _mail_changed(self) -> None:
        self._mail.pump(self.now_ms())
        if self._phase == "ending":
            self._go_on_ending()
        self._arm()

    def _feel_pulse(self) -> None:
        """Write to who is on the other side of a border; if it is not taken, we hear of that."""
        if self._is_guest:
            self.post_parent("pulse", None)
        for child in self._brood:
            if child.is_away and child.ref.place.port:
                self.post(child.ref, ("pulse", pickle.dumps(None)))
        self._wheel.set(self.now_ms() + PULSE_MS, _Pulse())

    def _lost(self, ref: Ref) -> None:
        """No cell takes mail there any more."""
        if self._is_guest and ref == self.parent:
            self._exit_process(ExitReason("killed", "its parent is gone"))
        child = self._brood.get(ref)
        if child is not None and child.is_away:
            self._child_ended(child, child.last_words or UNSEEN)
            self._vigil.ring()

    def _item(self, sender: Ref, kind: str, value: bytes) -> None:
        match kind:
            case "message":
                self.put("raw", value)
            case "link":
                self._bonds.linked_by(sender)
            case "unlink":
                self._bonds.unlinked_by(sender)
            case _:
                self._errand(sender, kind, pickle.loads(value))  # noqa: S301 - from a cell of ours

    def _errand(self, sender: Ref, kind: str, value: Any) -> None:
        child = self._brood.get(sender)
        match kind:
            case "signal":
                self.signalled(sender, value)
            case "hello" if child is not None:
                self._brood.arrived(child, value)
                if child.is_away and not self._has_pulse:
                    self._has_pulse = True
                    self._feel_pulse()
            case "ready" if child is not None and not child.is_ready:
                child.is_ready = True
                self.put("message", Started(child.ref, value))
            case "last words" if child is not None:
                child.last_words = value
            case "forward":
                self.post(*value)
            case "watch":
                self._bonds.asked_to_watch(sender, *value)
            case "down":
                self._bonds.told(value)
            case _:
                pass  # a pulse, or of a child that has ended

    # --- signals ----------------------------------------------------------------------------------

    def signalled(self, sender: Ref, reason: ExitReason) -> None:
        """A signal, or the end of a linked cell."""
        if reason == KILL:  # from another system; in ours no cell asks
            self._exit_process(KILLED)
        if self.trap_exits:
            self.put("message", Exited(sender, reason))
        elif reason.kind != "normal":
            self.exit(reason)
        self._vigil.ring()

    def _kill(self, ref: Ref) -> None:
        """Say that it was us, and let the kernel do it."""
        who: Identity = ref.place.identity
        if who.is_alive:
            self.roll.end(ref.serial, KILLED)
            who.kill()

    # --- the ends of others -----------------------------------------------------------------------

    def _process_ended(self, pid: int) -> None:
        self._vigil.forget_process(pid)
        for child, reason in self._brood.dead(pid):
            self._child_ended(child, reason)
        self._bonds.process_ended(pid, self.now_ms())

    def _child_ended(self, child: ChildProcess, reason: ExitReason) -> None:
        """Once for every child (I2, I6)."""
        reason, fault = self._brood.bury(child, reason)
        if reason.kind in ("exit", "signal"):
            self.report(report_file.death(child.ref, reason, fault, self.now_ms()))
        self.put("message", Exited(child.ref, reason))
        self._bonds.child_ended(child.ref, reason)
        self._mail.forget(child.ref)

    # --- the end ----------------------------------------------------------------------------------

    def _end(self, reason: ExitReason) -> None:
        """Run `stop`, and take the children along."""
        if self._behaviour is not None:
            self._guarded("stop", self._behaviour.stop, self, reason)
        assert self._verdict is not None
        self._phase = "ending"
        self._inbox.clear()
        if self._is_guest:
            self.post_parent("last words", self._verdict)
        passed_on = SHUTDOWN if self._verdict == NORMAL else self._verdict
        for child in reversed(list(self._brood)):
            self.post(child.ref, ("signal", pickle.dumps(passed_on)))
        self._deadline_ms = self.now_ms() + GRACE_MS

    def _go_on_ending(self) -> None:
        """Children first, then the last mail; both have their time."""
        now_ms = self.now_ms()
        if len(self._brood) and now_ms < self._deadline_ms:
            return
        if not self._is_draining:
            self._is_draining = True
            for child in self._brood:
                self.signal(child.ref, KILL)
            self._brood.abandon()
            self._deadline_ms = now_ms + DRAIN_MS
        if self._mail.is_done or now_ms >= self._deadline_ms:
            assert self._verdict is not None
            self._exit_process(self._verdict)

    def _exit_process(self, reason: ExitReason) -> NoReturn:
        self.roll.end(self.me.serial, reason)
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        os._exit(0 if reason.is_clean else 1)
