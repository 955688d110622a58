"""The carrier for tests: each invariant of a cell, and a clock that can be trusted."""

import time

import pytest

from tests.actors.otp.players import Counter, Plain, plain
from tests.together import together
from understudy.actors.otp import (
    KILL,
    KILLED,
    NOPROC,
    NORMAL,
    SHUTDOWN,
    CallFailed,
    Cell,
    Down,
    Exited,
    ExitReason,
    Located,
    Ref,
    Start,
    Started,
    StartFailed,
    System,
)
from understudy.actors.otp.carriers.inline.system import Endless, Inline

CRASH = ExitReason("crash", "boom")


@pytest.fixture
def system() -> Inline:
    made = Inline()
    _: System = made  # for mypy: it is one
    return made


def put(system: Inline, behaviour: Plain, label: str = "") -> Ref:
    return system.spawn(plain(behaviour, label))


def child_of(system: Inline, parent: Plain, behaviour: Plain) -> Ref:
    ref = parent.cell.spawn(plain(behaviour))
    system.run()
    return ref


# --- I1 -------------------------------------------------------------------------------------------


def test_a_message_is_handed_over_once_also_if_it_raises(system: Inline) -> None:
    server = Plain()
    ref = put(system, server)

    def boom(_: Cell) -> None:
        raise ValueError("boom")

    system.send(ref, boom)
    system.send(ref, "after")
    system.run()
    assert server.log == [boom, ("stop", ExitReason("crash", "ValueError: boom"))]
    assert system.ended(ref) == ExitReason("crash", "ValueError: boom")


@together("seed", range(20))
def test_messages_between_two_cells_stay_in_order_whatever_the_seed(seed: int) -> None:
    system = Inline(seed)
    target = Plain()
    to = put(system, target)
    for name in "ab":
        sent = [f"{name}{number}" for number in range(9)]
        sender = put(system, Plain())
        system.send(sender, lambda cell, sent=sent: [cell.send(to, each) for each in sent])
    system.run()
    for name in "ab":
        got = [each for each in target.log if str(each).startswith(name)]
        assert got == [f"{name}{number}" for number in range(9)]


def test_a_seed_repeats_and_other_seeds_differ() -> None:
    def order(seed: int | None) -> list[object]:
        system = Inline(seed)
        target = Plain()
        to = put(system, target)
        refs = [put(system, Plain()) for _ in range(8)]
        for ref in refs:
            system.send(ref, lambda cell: cell.send(to, cell.me.serial))
        system.run()
        return target.log

    assert order(7) == order(7)
    assert len({tuple(map(str, order(seed))) for seed in range(8)}) > 1
    assert order(None) == sorted(order(None), key=lambda serial: int(str(serial)))


# --- I2 -------------------------------------------------------------------------------------------


def test_a_parent_hears_started_and_then_exited(system: Inline) -> None:
    parent = Plain()
    put(system, parent)
    child = child_of(system, parent, Plain())
    system.signal(child, KILL)
    system.run()
    assert parent.log == [Started(child), Exited(child, KILLED)]


def test_a_parent_hears_exited_alone_where_the_start_fails(system: Inline) -> None:
    parent = Plain()
    put(system, parent)

    def fail(_: Cell) -> bool:
        raise OSError("no")

    child = child_of(system, parent, Plain(begin=fail))
    assert parent.log == [Exited(child, ExitReason("crash", "OSError: no"))]


def test_a_behaviour_that_cannot_be_made_is_a_failed_start(system: Inline) -> None:
    with pytest.raises(StartFailed, match="division"):
        system.spawn(Start(lambda: 1 // 0))  # type: ignore[arg-type, return-value]  # what must not start


def test_a_start_may_take_messages_and_time(system: Inline) -> None:
    def begin(cell: Cell) -> bool:
        cell.after(500, lambda cell: cell.ready())
        return False

    slow = Plain(begin=begin)
    ref = put(system, slow)
    assert system.alive(ref)
    assert system.now_ms == 500


def test_a_start_that_waits_for_nothing_fails_and_leaves_nothing(system: Inline) -> None:
    with pytest.raises(StartFailed, match="timeout"):
        put(system, Plain(begin=lambda _: False))
    assert len(system.cells) == 1


def test_ready_twice_is_heard_once(system: Inline) -> None:
    parent = Plain()
    put(system, parent)

    def begin(cell: Cell) -> bool:
        cell.ready()
        return True

    child = child_of(system, parent, Plain(begin=begin))
    assert parent.log == [Started(child)]


# --- I3 -------------------------------------------------------------------------------------------


def test_everybody_who_is_tied_to_a_cell_hears_the_same_reason(system: Inline) -> None:
    parent, linked, watcher = Plain(), Plain(traps=True), Plain()
    put(system, parent)
    put(system, linked)
    put(system, watcher)
    child = child_of(system, parent, Plain())
    linked.cell.link(child)
    monitor = watcher.cell.monitor(child)
    system.send(child, lambda cell: cell.exit(CRASH))
    system.run()
    assert parent.log[1:] == [Exited(child, CRASH)]
    assert linked.log == [Exited(child, CRASH)]
    assert watcher.log == [Down(monitor, child, CRASH)]


def test_the_first_reason_stands(system: Inline) -> None:
    ref = put(system, Plain())
    system.send(ref, lambda cell: (cell.exit(SHUTDOWN), cell.exit(CRASH)))
    system.run()
    assert system.ended(ref) == SHUTDOWN


def test_a_link_ends_a_cell_that_does_not_trap_and_normal_ends_none(system: Inline) -> None:
    one, two, three = Plain(), Plain(), Plain()
    refs = [put(system, each) for each in (one, two, three)]
    one.cell.link(refs[1])
    one.cell.link(refs[2])
    two.cell.unlink(refs[0])
    system.send(refs[1], lambda cell: cell.exit(CRASH))
    system.run()
    assert system.alive(refs[0])
    system.send(refs[2], lambda cell: cell.exit(NORMAL))
    system.run()
    assert system.alive(refs[0])
    four = Plain()
    put(system, four)
    one.cell.link(four.cell.me)
    system.send(four.cell.me, lambda cell: cell.exit(CRASH))
    system.run()
    assert system.ended(refs[0]) == CRASH


def test_a_link_to_a_cell_that_is_not_there_is_a_noproc(system: Inline) -> None:
    gone = put(system, Plain())
    system.signal(gone, KILL)
    system.run()
    trapping, other = Plain(traps=True), Plain()
    put(system, trapping)
    put(system, other)
    trapping.cell.link(gone)
    other.cell.link(gone)
    system.run()
    assert trapping.log == [Exited(gone, NOPROC)]
    assert system.ended(other.cell.me) == NOPROC


def test_no_cell_traps_a_kill_or_cleans_up_after_one(system: Inline) -> None:
    server = Plain(traps=True)
    ref = put(system, server)
    system.send(ref, "waits")
    system.signal(ref, KILL)
    system.run()
    assert system.ended(ref) == KILLED
    assert server.log == []


def test_a_signal_is_trapped_with_its_sender_or_ends(system: Inline) -> None:
    trapping, other = Plain(traps=True), Plain()
    put(system, trapping)
    put(system, other)
    for ref in (trapping.cell.me, other.cell.me):
        system.signal(ref, NORMAL)
        system.signal(ref, SHUTDOWN)
    system.run()
    assert trapping.log == [Exited(system.root, NORMAL), Exited(system.root, SHUTDOWN)]
    assert other.log == [("stop", SHUTDOWN)]


def test_an_exception_in_stop_becomes_the_reason(system: Inline) -> None:
    class Clumsy(Plain):
        def stop(self, cell: Cell, reason: ExitReason) -> None:
            raise KeyError("lost")

    ref = put(system, Clumsy())
    system.signal(ref, SHUTDOWN)
    system.run()
    assert system.ended(ref) == ExitReason("crash", "KeyError: 'lost'")


# --- I4 -------------------------------------------------------------------------------------------


def test_a_reference_is_never_given_twice(system: Inline) -> None:
    seen = set()
    for _ in range(100):
        ref = put(system, Plain())
        assert ref not in seen
        seen.add(ref)
        system.signal(ref, KILL)
        system.run()


def test_a_reference_of_another_system_reaches_no_cell(system: Inline) -> None:
    other = Inline()
    stranger = put(other, Plain())
    here = Plain()
    put(system, here)
    monitor = here.cell.monitor(stranger)
    here.cell.send(stranger, "hello")
    system.run()
    assert here.log == [Down(monitor, stranger, NOPROC)]
    assert not system.alive(stranger)


# --- I5 -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", [KILL, SHUTDOWN])
def test_no_cell_outlives_its_parent(system: Inline, reason: ExitReason) -> None:
    parent, child, grandchild = Plain(), Plain(traps=True), Plain(traps=True)
    ref = put(system, parent)
    refs = [child_of(system, parent, child)]
    refs.append(child_of(system, child, grandchild))
    system.signal(ref, reason)
    system.run()
    assert [system.alive(each) for each in refs] == [False, False]
    cleaned = [] if reason == KILL else [("stop", SHUTDOWN)]
    assert grandchild.log == cleaned


def test_a_child_that_has_not_begun_ends_with_its_parent(system: Inline) -> None:
    parent, child = Plain(), Plain()
    ref = put(system, parent)

    def act(cell: Cell) -> None:
        cell.spawn(plain(child))
        cell.exit(NORMAL)

    system.send(ref, act)
    system.run()
    assert not hasattr(child, "cell")
    assert len(system.cells) == 1


def test_stop_ends_all_in_reverse_and_kills_who_stays() -> None:
    system = Inline()
    log: list[str] = []

    class Polite(Plain):
        def stop(self, cell: Cell, reason: ExitReason) -> None:
            log.append(cell.me.label)

    put(system, Polite(), "first")
    stubborn = put(system, Plain(traps=True), "stubborn")
    put(system, Polite(), "last")
    system.stop(timeout_ms=50)
    assert log == ["last", "first"]
    assert system.ended(stubborn) == KILLED
    assert len(system.cells) == 1


# --- names ----------------------------------------------------------------------------------------


def test_a_name_has_one_owner_and_is_free_after_its_end(system: Inline) -> None:
    one, two = Plain(), Plain()
    put(system, one)
    put(system, two)
    assert one.cell.register("lamp")
    assert not two.cell.register("lamp")
    two.cell.send("lamp", "hello")
    two.cell.whereis("lamp", "q1")
    system.run()
    assert one.log == ["hello"]
    assert two.log == [Located("q1", one.cell.me)]
    system.signal("lamp", KILL)
    system.run()
    assert two.cell.register("lamp")
    two.cell.whereis("nobody", "q2")
    system.run()
    assert two.log[-1] == Located("q2", None)


def test_a_monitor_of_an_unknown_name_says_noproc_at_once(system: Inline) -> None:
    one = Plain()
    put(system, one)
    monitor = one.cell.monitor("nobody")
    system.run()
    assert one.log == [Down(monitor, None, NOPROC)]


# --- time: I6, I7 ---------------------------------------------------------------------------------


def test_timers_fire_at_their_moment_in_the_order_they_were_set(system: Inline) -> None:
    server = Plain()
    put(system, server)
    moments: list[tuple[str, int]] = []
    for delay_ms, name in [(20, "c"), (10, "a"), (10, "b"), (0, "now"), (30, "d")]:
        note = lambda cell, name=name: moments.append((name, cell.now_ms()))  # noqa: E731 - binds the name now
        server.cell.after(delay_ms, note)
    system.advance(9)
    assert moments == [("now", 0)]
    system.advance(11)
    assert moments == [("now", 0), ("a", 10), ("b", 10), ("c", 20)]
    assert system.now_ms == 20
    system.advance(100)
    assert moments[-1] == ("d", 30)
    assert system.now_ms == 120


def test_a_cancelled_timer_is_not_heard_even_when_it_was_due(system: Inline) -> None:
    server = Plain()
    put(system, server)
    second: list[str] = []
    server.cell.after(5, lambda cell: cell.cancel(second[0]))
    second.append(server.cell.after(5, "never"))
    server.cell.cancel(server.cell.after(1, "never"))
    system.advance(10)
    assert "never" not in server.log


def test_a_removed_monitor_is_not_heard_even_when_it_was_on_its_way(system: Inline) -> None:
    server, other = Plain(), Plain()
    put(system, server)
    ref = put(system, other)
    monitor = server.cell.monitor(ref)
    other.cell.exit(NORMAL)
    system.send(ref, "any")
    system.send(server.cell.me, lambda cell: cell.demonitor(monitor))
    system.run()
    assert not any(isinstance(got, Down) for got in server.log)


def test_timers_of_a_dead_cell_are_gone(system: Inline) -> None:
    server = Plain()
    ref = put(system, server)
    server.cell.after(10, "never")
    system.signal(ref, KILL)
    system.advance(20)
    assert server.log == []


def test_time_passes_only_when_told(system: Inline) -> None:
    began = time.monotonic()
    ref = system.spawn(Start(Counter))
    with pytest.raises(CallFailed, match="timeout"):
        system.call(ref, "later", timeout_ms=3_600_000)
    assert system.now_ms == 3_600_000
    assert time.monotonic() - began < 60


def test_cells_that_never_rest_are_found_out(system: Inline) -> None:
    ref = put(system, Plain())

    def again(cell: Cell) -> None:
        cell.send(cell.me, again)

    system.send(ref, again)
    with pytest.raises(Endless):
        system.run(events=1_000)


def test_tens_of_thousands_of_messages_take_a_moment(system: Inline) -> None:
    ref = system.spawn(Start(Counter))
    began = time.process_time()
    for _ in range(20_000):
        system.cast(ref, 1)
    system.run()
    assert time.process_time() - began < 1
    assert system.call(ref, "next", 1) == 20_001
