"""The table of restarts, on both sides of each of its edges."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actors.otp.players import Counter
from understudy.actors.otp import KILLED, NORMAL, SHUTDOWN, ChildSpec, ExitReason, Flags, Start
from understudy.actors.otp.cell import Kind
from understudy.actors.otp.restart import (
    AFFECTED,
    VERDICTS,
    Group,
    Window,
    gives_up,
    group,
    plan,
    verdict,
)
from understudy.actors.otp.spec import AutoShutdown, Restart, Strategy

RESTARTS = get_args(Restart)
STRATEGIES = get_args(Strategy)


def child(name: str, restart: Restart = "permanent", *, significant: bool = False) -> ChildSpec:
    return ChildSpec(name, Start(Counter), restart=restart, significant=significant)


def test_the_table_has_a_row_for_everything() -> None:
    assert set(VERDICTS) == {(r, end) for r in RESTARTS for end in ("clean", "fault")}
    assert set(AFFECTED) == set(STRATEGIES)


@pytest.mark.parametrize("kind", get_args(Kind))
def test_only_normal_and_shutdown_are_clean(kind: Kind) -> None:
    clean = kind in ("normal", "shutdown")
    assert verdict("permanent", ExitReason(kind)) == "restart"
    assert verdict("transient", ExitReason(kind)) == ("keep" if clean else "restart")
    assert verdict("temporary", ExitReason(kind)) == "drop"


@pytest.mark.parametrize(
    ("strategy", "stop", "start"),
    [
        ("one_for_one", "", "b"),
        ("rest_for_one", "d c", "b d"),
        ("one_for_all", "d c a", "a b d"),
    ],
)
def test_a_strategy_says_who_stops_and_who_starts(
    strategy: Strategy, stop: str, start: str
) -> None:
    children = [child("a"), child("b"), child("c", "temporary"), child("d", "transient")]
    assert group(strategy, children, "b") == Group(tuple(stop.split()), tuple(start.split()))


def test_a_restart_exactly_a_period_old_still_counts() -> None:
    window = Window().add(1_000, 500)
    assert window.add(1_500, 500).at_ms == (1_500, 1_000)
    assert window.add(1_501, 500).at_ms == (1_501,)


def test_intensity_is_how_many_are_fine() -> None:
    window = Window((3, 2, 1))
    assert not window.exceeds(3)
    assert window.exceeds(2)
    assert Window((1,)).exceeds(0)


@pytest.mark.parametrize(
    ("mode", "significant", "others", "expected"),
    [
        ("never", True, [], False),
        ("any_significant", False, [], False),
        ("any_significant", True, [(True, True)], True),
        ("all_significant", False, [], False),
        ("all_significant", True, [(True, True)], False),
        ("all_significant", True, [(True, False), (False, True)], True),
        ("all_significant", True, [], True),
    ],
)
def test_significant_children_take_their_supervisor_along(
    mode: AutoShutdown, significant: bool, others: list[tuple[bool, bool]], expected: bool
) -> None:
    ended = child("e", "transient", significant=significant)
    left = [(child(f"o{n}", "transient", significant=s), r) for n, (s, r) in enumerate(others)]
    assert gives_up(mode, ended, left) is expected


def test_a_plan_says_what_a_crash_would_do() -> None:
    children = [child("a"), child("b", "transient")]
    flags = Flags("rest_for_one")
    assert plan(flags, children, "a", KILLED) == Group(("b",), ("a", "b"))
    assert plan(flags, children, "b", NORMAL) is None
    assert plan(flags, children, "a", SHUTDOWN) == Group(("b",), ("a", "b"))


# --- properties -----------------------------------------------------------------------------------

crews = st.lists(st.sampled_from(RESTARTS), min_size=1, max_size=12).map(
    lambda restarts: [child(f"c{number}", each) for number, each in enumerate(restarts)]
)
reasons = st.builds(ExitReason, st.sampled_from(get_args(Kind)), st.text(max_size=5))


@given(crews, st.sampled_from(STRATEGIES), st.data())
def test_groups_are_stopped_in_reverse_and_hold_whom_they_should(
    crew: list[ChildSpec], strategy: Strategy, data: st.DataObject
) -> None:
    names = [each.id for each in crew]
    failed = data.draw(st.sampled_from([n for n in names if n]))
    found = group(strategy, crew, failed)
    order = names.index
    assert list(found.stop) == sorted(found.stop, key=order, reverse=True)
    assert list(found.start) == sorted(found.start, key=order)
    assert failed not in found.stop
    lasting = {each.id for each in crew if each.restart != "temporary"}
    assert set(found.start) == ({*found.stop, failed} & lasting)
    later = set(names[order(failed) + 1 :])
    everybody = set(names) - {failed}
    expected = {"one_for_one": set(), "rest_for_one": later, "one_for_all": everybody}
    assert set(found.stop) == expected[strategy]


@given(st.sampled_from(RESTARTS), reasons)
def test_a_verdict_hangs_on_cleanness_alone(restart: Restart, reason: ExitReason) -> None:
    twin = NORMAL if reason.is_clean else KILLED
    assert verdict(restart, reason) == verdict(restart, twin)
    assert (verdict(restart, reason) == "drop") == (restart == "temporary")


@given(
    st.lists(st.integers(0, 2_000), max_size=30),
    st.integers(1, 3_000),
    st.integers(0, 5),
)
def test_the_window_counts_what_a_plain_count_counts(
    gaps: list[int], period_ms: int, intensity: int
) -> None:
    window, now_ms, moments = Window(), 0, []
    for gap_ms in gaps:
        now_ms += gap_ms
        moments.append(now_ms)
        window = window.add(now_ms, period_ms)
        counted = [then for then in moments if then >= now_ms - period_ms]
        assert sorted(window.at_ms) == counted
        assert window.exceeds(intensity) == (len(counted) > intensity)
