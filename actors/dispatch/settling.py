"""Sees work that no worker has any more to its end at the authority, step by step."""

from collections import Counter
from collections.abc import Callable

from ...contracts import Reason, RetryPolicy, backoff_ms, ends_lease, retry_decision
from . import escalation, orders
from .assignment import Assignment, EndStep, Phase
from .breaker import Breaker
from .effects import Effects
from .escalation import FailedAttempt
from .keeping import Keeping
from .verdict import Verdict, effect_of, failed, judge, lost
from .worklist import RETRY, Pause, Worklist

_UNPROVEN = frozenset(
    each.wire
    for each in (
        Reason.CLOSE_UNATTESTED,
        Reason.JOB_ARTIFACT_INVALID,
        Reason.JOB_NOTHING_QUARANTINED,
        Reason.JOB_SNAPSHOT_MISSING,
        Reason.DESCENT_PAYLOAD_INVALID,
        Reason.SECTION_OUT_OF_SCOPE,
        Reason.SECTION_TARGET_OTHER,
    )
)
_DETAIL_LENGTH_MAX = 500  # of what a person is told at once
_STABLE = (EndStep.CLOSE, EndStep.RELEASE)  # they say the same in every run, and so have one name


class Settling:
    """`fail` stops the dispatcher, for a reason."""

    def __init__(
        self,
        out: Effects,
        keeping: Keeping,
        worklist: Worklist,
        policy: RetryPolicy,
        *,
        breaker: Breaker,
        fail: Callable[[str], None],
    ) -> None:
        self.tally = Counter[str]()  # how work has ended
        self._out, self._keeping, self._worklist = out, keeping, worklist
        self._policy, self._breaker, self._fail = policy, breaker, fail

    def ended(self, term: Assignment, event: orders.WorkerExited) -> None:
        """Its worker is gone, with all its descendants."""
        term.artifacts = event.artifacts
        if event.fault and term.why is None:
            self._breaker.blame(term.lease, event.fault)
            self._excuse(term, event.fault)
            return
        known = (term.tries, term.labels, self._policy)
        verdict = judge(term.why, event, *known, excused=term.excused)
        self._conclude(term, verdict, event.code)

    def _conclude(self, term: Assignment, verdict: Verdict, code: int | None) -> None:
        """As it was judged, unless the tree is at fault."""
        if self._breaker.trips(term.lease, verdict.failure, code):
            self._excuse(term, verdict.said)
        else:
            self.carry_out(term, verdict)

    def _excuse(self, term: Assignment, said: str) -> None:
        self._out.report("no fault of the work", said, term.name)
        self.carry_out(term, Verdict((EndStep.RELEASE,), reason=said, handed_back=True))

    def lay_down(self, term: Assignment, detail: str, attempt: int) -> None:
        """No worker is under this lease, and none will be: that attempt has failed.

        The policy counts it as its `attempt`th.
        """
        failure = lost(term.worker, detail, attempt, self._policy)
        self.carry_out(term, failed(failure, term.labels))

    def give_back(self, term: Assignment) -> None:
        """Nobody has worked on it."""
        self.carry_out(term, Verdict((EndStep.RELEASE,), handed_back=True))

    def carry_out(self, term: Assignment, verdict: Verdict) -> None:
        """The authority hears what became of it."""
        self._keeping.renewals.drop(term)
        term.phase, term.exit, term.failure = Phase.SETTLING, None, verdict.failure
        term.reason, term.handed_back = verdict.said, verdict.handed_back
        if verdict.failure is not None:
            self._tell_failure(term, verdict.failure)
        elif verdict.steps != (EndStep.CLOSE,):
            said = verdict.reason or ("not begun" if verdict.steps else "its lease is lost")
            self._tell_end(term, "handed back" if verdict.steps else "ended", said)
        if verdict.rests is not None:
            now_ms, dice = self._out.now.ms, self._out.now.dice()
            # Hand-backs are no tries; still, the more of them, the longer it rests.
            count = max(1, term.attempt) if verdict.handed_back else term.tries
            due_ms = now_ms + backoff_ms(self._policy, verdict.rests, count, dice)
            excused = term.excused + verdict.handed_back
            pause = Pause(term.attempt, excused, due_ms, verdict.reason or RETRY)
            self._worklist.put_off(term.name, pause)
            rest_ms = due_ms - now_ms
            self._out.report("retry", f"in {_seconds(rest_ms)}", term.name, retryMs=rest_ms)
        term.steps.clear()
        term.steps.extend(verdict.steps)
        self._next_step(term)

    def step_done(self, term: Assignment) -> None:
        if term.steps.popleft() is EndStep.CLOSE:
            has_section = term.artifacts and term.lease.family == "issue"
            self.tally["sections" if has_section else "done"] += 1  # done when they are glued
            self._breaker.works(term.lease)
            more = ", and its section waits to be glued" if has_section else ""
            self._tell_end(term, "done", f"attempt {term.tries}{more}")
        self._next_step(term)

    def _next_step(self, term: Assignment) -> None:
        if not term.steps:
            self._count(term)
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

    def _count(self, term: Assignment) -> None:
        """What became of it, for people."""
        decision = None if term.failure is None else term.failure.decision
        if decision is not None and not decision.retry:
            action = escalation.escalation_of(decision, term.labels)
            self.tally["blocked"] += action != "stop"
            self.tally["escalated"] += action == "issue_discover"
        elif term.handed_back:
            self.tally["handedBack"] += 1

    def _tell_failure(self, term: Assignment, failure: FailedAttempt) -> None:
        decision, matched = failure.decision, escalation.matched(failure.decision)
        said = f"attempt {decision.attempt} of {decision.max_attempts}: {matched}"
        said += f", {escalation.shortened(failure.detail, _DETAIL_LENGTH_MAX)}"
        more: dict[str, int | str] = {"attemptsMax": decision.max_attempts, "failureClass": matched}
        self._tell_end(term, "attempt failed", said, **more)
        if not decision.retry:
            action = escalation.escalation_of(decision, term.labels)
            self._tell_end(term, escalation.WORDS[action], said, **more)

    def _tell_end(self, term: Assignment, what: str, said: str, **more: int | str) -> None:
        """How it ended, and how long it ran."""
        ran_ms = self._out.now.ms - term.since_ms
        said += f", after {_seconds(ran_ms)}"
        self._out.report(what, said, term.name, attempt=term.tries, ranMs=ran_ms, **more)

    def step_refused(self, term: Assignment, failure_class: str, said: str) -> None:
        step = term.steps[0]
        if step is EndStep.FILE and failure_class == "issue_id_exists":
            self.step_done(term)  # an earlier run got that far
        elif ends_lease(failure_class) or step is EndStep.RELEASE:
            self._out.report("lease lost", said, term.name)
            self._keeping.forget(term)
        elif failure_class in _UNPROVEN:
            # It says that it is done, and what it shows is not taken: the attempt has failed.
            classes = [failure_class, "job_failed"]  # what no rule names is any failure
            decision = retry_decision(self._policy, classes, term.tries)
            verdict = failed(FailedAttempt(term.worker, decision, said), term.labels)
            self._conclude(term, verdict, 0)
        else:
            # It cannot end as it should, so another holder may have it.
            self._out.report(f"{step.value} refused", said, term.name)
            term.reason = said
            term.steps.clear()
            term.steps.append(EndStep.RELEASE)
            self._next_step(term)


def _seconds(ms: int) -> str:
    return f"{ms // 1_000}.{ms % 1_000 // 100} s"
