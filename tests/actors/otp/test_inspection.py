"""Servers and supervisors can be looked into while they run, without a word of their own code."""

from typing import Any

import pytest

from tests.actors.otp.players import Counter
from understudy.actors.otp import (
    KILL,
    SHUTDOWN,
    CallFailed,
    ChildSpec,
    DynamicSupervisor,
    Event,
    Exited,
    ExitReason,
    GenServer,
    GetState,
    GetStatus,
    GetTrace,
    Leave,
    Ref,
    Resume,
    Start,
    Statistics,
    Supervisor,
    Suspend,
    Trace,
    Traced,
    Untrace,
    WhichChildren,
    supervise,
)
from understudy.actors.otp import inspection as module
from understudy.actors.otp.carriers.inline.system import Inline


@pytest.fixture
def system() -> Inline:
    return Inline()


@pytest.fixture
def counter(system: Inline) -> Ref:
    return system.spawn(Start(Counter, (5,)))


def look(system: Inline, ref: Ref, request: object) -> Any:
    return system.call(ref, request, 1_000)


def test_state_is_shown_without_what_is_private(system: Inline, counter: Ref) -> None:
    assert look(system, counter, GetState()) == {"value": 5, "waiting": []}


def test_status_says_who_it_is(system: Inline, counter: Ref) -> None:
    status = look(system, counter, GetStatus())
    assert status["type"] == "Counter"
    assert status["ref"] == counter
    assert status["parent"] == system.root
    assert (status["suspended"], status["traced"], status["held"]) == (False, False, 0)


def test_a_suspended_server_holds_all_but_inspection(system: Inline, counter: Ref) -> None:
    assert look(system, counter, Suspend()) == "ok"
    assert look(system, counter, Suspend()) == "ok"
    system.cast(counter, 1)
    with pytest.raises(CallFailed, match="timeout"):
        system.call(counter, "next", 10)
    assert look(system, counter, GetStatus())["held"] == 2
    assert look(system, counter, GetState())["value"] == 5
    system.advance(1)
    assert look(system, counter, Resume()) == "ok"
    # The call was given up on meanwhile: only the cast is done.
    assert look(system, counter, GetState())["value"] == 6
    assert look(system, counter, Resume()) == "ok"


def test_what_was_held_comes_before_what_came_later(system: Inline) -> None:
    seen: list[object] = []

    class Noting(GenServer):
        def handle_cast(self, message: object) -> None:
            seen.append(message)

    ref = system.spawn(Start(Noting))
    look(system, ref, Suspend())
    for number in range(3):
        system.cast(ref, number)
    system.run()
    answers: list[object] = []
    system._root.calls.ask(ref, Resume(), 100, answers.append)
    system.cast(ref, "later")
    system.run()
    assert seen == [0, 1, 2, "later"]
    assert answers == ["ok"]


def test_a_suspension_ends_rather_than_lose_messages(
    system: Inline, counter: Ref, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.actors.otp.gen_server.HELD_MAX", 10)
    look(system, counter, Suspend())
    for _ in range(9):
        system.cast(counter, 1)
    assert look(system, counter, GetState())["value"] == 5
    system.cast(counter, 1)
    assert look(system, counter, GetState())["value"] == 15
    assert look(system, counter, GetStatus())["suspended"] is False


def test_a_crash_among_what_was_held_ends_the_server_once(system: Inline, counter: Ref) -> None:
    look(system, counter, Suspend())
    system.cast(counter, "bad")
    system.cast(counter, "worse")
    with pytest.raises(CallFailed, match="cast bad"):
        look(system, counter, Resume())
    crashes = [row for row in system.reports if row["kind"] == "crash"]
    assert [row["message"] for row in crashes] == ["Cast(message='bad')"]


def test_a_suspended_server_still_ends_with_its_parent(system: Inline) -> None:
    class Trapping(Counter):
        def init(self) -> None:
            self.cell.trap_exits = True

    log: list[str] = []
    ref = system.spawn(Start(Trapping, (0, log)))
    look(system, ref, Suspend())
    system.signal(ref, SHUTDOWN)
    system.run()
    assert log == ["terminate shutdown"]


def test_a_trace_keeps_the_last_events(system: Inline, counter: Ref) -> None:
    assert look(system, counter, Trace(keep=3)) == "ok"
    for number in range(5):
        system.cast(counter, number)
    events = look(system, counter, GetTrace())
    assert [(event.kind, event.what) for event in events] == [
        ("cast", "2"),
        ("cast", "3"),
        ("cast", "4"),
    ]
    assert look(system, counter, Untrace()) == "ok"
    assert look(system, counter, GetTrace()) == []


def test_a_trace_tells_its_listener_up_to_its_limit(system: Inline, counter: Ref) -> None:
    look(system, counter, Trace(to=system.root, limit=2))
    for number in range(5):
        system.cast(counter, number)
    system.run()
    assert system.inbox() == [
        Traced(counter, Event(0, "cast", "0")),
        Traced(counter, Event(0, "cast", "1")),
    ]


def test_a_trace_shows_answers_and_long_messages_cut(system: Inline, counter: Ref) -> None:
    look(system, counter, Trace())
    look(system, counter, "x" * 10_000)
    call, reply = look(system, counter, GetTrace())
    assert (call.kind, reply.kind, reply.what) == ("call", "reply", "6")
    assert len(call.what) <= 500


@pytest.mark.parametrize("wish", [Trace(keep=0), Trace(keep=10**9), Trace(limit=0)])
def test_a_trace_without_bounds_is_refused(system: Inline, counter: Ref, wish: Trace) -> None:
    assert "keep must be" in look(system, counter, wish)
    assert look(system, counter, GetStatus())["traced"] is False


def test_statistics_count(system: Inline, counter: Ref) -> None:
    system.call(counter, "next", 10)
    system.cast(counter, 1)
    system.send(counter, "stray")
    system.advance(250)
    counts = look(system, counter, Statistics())
    assert (counts["call"], counts["cast"], counts["in"], counts["reply"]) == (1, 1, 1, 1)
    assert counts["up_ms"] == 250


def test_a_server_leaves_when_it_is_told_to(system: Inline) -> None:
    log: list[str] = []
    ref = system.spawn(Start(Counter, (0, log)))
    assert look(system, ref, Leave(ExitReason("shutdown", "enough"))) == "ok"
    assert system.ended(ref) == ExitReason("shutdown", "enough")
    assert log == ["terminate shutdown"]


def test_a_supervisor_is_looked_into_like_any_server(system: Inline) -> None:
    sup = system.spawn(supervise([ChildSpec("a", Start(Counter)), ChildSpec("b", Start(Counter))]))
    status = look(system, sup, GetStatus())
    assert status["type"] == Supervisor.__name__
    assert status["summary"]["children"] == {"a": "running", "b": "running"}
    state = look(system, sup, GetState())
    assert [info.id for info in state["children"]] == ["b", "a"]


def test_a_suspended_supervisor_restarts_no_child_until_it_goes_on(system: Inline) -> None:
    sup = system.spawn(supervise([ChildSpec("a", Start(Counter))]))
    before = look(system, sup, WhichChildren())[0].ref
    look(system, sup, Suspend())
    system.signal(before, KILL)
    system.run()
    assert len(system.cells) == 2
    assert look(system, sup, GetStatus())["held"] == 1
    look(system, sup, Resume())
    after = look(system, sup, WhichChildren())[0]
    assert after.ref != before
    assert after.state == "running"


@pytest.mark.parametrize("make", [Supervisor, DynamicSupervisor])
def test_a_supervisor_that_is_told_to_leave_takes_its_children(
    system: Inline, make: type[GenServer]
) -> None:
    ref = system.spawn(Start(make))
    assert look(system, ref, Leave(SHUTDOWN)) == "ok"
    assert system.ended(ref) == SHUTDOWN
    assert module.HELD_MAX > 1_000
    assert Exited(ref, SHUTDOWN).reason.is_clean
