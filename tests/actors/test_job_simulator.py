"""Small worlds in which job loops, workers, routes and answers go wrong in every way.

A failing seed is printed. `UNDERSTUDY_SEED=1234 pytest tests/actors/test_job_simulator.py` runs
that world alone; `UNDERSTUDY_SEEDS=10000` runs as many.
"""

import os
from types import ModuleType

import pytest

from tests.actors.job_world import JobWorld
from tests.fakes.mutant import break_rule
from understudy.actors.dispatch import dispatcher, verdict

CHUNK = 12
COUNT = int(os.environ.get("UNDERSTUDY_SEEDS", "24"))
ONLY = os.environ.get("UNDERSTUDY_SEED")
CHUNKS = [range(int(ONLY), int(ONLY) + 1)] if ONLY else [
    range(first, first + CHUNK) for first in range(0, COUNT, CHUNK)
]  # fmt: skip


def run(seed: int) -> str:
    try:
        return JobWorld(seed).run()
    except BaseException as error:
        error.add_note(f"seed {seed}: run it again with UNDERSTUDY_SEED={seed}")
        raise


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds.start}+{len(seeds)}")
def test_every_job_ends_as_it_should_whatever_dies_on_the_way(seeds: range) -> None:
    for seed in seeds:
        run(seed)


def test_a_seed_gives_the_same_effects_again() -> None:
    assert run(7) == run(7)


MUTANTS = [
    (dispatcher, "Dispatcher._free", "- len(self._errands.claims())", ""),
    (verdict, "judge", "(Step.CLOSE,)", "(Step.RELEASE,)"),
]


@pytest.mark.parametrize(
    ("module", "where", "right", "wrong"), MUTANTS, ids=[f"{m[1]}:{m[2][:24]}" for m in MUTANTS]
)
def test_a_broken_rule_does_not_survive_the_simulator(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, where: str, right: str, wrong: str
) -> None:
    break_rule(monkeypatch, module, where, right, wrong)

    def worlds() -> None:
        for seed in range(40):
            run(seed)

    with pytest.raises((AssertionError, LookupError, AttributeError)):
        worlds()
