"""The authority against the model: same verdicts, same holders, whatever is asked and whenever.

A failing seed is printed. `UNDERSTUDY_SEED=1234` walks that way alone, `make worlds` thousands.
"""

import os
from collections.abc import Sequence
from random import Random
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.authority.pair import MOVES, Pair
from tests.fakes.mutant import break_rule
from understudy.authority.law import decide, fiber, lease, state
from understudy.authority.law.issues import work

ONLY = os.environ.get("UNDERSTUDY_SEED")
CHUNK = 50
COUNT = int(os.environ.get("UNDERSTUDY_SEEDS", "250"))
CHUNKS = [range(int(ONLY), int(ONLY) + 1)] if ONLY else [
    range(first, first + CHUNK) for first in range(0, COUNT, CHUNK)
]  # fmt: skip


class AuthorityMachine(RuleBasedStateMachine):
    """Hypothesis chooses the moves; when one breaks a promise it finds the shortest way there."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()

    @rule(data=st.data(), move=st.sampled_from(sorted(set(MOVES))))
    def move(self, data: st.DataObject, move: str) -> None:
        def pick(options: Sequence[Any]) -> Any:  # noqa: ANN401
            return options[data.draw(st.integers(0, len(options) - 1))]

        getattr(self.pair, move)(pick)

    @invariant()
    def every_promise_holds(self) -> None:
        self.pair.check()

    def teardown(self) -> None:
        self.pair.prove()


AuthorityMachine.TestCase.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAuthorityAgreesWithTheModel = AuthorityMachine.TestCase


def wander(seed: int) -> None:
    try:
        Pair().wander(Random(seed), 80)
    except BaseException as error:
        error.add_note(f"seed {seed}: run it again with UNDERSTUDY_SEED={seed}")
        raise


@pytest.mark.parametrize("seeds", CHUNKS, ids=lambda seeds: f"{seeds.start}+{len(seeds)}")
def test_long_walks_agree_with_the_model_at_every_step(seeds: range) -> None:
    for seed in seeds:
        wander(seed)


MUTANTS = [
    (lease, "fenced", "shown.fence is None", "False"),
    (lease, "fenced", "shown.fence > lease.fence", "False"),
    (lease, "fenced", "shown.fence < lease.fence", "False"),
    (lease, "fenced", "stamp.wall_ms > deadline_ms", "stamp.wall_ms >= deadline_ms"),
    (lease, "fenced", "min(lease.deadline_ms, sublease.deadline_ms)", "lease.deadline_ms"),
    (lease, "fenced", '(shown.owner or "").strip() != (sublease', "lease.owner != (sublease"),
    (lease, "fenced", "shown.lease_id != lease.lease_id", "False"),
    (lease, "hold", "sublease and action not in sublease.capability_scope", "False"),
    (lease, "touch", "and not believes", ""),
    (lease, "is_live", "stamp.wall_ms <= lease.deadline_ms", "stamp.wall_ms < lease.deadline_ms"),
    (lease, "_obstacle", 'or issue.status == "blocked"', ""),
    (lease, "_waiting", "state.overdue, lapsed", "state.overdue"),
    (lease, "_lease_out", "issue.attempts + 1", "issue.attempts"),
    (state, "_put_lease", "before.fence != lease.fence", "False"),
    (work, "_reopens", "return not request.lease_id and", "return True or"),
    (work, "_move", "LeaseDropped(lease.resource), *accepted.changes", "*accepted.changes,"),
    (state, "_drop_dependents", "for fiber in running:", "for fiber in ():"),
    (state, "_put_issue", 'if issue.status == "closed":', "if False:"),
    (fiber, "spawn", "known.state is not FiberState.ORPHANED", "True"),
    (fiber, "spawn", "known is not None and", "False and"),
    (fiber, "join", "fiber_id not in within", "False"),
    (fiber, "join", "if open_ones:", "if False:"),
    (fiber, "_below", "reached.add(fiber.fiber_id)", "pass"),
    (fiber, "_find", "fiber.state is not FiberState.RUNNING", "False"),
    (fiber, "_parent", "parent.state is not FiberState.RUNNING", "False"),
    (work, "_end", 'status == "closed" and running', "False"),
    (decide, "_recall", "(answer.action, answer.args_digest) ==", "answer.action and"),
]


@pytest.mark.parametrize(
    ("module", "where", "right", "wrong"), MUTANTS, ids=[f"{m[1]}:{m[2][:28]}" for m in MUTANTS]
)
def test_a_broken_rule_does_not_survive_the_model(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, where: str, right: str, wrong: str
) -> None:
    break_rule(monkeypatch, module, where, right, wrong)

    def walks() -> None:
        for seed in range(400):
            wander(seed)

    with pytest.raises((AssertionError, LookupError, AttributeError, TypeError)):
        walks()
