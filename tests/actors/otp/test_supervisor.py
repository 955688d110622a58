"""A supervisor beyond what the oracle shows: time, patience, and answers in the middle of work."""

from typing import Any

import pytest

from tests.actors.otp.players import Counter, Plain, plain
from understudy.actors.otp import (
    KILL,
    KILLED,
    SHUTDOWN,
    CallFailed,
    ChildRefused,
    ChildSpec,
    CountChildren,
    Counts,
    DeleteChild,
    Done,
    ExitReason,
    Flags,
    GenServer,
    GetChildSpec,
    Next,
    Ref,
    RestartChild,
    Start,
    StartChild,
    StartFailed,
    Supervisor,
    TerminateChild,
    WhichChildren,
    Word,
    supervise,
)
from understudy.actors.otp.carriers.inline.system import Inline


@pytest.fixture
def system() -> Inline:
    return Inline()


class Actor(GenServer):
    """Takes its time to start and to stop, and writes both down."""

    def __init__(
        self, log: list[str], label: str, ready_ms: int = 0, stop_ms: int | None = 0
    ) -> None:
        self.log, self.label, self.ready_ms, self.stop_ms = log, label, ready_ms, stop_ms

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        self.log.append(f"start {self.label}")
        self.cell.after(self.ready_ms, "ready")
        return Word.LATER

    def handle_info(self, message: object) -> Next:
        if message == "ready":
            self.log.append(f"ready {self.label}")
            self.cell.ready()
        elif isinstance(message, ExitReason):
            self.leave(message)
        return None

    def handle_cast(self, message: object) -> Next:
        raise ValueError(message)

    def parent_exited(self, reason: ExitReason) -> None:
        self.log.append(f"stop {self.label}")
        if self.stop_ms is not None:
            self.cell.after(self.stop_ms, reason)

    def terminate(self, reason: ExitReason) -> None:
        self.log.append(f"gone {self.label}")


def actor(log: list[str], label: str, **fields: Any) -> ChildSpec:
    timing = {name: fields.pop(name, 0) for name in ("ready_ms", "stop_ms")}
    start = Start(Actor, (log, label, timing["ready_ms"], timing["stop_ms"]), label)
    return ChildSpec(label, start, **fields)


def begin(system: Inline, children: list[ChildSpec], flags: Flags | None = None) -> Ref:
    """Without waiting until it is ready."""
    ref = system._root_cell.spawn(supervise(children, flags))
    system.run()
    return ref


def call(system: Inline, sup: Ref, request: object) -> Any:
    return system.call(sup, request, 60_000)


def states(system: Inline, sup: Ref) -> dict[str, str]:
    return {info.id: info.state for info in call(system, sup, WhichChildren())}


def find(system: Inline, sup: Ref, name: str) -> Ref:
    ref = next(info.ref for info in call(system, sup, WhichChildren()) if info.id == name)
    assert isinstance(ref, Ref)
    return ref


# --- starting and stopping ------------------------------------------------------------------------


def test_the_next_child_starts_when_the_last_is_ready(system: Inline) -> None:
    log: list[str] = []
    sup = begin(system, [actor(log, "a", ready_ms=50), actor(log, "b", ready_ms=50)])
    system.advance(49)
    assert log == ["start a"]
    assert states(system, sup) == {"a": "starting", "b": "undefined"}
    system.advance(1)
    assert log == ["start a", "ready a", "start b"]
    assert sup not in system._root.started
    system.advance(50)
    assert sup in system._root.started


def test_the_next_child_stops_when_the_last_is_gone(system: Inline) -> None:
    log: list[str] = []
    sup = begin(system, [actor(log, name, stop_ms=20) for name in "ab"])
    system.advance(1)
    log.clear()
    system.signal(sup, SHUTDOWN)
    system.advance(19)
    assert log == ["stop b"]
    system.advance(21)
    assert log == ["stop b", "gone b", "stop a", "gone a"]
    assert system.ended(sup) == SHUTDOWN


def test_a_failed_start_is_rolled_back_in_reverse(system: Inline) -> None:
    log: list[str] = []

    def fail() -> Any:  # never
        raise OSError("no disk")

    children = [actor(log, "a"), actor(log, "b"), ChildSpec("c", Start(fail)), actor(log, "d")]
    with pytest.raises(StartFailed, match="failed_to_start_child c: crash OSError: no disk"):
        system.spawn(supervise(children))
    assert log[-4:] == ["stop b", "gone b", "stop a", "gone a"]
    assert "start d" not in log
    assert len(system.cells) == 1


def test_a_failure_below_many_levels_is_told_in_bounded_words(system: Inline) -> None:
    def fail() -> Any:  # never
        raise OSError("no " * 1_000)

    start = supervise([ChildSpec("leaf", Start(fail))])
    for level in range(30):
        start = supervise([ChildSpec(f"level{level}", start, type="supervisor")])
    with pytest.raises(StartFailed, match="failed_to_start_child level29: shutdown") as caught:
        system.spawn(start)
    assert len(caught.value.reason.detail) <= 500


def test_a_child_that_does_not_stop_in_time_is_killed(system: Inline) -> None:
    log: list[str] = []
    sup = begin(system, [actor(log, "a"), actor(log, "b", stop_ms=None, shutdown=500)])
    system.advance(1)
    stuck = find(system, sup, "b")
    log.clear()
    system.signal(sup, SHUTDOWN)
    system.advance(499)
    assert system.alive(stuck)
    system.advance(1)
    assert system.ended(stuck) == KILLED
    assert log == ["stop b", "stop a", "gone a"]
    errors = [row for row in system.reports if row.get("context") == "shutdown_error"]
    assert [row["child"]["id"] for row in errors] == ["b"]


def test_brutal_kill_asks_no_child(system: Inline) -> None:
    log: list[str] = []
    sup = begin(system, [actor(log, "a", shutdown="brutal_kill")])
    system.advance(1)
    log.clear()
    system.signal(sup, SHUTDOWN)
    system.run()
    assert log == []
    assert system.ended(sup) == SHUTDOWN
    assert not any(row.get("context") == "shutdown_error" for row in system.reports)


def test_infinity_waits_for_as_long_as_it_takes(system: Inline) -> None:
    log: list[str] = []
    hour = 3_600_000
    sup = begin(system, [actor(log, "a", stop_ms=10 * hour, shutdown="infinity")])
    system.advance(1)
    system.signal(sup, SHUTDOWN)
    system.advance(10 * hour - 1)
    assert system.alive(sup)
    system.advance(1)
    assert not system.alive(sup)


def test_a_start_that_takes_too_long_is_a_failed_start(system: Inline) -> None:
    log: list[str] = []
    slow = actor(log, "b", ready_ms=101, start_timeout_ms=100)
    with pytest.raises(StartFailed, match="failed_to_start_child b: timeout not ready in 100 ms"):
        system.spawn(supervise([actor(log, "a"), slow]))
    assert len(system.cells) == 1
    ready = actor(log, "b", ready_ms=99, start_timeout_ms=100)
    assert system.spawn(supervise([ready]))


def test_the_end_of_the_parent_interrupts_a_start(system: Inline) -> None:
    log: list[str] = []
    never = actor(log, "b", ready_ms=10**9, shutdown=100)
    sup = begin(system, [actor(log, "a"), never, actor(log, "c")])
    system.advance(1)
    system.signal(sup, SHUTDOWN)
    system.advance(200)
    assert system.ended(sup) == SHUTDOWN
    assert log[-4:] == ["stop b", "gone b", "stop a", "gone a"]
    assert "start c" not in log


def test_the_end_of_the_parent_interrupts_a_stop_and_no_child_is_left(system: Inline) -> None:
    log: list[str] = []
    children = [actor(log, name, stop_ms=50, shutdown=100) for name in "abc"]
    sup = begin(system, children, Flags("one_for_all"))
    system.advance(1)
    system.cast(find(system, sup, "a"), "crash")
    system.advance(10)
    assert states(system, sup)["c"] == "stopping"
    system.signal(sup, SHUTDOWN)
    system.advance(1_000)
    assert system.ended(sup) == SHUTDOWN
    assert len(system.cells) == 1


def test_a_killed_supervisor_takes_all_along(system: Inline) -> None:
    log: list[str] = []
    inner = ChildSpec("inner", supervise([actor(log, "a")]), type="supervisor")
    sup = begin(system, [inner])
    system.advance(1)
    system.signal(sup, KILL)
    system.run()
    assert len(system.cells) == 1
    assert "stop a" not in log


# --- restarts -------------------------------------------------------------------------------------


def crash(system: Inline, sup: Ref, name: str) -> None:
    system.signal(find(system, sup, name), KILL)
    system.run()


def test_restarts_exactly_a_period_apart_are_too_many(system: Inline) -> None:
    flags = Flags(intensity=1, period_ms=1_000)
    for gap_ms, survives in [(1_000, False), (1_001, True)]:
        sup = system.spawn(supervise([ChildSpec("a", Start(Counter))], flags))
        crash(system, sup, "a")
        system.advance(gap_ms)
        crash(system, sup, "a")
        assert system.alive(sup) is survives


def test_who_gives_up_ends_with_shutdown_and_its_parent_decides(system: Inline) -> None:
    inner = supervise([ChildSpec("a", Start(Counter))], Flags(intensity=0))
    outer = system.spawn(
        supervise([ChildSpec("inner", inner, type="supervisor")], Flags(intensity=1))
    )
    first = find(system, outer, "inner")
    crash(system, first, "a")
    second = find(system, outer, "inner")
    assert system.ended(first) == SHUTDOWN
    assert second != first
    crash(system, second, "a")
    assert system.ended(outer) == SHUTDOWN
    gave_up = [row for row in system.reports if row.get("context") == "gave_up"]
    assert len(gave_up) == 3


class Flaky(GenServer):
    """Fails its starts while `broken` holds something."""

    def __init__(self, broken: list[int]) -> None:
        self.broken = broken

    def init(self) -> Next | Word:
        self.cell.after(10, "go")
        return Word.LATER

    def handle_info(self, message: object) -> Next:
        if self.broken and self.broken[0] > 0:
            self.broken[0] -= 1
            raise OSError("not yet")
        self.cell.ready()
        return None


def test_a_failed_restart_is_counted_and_tried_again(system: Inline) -> None:
    broken = [0]
    sup = system.spawn(supervise([ChildSpec("a", Start(Flaky, (broken,)))], Flags(intensity=4)))
    broken[0] = 3
    crash(system, sup, "a")
    system.advance(100)
    info = call(system, sup, WhichChildren())[0]
    assert (info.state, info.restarts) == ("running", 4)
    broken[0] = 1
    crash(system, sup, "a")
    system.advance(100)
    assert system.ended(sup) == SHUTDOWN


def test_questions_and_orders_come_between_failed_restarts(system: Inline) -> None:
    broken = [0]
    children = [ChildSpec("a", Start(Flaky, (broken,))), ChildSpec("b", Start(Counter))]
    sup = system.spawn(supervise(children, Flags(intensity=1_000)))
    broken[0] = 10**9
    crash(system, sup, "a")
    system.advance(55)
    assert states(system, sup) == {"a": "starting", "b": "running"}
    assert call(system, sup, CountChildren()) == Counts(2, 2, 0, 2)
    assert call(system, sup, RestartChild("a")) == ChildRefused("restarting")
    assert call(system, sup, DeleteChild("a")) == ChildRefused("restarting")
    assert call(system, sup, TerminateChild("a")) == Done()
    assert states(system, sup)["a"] == "undefined"
    assert call(system, sup, DeleteChild("a")) == Done()


def test_a_question_is_answered_while_a_child_takes_its_time(system: Inline) -> None:
    log: list[str] = []
    sup = begin(system, [actor(log, "slow", ready_ms=1_000)])
    assert states(system, sup) == {"slow": "starting"}
    assert system.now_ms == 0
    assert isinstance(call(system, sup, GetChildSpec("slow")), ChildSpec)
    assert call(system, sup, GetChildSpec("nobody")) == ChildRefused("not_found")
    assert call(system, sup, StartChild(actor(log, "x"))) != ChildRefused("not_found")
    assert system.now_ms == 1_000, "the order waited for the start, the questions did not"


def test_two_ends_at_once_are_two_restarts(system: Inline) -> None:
    children = [ChildSpec(name, Start(Counter)) for name in "ab"]
    sup = system.spawn(supervise(children, Flags(intensity=2)))
    before = {info.id: info.ref for info in call(system, sup, WhichChildren())}
    for ref in before.values():
        system.signal(ref, KILL)
    system.run()
    after = {info.id: info.ref for info in call(system, sup, WhichChildren())}
    assert all(after[name] != before[name] for name in "ab")


# --- orders ---------------------------------------------------------------------------------------


def test_children_are_added_stopped_started_again_and_forgotten(system: Inline) -> None:
    sup = system.spawn(Start(Supervisor))
    spec = ChildSpec("a", Start(Counter))
    done = call(system, sup, StartChild(spec))
    assert done == Done(find(system, sup, "a"))
    assert call(system, sup, StartChild(spec)) == ChildRefused("already_started", done.ref)
    assert call(system, sup, DeleteChild("a")) == ChildRefused("running", done.ref)
    assert call(system, sup, TerminateChild("a")) == Done()
    assert call(system, sup, StartChild(spec)) == ChildRefused("already_present")
    again = call(system, sup, RestartChild("a"))
    assert again.ref not in (None, done.ref)
    assert call(system, sup, TerminateChild("a")) == Done()
    assert call(system, sup, DeleteChild("a")) == Done()
    for request in (TerminateChild("a"), RestartChild("a"), DeleteChild("a")):
        assert call(system, sup, request) == ChildRefused("not_found")
    assert call(system, sup, TerminateChild(again.ref)) == ChildRefused("not_found")
    assert call(system, sup, CountChildren()) == Counts(0, 0, 0, 0)


def test_a_child_that_cannot_start_is_refused_with_the_reason(system: Inline) -> None:
    sup = system.spawn(Start(Supervisor))
    broken = StartChild(ChildSpec("a", Start(Flaky, ([1],))))
    answer = call(system, sup, broken)
    assert answer.why == "start_failed"
    assert "not yet" in answer.reason.detail
    assert states(system, sup) == {}


def test_a_child_that_does_not_fit_is_refused(system: Inline) -> None:
    sup = system.spawn(Start(Supervisor))
    spec = ChildSpec("a", Start(Counter), restart="temporary", significant=True)
    answer = call(system, sup, StartChild(spec))
    assert answer.why == "invalid_spec"
    assert "auto_shutdown is never" in answer.reason.detail
    assert call(system, sup, StartChild("a")).why == "invalid_spec"  # type: ignore[arg-type]  # what is refused


def test_what_a_supervisor_does_not_know_ends_it(system: Inline) -> None:
    sup = system.spawn(Start(Supervisor))
    with pytest.raises(CallFailed, match="UnknownRequest"):
        call(system, sup, "what?")


def test_a_stray_message_and_the_end_of_a_stranger_are_survived(system: Inline) -> None:
    sup = system.spawn(supervise([ChildSpec("a", Start(Counter))]))
    stranger = Plain()
    system.spawn(plain(stranger))
    stranger.cell.link(sup)
    system.send(sup, "stray")
    system.signal(stranger.cell.me, KILL)
    system.run()
    assert states(system, sup) == {"a": "running"}


def test_a_supervisor_has_a_name_if_it_is_given_one(system: Inline) -> None:
    sup = system.spawn(supervise([], name="top"))
    assert system.whereis("top") == sup
    with pytest.raises(StartFailed, match="top is taken"):
        system.spawn(supervise([ChildSpec("a", Start(Counter))], name="top"))
    assert len(system.cells) == 2


def test_a_child_shows_its_process_and_its_age(system: Inline) -> None:
    system.advance(40)
    sup = system.spawn(supervise([ChildSpec("a", Start(Counter, label="abel"))]))
    info = call(system, sup, WhichChildren())[0]
    assert (info.since_ms, info.pid, info.restarts) == (40, None, 0)
    assert info.ref.label == "abel"
