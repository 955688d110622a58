"""The bars are ratios of medians against the best peer that does the same work."""

from collections.abc import Sequence

import pytest

from benchmarks import mcp
from benchmarks.bars import BATCH, REFERENCE, bars
from benchmarks.cycles import EIGHT, IN_FLIGHT, MANY, OURS, SHARED, Figures
from benchmarks.report import as_json, as_text
from benchmarks.results import Results


def figures(
    name: str,
    eight: list[float],
    flood: list[float],
    *,
    many: Sequence[float] = (),
    same: bool = True,
) -> Figures:
    rates = {EIGHT.name: eight, IN_FLIGHT.name: flood, MANY.name: [*many]}
    return Figures(name, "none", same, rates)


@pytest.fixture
def results() -> Results:
    where = {"cores": 2, "system": "s", "python": "p", "file_system": "f", "fsync_ms": 1.0}
    return Results(where | {"load_average": 0.0}, 3, 1.0)


def test_bars_are_ratios_of_medians_against_the_best_peer(results: Results) -> None:
    results.kernel = {REFERENCE: [1.0, 2.0, 90.0], BATCH: [60.0, 61.0, 10.0]}
    results.systems = {
        OURS: figures("us", [10.0, 20.0, 30.0], [500.0, 400.0, 9.0]),
        "a": figures("a", [10.0, 1.0, 99.0], [100.0, 100.0, 100.0]),
        "b": figures("b", [5.0, 5.0, 5.0], [50.0, 80.0, 90.0]),
        "c": figures("c", [1000.0] * 3, [1000.0] * 3, same=False),
        SHARED: figures("s", [2000.0], [], many=[60.0]),
        "postgres": figures("p", [], [], many=[10.0]),
        "procrastinate": figures("q", [], [], many=[9.0], same=False),
    }
    results.growth = {BATCH: {1_000: [4.0], 1_000_000: [1.0]}}
    found = bars(results)
    assert [bar.measured for bar in found] == [30.0, 40.0, 4.0, 2.0, 6.0, 4.0]
    assert [bar.reached for bar in found] == [True, True, False, True, True, False]
    assert found[3].spread == (30 / 99, 20.0)
    assert [bar.against for bar in found] == [REFERENCE, "a", "a", "a", "p", "flat"]


def test_what_was_not_measured_is_neither_reached_nor_missed(results: Results) -> None:
    results.systems = {OURS: figures("us", [1.0], [1.0])}
    results.missing = {"redis": "not here"}
    assert {bar.reached for bar in bars(results)} == {None}
    assert "redis was not measured: not here" in as_text(results)
    assert as_json(results)["missing"] == {"redis": "not here"}


def test_a_peer_that_failed_is_shown_with_its_reason(results: Results) -> None:
    failed = figures("us", [], [])
    failed.failure = "8: it broke"
    results.systems = {OURS: failed}
    assert "us failed: 8: it broke" in as_text(results)


def test_a_run_on_a_busy_machine_says_so(results: Results) -> None:
    assert "BUSY" not in as_text(results)
    results.machine["load_average"] = 1.0
    assert "BUSY" in as_text(results)


def test_agents_are_held_against_the_bare_sdk_and_the_bare_interpreter(results: Results) -> None:
    costs = {mcp.OURS: 300.0, mcp.CARRIED: 150.0, mcp.STREAMS: 600.0}
    table = {name: {count: [cost] for count in mcp.FLEETS} for name, cost in costs.items()}
    launches = {mcp.LAUNCH: [30.0], mcp.INTERPRETER: [20.0]}
    results.mcp = mcp.Found(table, table, launches)
    found = {(bar.name, bar.against): bar for bar in bars(results)[-5:]}
    assert [bar.measured for bar in found.values()] == [0.5, 0.5, 2.0, 2.0, 1.5]
    assert [bar.reached for bar in found.values()] == [True, True, False, False, True]
    assert mcp.STREAMS in as_text(results)
    assert as_json(results)["mcp"]["launches_ms"] == launches
