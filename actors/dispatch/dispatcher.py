"""Finds ready work, claims it, hands it to workers, keeps their leases, and sees it to an end.

A state machine without a clock, a socket or a process: what has happened, when, and some dice give
the effects. A shell carries effects out and brings back what comes of them.

    look -> claim -> start worker -> renew ... -> exit 0    close
                                                  exit 75   release
                                                  else      release and wait, or escalate

I1  Nothing is started before it is claimed; claims, also unanswered ones, never outnumber workers.
I2  An issue has one term here at a time: what was lost is claimed again when its worker is gone.
I3  A worker whose lease is not confirmed in time, or lost, is stopped; for a lost one nothing is
    written.
I4  What a stopped worker says at its end is no success: it may have been told to say so.
I5  Whatever is asked is asked again until it is answered; changes under one `requestId`.
I6  Attempts are the authority's, counted at the claim. What fails at the last one the policy allows
    is escalated once, under the lease that failed, or under one that is claimed for it alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, assert_never

from ...contracts import (
    BY_WIRE,
    FAILURES,
    Exit,
    Reason,
    RetryPolicy,
    backoff_ms,
    ends_lease,
    limits,
    retry_decision,
)
from ..leasing.moment import Dice, Moment
from ..leasing.outstanding import OpenRequest, Outstanding
from ..leasing.polling import Candidate
from ..leasing.renewing import Renewals, due
from ..leasing.work_kind import HeldLease
from . import escalation, orders
from .assignment import Assignment, Phase, Step, Why
from .escalation import Failure
from .orders import Effect, Event
from .settings import Settings
from .verdict import Verdict, effect_of, failed, judge, lost
from .worklist import Worklist

_DIAGNOSTICS_MS = 30_000  # only an import can make dependencies unsound, so seldom is enough
_FAREWELL_MS = 10_000  # how long a stop waits for the authority, when all workers have ended
_DENIED_MS = 60_000  # how long something is left alone that is not for us
_UNPROVEN = frozenset(
    each.wire
    for each in (
        Reason.CLOSE_UNATTESTED,
        Reason.JOB_ARTIFACT_INVALID,
        Reason.JOB_NOTHING_QUARANTINED,
        Reason.JOB_SNAPSHOT_MISSING,
    )
)
_STABLE = (Step.CLOSE, Step.RELEASE)  # they say the same in every run, and so have one name


@dataclass(slots=True)
class _Errand(OpenRequest):
    """A request of ours; what is claimed with it, or which assignment waits for its answer."""

    effect: Effect
    candidate: Candidate | None = None
    term: Assignment | None = None


class Dispatcher:
    """One coordinator's dispatcher, from `Started` to `Stopped`."""

    def __init__(self, settings: Settings, policy: RetryPolicy) -> None:
        self._settings, self._policy, self._timing = settings, policy, settings.timing
        self._worklist = Worklist(policy, settings.wanted)
        self._polling = self._worklist.polling
        self._errands = Outstanding[_Errand]()
        self._renewals = Renewals[Assignment]()
        self._terms: dict[int, Assignment] = {}  # by fence
        self._serial = 0
        self._resumed = False
        self._diagnosed_ms: int | None = None
        self._problems: list[str] = []  # of the dependencies, as they were last reported
        self._stop: orders.Stop | None = None
        self._is_failure = False
        self._drain_ms: int | None = None  # until when workers may go on
        self._farewell_ms: int | None = None
        self._over = False
        self._effects: list[Effect] = []
        self._now = Moment(0, lambda: 0)

    def step(self, event: Event, now_ms: int, dice: Dice) -> list[Effect]:
        """What to do now that this has happened. `now_ms` is a clock that counts sleep as well."""
        if self._over:
            return []
        assert now_ms >= self._now.ms, "time goes back"
        self._now = Moment(now_ms, dice)
        self._hear(event)
        self._advance()
        effects, self._effects = self._effects, []
        return effects

    @property
    def next_ms(self) -> int | None:
        """When time alone makes a difference; None for never."""
        return None if self._over else min(self._moments(), default=None)

    def summary(self, now_ms: int) -> Mapping[str, Any]:
        """What a person sees of it."""
        return {
            "slots": self._settings.slots,
            "free": self._free(),
            "claiming": len(self._claims()),
            "stopping": None if self._stop is None else self._stop.reason,
            "terms": [term.summary(now_ms) for term in self._terms.values()],
        }

    # --- hearing --------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        match event:
            case orders.Tick():
                pass
            case orders.Wake():
                self._polling.wake(self._now)
            case orders.Doubt(issue_id):
                for term in self._terms.values():
                    if term.name == issue_id:
                        term.renew_ms = self._now.ms
            case orders.Started():
                self._start(event)
            case orders.Stop():
                self._begin_stop(event, is_failure=False)
            case orders.WorkerExited():
                self._exited(event)
            case orders.Renewed(tokens):
                self._renewed(tokens)
            case orders.Unanswered(token):
                self._unanswered(token)
            case orders.Refused(token, failure_class, detail):
                self._refused(token, failure_class, detail)
            case orders.Claimed():
                self._claimed(event)
            case _:
                errand = self._errands.answered(event.token)
                if errand is not None:
                    self._answered(event, errand)

    def _answered(
        self,
        event: orders.Diagnosed | orders.Listed | orders.Shown | orders.Held | orders.Settled,
        errand: _Errand,
    ) -> None:
        match event:
            case orders.Diagnosed():
                self._diagnosed(event)
            case orders.Listed():
                self._listed(event)
            case orders.Shown(_, stories):
                if errand.term is None:
                    self._worklist.told(stories, self._taken(), self._now)
                else:
                    errand.term.notes = stories[0].notes if stories else ""
                    self._step_done(errand.term)
            case orders.Held():
                self._resume(event, errand.asked_ms)
            case orders.Settled():
                if errand.term is None:  # a lapsed claim was expired
                    self._polling.stir(self._now.ms)
                else:
                    self._step_done(errand.term)
            case _:
                assert_never(event)

    def _unanswered(self, token: str) -> None:
        self._errands.put_off(token, self._now)
        self._renewals.put_off(token, self._now)

    def _refused(self, token: str, failure_class: str, detail: str) -> None:
        said = f"{failure_class}: {detail}"
        errand = self._errands.answered(token)
        term = self._renewals.refused(token)
        if errand is not None and errand.candidate is not None:
            self._claim_refused(errand.candidate, failure_class)
            self._report("claim refused", said, errand.candidate.name)
        elif errand is not None and errand.term is not None:
            self._step_refused(errand.term, failure_class, said)
        elif errand is not None and isinstance(errand.effect, orders.Expire):
            self._report("expiry refused", said, errand.effect.issue_id)
        elif errand is not None:
            self._read_refused(said)
        elif term is not None and ends_lease(failure_class):
            self._lose(term, said)
        elif term is not None:
            self._report("renewal refused", said, term.name)

    def _claim_refused(self, candidate: Candidate, failure_class: str) -> None:
        """Somebody was faster; or it is not for us, which asking again at once does not change."""
        reason = BY_WIRE.get(failure_class)
        if reason is None or FAILURES[reason].exit is not Exit.DENIED:
            self._polling.contended(self._now)
            return
        due_ms = self._now.ms + _DENIED_MS - _DENIED_MS * self._now.dice() // 4_000
        self._worklist.put_off(candidate.name, candidate.attempts, due_ms)

    def _read_refused(self, said: str) -> None:
        """We may not even look: nothing can come of going on."""
        self._begin_stop(orders.Stop(None, f"a read was refused: {said}"), is_failure=True)

    # --- starting -------------------------------------------------------------------------------

    def _start(self, event: orders.Started) -> None:
        """Take up what an earlier run left; nothing is claimed before that is known."""
        for holder in event.workers:
            # As if little time were left; the answers say how much it really is.
            asked_ms = self._now.ms + self._timing.ttl_ms // 6 - self._timing.stop_ms(0)
            self._take_up(holder, 0, asked_ms).renew_ms = self._now.ms
        assert all(event.dead), "everybody's name begins with nothing"
        prefixes = (self._settings.prefix, *event.dead)
        self._ask(lambda token: orders.AskHeld(token, prefixes))

    def _resume(self, held: orders.Held, asked_ms: int) -> None:
        self._resumed = True
        leases = {each.holder.fence: each for each in held.leases}
        for fence, term in list(self._terms.items()):
            if fence in leases:
                self._known(term, leases[fence], asked_ms)
            elif held.is_whole:
                self._lose(term, "it had no lease any more when we started")
            else:  # as far as we know; a renewal tells whether it is ours
                self._known(term, orders.HeldIssue(term.lease, 1, 0), asked_ms)
        for fence, lease in leases.items():
            if fence not in self._terms and lease.remaining_ms > 0:  # else it is found as lapsed
                self._bury(lease)

    def _take_up(
        self, holder: HeldLease, attempt: int, asked_ms: int, labels: tuple[str, ...] = ()
    ) -> Assignment:
        more = {"attempt": attempt, "started_ms": self._now.ms, "labels": labels}
        term = Assignment.granted(holder, self._timing, asked_ms, self._now, **more)
        self._terms[holder.fence] = term
        return term

    def _known(self, term: Assignment, lease: orders.HeldIssue, asked_ms: int) -> None:
        """A worker's lease: how often it was tried, and how long it lasts."""
        term.attempt, term.labels = lease.attempts, lease.labels
        term.asked_ms = max(term.asked_ms, asked_ms + lease.remaining_ms - self._timing.ttl_ms)
        if term.exit is not None:
            self._ended(term, term.exit)

    def _bury(self, lease: orders.HeldIssue) -> None:
        """A lease of ours whose worker is dead: an attempt that failed."""
        term = self._take_up(lease.holder, lease.attempts, self._now.ms, lease.labels)
        self._lay_down(term, "its worker did not outlive its dispatcher")

    def _lay_down(self, term: Assignment, detail: str) -> None:
        """Nobody works under this lease, and nobody will."""
        failure = lost(term.worker, detail, term.attempt, self._policy)
        self._carry_out(term, failed(failure, term.labels))

    # --- looking and claiming -------------------------------------------------------------------

    def _look(self) -> None:
        now_ms = self._now.ms
        if self._diagnosed_ms is None or now_ms >= self._diagnosed_ms + _DIAGNOSTICS_MS:
            self._diagnosed_ms = now_ms
            self._ask(orders.AskDiagnostics)
        self._polling.looks(now_ms)
        self._ask(orders.AskReady)

    def _diagnosed(self, found: orders.Diagnosed) -> None:
        """Issues behind a cycle or a loose end are never ready; somebody must mend that."""
        problems = [f"cycle {' -> '.join(path)}" for path in found.cycles]
        problems += [
            f"{source} waits for {target}, which is not" for source, target in found.missing
        ]
        if problems and problems != self._problems:
            self._report("unsound dependencies", "; ".join(problems))
        self._problems = problems

    def _listed(self, listed: orders.Listed) -> None:
        unknown = self._worklist.listed(listed, self._taken(), self._now)
        if unknown:
            self._ask(lambda token: orders.AskIssues(token, unknown))
        for lapse in listed.lapses:
            self._expire(lapse)

    def _expire(self, lapse: orders.Lapse) -> None:
        """Nobody holds it any more but by name. Who works on it here is waited for first (I2)."""
        issue_id, fence = lapse.issue_id, lapse.fence
        token = f"{self._settings.name}.expire.{issue_id}.{fence}"  # it says the same in every run
        if token not in self._errands and issue_id not in self._taken():
            self._send(token, orders.Expire(token, issue_id, lapse.claim, fence))

    def _claim(self, candidate: Candidate) -> None:
        self._serial += 1
        worker, ttl_seconds = self._settings.worker(self._serial), self._settings.ttl_seconds
        token = self._token("claim", self._serial)
        claim = orders.Claim(token, candidate.name, worker, ttl_seconds)
        self._send(token, claim, candidate=candidate)

    def _claimed(self, event: orders.Claimed) -> None:
        errand = self._errands.answered(event.token)
        holder, now_ms = event.holder, self._now.ms
        is_ours = event.token.startswith(self._token("claim", ""))
        if holder.fence in self._terms or (errand is None and is_ours):
            return  # the answer came twice
        asked_ms = now_ms - self._timing.ttl_ms if errand is None else errand.asked_ms
        labels = tuple(event.issue.get("labels", ()))
        term = self._take_up(holder, event.attempt, asked_ms, labels)
        self._worklist.granted(holder.name)
        candidate = None if errand is None else errand.candidate
        if candidate is None:
            self._lay_down(term, "nobody waited for its claim any more")
        elif candidate.is_exhausted:
            self._exhausted(term, candidate)
        elif self._stop is not None or now_ms >= term.stop_ms:
            self._carry_out(term, Verdict((Step.RELEASE,)))
        else:
            start = orders.StartWorker(holder, term.attempt, event.issue, term.until_ms)
            self._effects.append(start)

    def _exhausted(self, term: Assignment, candidate: Candidate) -> None:
        """Claimed for nothing but to say that the attempt before this one was the last."""
        if term.attempt != candidate.attempts + 1:  # somebody else had it in between
            self._carry_out(term, Verdict((Step.RELEASE,)))
            return
        failure = lost(term.worker, "its lease lapsed", candidate.attempts, self._policy)
        self._carry_out(term, failed(failure, term.labels))

    # --- keeping --------------------------------------------------------------------------------

    def _renew(self) -> None:
        """Ask for more time for all that are due soon, if any is due."""
        ours = (term for term in self._terms.values() if term.is_ours)
        renewals = tuple(map(self._renewal, due(ours, self._now.ms)))
        if renewals:
            self._effects.append(orders.RenewMany(renewals))

    def _renewal(self, term: Assignment) -> orders.Renewal:
        self._serial += 1
        token = self._token("renew", self._serial)
        self._renewals.ask(token, term, self._now.ms)
        return orders.Renewal(token, term.lease, self._settings.ttl_seconds)

    def _renewed(self, tokens: tuple[str, ...]) -> None:
        extended = self._renewals.granted(tokens, self._now)
        if extended:
            until_ms = tuple((term.worker, term.until_ms) for term in extended)
            self._effects.append(orders.ExtendWorkers(until_ms))

    def _lose(self, term: Assignment, detail: str) -> None:
        self._report("lease lost", detail, term.name)
        self._stop_worker(term, Why.LOST)

    def _stop_worker(self, term: Assignment, why: Why) -> None:
        if term.why is not Why.LOST:
            term.why = why
        if term.exit is not None:
            self._ended(term, term.exit)
        elif term.phase is Phase.RUNNING:
            term.phase = Phase.STOPPING
            term.kill_ms = self._now.ms + self._timing.ending_ms
            grace_ms = self._settings.grace_ms
            self._effects.append(orders.StopWorker(term.worker, grace_ms, why.value))

    # --- ending ---------------------------------------------------------------------------------

    def _exited(self, event: orders.WorkerExited) -> None:
        for term in self._terms.values():
            if term.worker == event.worker and term.phase is not Phase.SETTLING:
                counts = event.code != 0 and term.why in (None, Why.TIMEOUT)
                if counts and term.attempt == 0:
                    term.exit = event  # until it is known how often it was tried
                else:
                    self._ended(term, event)
                return

    def _ended(self, term: Assignment, event: orders.WorkerExited) -> None:
        term.artifacts = event.artifacts
        attempt = max(1, term.attempt)
        self._carry_out(term, judge(term.why, event, attempt, term.labels, self._policy))

    def _carry_out(self, term: Assignment, verdict: Verdict) -> None:
        """No worker has it any more; the authority hears what became of it."""
        self._renewals.drop(term)
        term.phase, term.exit, term.failure = Phase.SETTLING, None, verdict.failure
        term.reason = verdict.said
        if verdict.failure is not None:
            decision, detail = verdict.failure.decision, verdict.failure.detail
            said = f"attempt {decision.attempt} of {decision.max_attempts}"
            said += f": {escalation.matched(decision)}, {detail}"
            what = "attempt failed" if decision.retry else decision.escalation_action
            self._report(what, said, term.name)
        if verdict.rests is not None:
            dice = self._now.dice()
            pause_ms = backoff_ms(self._policy, verdict.rests, max(1, term.attempt), dice)
            self._worklist.put_off(term.name, term.attempt, self._now.ms + pause_ms)
        term.steps.clear()
        term.steps.extend(verdict.steps)
        self._next_step(term)

    def _step_done(self, term: Assignment) -> None:
        term.steps.popleft()
        self._next_step(term)

    def _next_step(self, term: Assignment) -> None:
        if not term.steps:
            self._forget(term)
            self._polling.stir(self._now.ms)
            return
        step = term.steps[0]
        if step is Step.STOP:
            assert term.failure is not None
            reason = f"issue {term.name}: {escalation.matched(term.failure.decision)}"
            self._begin_stop(orders.Stop(None, reason), is_failure=True)
            self._step_done(term)
            return
        if step in _STABLE:
            token = f"{self._settings.name}.{step.value}.{term.name}.{term.lease.fence}"
        else:
            self._serial += 1
            token = self._token(step.value, self._serial)
        self._send(token, effect_of(step, term, token, self._policy), term=term)

    def _step_refused(self, term: Assignment, failure_class: str, said: str) -> None:
        step = term.steps[0]
        if step is Step.FILE and failure_class == "issue_id_exists":
            self._step_done(term)  # an earlier run got that far
        elif ends_lease(failure_class) or step is Step.RELEASE:
            self._report("lease lost", said, term.name)
            self._forget(term)
        elif failure_class in _UNPROVEN:
            # It says that it is done, and has no witness of that: the attempt has failed.
            decision = retry_decision(self._policy, [failure_class], max(1, term.attempt))
            self._carry_out(term, failed(Failure(term.worker, decision, said), term.labels))
        else:
            # It cannot end as it should, so somebody else may have it.
            self._report(f"{step.value} refused", said, term.name)
            term.steps.clear()
            term.steps.append(Step.RELEASE)
            self._next_step(term)

    def _forget(self, term: Assignment) -> None:
        del self._terms[term.lease.fence]
        self._renewals.drop(term)
        self._errands.drop(lambda errand: errand.term is term)

    # --- stopping -------------------------------------------------------------------------------

    def _begin_stop(self, stop: orders.Stop, *, is_failure: bool) -> None:
        """Of two stops the first gives the reason, and the one that leaves less time counts."""
        until_ms = None if stop.drain_ms is None else self._now.ms + stop.drain_ms
        if self._stop is None:
            self._stop, self._drain_ms, self._is_failure = stop, until_ms, is_failure
            self._report("stopping", stop.reason)
        elif until_ms is not None and (self._drain_ms is None or until_ms < self._drain_ms):
            self._drain_ms = until_ms

    def _leave(self) -> None:
        """Stop workers whose time is up; say so when there is nothing left to do."""
        assert self._stop is not None
        working = [term for term in self._terms.values() if term.is_working]
        if self._drain_ms is not None and self._now.ms >= self._drain_ms:
            for term in working:
                self._stop_worker(term, Why.LEAVING)
        if working:
            return
        if self._farewell_ms is None:
            self._farewell_ms = self._now.ms + _FAREWELL_MS
        is_done = not self._terms and not self._claims()
        if is_done or self._now.ms >= self._farewell_ms:
            abandoned = tuple(term.name for term in self._terms.values())
            self._effects.append(orders.Stopped(self._stop.reason, self._is_failure, abandoned))
            self._over = True

    # --- time -----------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Do all that is due."""
        for term in list(self._terms.values()):
            self._watch(term)
        self._renew()
        for token, errand in self._errands.due(self._now.ms):
            self._effects.append(self._errands.send(token, errand, self._now.ms).effect)
        if self._stop is not None:
            self._leave()
        elif self._resumed:
            self._hunt()

    def _watch(self, term: Assignment) -> None:
        now_ms = self._now.ms
        if term.exit is not None:
            return  # there is no worker, only its end
        if term.phase is Phase.RUNNING:
            if now_ms >= term.stop_ms:
                self._report("lease not confirmed", "its worker is stopped", term.name)
                self._stop_worker(term, Why.UNCONFIRMED)
            elif now_ms >= self._job_ms(term):
                self._stop_worker(term, Why.TIMEOUT)
        elif term.phase is Phase.STOPPING and now_ms >= term.kill_ms:
            term.kill_ms = now_ms + self._timing.ending_ms
            self._effects.append(orders.StopWorker(term.worker, 0, "it has not ended"))

    def _hunt(self) -> None:
        """Claim what is known to be there, as far as there are workers; then look for more."""
        for candidate in self._polling.pick(self._free(), self._taken(), self._now):
            self._claim(candidate)
        if self._is_idle() and self._polling.wants_look(self._now.ms):
            self._look()

    def _is_idle(self) -> bool:
        """Whether there are free workers, and no look for work is under way."""
        looks = orders.AskReady | orders.AskIssues
        return self._free() > 0 and not any(
            each.term is None and isinstance(each.effect, looks) for each in self._errands
        )

    def _moments(self) -> Iterator[int]:
        for term in self._terms.values():
            if term.exit is not None:
                continue
            if term.phase is Phase.RUNNING:
                yield term.stop_ms
                yield self._job_ms(term)
            elif term.phase is Phase.STOPPING:
                yield term.kill_ms
            if term.is_ours:
                yield term.renew_ms
        yield from (errand.again_ms for errand in self._errands)
        if self._stop is not None:
            ends = (self._drain_ms, self._farewell_ms)
            yield from (each for each in ends if each is not None and each > self._now.ms)
        elif self._resumed and self._is_idle():
            yield self._polling.next_ms()

    def _job_ms(self, term: Assignment) -> int:
        job_ms = self._settings.job_ms
        return limits.INTEGER_MAX if job_ms is None else term.started_ms + job_ms

    # --- asking ---------------------------------------------------------------------------------

    def _ask(self, make: Callable[[str], Effect]) -> None:
        """Ask for something to read."""
        self._serial += 1
        token = self._token("look", self._serial)
        self._send(token, make(token))

    def _send(
        self,
        token: str,
        effect: Effect,
        *,
        candidate: Candidate | None = None,
        term: Assignment | None = None,
    ) -> None:
        errand = _Errand(self._now.ms, effect, candidate, term)
        self._effects.append(self._errands.send(token, errand, self._now.ms).effect)

    def _token(self, what: str, number: int | str) -> str:
        return f"{self._settings.name}.{self._settings.run}.{what}.{number}"

    def _taken(self) -> set[str]:
        """The issues that are in our hands already, or may be (I2)."""
        held = {term.name for term in self._terms.values()}
        return held.union(self._claims())

    def _claims(self) -> list[str]:
        """The issues that were claimed, with an open end."""
        found = (each.candidate for each in self._errands)
        return [candidate.name for candidate in found if candidate is not None]

    def _free(self) -> int:
        return self._settings.slots - len(self._terms) - len(self._claims())

    def _report(self, what: str, detail: str, issue_id: str | None = None) -> None:
        self._effects.append(orders.Report(what, detail, issue_id))
