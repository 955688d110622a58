"""Every rule of the job lane is shown by a vector: break the rule, and that vector fails."""

from types import ModuleType

import pytest

from tests.fakes.mutant import break_rule
from understudy.authority.conformance.vectors import load_vectors, run_vector
from understudy.authority.law import lease, term
from understudy.authority.law.jobs import (
    job,
    job_index,
    kind_limit,
    operations,
    routes,
    schedule,
)

SUITES = ("job", "limit", "schedule")
VECTORS = {vector.name: vector for vector in load_vectors() if vector.suite in SUITES}
MUTANTS = [
    (job, "find", "job.state is JobState.COMPLETED", "False", "guard_02_completed"),
    (term, "renew_term", "obstacle = kind.must_end", "obstacle = None",
     "guard_07_deadline_passed"),
    (job, "_obstacle", "is_spent(job)", "False",
     "resolution_02_attempts_are_bounded"),
    (routes, "may", "not turn.lane.registered", "True", "resolution_03_who_may_expire"),
    (lease, "is_live", "stamp.wall_ms <= lease.deadline_ms",
     "stamp.wall_ms < lease.deadline_ms", "resolution_05_on_the_last_millisecond_it_holds"),
    (job, "expire", "is_live(lease, turn.stamp)", "False",
     "resolution_05_on_the_last_millisecond_it_holds"),
    (job, "expire", "(request.claim, request.fence) != (job.claim, lease.fence)",
     "request.fence != lease.fence", "resolution_06_a_renewed_lease_is_not_killed"),
    (job, "expire", "(request.claim, request.fence) != (job.claim, lease.fence)", "False",
     "resolution_06_a_late_expiry_spares_the_next_claim"),
    (term, "renew_term", "holder != lease.owner", "False",
     "resolution_07_only_its_holder_renews"),
    (operations, "admit", "position(batch[digest].stamp)", "-batch[digest].stamp.wall_ms",
     "the_order_within_a_batch"),
    (operations, "_find_torn", "len(sound) > 1", "False", "resolution_09_equal_stamps_refuse_both"),
    (job, "reclaim", "job.claim_digest == turn.origin.digest", "True",
     "resolution_09_a_stamp_that_was_used_before"),
    (routes, "_matching", "in kinds_above(kind)", "in sorted(kinds_above(kind))",
     "resolution_10_exact_then_the_longest_prefix"),
    (job, "_refuse_derivation", "node == coordinator(turn)", "True",
     "resolution_11_derivation_is_the_coordinators"),
    (job, "_obstacle", "if missing := turn.lane.missing(job):", "if missing := []:",
     "resolution_12_waiting_has_an_age_and_an_end"),
    (job, "_closes_a_circle", "if job_id == job.job_id:", "if False:",
     "resolution_13_a_circle_is_refused"),
    (operations, "_identify", "signed.stamp.wall_ms > stamp.wall_ms", "False",
     "resolution_14_a_bad_operation_moves_no_clock"),
    (job, "_refuse_route", "admits(turn.lane, job.kind, worker)", "True",
     "resolution_15_a_running_lease_drains"),
    (job, "_quarantine", "(lease.owner, lease.lease_id)", "()",
     "resolution_16_a_late_result_is_kept"),
    (routes, "set_route", "position(before.stamp) >= position(turn.written)", "False",
     "the_last_write_wins"),
    (job, "_artifact_problem", "each.source_job != job.job_id", "False",
     "audited_kinds_need_a_snapshot"),
    (term, "renew_term", "not shows_lease and", "", "guard_03_no_lease"),
    (routes, "handles", 'each.endswith(".") and ', "",
     "kinds_that_a_node_was_not_registered_for"),
    (routes, "handles", "kind == each or ", "", "a_node_keeps_to_its_kinds"),
    (operations, "_decide", "used != digest", "False", "resolution_09_a_stamp_is_used_once"),
    (operations, "_decide", "if used is None:", "if True:",
     "resolution_09_delivered_again_and_late"),
    (routes, "permits", "node == turn.owner or", "",
     "kinds_that_a_node_was_not_registered_for"),
    (routes, "unregister", "lane.registered == 1", "False", "a_node_that_is_no_more"),
    (job_index, "pending_place", "job.ordered.priority", "0", "small_priorities_go_first"),
    (kind_limit, "hold_back", "run_at_ms > now_ms", "False", "times_that_are_none"),
    (kind_limit, "hold_back", "limit.concurrency <= lane", "limit.concurrency < lane",
     "so_many_of_a_kind_at_once"),
    (kind_limit, "draw", "- CLAIM_PARTS", "", "a_bucket_fills_by_the_millisecond"),
    (kind_limit, "_free_ms", "-(-lacking // limit.rate_per_minute)",
     "lacking // limit.rate_per_minute", "a_bucket_fills_by_the_millisecond"),
    (kind_limit, "outlast", "< timeout_ms", "<= timeout_ms", "a_term_ends_with_its_time_out"),
    (kind_limit, "is_open", "not lane.limits or", "True or", "so_many_of_a_kind_at_once"),
    (job_index, "JobIndex.count_held", "if not turn:", "if turn:", "a_lapsed_claim_still_counts"),
    (operations, "_apply", "lane.count_held(", "str(", "limits_hold_within_a_batch"),
    (job, "_order", "is_fired(job_id) and", "False and", "ids_of_firings_are_theirs"),
    (schedule, "fire", "due_ms > now_ms", "False", "moments_that_are_none"),
    (schedule, "fire", "or is_off", "", "moments_that_are_none"),
    (schedule, "fire", "due_ms <= schedule.last_due_ms", "False", "a_moment_makes_one_job"),
    (schedule, "fire", 'schedule.missed == "skip"', "False", "missed_and_left_out"),
    (schedule, "set_schedule", "max(last_ms, before.last_due_ms)", "last_ms",
     "set_again_it_goes_on"),
]  # fmt: skip


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant[1]}-{mutant[4]}")
def test_a_broken_rule_breaks_its_vector(
    monkeypatch: pytest.MonkeyPatch, mutant: tuple[ModuleType, str, str, str, str]
) -> None:
    module, where, right, wrong, vector = mutant
    break_rule(monkeypatch, module, where, right, wrong)
    assert run_vector(VECTORS[vector]).problems
