"""Sees work that no worker has any more to its end at the authority, step by step."""

from collections.abc import Callable

from ...contracts import Reason, RetryPolicy, backoff_ms, ends_lease, retry_decision
from . import escalation, orders
from .assignment import Assignment, EndStep, Phase
from .effects import Effects
from .escalation import FailedAttempt
from .keeping import Keeping
from .verdict import Verdict, effect_of, failed, judge, lost
from .worklist import Worklist

_UNPROVEN = frozenset(
    each.wire
    for each in (
        Reason.CLOSE_UNATTESTED,
        Reason.JOB_ARTIFACT_INVALID,
        Reason.JOB_NOTHING_QUARANTINED,
        Reason.JOB_SNAPSHOT_MISSING,
    )
)
_STABLE = (EndStep.CLOSE, EndStep.RELEASE)  # they say the same in every run, and so have one name


class Settling:
    """`fail` stops the dispatcher, for a reason."""

    def __init__(
        self,
        out: Effects,
        keeping: Keeping,
        worklist: Worklist,
        policy: RetryPolicy,
        fail: Callable[[str], None],
    ) -> None:
        self._out, self._keeping, self._worklist = out, keeping, worklist
        self._policy, self._fail = policy, fail

    def ended(self, term: Assignment, event: orders.WorkerExited) -> None:
        """Its worker is gone, with all its descendants."""
        term.artifacts = event.artifacts
        attempt = max(1, term.attempt)
        self.carry_out(term, judge(term.why, event, attempt, term.labels, self._policy))

    def lay_down(self, term: Assignment, detail: str, attempt: int) -> None:
        """No worker is under this lease, and none will be: that attempt has failed."""
        failure = lost(term.worker, detail, attempt, self._policy)
        self.carry_out(term, failed(failure, term.labels))

    def give_back(self, term: Assignment) -> None:
        self.carry_out(term, Verdict((EndStep.RELEASE,)))

    def carry_out(self, term: Assignment, verdict: Verdict) -> None:
        """The authority hears what became of it."""
        self._keeping.renewals.drop(term)
        term.phase, term.exit, term.failure = Phase.SETTLING, None, verdict.failure
        term.reason = verdict.said
        if verdict.failure is not None:
            decision, detail = verdict.failure.decision, verdict.failure.detail
            said = f"attempt {decision.attempt} of {decision.max_attempts}"
            said += f": {escalation.matched(decision)}, {detail}"
            what = "attempt failed" if decision.retry else decision.escalation_action
            self._out.report(what, said, term.name)
        if verdict.rests is not None:
            now_ms, dice = self._out.now.ms, self._out.now.dice()
            pause_ms = backoff_ms(self._policy, verdict.rests, max(1, term.attempt), dice)
            self._worklist.put_off(term.name, term.attempt, now_ms + pause_ms)
        term.steps.clear()
        term.steps.extend(verdict.steps)
        self._next_step(term)

    def step_done(self, term: Assignment) -> None:
        if term.steps.popleft() is EndStep.CLOSE:
            self._out.report("done", f"attempt {max(1, term.attempt)}", term.name)
        self._next_step(term)

    def _next_step(self, term: Assignment) -> None:
        if not term.steps:
            self._keeping.forget(term)
            self._worklist.polling.stir(self._out.now.ms)
            return
        step = term.steps[0]
        if step is EndStep.STOP:
            assert term.failure is not None
            self._fail(f"issue {term.name}: {escalation.matched(term.failure.decision)}")
            self.step_done(term)
            return
        if step in _STABLE:
            token = self._out.same_token(step.value, term.name, term.lease.fence)
        else:
            token = self._out.new_token(step.value)
        self._out.send(token, effect_of(step, term, token, self._policy), term=term)

    def step_refused(self, term: Assignment, failure_class: str, said: str) -> None:
        step = term.steps[0]
        if step is EndStep.FILE and failure_class == "issue_id_exists":
            self.step_done(term)  # an earlier run got that far
        elif ends_lease(failure_class) or step is EndStep.RELEASE:
            self._out.report("lease lost", said, term.name)
            self._keeping.forget(term)
        elif failure_class in _UNPROVEN:
            # It says that it is done, and has no witness of that: the attempt has failed.
            decision = retry_decision(self._policy, [failure_class], max(1, term.attempt))
            self.carry_out(term, failed(FailedAttempt(term.worker, decision, said), term.labels))
        else:
            # It cannot end as it should, so another holder may have it.
            self._out.report(f"{step.value} refused", said, term.name)
            term.steps.clear()
            term.steps.append(EndStep.RELEASE)
            self._next_step(term)
