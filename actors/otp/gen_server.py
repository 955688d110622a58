"""A behaviour that answers calls: what `gen_server` is to Erlang.

A server is a class; `Start(Counter, (5,))` makes one. It fills in what it needs:

    init             the first thing done; may say Continue(x), Stop(reason), IGNORE or LATER
    handle_call      returns the answer, or NO_REPLY and later `self.reply(caller, value)`
    handle_cast      a request that wants no answer
    handle_info      everything else: timers, `Down`, `Exited`, plain messages
    handle_continue  right after `init` or a handler that said so, before any other message
    terminate        the last word: after an exception, a stop of its own, or its parent's if it
                     traps exits; not where it is killed or ended by a link

    [init] --ready--> [handle_*]* --Stop, exception, exit of the parent--> [terminate]

I1  Inspection comes before the server's own code, also while that is suspended.
I2  A call whose deadline is over when its turn comes is not run: its caller waits no more.
I3  An exception is reported once, with the message at hand, and ends the server.

What begins with two underscores is this module's own, so that a subclass may use any other name.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final, assert_never, get_args

from . import report
from .calls import TIMEOUT_MS, Call, Caller, Calls, Cast, Reply, Then
from .cell import NORMAL, Cell, Exited, ExitReason, Target
from .inspection import (
    HELD_MAX,
    GetState,
    GetStatus,
    GetTrace,
    Inspection,
    Leave,
    Observer,
    Resume,
    Statistics,
    Suspend,
    Trace,
    Untrace,
)

IGNORED: Final = ExitReason(
    "normal", "ignore"
)  # of a server that found nothing to do in its `init`
_INSPECTIONS: Final = get_args(Inspection)


class Word(Enum):
    """What a handler may say instead of a value."""

    NO_REPLY = "no reply"
    IGNORE = "ignore"
    LATER = "later"


NO_REPLY: Final = Word.NO_REPLY  # from handle_call: the answer comes by `self.reply`
IGNORE: Final = Word.IGNORE  # from init: there is nothing to do, and that is no failure
LATER: Final = Word.LATER  # from init: `self.cell.ready()` follows


@dataclass(frozen=True, slots=True)
class Continue:
    """Go on with `handle_continue`, before anything else."""

    argument: object = None


@dataclass(frozen=True, slots=True)
class Stop:
    """End, with a reason; from `handle_call` with an answer before, unless that is NO_REPLY."""

    reason: ExitReason = NORMAL
    reply: object = NO_REPLY


Next = Continue | Stop | None


class UnknownRequest(Exception):
    """A server was asked for what it does not know; as in OTP, that ends it."""


class GenServer:
    """The part that all servers share. Subclasses override handlers, and read `self.cell`."""

    cell: Cell
    name: str | None = None  # to be registered under
    leaving = False  # it has said that it ends

    # --- for subclasses to fill in ----------------------------------------------------------------

    def init(self) -> Next | Word:
        return None

    def handle_call(self, request: object, caller: Caller) -> object:  # noqa: ARG002 - for subclasses
        raise UnknownRequest(f"{type(self).__name__} was called with {report.shown(request)}")

    def handle_cast(self, message: object) -> Next:
        raise UnknownRequest(f"{type(self).__name__} was cast {report.shown(message)}")

    def handle_info(self, message: object) -> Next:  # noqa: ARG002 - for subclasses
        self.observer.counts["unexpected"] += 1
        return None

    def handle_continue(self, argument: object) -> Next:
        raise UnknownRequest(f"{type(self).__name__} goes on with {report.shown(argument)}")

    def terminate(self, reason: ExitReason) -> None: ...

    def state(self) -> object:
        """What `GetState` shows: by default every attribute without an underscore."""
        hidden = ("cell", "calls", "observer")
        fields = {name: value for name, value in vars(self).items() if name not in hidden}
        return {name: report.plain(each) for name, each in fields.items() if name[0] != "_"}

    def summary(self) -> object:
        """What a crash report says: by default no state at all, since that may hold secrets."""
        return {"type": type(self).__name__}

    # --- for subclasses to use --------------------------------------------------------------------

    def reply(self, caller: Caller, value: object) -> None:
        self.observer.note(self.cell, "reply", value)
        self.cell.send(caller.ref, Reply(caller.question, value))

    def ask(
        self, target: Target, request: object, then: Then, timeout_ms: int | None = TIMEOUT_MS
    ) -> str:
        """Call another server and go on; `then` gets its answer, or a `CallFailed`."""
        return self.calls.ask(target, request, timeout_ms, then)

    def cast(self, target: Target, message: object) -> None:
        self.cell.send(target, Cast(message))

    def proceed(self, argument: object = None) -> None:
        """As `Continue`, from where the return value means something else."""
        self.__next.append(argument)

    def leave(self, reason: ExitReason) -> None:
        """End when the message at hand is done with."""
        self.leaving = True
        self.observer.note(self.cell, "exit", reason)
        self.cell.exit(reason)

    def parent_exited(self, reason: ExitReason) -> None:
        """The parent ended or wants us to; only heard by a server that traps exits."""
        self.leave(reason)

    # --- the behaviour ----------------------------------------------------------------------------

    def start(self, cell: Cell) -> bool:
        self.cell = cell
        self.calls = Calls(cell)
        self.observer = Observer(started_ms=cell.now_ms())
        self.__next: deque[object] = deque()
        self.__held: deque[object] | None = None
        self.__crashed = False
        if self.name is not None and not cell.register(self.name):
            # Past what subclasses do before they leave: none of it has begun.
            GenServer.leave(self, ExitReason("crash", f"already_started: {self.name} is taken"))
            return False
        self.__guarded("init", self.__begin)
        return False

    def __begin(self) -> None:
        match self.init():
            case Word.IGNORE:
                self.leave(IGNORED)
            case Word.LATER:
                pass
            case Stop(reason):
                self.leave(reason)
            case None | Continue() as step:
                if not self.leaving:
                    self.cell.ready()
                    self.__follow(step)
            case other:
                raise TypeError(f"init of {type(self).__name__} returned {report.shown(other)}")

    def receive(self, cell: Cell, message: object) -> None:
        if isinstance(message, Call) and isinstance(message.request, _INSPECTIONS):  # I1
            self.__guarded(message.request, self.__inspect, message)
        elif isinstance(message, Exited) and message.ref == cell.parent:
            self.__guarded(message, self.parent_exited, message.reason)
        elif self.__held is not None:
            self.__hold(message)
        else:
            self.__guarded(message, self.__handle, message)

    def stop(self, cell: Cell, reason: ExitReason) -> None:
        # Untrapped, a signal gives a server no last word; trapped, only a parent that is gone
        # comes here without its leave.
        if self.leaving or self.__crashed or cell.trap_exits:
            self.__guarded("terminate", self.terminate, reason)

    def __guarded(self, doing: object, work: Callable[..., None], *args: object) -> None:
        """Do it; an exception is reported and goes on to the carrier (I3)."""
        try:
            work(*args)
        except (Exception, SystemExit) as error:
            if not self.__crashed:
                self.__crashed = True
                now_ms = self.cell.now_ms()
                row = report.crash(self.cell.me, error, doing, self.__shown(), now_ms)
                report.emit(self.cell, row)
            raise

    def __shown(self) -> object:
        try:
            return self.summary()
        except Exception as error:  # noqa: BLE001 - the first one is told of
            return f"no summary: {type(error).__name__}"

    # --- messages ---------------------------------------------------------------------------------

    def __handle(self, message: object) -> None:
        observer = self.observer
        if isinstance(message, Call):
            observer.note(self.cell, "call", message.request)
            self.__call(message)
        elif isinstance(message, Cast):
            observer.note(self.cell, "cast", message.message)
            self.__follow(self.handle_cast(message.message))
        else:
            observer.note(self.cell, "in", message)
            if self.calls.take(message):
                self.__follow(None)
            else:
                self.__follow(self.handle_info(message))

    def __call(self, call: Call) -> None:
        left_ms = call.caller.remaining_ms(self.cell.me, self.cell.now_ms())
        if left_ms is not None and left_ms < 0:  # I2
            self.observer.counts["expired"] += 1
            return
        answer = self.handle_call(call.request, call.caller)
        step: Next = None
        if isinstance(answer, Stop):
            step, answer = answer, answer.reply
        if answer is not NO_REPLY:
            self.reply(call.caller, answer)
        self.__follow(step)

    def __follow(self, step: Next) -> None:
        """What a handler said comes next, until nothing does."""
        while not self.leaving:
            match step:
                case Stop(reason):
                    self.leave(reason)
                    return
                case Continue(argument):
                    self.__next.append(argument)
                case None:
                    pass
                case other:
                    raise TypeError(f"{type(self).__name__} returned {report.shown(other)}")
            if not self.__next:
                return
            step = self.handle_continue(self.__next.popleft())

    # --- inspection -------------------------------------------------------------------------------

    def __inspect(self, call: Call) -> None:
        request = call.request
        assert isinstance(request, _INSPECTIONS)
        answer = self.__looked_at(request)
        self.cell.send(call.caller.ref, Reply(call.caller.question, answer))
        if isinstance(request, Leave) and not self.leaving:
            self.leave(request.reason)

    def __looked_at(self, request: Inspection) -> object:
        match request:
            case GetState():
                return self.state()
            case GetStatus():
                return self.__status()
            case Suspend():
                self.__held = deque() if self.__held is None else self.__held
            case Resume():
                self.__resume()
            case Statistics():
                return self.__statistics()
            case GetTrace():
                return self.observer.kept()
            case Trace():
                return self.observer.begin(request)
            case Untrace():
                self.observer.end()
            case Leave():
                pass
            case _ as never:
                assert_never(never)
        return "ok"

    def __status(self) -> dict[str, object]:
        parent = self.cell.parent
        return {
            "type": type(self).__name__,
            "name": self.name,
            "ref": self.cell.me,
            "parent": parent,
            "suspended": self.__held is not None,
            "held": len(self.__held or ()),
            "traced": self.observer.traces,
            "open_calls": len(self.calls),
            "summary": self.__shown(),
        }

    def __statistics(self) -> dict[str, int]:
        counts = self.observer.counts
        names = ("call", "cast", "in", "reply", "expired", "unexpected")
        return {
            "up_ms": self.cell.now_ms() - self.observer.started_ms,
            "mailbox": self.cell.backlog(),
            **{name: counts[name] for name in names},
            "late_replies": self.calls.late,
            "foreign_replies": self.calls.foreign,
        }

    def __hold(self, message: object) -> None:
        assert self.__held is not None
        self.__held.append(message)
        self.observer.note(self.cell, "held", message)
        if len(self.__held) >= HELD_MAX:
            self.__resume()

    def __resume(self) -> None:
        """Handle what was held, in order, and before anything that came later."""
        held, self.__held = self.__held or (), None
        for message in held:
            if self.leaving:
                return
            self.__guarded(message, self.__handle, message)
