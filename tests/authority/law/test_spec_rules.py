"""Every rule of specs and dispatch is shown by a vector: break the rule, and that vector fails."""

from types import ModuleType

import pytest

from tests.fakes.mutant import break_rule
from understudy.authority.conformance.vectors import load_vectors, run_vector
from understudy.authority.law import lease, term
from understudy.authority.law.jobs import job, job_dispatch, spec

SUITES = ("dispatch", "spec")
VECTORS = {
    (vector.suite, vector.name): vector for vector in load_vectors() if vector.suite in SUITES
}
MUTANTS = [
    (spec, "find", "spec.state is SpecState.MATERIALIZED", "False", "spec",
     "guard_02_materialized"),
    (spec, "submit", "known.digest != digest", "False", "spec", "another_document_under_the_id"),
    (spec, "_flaw", "step.step_key in known", "False", "spec", "steps_with_the_same_key"),
    (spec, "_flaw", "needed.count(key) > 1", "False", "spec", "dependencies_of_a_step"),
    (spec, "_flaw", "if circle:", "if False:", "spec", "steps_that_wait_for_each_other"),
    (spec, "materialize", "not in turn.lane.jobs]", "]", "spec", "insert_or_nothing"),
    (spec, "materialize", "[LeaseDropped(lease.resource)] if is_last else []", "[]", "spec",
     "a_spec_becomes_jobs"),
    (spec, "_obstacle", "denied is not None", "False", "spec", "derivation_is_the_coordinators"),
    (spec, "_obstacle", "> limits.JOBS_MAX", "> 2 ** 62", "spec", "no_room_for_its_jobs"),
    (spec, "_hold", "if denied is not None:", "if False:", "spec", "capabilities_are_asked_for"),
    (lease, "is_live", "stamp.wall_ms <= lease.deadline_ms", "stamp.wall_ms < lease.deadline_ms",
     "spec", "only_its_holder_renews"),
    (term, "renew_term", "holder != lease.owner", "False", "spec", "only_its_holder_renews"),
    (term, "renew_term", "not shows_lease and", "", "spec", "guard_07_deadline_passed"),
    (term, "claim_deadline", "if not kind.holder_of(request):", "if False:", "dispatch",
     "arguments_of_a_claim"),
    (lease, "is_ttl", "<= limits.TTL_SECONDS_MAX * 1000", "", "dispatch", "arguments_of_a_claim"),
    (job_dispatch, "find", "found.dispatched is None", "True", "dispatch",
     "guard_02_completed_or_dispatched"),
    (job, "find", "job.state is JobState.COMPLETED", "False", "dispatch",
     "guard_02_completed_or_dispatched"),
    (job_dispatch, "_obstacle", "job.state is JobState.CLAIMED", "False", "dispatch",
     "what_is_not_free_to_run"),
    (job_dispatch, "_obstacle", "is_spent(job)", "False", "dispatch",
     "what_has_no_attempts_left"),
    (job_dispatch, "complete", "_is_same(job.dispatched, request)", "False", "dispatch",
     "marked_twice_is_marked_once"),
    (job_dispatch, "_hold", "if denied is not None:", "if False:", "spec",
     "capabilities_are_asked_for"),
    (job, "_move", "turn.state.leases.get(dispatch) is not None", "False", "dispatch",
     "guard_02_completed_or_dispatched"),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant[1]}-{mutant[5]}")
def test_a_broken_rule_breaks_its_vector(
    monkeypatch: pytest.MonkeyPatch, mutant: tuple[ModuleType, str, str, str, str, str]
) -> None:
    module, where, right, wrong, suite, name = mutant
    break_rule(monkeypatch, module, where, right, wrong)
    assert run_vector(VECTORS[suite, name]).problems
