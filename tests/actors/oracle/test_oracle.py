"""Our supervisor and Erlang's do the same, in the same order, and end the same way.

A scenario that differs is printed with its seed. To see it again alone, and to try others:
`UNDERSTUDY_ORACLE_SEEDS=1234:1235 pytest tests/actors/oracle`.
"""

import difflib
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.actors.oracle.scenario import (
    Ending,
    Exit,
    Scenario,
    Step,
    Sup,
    Wait,
    Worker,
    erlang,
    scenario,
)
from tests.actors.oracle.theatre import play
from understudy.actors.otp import Flags, restart
from understudy.actors.otp.spec import Strategy

SCRIPT = Path(__file__).with_name("oracle.escript")
FIRST, LAST = map(int, os.environ.get("UNDERSTUDY_ORACLE_SEEDS", "0:600").split(":"))
SHOWN_MAX = 3
MISSING = "escript of Erlang/OTP is not on the path"


def consult(terms: Sequence[str]) -> dict[int, list[str]]:
    """What Erlang does with scenarios, by number; one process for all, as its start is slow."""
    escript = shutil.which("escript")
    if escript is None and "UNDERSTUDY_REQUIRE_SERVICES" in os.environ:
        pytest.fail(MISSING)
    if escript is None:
        pytest.skip(MISSING)
    script = "".join(f"{term}.\n" for term in terms)
    done = subprocess.run(
        [escript, SCRIPT], input=script, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-2_000:]
    logs: dict[int, list[str]] = {}
    lines = iter(done.stdout.splitlines())
    for head in lines:
        number = int(head.removeprefix("scenario "))
        logs[number] = list(iter(lambda: next(lines), "done"))
    return logs


def compare(scenarios: Sequence[Scenario], theirs: dict[int, list[str]], settle_ms: int) -> None:
    differences = []
    for each in scenarios:
        ours = play(each, settle_ms=settle_ms)
        if ours != theirs[each.seed]:
            diff = difflib.unified_diff(theirs[each.seed], ours, "erlang", "ours", lineterm="", n=9)
            differences.append("\n".join([f"seed {each.seed}: {erlang(each)}", *diff]))
    shown = "\n\n".join(differences[:SHOWN_MAX])
    assert not differences, f"{len(differences)} of {len(scenarios)} differ\n{shown}"


@pytest.fixture(scope="module")
def scenarios() -> list[Scenario]:
    return [scenario(seed) for seed in range(FIRST, LAST)]


@pytest.fixture(scope="module")
def theirs(scenarios: list[Scenario]) -> dict[int, list[str]]:
    return consult([erlang(each) for each in scenarios])


def test_random_scenarios_go_as_in_erlang(
    scenarios: list[Scenario], theirs: dict[int, list[str]]
) -> None:
    compare(scenarios, theirs, settle_ms=1_000)


@pytest.mark.skipif(LAST - FIRST < 600, reason="only a few seeds were asked for")
def test_the_scenarios_reach_every_answer_and_every_kind_of_end(
    theirs: dict[int, list[str]],
) -> None:
    lines = {line for log in theirs.values() for line in log}
    answers = "ok not_found running restarting already_started already_present start_failed"
    assert {*answers.split(), "ok up", "ok undefined", "invalid_spec", "noproc"} <= lines
    assert {"gone shutdown", "not started shutdown with more"} <= lines
    starts = {line.split()[2] for line in lines if line[:6] == "start " and line.count(" ") > 1}
    assert starts == {"ok", "crash", "ignore", "normal", "shutdown"}


@pytest.mark.skipif(LAST - FIRST < 600, reason="only a few seeds were asked for")
@pytest.mark.parametrize(
    "mistake",
    [
        ("VERDICTS", ("transient", "fault"), "keep"),
        ("VERDICTS", ("permanent", "clean"), "keep"),
        ("VERDICTS", ("temporary", "fault"), "restart"),
        ("AFFECTED", "rest_for_one", ("itself",)),
        ("AFFECTED", "one_for_all", ("itself", "later")),
    ],
)
def test_a_wrong_table_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
    scenarios: list[Scenario],
    theirs: dict[int, list[str]],
    mistake: tuple[str, object, object],
) -> None:
    table, key, wrong = mistake
    monkeypatch.setitem(getattr(restart, table), key, wrong)
    with pytest.raises(AssertionError, match="differ"):
        compare(scenarios[:200], theirs, settle_ms=1_000)


@pytest.mark.skipif(LAST - FIRST < 600, reason="only a few seeds were asked for")
@pytest.mark.parametrize("off", [-1, 1])
def test_a_wrong_count_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
    scenarios: list[Scenario],
    theirs: dict[int, list[str]],
    off: int,
) -> None:
    right = restart.Window.exceeds
    monkeypatch.setattr(restart.Window, "exceeds", lambda self, most: right(self, most + off))
    with pytest.raises(AssertionError, match="differ"):
        compare(scenarios[:200], theirs, settle_ms=1_000)


@pytest.mark.parametrize("seed", range(3))
def test_the_order_of_turns_makes_no_difference(scenarios: list[Scenario], seed: int) -> None:
    for each in scenarios[:300]:
        assert play(each, seed=seed) == play(each), f"seed {each.seed}, turns by {seed}"


# --- the clock ------------------------------------------------------------------------------------

# OTP counts in whole seconds: with a period of one, a restart up to a second ago counts for sure
# and one two seconds ago does not. What lies between would hang on when the test was started.
BRIEF_MS, LONG_MS = 100, 2_100
GAPS = [
    (BRIEF_MS,),
    (LONG_MS,),
    (BRIEF_MS, BRIEF_MS),
    (LONG_MS, BRIEF_MS),
    (BRIEF_MS, LONG_MS),
    (BRIEF_MS, LONG_MS, BRIEF_MS),
]


def _timed(number: int, strategy: Strategy, intensity: int, gaps: Sequence[int]) -> Scenario:
    flags = Flags(strategy, intensity, period_ms=1_000)
    endings: list[Ending] = ["boom", "kill", "normal", "shutdown"]
    steps: list[Step] = [Exit("a", endings[0])]
    for ending, gap_ms in zip(endings[1:], gaps, strict=False):
        steps += [Wait(gap_ms), Exit("a", ending)]
    return Scenario(number, Sup("top", flags, (Worker("a"), Worker("b"))), tuple(steps))


def test_restarts_count_for_as_long_as_in_erlang() -> None:
    strategies: list[Strategy] = ["one_for_one", "one_for_all"]
    cases = [(s, intensity, gaps) for s in strategies for intensity in (0, 1, 2) for gaps in GAPS]
    timed = [_timed(number, *case) for number, case in enumerate(cases)]
    together = ", ".join(erlang(each) for each in timed)
    theirs = consult([f"{{together, [{together}]}}"])
    compare(timed, theirs, settle_ms=0)
    ends = {len(log) for log in theirs.values()}
    assert len(ends) > 3, "the gaps made no difference"
