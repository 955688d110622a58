"""Many children that stand for themselves."""

import time
from typing import Any

import pytest

from tests.actors.otp.players import Counter, Plain
from tests.actors.otp.test_supervisor import Actor, Flaky
from understudy.actors.otp import (
    IGNORE,
    KILL,
    KILLED,
    NORMAL,
    SHUTDOWN,
    CallFailed,
    ChildRefused,
    ChildSpec,
    CountChildren,
    Counts,
    Done,
    DynamicSupervisor,
    ExitReason,
    Flags,
    GenServer,
    GetState,
    GetStatus,
    Ref,
    SpecInvalid,
    Start,
    StartChild,
    Stop,
    TerminateChild,
    WhichChildren,
    Word,
    supervise_dynamic,
)
from understudy.actors.otp.carriers.inline.system import Inline


@pytest.fixture
def system() -> Inline:
    return Inline()


def call(system: Inline, sup: Ref, request: object) -> Any:
    return system.call(sup, request, 60_000)


def add(system: Inline, sup: Ref, name: str = "w", **fields: Any) -> Ref:
    fields.setdefault("start", Start(Counter))
    answer = call(system, sup, StartChild(ChildSpec(name, **fields)))
    assert isinstance(answer, Done), answer
    assert answer.ref is not None
    return answer.ref


def test_children_come_and_go_by_reference(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic())
    one, two = add(system, sup), add(system, sup)
    assert one != two
    assert call(system, sup, CountChildren()) == Counts(2, 2, 0, 2)
    assert call(system, sup, TerminateChild(one)) == Done()
    assert system.ended(one) == SHUTDOWN
    assert call(system, sup, TerminateChild(one)) == ChildRefused("not_found")
    assert call(system, sup, TerminateChild("w")) == ChildRefused("not_found")
    assert [info.ref for info in call(system, sup, WhichChildren())] == [two]


def test_there_are_never_more_than_allowed(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic(max_children=2))
    one = add(system, sup)
    add(system, sup)
    third = StartChild(ChildSpec("w", Start(Counter)))
    assert call(system, sup, third) == ChildRefused("max_children")
    call(system, sup, TerminateChild(one))
    assert isinstance(call(system, sup, third), Done)


def test_a_child_that_starts_counts_already(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic(max_children=1))
    answers: list[object] = []
    slow = StartChild(ChildSpec("w", Start(Actor, ([], "w", 100))))
    for _ in range(2):
        system._root.calls.ask(sup, slow, 1_000, answers.append)
    system.run()
    assert answers == [ChildRefused("max_children")]
    system.advance(100)
    assert isinstance(answers[1], Done)


@pytest.mark.parametrize(
    ("restart", "reason", "left"),
    [
        ("permanent", NORMAL, 1),
        ("permanent", KILL, 1),
        ("transient", NORMAL, 0),
        ("transient", SHUTDOWN, 0),
        ("transient", KILL, 1),
        ("temporary", NORMAL, 0),
        ("temporary", KILL, 0),
    ],
)
def test_the_same_table_decides(
    system: Inline,
    restart: Any,  # one of three words
    reason: ExitReason,
    left: int,
) -> None:
    sup = system.spawn(supervise_dynamic())
    ref = add(system, sup, restart=restart)
    if reason == KILL:
        system.signal(ref, KILL)
    else:
        system.cast(ref, Stop(reason))
    system.run()
    assert call(system, sup, CountChildren()).active == left
    assert not system.alive(ref)


def test_too_many_restarts_end_it_with_all_children(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic(flags=Flags(intensity=2, period_ms=1_000)))
    others = [add(system, sup) for _ in range(3)]
    ref = add(system, sup, "bad")
    for _ in range(3):
        infos = call(system, sup, WhichChildren())
        ref = next(info.ref for info in infos if info.id == "bad")
        system.signal(ref, KILL)
        system.run()
    assert system.ended(sup) == SHUTDOWN
    assert not any(system.alive(each) for each in others)


def test_a_failed_restart_is_tried_again_and_blocks_no_other(system: Inline) -> None:
    broken = [0]
    sup = system.spawn(supervise_dynamic(flags=Flags(intensity=5)))
    answers: list[object] = []
    spec = ChildSpec("w", Start(Flaky, (broken,)))
    system._root.calls.ask(sup, StartChild(spec), 1_000, answers.append)
    system.advance(10)
    (done,) = answers
    assert isinstance(done, Done)
    assert done.ref is not None
    broken[0] = 2
    system.signal(done.ref, KILL)
    system.run()
    add(system, sup, "other")
    assert system.now_ms == 10
    system.advance(100)
    infos = {info.id: info for info in call(system, sup, WhichChildren())}
    assert (infos["w"].state, infos["w"].restarts) == ("running", 3)


def test_a_restart_that_never_works_is_given_up(system: Inline) -> None:
    broken = [0]
    sup = system.spawn(supervise_dynamic(flags=Flags(intensity=3)))
    system._root.calls.ask(
        sup, StartChild(ChildSpec("w", Start(Flaky, (broken,)))), 1_000, lambda _: None
    )
    system.advance(10)
    broken[0] = 10**6
    system.signal(call(system, sup, WhichChildren())[0].ref, KILL)
    system.advance(1_000)
    assert system.ended(sup) == SHUTDOWN


def test_a_failed_start_is_refused_and_forgotten(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic(max_children=1))
    answer = call(system, sup, StartChild(ChildSpec("w", Start(Flaky, ([1],)))))
    assert answer.why == "start_failed"
    assert call(system, sup, CountChildren()) == Counts(0, 0, 0, 0)


def test_a_child_with_nothing_to_do_is_no_failure(system: Inline) -> None:
    class Idle(GenServer):
        def init(self) -> Word:
            return IGNORE

    sup = system.spawn(supervise_dynamic())
    assert call(system, sup, StartChild(ChildSpec("w", Start(Idle)))) == Done()
    assert call(system, sup, CountChildren()) == Counts(0, 0, 0, 0)


def test_a_start_that_takes_too_long_is_refused(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic())
    slow = ChildSpec("w", Start(Actor, ([], "w", 200)), start_timeout_ms=100)
    answer = call(system, sup, StartChild(slow))
    assert (answer.why, answer.reason.kind) == ("start_failed", "timeout")
    assert len(system.cells) == 2


def test_a_child_that_does_not_stop_in_time_is_killed_and_both_askers_hear(
    system: Inline,
) -> None:
    sup = system.spawn(supervise_dynamic())
    ref = add(system, sup, start=Start(Plain, ([], True)), shutdown=50)
    answers: list[object] = []
    for _ in range(2):
        system._root.calls.ask(sup, TerminateChild(ref), 1_000, answers.append)
    system.advance(49)
    assert answers == []
    system.advance(1)
    assert answers == [Done(), Done()]
    assert system.ended(ref) == KILLED


def test_children_are_stopped_side_by_side(system: Inline) -> None:
    log: list[str] = []
    sup = system.spawn(supervise_dynamic())
    for name in "abc":
        add(system, sup, name, start=Start(Actor, (log, name, 0, 100)))
    stuck = add(system, sup, "stuck", start=Start(Actor, (log, "stuck", 0, None)), shutdown=150)
    system.signal(sup, SHUTDOWN)
    system.advance(100)
    assert [line for line in log if line.startswith("gone")] == ["gone a", "gone b", "gone c"]
    assert system.alive(stuck)
    system.advance(50)
    assert system.ended(sup) == SHUTDOWN
    assert len(system.cells) == 1


def test_a_start_during_the_end_is_refused(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic())
    add(system, sup, start=Start(Actor, ([], "w", 0, 100)))
    system.signal(sup, SHUTDOWN)
    answer = call(system, sup, StartChild(ChildSpec("x", Start(Counter))))
    assert answer.why == "start_failed"
    system.advance(100)
    with pytest.raises(CallFailed, match="noproc"):
        call(system, sup, CountChildren())


def test_a_child_in_its_start_can_be_stopped_and_both_hear(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic())
    started: list[object] = []
    slow = StartChild(ChildSpec("w", Start(Actor, ([], "w", 1_000))))
    system._root.calls.ask(sup, slow, 5_000, started.append)
    system.run()
    (info,) = call(system, sup, WhichChildren())
    assert info.state == "starting"
    assert call(system, sup, TerminateChild(info.ref)) == Done()
    assert started == [ChildRefused("start_failed", reason=SHUTDOWN)]


def test_the_end_of_the_supervisor_ends_a_child_that_is_tried_again(system: Inline) -> None:
    broken = [0]
    sup = system.spawn(supervise_dynamic(flags=Flags(intensity=1_000)))
    spec = ChildSpec("w", Start(Flaky, (broken,)))
    system._root.calls.ask(sup, StartChild(spec), 1_000, lambda _: None)
    system.advance(10)
    broken[0] = 10**6
    system.signal(call(system, sup, WhichChildren())[0].ref, KILL)
    for _ in range(20):
        system.advance(7)
    system.signal(sup, SHUTDOWN)
    system.run()
    assert system.ended(sup) == SHUTDOWN
    assert len(system.cells) == 1


def test_it_is_looked_into_and_survives_what_it_does_not_know(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic(5, name="crowd"))
    add(system, sup, "a", type="supervisor", start=supervise_dynamic())
    system.send(sup, "stray")
    assert call(system, sup, GetStatus())["summary"]["children"] == 1
    assert [info.id for info in call(system, sup, GetState())["children"]] == ["a"]
    assert call(system, sup, CountChildren()) == Counts(1, 1, 1, 0)
    with pytest.raises(CallFailed, match="UnknownRequest"):
        call(system, sup, "what?")


def test_bad_settings_are_refused() -> None:
    with pytest.raises(SpecInvalid, match="max_children"):
        supervise_dynamic(max_children=-1)
    with pytest.raises(SpecInvalid, match="one_for_one"):
        supervise_dynamic(flags=Flags("one_for_all"))
    with pytest.raises(SpecInvalid, match="one_for_one"):
        DynamicSupervisor(flags=Flags(auto_shutdown="any_significant"))


def test_a_bad_child_is_refused(system: Inline) -> None:
    sup = system.spawn(supervise_dynamic())
    significant = ChildSpec("w", Start(Counter), restart="temporary", significant=True)
    assert call(system, sup, StartChild(significant)).why == "invalid_spec"


def test_the_work_for_a_child_does_not_grow_with_their_number(system: Inline) -> None:
    def took(number: int) -> float:
        sup = system.spawn(supervise_dynamic(flags=Flags(intensity=10 * number)))
        began = time.process_time()
        refs = [add(system, sup) for _ in range(number)]
        for ref in refs:
            system.signal(ref, KILL)
        system.run()
        assert call(system, sup, CountChildren()).active == number
        system.signal(sup, SHUTDOWN)
        system.run()
        assert not system.alive(sup)
        return time.process_time() - began

    small = min(took(250) for _ in range(3))
    assert min(took(2_000) for _ in range(3)) < 8 * 4 * small
