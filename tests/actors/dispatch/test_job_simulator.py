"""Small worlds in which job loops, workers, routes and answers go wrong in every way.

A failing seed is printed. `UNDERSTUDY_SEED=1234 pytest` with this file runs that world alone;
`UNDERSTUDY_SEEDS=10000` runs as many.
"""

import pytest

from tests.actors.dispatch.job_world import JobWorld
from tests.fakes.seeds import Mutant, find, for_mutants, in_chunks, run_all
from understudy.actors.dispatch import dispatcher, verdict
from understudy.authority.law import agents, scope
from understudy.authority.law.jobs import job, job_index


def run(seed: int) -> str:
    return JobWorld(seed).run()


@in_chunks(12, 6)
def test_every_job_ends_as_it_should_whatever_dies_on_the_way(seeds: range) -> None:
    run_all(run, seeds)


def test_a_seed_gives_the_same_effects_again() -> None:
    assert run(7) == run(7)


MUTANTS = [
    (dispatcher, "Dispatcher._free", "- len(self._out.claims())", ""),
    (verdict, "judge", "(EndStep.CLOSE,)", "(EndStep.RELEASE,)"),
    (job_index, "JobIndex.count_held", "if not turn:", "if turn >= 0:"),
    (job, "find", "job.state is JobState.CANCELLED", "False"),
    (scope, "pause_of", "if not state.pauses:", "if True:"),
    (scope, "approval_of", "wanted is UNSET or not wanted", "True"),
    (agents, "admit", "action.action not in agent.grants", "False"),
]


@for_mutants(MUTANTS)
def test_a_broken_rule_does_not_survive_the_simulator(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    find(monkeypatch, mutant, run, 40)
