"""A server answers, stops and crashes as one of Erlang does."""

import pickle
import sys

import pytest

from tests.actors.otp.players import Counter, Plain, plain
from understudy.actors.otp import (
    IGNORE,
    IGNORED,
    KILL,
    KILLED,
    NO_REPLY,
    NOPROC,
    NORMAL,
    SHUTDOWN,
    Caller,
    CallFailed,
    Cast,
    Cell,
    Continue,
    Down,
    Exited,
    ExitReason,
    GenServer,
    Next,
    Ref,
    Reply,
    Resume,
    Start,
    StartFailed,
    Statistics,
    Stop,
    Suspend,
    Target,
    Word,
)
from understudy.actors.otp.carriers.inline.system import Inline

CRASH = ExitReason("crash", "ValueError: as asked")


@pytest.fixture
def system() -> Inline:
    return Inline()


class Asker(GenServer):
    """Asks others, and writes down what they say."""

    def __init__(self, log: list[object]) -> None:
        self.log = log

    def handle_cast(self, message: object) -> Next:
        assert isinstance(message, tuple)
        target, request, timeout_ms = message
        self.ask(target, request, self.log.append, timeout_ms)
        return None

    def handle_info(self, message: object) -> Next:
        self.log.append(("info", message))
        return None


def ask(
    system: Inline, asker: Ref, target: Target, request: object, timeout_ms: int | None = 100
) -> None:
    system.cast(asker, (target, request, timeout_ms))


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_is_answered_and_a_cast_is_not(system: Inline) -> None:
    ref = system.spawn(Start(Counter, (5,)))
    assert system.call(ref, "next", 100) == 6
    system.cast(ref, 10)
    assert system.call(ref, "next", 100) == 17
    assert system.inbox() == []


def test_a_call_goes_by_name(system: Inline) -> None:
    class Named(Counter):
        name = "counter"

    system.spawn(Start(Named))
    assert system.call("counter", "next", 100) == 1


def test_a_second_server_of_a_name_does_not_start(system: Inline) -> None:
    class Named(Counter):
        name = "counter"

    first = system.spawn(Start(Named))
    with pytest.raises(StartFailed, match="already_started: counter is taken"):
        system.spawn(Start(Named))
    assert system.whereis("counter") == first


def test_an_answer_may_come_later_and_from_another_handler(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    ask(system, asker, ref, "later")
    system.run()
    assert log == []
    system.cast(ref, "answer")
    system.run()
    assert log == ["at last"]


@pytest.mark.parametrize("target", ["nobody", "gone"])
def test_a_call_to_a_cell_that_is_not_there_fails_at_once(system: Inline, target: str) -> None:
    to: Target = target
    if target == "gone":
        to = system.spawn(Start(Counter))
        system.signal(to, KILL)
        system.run()
    with pytest.raises(CallFailed, match="noproc") as caught:
        system.call(to, "next", 60_000)
    assert caught.value.reason == NOPROC
    assert system.now_ms == 0
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    ask(system, asker, to, "next", 60_000)
    system.run()
    assert [type(each) for each in log] == [CallFailed]


def test_a_crash_during_a_call_is_heard_by_the_caller(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    with pytest.raises(CallFailed) as caught:
        system.call(ref, "crash", 60_000)
    assert caught.value.reason == CRASH
    assert system.now_ms == 0


def test_a_kill_during_a_call_is_heard_by_the_caller(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    ask(system, asker, ref, "later", None)
    system.run()
    system.signal(ref, KILL)
    system.run()
    assert isinstance(log[0], CallFailed)
    assert log[0].reason == KILLED


def test_a_late_answer_is_dropped_and_counted(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    ask(system, asker, ref, "later", 50)
    system.advance(49)
    assert log == []
    system.advance(1)
    assert isinstance(log[0], CallFailed)
    assert log[0].reason.kind == "timeout"
    system.cast(ref, "answer")
    system.run()
    assert len(log) == 1
    counts = system.call(asker, Statistics(), 100)
    assert isinstance(counts, dict)
    assert (counts["late_replies"], counts["foreign_replies"]) == (1, 0)


def test_a_foreign_answer_is_dropped_and_counted(system: Inline) -> None:
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    system.send(asker, Reply("99/1", "for somebody else"))
    counts = system.call(asker, Statistics(), 100)
    assert isinstance(counts, dict)
    assert (counts["late_replies"], counts["foreign_replies"]) == (0, 1)
    assert log == []


def test_answers_find_their_questions_in_any_order(system: Inline) -> None:
    first, second = (system.spawn(Start(Counter, (n,))) for n in (0, 100))
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    ask(system, asker, first, "later")
    ask(system, asker, second, "next")
    system.run()
    system.cast(first, "answer")
    system.run()
    assert log == [101, "at last"]


@pytest.mark.parametrize(("waited_ms", "runs"), [(10, True), (11, False)])
def test_a_call_that_is_not_waited_for_is_not_run(
    system: Inline, waited_ms: int, runs: bool
) -> None:
    ref = system.spawn(Start(Counter))
    asker = system.spawn(Start(Asker, ([],)))
    system.call(ref, Suspend(), 100)
    ask(system, asker, ref, "next", 10)
    system.advance(waited_ms)
    system.call(ref, Resume(), 100)
    counts = system.call(ref, Statistics(), 100)
    assert isinstance(counts, dict)
    assert counts["expired"] == (not runs)
    assert system.call(ref, "next", 100) == 1 + runs


def test_the_deadline_of_a_caller_is_known_to_the_server(system: Inline) -> None:
    seen: list[int | None] = []

    class Server(GenServer):
        def handle_call(self, request: object, caller: Caller) -> object:
            seen.append(caller.remaining_ms(self.cell.me, self.cell.now_ms()))
            return None

    ref = system.spawn(Start(Server))
    system.call(ref, "x", 70)
    foreign = Caller(Ref("elsewhere", "1"), "1/1", deadline_ms=5)
    assert seen == [70]
    assert foreign.remaining_ms(ref, 1_000) is None


def test_a_question_that_is_forgotten_is_not_answered(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    answers: list[object] = []
    calls = system._root.calls
    question = calls.ask(ref, "next", 100, answers.append)
    assert len(calls) == 1
    calls.forget(question)
    calls.forget(question)
    system.advance(200)
    assert answers == []
    assert (len(calls), calls.late) == (0, 1)


def test_a_failed_call_can_be_sent_on() -> None:
    for error in (CallFailed("lamp", NOPROC), StartFailed(KILLED)):
        copy = pickle.loads(pickle.dumps(error))
        assert (str(copy), copy.reason) == (str(error), error.reason)


def test_a_server_tells_others_without_waiting(system: Inline) -> None:
    target = system.spawn(Start(Counter))

    class Teller(GenServer):
        def init(self) -> Next | Word:
            self.cast(target, 41)
            return None

    system.spawn(Start(Teller))
    assert system.call(target, "next", 100) == 42


def test_a_server_without_continue_must_not_ask_for_it(system: Inline) -> None:
    class Eager(GenServer):
        def init(self) -> Next | Word:
            return Continue("more")

    ref = system.spawn(Start(Eager))
    assert "goes on with 'more'" in str(system.ended(ref))


def test_a_negative_timeout_is_an_error(system: Inline) -> None:
    with pytest.raises(ValueError, match="before now"):
        system.call("nobody", "next", -1)


@pytest.mark.parametrize("message", ["call", "cast"])
def test_a_request_that_a_server_does_not_know_ends_it(system: Inline, message: str) -> None:
    ref = system.spawn(Start(GenServer))
    if message == "call":
        with pytest.raises(CallFailed, match="UnknownRequest"):
            system.call(ref, "what?", 100)
    else:
        system.cast(ref, "what?")
        system.run()
    assert not system.alive(ref)


def test_an_unexpected_message_is_counted_and_survived(system: Inline) -> None:
    ref = system.spawn(Start(GenServer))
    system.send(ref, "stray")
    counts = system.call(ref, Statistics(), 100)
    assert isinstance(counts, dict)
    assert counts["unexpected"] == 1


# --- init and continue ----------------------------------------------------------------------------


class Steps(GenServer):
    def __init__(self, log: list[object], first: Next | Word | str) -> None:
        self.log = log
        self.first = first

    def init(self) -> Next | Word:
        self.log.append("init")
        if isinstance(self.first, str):
            raise TypeError(self.first)
        return self.first

    def handle_continue(self, argument: object) -> Next:
        self.log.append(argument)
        return Continue(argument - 1) if isinstance(argument, int) and argument else None

    def handle_call(self, request: object, caller: Caller) -> object:
        self.log.append(request)
        self.proceed(1)
        return "answered"

    def terminate(self, reason: ExitReason) -> None:
        self.log.append(reason)


def test_continue_comes_before_any_message(system: Inline) -> None:
    log: list[object] = []
    begin = Plain()
    system.spawn(plain(begin))

    def act(cell: Cell) -> None:
        child = cell.spawn(Start(Steps, (log, Continue(2))))
        cell.send(child, Cast("early"))

    system.send(begin.cell.me, act)
    system.run()
    assert log[:4] == ["init", 2, 1, 0]


def test_a_handler_may_go_on_after_its_answer(system: Inline) -> None:
    log: list[object] = []
    ref = system.spawn(Start(Steps, (log, None)))
    assert system.call(ref, "x", 100) == "answered"
    assert log == ["init", "x", 1, 0]


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (Stop(SHUTDOWN), SHUTDOWN),
        (Stop(ExitReason("crash", "no disk")), ExitReason("crash", "no disk")),
        (IGNORE, IGNORED),
        ("raised", ExitReason("crash", "TypeError: raised")),
    ],
)
def test_a_server_may_refuse_to_start(system: Inline, first: Next, reason: ExitReason) -> None:
    log: list[object] = []
    with pytest.raises(StartFailed) as caught:
        system.spawn(Start(Steps, (log, first)))
    assert caught.value.reason == reason


def test_what_init_may_not_return_is_an_error(system: Inline) -> None:
    with pytest.raises(StartFailed, match="returned 5"):
        system.spawn(Start(Steps, ([], 5)))


def test_what_a_handler_may_not_return_is_an_error(system: Inline) -> None:
    class Wrong(GenServer):
        def handle_cast(self, message: object) -> Next:
            return 5  # type: ignore[return-value]  # what it must not return

    ref = system.spawn(Start(Wrong))
    system.cast(ref, "x")
    system.run()
    assert "returned 5" in str(system.ended(ref))


# --- the end --------------------------------------------------------------------------------------


def test_a_server_stops_with_its_reason_after_its_answer(system: Inline) -> None:
    log: list[str] = []
    ref = system.spawn(Start(Counter, (0, log)))
    assert system.call(ref, Stop(SHUTDOWN, reply="bye"), 100) == "bye"
    assert system.ended(ref) == SHUTDOWN
    assert log == ["terminate shutdown"]


def test_a_stop_without_an_answer_is_heard_as_its_reason(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    with pytest.raises(CallFailed) as caught:
        system.call(ref, Stop(NORMAL, reply=NO_REPLY), 100)
    assert caught.value.reason == NORMAL


def test_messages_after_a_stop_are_not_handled(system: Inline) -> None:
    log: list[str] = []
    ref = system.spawn(Start(Counter, (0, log)))
    system.cast(ref, Stop())
    system.cast(ref, "crash")
    system.run()
    assert system.ended(ref) == NORMAL
    assert log == ["terminate normal"]


class Trapping(Counter):
    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        return None

    def handle_info(self, message: object) -> Next:
        self._log.append(str(message))
        return None


@pytest.mark.parametrize(
    ("make", "reason", "said"),
    [
        (Counter, SHUTDOWN, []),
        (Trapping, SHUTDOWN, ["terminate shutdown"]),
        (Counter, KILL, []),
        (Trapping, KILL, []),
    ],
)
def test_terminate_has_a_say_as_in_gen_server(
    system: Inline, make: type[Counter], reason: ExitReason, said: list[str]
) -> None:
    log: list[str] = []
    ref = system.spawn(Start(make, (0, log)))
    system.signal(ref, reason)  # from the root, its parent
    system.run()
    assert not system.alive(ref)
    assert log == said


def test_a_crash_ends_with_terminate(system: Inline) -> None:
    log: list[str] = []
    ref = system.spawn(Start(Counter, (0, log)))
    system.cast(ref, "bad")
    system.run()
    assert log == ["terminate crash"]


def test_sys_exit_is_a_crash_like_any_other(system: Inline) -> None:
    class Quitting(Counter):
        def handle_cast(self, message: object) -> Next:
            sys.exit(3)

    log: list[str] = []
    ref = system.spawn(Start(Quitting, (0, log)))
    system.cast(ref, "x")
    system.run()
    assert system.ended(ref) == ExitReason("crash", "SystemExit: 3")
    assert log == ["terminate crash"]
    assert [row["kind"] for row in system.reports] == ["crash"]


def test_the_exit_of_another_cell_is_only_news(system: Inline) -> None:
    log: list[str] = []
    ref = system.spawn(Start(Trapping, (0, log)))
    other = Plain()
    system.spawn(plain(other))
    other.cell.link(ref)
    other.cell.signal(ref, SHUTDOWN)
    system.run()
    assert system.alive(ref)
    assert log == [str(Exited(other.cell.me, SHUTDOWN))]


def test_a_server_that_traps_ends_in_order_when_its_parent_does(system: Inline) -> None:
    log: list[str] = []
    parent = Plain()
    ref = system.spawn(plain(parent))
    child = parent.cell.spawn(Start(Trapping, (0, log)))
    system.run()
    system.send(ref, lambda cell: cell.exit(NORMAL))
    system.run()
    assert not system.alive(child)
    assert log == ["terminate shutdown"]


def test_own_monitors_come_as_news(system: Inline) -> None:
    log: list[object] = []
    asker = system.spawn(Start(Asker, (log,)))
    target = system.spawn(Start(Counter))
    monitors: list[str] = []
    cell = system.cells[asker.serial]
    monitors.append(cell.monitor(target))
    system.signal(target, KILL)
    system.run()
    assert log == [("info", Down(monitors[0], target, KILLED))]
