"""Keeps the leases of workers: more time for those that work, an end for those whose time is up."""

from collections.abc import Iterator

from ...contracts import limits
from ..leasing.renewing import Renewals, due
from ..leasing.work_kind import HeldLease
from . import orders
from .assignment import Assignment, Phase, Why
from .effects import Effects
from .settings import Settings

_LOST_GRACE_MS = 500  # what works without a lease is in the way of the next holder


class Keeping:
    """`terms` are all that is in our hands, by fence."""

    def __init__(self, out: Effects, settings: Settings) -> None:
        self.terms: dict[int, Assignment] = {}
        self.renewals = Renewals[Assignment]()
        self._out, self._settings, self._timing = out, settings, settings.timing

    def take_up(
        self,
        holder: HeldLease,
        attempt: int,
        asked_ms: int,
        labels: tuple[str, ...] = (),
        excused: int = 0,
    ) -> Assignment:
        now = self._out.now
        more = {"attempt": attempt, "labels": labels, "excused": excused}
        begun = {"started_ms": now.ms, "since_ms": now.ms}
        term = Assignment.granted(holder, self._timing, asked_ms, now, **more, **begun)
        self.terms[holder.fence] = term
        return term

    def forget(self, term: Assignment) -> None:
        """Nothing of it is left, and no answer about it is awaited."""
        del self.terms[term.lease.fence]
        self.renewals.drop(term)
        self._out.requests.drop(lambda request: request.term is term)

    # --- more time ------------------------------------------------------------------------------

    def renew(self) -> None:
        """Ask for more time for all that are due soon, if any is due."""
        ours = (term for term in self.terms.values() if term.is_ours)
        renewals = tuple(map(self._renewal, due(ours, self._out.now.ms)))
        if renewals:
            self._out.put(orders.RenewMany(renewals))

    def _renewal(self, term: Assignment) -> orders.Renewal:
        token = self._out.new_token("renew")
        self.renewals.ask(token, term, self._out.now.ms)
        return orders.Renewal(token, term.lease, self._settings.ttl_seconds)

    def renewed(self, tokens: tuple[str, ...]) -> None:
        extended = self.renewals.granted(tokens, self._out.now)
        if extended:
            until_ms = tuple((term.worker, term.until_ms) for term in extended)
            self._out.put(orders.ExtendWorkers(until_ms))

    # --- an end ---------------------------------------------------------------------------------

    def stop(self, term: Assignment, why: Why) -> None:
        """Tell its worker to end, if it was not told before."""
        if term.why is not Why.LOST:
            term.why = why
        if term.phase is Phase.RUNNING:
            term.phase = Phase.STOPPING
            term.kill_ms = self._out.now.ms + self._timing.ending_ms
            grace_ms = self._settings.grace_ms
            if why is Why.LOST:
                grace_ms = min(grace_ms, _LOST_GRACE_MS)
            self._out.put(orders.StopWorker(term.worker, grace_ms, why.value))

    def watch(self) -> None:
        """Stop workers whose lease is not confirmed, or whose own time is up; and see to it."""
        now_ms = self._out.now.ms
        for term in self.terms.values():
            if term.exit is not None:
                continue  # there is no worker, only its end
            if term.phase is Phase.RUNNING and now_ms >= term.stop_ms:
                self._out.report("lease not confirmed", "its worker is stopped", term.name)
                self.stop(term, Why.UNCONFIRMED)
            elif term.phase is Phase.RUNNING and now_ms >= self._job_ms(term):
                self.stop(term, Why.TIMEOUT)
            elif term.phase is Phase.STOPPING and now_ms >= term.kill_ms:
                term.kill_ms = now_ms + self._timing.ending_ms
                self._out.put(orders.StopWorker(term.worker, 0, "it has not ended"))

    def moments(self) -> Iterator[int]:
        """When time alone makes a difference."""
        for term in self.terms.values():
            if term.exit is not None:
                continue
            if term.phase is Phase.RUNNING:
                yield term.stop_ms
                yield self._job_ms(term)
            elif term.phase is Phase.STOPPING:
                yield term.kill_ms
            if term.is_ours:
                yield term.renew_ms

    def _job_ms(self, term: Assignment) -> int:
        bounds = [each for each in (self._settings.job_ms, term.lease.timeout_ms) if each]
        return term.started_ms + min(bounds) if bounds else limits.INTEGER_MAX
