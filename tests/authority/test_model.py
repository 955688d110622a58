"""The authority against the model: same verdicts, same holders, whatever is asked and whenever.

A failing seed is printed. `UNDERSTUDY_SEED=1234` walks that way alone, `make worlds` thousands.
"""

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tests.authority.glue_model import GLUE_MOVES, GluePair
from tests.authority.pair import COSTLY_MOVES, MOVES, Pair
from tests.fakes.seeds import Mutant, find, for_mutants, in_chunks, run_all
from tests.long import tried
from understudy.authority.law import budget, decide, fiber, lease, scope, state, steering
from understudy.authority.law import spend as spending
from understudy.authority.law.descent import cover, glue, queue, section
from understudy.authority.law.issues import work

FINDERS = (91, 46, 35, 13)  # walks that notice what few others do


class AuthorityMachine(RuleBasedStateMachine):
    """Hypothesis chooses the moves; when one breaks a promise it finds the shortest way there."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Pair()

    @rule(data=st.data(), move=st.sampled_from(sorted(set(MOVES))))
    def move(self, data: st.DataObject, move: str) -> None:
        def pick(options: Sequence[Any]) -> Any:
            return options[data.draw(st.integers(0, len(options) - 1))]

        getattr(self.pair, move)(pick)

    @invariant()
    def every_promise_holds(self) -> None:
        self.pair.check()

    def teardown(self) -> None:
        self.pair.prove()


AuthorityMachine.TestCase.settings = settings(
    tried(150),
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAuthorityAgreesWithTheModel = AuthorityMachine.TestCase


def wander(seed: int) -> None:
    Pair().wander(Random(seed), 80)


@in_chunks(100, 25)
def test_long_walks_agree_with_the_model_at_every_step(seeds: range) -> None:
    run_all(wander, seeds)


def spend(seed: int) -> None:
    Pair().wander(Random(seed), 80, COSTLY_MOVES)


@in_chunks(60, 20)
def test_walks_under_budgets_agree_with_the_model_at_every_step(seeds: range) -> None:
    run_all(spend, seeds)


def glue_sections(seed: int) -> None:
    GluePair().wander(Random(seed), 90, GLUE_MOVES)


@in_chunks(60, 20)
def test_walks_of_workers_and_gluers_agree_with_the_model_at_every_step(seeds: range) -> None:
    run_all(glue_sections, seeds)


GLUING_MUTANTS = [
    (lease, "_steered", "if is_gluing(turn.state, issue):", "if False:"),
    (section, "record", "LeaseDropped(lease.resource), IssueSet", "IssueSet"),
    (glue, "glue", "target.pending is not None", "False"),
    (glue, "glue", "missing is not None or", "False and"),
    (glue, "glue", "if ALL_WORK in state.pauses:", "if False:"),
    (glue, "_sealed", "if state.issues[each.issue_id].status == GLUING", "if True"),
    (glue, "_voided", "is_gluing and not is_aborted", "True"),
    (cover, "follow", "if section is not None and stands(section):", "if False:"),
    (queue, "find", "section.section_id == section_id", "True"),
    (queue, "stands", "section.state is SectionState.OPEN", "True"),
]


@for_mutants(GLUING_MUTANTS)
def test_broken_glue_does_not_survive_the_model(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    find(monkeypatch, mutant, glue_sections, 200, ())


SPENDING_MUTANTS = [
    (budget, "forbids", "use.is_up and", "False and"),
    (budget, "forbids", "isinstance(work, Issue)", "False"),
    (spending, "_ended", '"open" if is_day else "blocked"', '"open"'),
    (spending, "_added", "before.fence == lease.fence", "True"),
    (spending, "report", "min(parts) < 0", "False"),
    (budget, "_counted", "tally.total if is_named", "None if is_named"),
]


@for_mutants(SPENDING_MUTANTS)
def test_a_broken_budget_does_not_survive_the_model(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    find(monkeypatch, mutant, spend, 200, ())


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
    (work, "_move", "(LeaseDropped(lease.resource), *changes)", "changes"),
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
    (lease, "_steered", "if is_cancelled(issue):", "if False:"),
    (lease, "_steered", "turn.stamp):", "turn.stamp) and False:"),
    (scope, "pause_of", "if not state.pauses:", "if True:"),
    (scope, "approval_of", "if work.approval is not UNSET:", "if False:"),
    (scope, "scopes_of", "for each in work.labels", "for each in ()"),
    (steering, "_hand_back", "excused_of(work) + 1}", "excused_of(work)}"),
    (steering, "_settle", "(LeaseDropped(resource), *changes)", "changes"),
    (steering, "_find", 'issue.status == "closed"', "False"),
    (decide, "_recall", "(answer.action, answer.args_digest) ==", "answer.action and"),
]


@for_mutants(MUTANTS)
def test_a_broken_rule_does_not_survive_the_model(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    find(monkeypatch, mutant, wander, 400, FINDERS)
