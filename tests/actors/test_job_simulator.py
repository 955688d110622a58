"""Small worlds in which job loops, workers, routes and answers go wrong in every way.

A failing seed is printed. `UNDERSTUDY_SEED=1234 pytest tests/actors/test_job_simulator.py` runs
that world alone; `UNDERSTUDY_SEEDS=10000` runs as many.
"""

from types import ModuleType

import pytest

from tests.actors.job_world import JobWorld
from tests.fakes.mutant import break_rule
from tests.fakes.seeds import chunks, noted
from understudy.actors.dispatch import dispatcher, verdict

CHUNKS = chunks(24, 12)


def run(seed: int) -> str:
    return noted(lambda: JobWorld(seed).run(), seed)


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds.start}+{len(seeds)}")
def test_every_job_ends_as_it_should_whatever_dies_on_the_way(seeds: range) -> None:
    for seed in seeds:
        run(seed)


def test_a_seed_gives_the_same_effects_again() -> None:
    assert run(7) == run(7)


MUTANTS = [
    (dispatcher, "Dispatcher._free", "- len(self._out.claims())", ""),
    (verdict, "judge", "(EndStep.CLOSE,)", "(EndStep.RELEASE,)"),
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
