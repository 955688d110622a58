"""Finds ready work, claims it, hands it to workers, keeps their leases, and sees it to an end.

A state machine without a clock, a socket or a process: what has happened, when, and some dice give
the effects. A shell carries effects out and brings back what comes of them. Here is what is heard,
looked for, claimed and stopped; `keeping` has the leases of workers, `settling` what becomes of
their work, `effects` what is asked.

    look -> claim -> start worker -> renew ... -> exit 0    close
                                                  exit 75   release
                                                  else      release and wait, or escalate

I1  Nothing is started before it is claimed; claims, also unanswered ones, never outnumber workers.
I2  An issue has one term here at a time: what was lost is claimed again when its worker is gone.
I3  A worker whose lease is not confirmed in time, or lost, is stopped; for a lost one nothing is
    written.
I4  What a stopped worker says at its end is no success: it may have been told to say so.
I5  Whatever is asked is asked again until it is answered; changes under one `requestId`.
I6  Attempts are the authority's, counted at the claim; it excuses those that are handed back. What
    fails at the last one the policy allows is escalated once, under the lease that failed, or under
    one that is claimed for it alone.
I7  Where the tree itself is at fault (`breaker`), the work is handed back, and nothing is claimed.
"""

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from ...contracts import BY_WIRE, FAILURES, Exit, RetryPolicy, ends_lease
from ..leasing.moment import Dice
from ..leasing.polling import Candidate
from . import orders
from .assignment import Assignment, Phase, Why
from .breaker import Breaker
from .effects import DispatchRequest, Effects
from .keeping import Keeping
from .orders import Effect, Event
from .settings import Settings
from .settling import Settling
from .worklist import Pause, Worklist

_DIAGNOSTICS_MS = 30_000  # only an import can make dependencies unsound, so seldom is enough
_FAREWELL_MS = 10_000  # how long a stop waits for the authority, when all workers have ended
_RESTS_MAX = 64  # that a person is shown
_DENIED = "not for us"  # why something is left alone
_DENIED_MS = 60_000  # how long something is left alone that is not for us


class Dispatcher:
    """One coordinator's dispatcher, from `Started` to `Stopped`."""

    def __init__(self, settings: Settings, policy: RetryPolicy) -> None:
        self._settings, self._timing = settings, settings.timing
        self._out = Effects(settings.name, settings.run)
        self._worklist = Worklist(policy, settings.wanted)
        self._polling = self._worklist.polling
        self._keeping = Keeping(self._out, settings)
        self._terms = self._keeping.terms
        self._breaker = Breaker(settings.stop_after)
        self._settling = Settling(
            self._out,
            self._keeping,
            self._worklist,
            policy,
            breaker=self._breaker,
            fail=self._fail,
        )
        self._begun = 0  # workers
        self._resumed = False
        self._diagnosed_ms: int | None = None
        self._problems: list[str] = []  # of the dependencies, as they were last reported
        self._stop: orders.StopDispatcher | None = None
        self._is_failure = False
        self._drain_ms: int | None = None  # until when workers may go on
        self._farewell_ms: int | None = None
        self._over = False

    def step(self, event: Event, now_ms: int, dice: Dice) -> list[Effect]:
        """What to do now that this has happened. `now_ms` is a clock that counts sleep as well."""
        if self._over:
            return []
        self._out.begin(now_ms, dice)
        self._hear(event)
        self._advance()
        return self._out.end()

    @property
    def next_ms(self) -> int | None:
        """When time alone makes a difference; None for never."""
        return None if self._over else min(self._moments(), default=None)

    def summary(self, now_ms: int) -> Mapping[str, Any]:
        """What a person sees of it."""
        return {
            "slots": self._settings.slots,
            "free": self._free(),
            "claiming": len(self._out.claims()),
            "stopping": None if self._stop is None else self._stop.reason,
            "fault": self._breaker.fault,
            "rests": self._rests(now_ms),
            "resting": len(self._worklist.rests(now_ms)),
            "tally": dict(self._settling.tally) | {"attempts": self._begun},
            "run": self._settings.run,
            "terms": [term.summary(now_ms) for term in self._terms.values()],
        }

    def _rests(self, now_ms: int) -> list[Mapping[str, Any]]:
        found = self._worklist.rests(now_ms)[:_RESTS_MAX]
        return [{"issue": name, "restMs": ms, "why": why} for name, ms, why in found]

    # --- hearing --------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        match event:
            case orders.Tick():
                pass
            case orders.Wake():
                self._polling.wake(self._out.now)
            case orders.Doubt(issue_id):
                for term in self._terms.values():
                    if term.name == issue_id:
                        term.renew_ms = self._out.now.ms
            case orders.DispatcherStarted():
                self._start(event)
            case orders.StopDispatcher():
                self._begin_stop(event, is_failure=False)
            case orders.WorkerExited():
                self._exited(event)
            case orders.Spent():
                self._spent(event)
            case orders.Renewed(tokens):
                self._keeping.renewed(tokens)
            case orders.Unanswered(token):
                self._out.requests.put_off(token, self._out.now)
                self._keeping.renewals.put_off(token, self._out.now)
            case orders.RequestRefused(token, failure_class, detail):
                self._refused(token, failure_class, f"{failure_class}: {detail}")
            case orders.Claimed():
                self._claimed(event)
            case _:
                request = self._out.requests.answered(event.token)
                if request is not None:
                    self._answered(event, request)

    def _answered(
        self,
        event: orders.Diagnosed
        | orders.Listed
        | orders.Shown
        | orders.Held
        | orders.Settled
        | orders.Counted,
        request: DispatchRequest,
    ) -> None:
        match event:
            case orders.Diagnosed():
                self._diagnosed(event)
            case orders.Listed():
                self._listed(event)
            case orders.Shown(_, stories):
                if request.term is None:
                    self._worklist.told(stories, self._taken(), self._out.now)
                else:
                    request.term.notes = stories[0].notes if stories else ""
                    self._settling.step_done(request.term)
            case orders.Counted():
                if request.term is not None:
                    self._counted(event, request.term)
            case orders.Held():
                self._resume(event, request.asked_ms)
            case orders.Settled():
                if request.term is None:  # a lapsed claim was expired
                    self._polling.stir(self._out.now.ms)
                else:
                    self._settling.step_done(request.term)
            case _:
                assert_never(event)

    def _refused(self, token: str, failure_class: str, said: str) -> None:
        request = self._out.requests.answered(token)
        term = self._keeping.renewals.refused(token)
        if request is not None and request.candidate is not None:
            self._claim_refused(request.candidate, failure_class)
            self._out.report("claim refused", said, request.candidate.name)
        elif request is not None and isinstance(request.effect, orders.CountSpend):
            self._out.report("spending not counted", said, request.effect.holder.name)
            if request.term is not None and ends_lease(failure_class):
                request.term.renew_ms = self._out.now.ms  # whether it is still ours
        elif request is not None and request.term is not None:
            self._settling.step_refused(request.term, failure_class, said)
        elif request is not None and isinstance(request.effect, orders.Expire):
            self._out.report("expiry refused", said, request.effect.issue_id)
        elif request is not None:  # we may not even look: nothing can come of going on
            self._fail(f"a read was refused: {said}")
        elif term is not None and ends_lease(failure_class):
            self._lose(term, said)
        elif term is not None:
            self._out.report("renewal refused", said, term.name)

    def _claim_refused(self, candidate: Candidate, failure_class: str) -> None:
        """Another was faster; or it is not for us, which asking again at once does not change."""
        reason, now = BY_WIRE.get(failure_class), self._out.now
        if reason is None or FAILURES[reason].exit is not Exit.DENIED:
            self._polling.contended(now)
            return
        due_ms = now.ms + _DENIED_MS - _DENIED_MS * now.dice() // 4_000
        self._worklist.put_off(candidate.name, Pause(candidate.attempts, None, due_ms, _DENIED))

    def _spent(self, event: orders.Spent) -> None:
        for term in self._terms.values():
            if term.worker != event.worker:
                continue
            for words in event.unsound:
                self._out.report("spending not understood", words, term.name)
            if event.spent:
                token = self._out.new_token("spend")
                self._out.send(token, orders.CountSpend(token, term.lease, event.spent), term=term)

    def _counted(self, event: orders.Counted, term: Assignment) -> None:
        """A worker hears of a budget that is used up as it does of a lost lease."""
        if event.used:
            what = "budget exceeded" if event.is_over else "budget warning"
            self._out.report(what, "; ".join(event.used), term.name)
        if event.is_over and term.phase is not Phase.SETTLING:
            self._lose(term, "its budget is used up")

    def _lose(self, term: Assignment, detail: str) -> None:
        self._out.report("lease lost", detail, term.name)
        if term.exit is None:
            self._keeping.stop(term, Why.LOST)
        else:  # there is no worker, only its end
            term.why = Why.LOST
            self._settling.ended(term, term.exit)

    # --- starting -------------------------------------------------------------------------------

    def _start(self, event: orders.DispatcherStarted) -> None:
        """Take up what an earlier run left; nothing is claimed before that is known."""
        now_ms = self._out.now.ms
        for holder in event.workers:
            # As if little time were left; the answers say how much it really is.
            asked_ms = now_ms + self._timing.ttl_ms // 6 - self._timing.stop_ms(0)
            self._keeping.take_up(holder, 0, asked_ms).renew_ms = now_ms
        assert all(event.dead), "everybody's name begins with nothing"
        prefixes = (self._settings.prefix, *event.dead)
        self._out.read(lambda token: orders.AskHeld(token, prefixes))

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

    def _known(self, term: Assignment, lease: orders.HeldIssue, asked_ms: int) -> None:
        """A worker's lease: how often it was tried, and how long it lasts."""
        term.attempt, term.labels, term.excused = lease.attempts, lease.labels, lease.excused
        term.title, term.since_ms = lease.title, asked_ms - lease.held_ms
        term.asked_ms = max(term.asked_ms, asked_ms + lease.remaining_ms - self._timing.ttl_ms)
        if term.exit is not None:
            self._settling.ended(term, term.exit)

    def _bury(self, lease: orders.HeldIssue) -> None:
        """A lease of ours whose worker is dead: an attempt that failed."""
        known = (lease.attempts, self._out.now.ms, lease.labels, lease.excused)
        term = self._keeping.take_up(lease.holder, *known)
        term.title, term.since_ms = lease.title, self._out.now.ms - lease.held_ms
        self._settling.lay_down(term, "its worker did not outlive its dispatcher", term.tries)

    # --- looking and claiming -------------------------------------------------------------------

    def _hunt(self) -> None:
        """Claim what is known to be there, as far as there are workers; then look for more."""
        if self._breaker.fault is not None:
            return
        for candidate in self._polling.pick(self._free(), self._taken(), self._out.now):
            self._claim(candidate)
        if self._is_idle() and self._polling.wants_look(self._out.now.ms):
            self._look()

    def _is_idle(self) -> bool:
        return self._free() > 0 and not self._out.is_looking() and self._breaker.fault is None

    def _look(self) -> None:
        now_ms = self._out.now.ms
        if self._diagnosed_ms is None or now_ms >= self._diagnosed_ms + _DIAGNOSTICS_MS:
            self._diagnosed_ms = now_ms
            self._out.read(orders.AskDiagnostics)
        self._polling.looks(now_ms)
        self._out.read(orders.AskReady)

    def _diagnosed(self, found: orders.Diagnosed) -> None:
        """Issues behind a cycle or a loose end are never ready; a person must mend that."""
        problems = [f"cycle {' -> '.join(path)}" for path in found.cycles]
        problems += [
            f"{source} waits for {target}, which is not" for source, target in found.missing
        ]
        if problems and problems != self._problems:
            self._out.report("unsound dependencies", "; ".join(problems))
        self._problems = problems

    def _listed(self, listed: orders.Listed) -> None:
        unknown = self._worklist.listed(listed, self._taken(), self._out.now)
        if unknown:
            self._out.read(lambda token: orders.AskIssues(token, unknown))
        for lapse in listed.lapses:
            self._expire(lapse)

    def _expire(self, lapse: orders.Lapse) -> None:
        """It is held by name alone. Who works on it here is waited for first (I2)."""
        token = self._out.same_token("expire", lapse.issue_id, lapse.fence)
        if token not in self._out.requests and lapse.issue_id not in self._taken():
            self._out.send(token, orders.Expire(token, lapse.issue_id, lapse.claim, lapse.fence))

    def _claim(self, candidate: Candidate) -> None:
        token = self._out.new_token("claim")
        worker, ttl_seconds = self._settings.worker(self._out.serial), self._settings.ttl_seconds
        claim = orders.Claim(token, candidate.name, worker, ttl_seconds)
        self._out.send(token, claim, candidate=candidate)

    def _claimed(self, event: orders.Claimed) -> None:
        request = self._out.requests.answered(event.token)
        holder, now_ms = event.holder, self._out.now.ms
        is_double = request is None and self._out.is_of_this_run(event.token)
        if holder.fence in self._terms or is_double:
            return
        asked_ms = now_ms - self._timing.ttl_ms if request is None else request.asked_ms
        labels = tuple(event.issue.get("labels", ()))
        excused = event.issue.get("excused", 0)
        term = self._keeping.take_up(holder, event.attempt, asked_ms, labels, excused)
        term.title = event.issue.get("title") or event.issue.get("kind", "")
        self._worklist.granted(holder.name)
        self._tell_claim(term)
        candidate = None if request is None else request.candidate
        if candidate is None:
            self._settling.lay_down(term, "nobody waited for its claim any more", term.tries)
        elif candidate.is_exhausted and term.attempt == candidate.attempts + 1:
            # Claimed for nothing but to say that the attempt before this one was the last.
            self._settling.lay_down(term, "its lease lapsed", candidate.attempts - excused)
        elif candidate.is_exhausted or self._is_leaving or now_ms >= term.stop_ms:
            self._settling.give_back(term)
        else:
            start = orders.StartWorker(holder, term.attempt, event.issue, term.until_ms)
            self._begun += 1
            self._out.put(start)

    def _tell_claim(self, term: Assignment) -> None:
        said = f"attempt {term.tries}, fence {term.lease.fence}, {term.worker}: {term.title}"
        held = {"attempt": term.tries, "fence": term.lease.fence}
        named = {"worker": term.worker, "title": term.title}
        self._out.report("claimed", said, term.name, **held, **named)

    @property
    def _is_leaving(self) -> bool:
        """Whether nothing more is begun."""
        return self._stop is not None or self._breaker.fault is not None

    def _taken(self) -> set[str]:
        """The issues that are in our hands already, or may be (I2)."""
        held = {term.name for term in self._terms.values()}
        return held.union(self._out.claims())

    def _free(self) -> int:
        return self._settings.slots - len(self._terms) - len(self._out.claims())

    # --- ending ---------------------------------------------------------------------------------

    def _exited(self, event: orders.WorkerExited) -> None:
        for term in self._terms.values():
            if term.worker == event.worker and term.phase is not Phase.SETTLING:
                counts = event.code != 0 and term.why in (None, Why.TIMEOUT)
                if counts and term.attempt == 0:
                    term.exit = event  # until it is known how often it was tried
                else:
                    self._settling.ended(term, event)
                return

    def _fail(self, reason: str) -> None:
        self._begin_stop(orders.StopDispatcher(None, reason), is_failure=True)

    def _begin_stop(self, stop: orders.StopDispatcher, *, is_failure: bool) -> None:
        """Of two stops the first gives the reason, and the one that leaves less time counts."""
        until_ms = None if stop.drain_ms is None else self._out.now.ms + stop.drain_ms
        if self._stop is None:
            self._stop, self._drain_ms, self._is_failure = stop, until_ms, is_failure
            self._out.report("stopping", stop.reason)
        elif until_ms is not None and (self._drain_ms is None or until_ms < self._drain_ms):
            self._drain_ms = until_ms

    def _leave(self, stop: orders.StopDispatcher) -> None:
        """Stop workers whose time is up; say so when there is nothing left to do."""
        now_ms = self._out.now.ms
        working = [term for term in self._terms.values() if term.is_working]
        if self._drain_ms is not None and now_ms >= self._drain_ms:
            for term in working:
                self._keeping.stop(term, Why.LEAVING)
        if working:
            return
        if self._farewell_ms is None:
            self._farewell_ms = now_ms + _FAREWELL_MS
        is_done = not self._terms and not self._out.claims()
        if is_done or now_ms >= self._farewell_ms:
            abandoned = tuple(term.name for term in self._terms.values())
            self._out.put(orders.Stopped(stop.reason, self._is_failure, abandoned))
            self._over = True

    # --- time -----------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Do all that is due."""
        self._keeping.watch()
        self._keeping.renew()
        self._out.send_again()
        if self._stop is not None:
            self._leave(self._stop)
        elif self._resumed:
            self._hunt()

    def _moments(self) -> Iterator[int]:
        yield from self._keeping.moments()
        yield from (request.again_ms for request in self._out.requests)
        if self._stop is not None:
            ends = (self._drain_ms, self._farewell_ms)
            yield from (each for each in ends if each is not None and each > self._out.now.ms)
        elif self._resumed and self._is_idle():
            yield self._polling.next_ms()
