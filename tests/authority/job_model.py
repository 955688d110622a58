"""A tiny model of jobs: claims, limits, buckets, schedules, and what operators say of them.

As `model.py` it is written from the rules, without the authority's code. A bucket is a fraction of
claims here, what may be said of a kind is found by looking at all that was said, and what can be
claimed by looking at all jobs.
"""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from tests.authority.model import Verdict

TTL_MS = (30_000, 86_400_000)
TIMEOUT_MS = (1_000, 2_592_000_000)
ATTEMPTS_MAX = 16
WEEK_MS = 604_800_000
GRACE_MS = 60_000
YEAR_MS = 31_622_400_000
MINUTE_MS = 60_000


@dataclass
class JobTerm:
    owner: str
    lease_id: str
    fence: int
    granted_ms: int
    deadline_ms: int
    claim: str  # the operation that granted or last renewed it


@dataclass
class Job:
    kind: str
    seq: int
    scheduled_ms: int
    priority: int = 2
    run_at_ms: int = 0
    timeout_ms: int = 0
    needs: tuple[str, ...] = ()
    state: str = "pending"
    attempts: int = 0
    excused: int = 0
    approval: str | None = None
    fence: int = 0  # of the last grant
    term: JobTerm | None = None

    @property
    def said(self) -> tuple[object, ...]:
        return self.kind, self.needs, self.priority, self.run_at_ms, self.timeout_ms

    def end_term(self, state: str) -> None:
        self.state, self.term = state, None


@dataclass
class Bound:
    """What is said of a kind: so many at once, so often, so long."""

    at_once: int = 0
    rate: int = 0  # claims in a minute
    burst: int = 0
    timeout_ms: int = 0
    level: Fraction = Fraction(0)  # claims that the bucket holds, at `at_ms`
    at_ms: int = 0

    def holds(self, now_ms: int) -> Fraction:
        grown = self.level + Fraction((now_ms - self.at_ms) * self.rate, MINUTE_MS)
        return min(Fraction(self.burst), grown)


@dataclass
class Calendar:
    every_ms: int
    start_ms: int
    missed: str
    job: dict[str, Any]
    last_ms: int
    fired: int = 0


@dataclass
class JobModel:
    jobs: dict[str, Job] = field(default_factory=dict)
    bounds: dict[str, Bound] = field(default_factory=dict)
    calendars: dict[str, Calendar] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    approve: set[str] = field(default_factory=set)

    def ask(self, action: str, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        """What becomes of the request if it is row `seq` at `now_ms`; accepted ones take effect."""
        verdict = getattr(self, "_" + action.replace(".", "_"))(asked, seq, now_ms)
        return verdict if isinstance(verdict, Verdict) else Verdict(verdict)

    def claimable(self, now_ms: int) -> list[str]:
        """What a worker could claim now, in the order in which it is told."""
        free = [
            (job.kind, job.priority, job.seq, job_id)
            for job_id, job in self.jobs.items()
            if job.state == "pending" and self._obstacle(job_id, now_ms) is None
        ]
        return [job_id for *_, job_id in sorted(free)]

    # --- jobs -----------------------------------------------------------------------------------

    def _job_schedule(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        job_id, known = asked["jobId"], self.jobs.get(asked["jobId"])
        run_at_ms = asked.get("runAtMs", 0)
        if "delayMs" in asked:
            run_at_ms = known.run_at_ms if known else now_ms + asked["delayMs"]
        if ("runAtMs" in asked and "delayMs" in asked) or run_at_ms - now_ms > YEAR_MS:
            return "job_run_at_invalid"
        timeout_ms = asked.get("timeoutMs")
        if timeout_ms is not None and not TIMEOUT_MS[0] <= timeout_ms <= TIMEOUT_MS[1]:
            return "job_limit_invalid"
        needs = tuple(sorted(asked.get("causalDeps", ())))
        priority = asked.get("priority", 2)
        job = Job(asked["kind"], seq, now_ms, priority, run_at_ms, timeout_ms or 0, needs)
        if known is not None:
            return None if known.said == job.said else "job_exists"
        if job_id in self._reach(needs):
            return "job_dependency_cycle"
        self.jobs[job_id] = job
        return None

    def _reach(self, needs: tuple[str, ...]) -> set[str]:
        """Everything that is waited for, directly or not."""
        found = {each.removeprefix("complete/") for each in needs}
        for name in list(found):
            job = self.jobs.get(name)
            if job is not None and job.state == "pending":
                found |= self._reach(job.needs)
        return found

    def _over(self, job_id: str) -> str | None:
        job = self.jobs.get(job_id)
        if job is None:
            return "lease_not_found"
        return {"completed": "job_completed", "cancelled": "job_cancelled"}.get(job.state)

    def _job_claim(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | Verdict:
        job_id, worker = asked["jobId"], asked["worker"]
        ttl_ms = asked.get("leaseDurationMs", 3_600_000)
        if not worker.strip():
            return "lease_invalid_assignee"
        if not TTL_MS[0] <= ttl_ms <= TTL_MS[1]:
            return "lease_invalid_ttl"
        if failure := self._over(job_id):
            return failure
        job = self.jobs[job_id]
        claim, term, shows = f"claim/{job_id}/{seq}", job.term, "fence" in asked
        if term is not None and now_ms > term.deadline_ms:
            return "job_claim_lapsed"
        if term is not None and term.owner != worker:
            return "lease_contention_active"
        if term is not None or shows:
            failure = self._ladder(job, asked | {"leaseId": term and term.lease_id}, now_ms)
            if failure:
                return failure
            assert term is not None
            timeout_ms = self.timeout_of(job)
            if timeout_ms and now_ms - term.granted_ms >= timeout_ms:
                return "job_timed_out"
            term.deadline_ms, term.claim = now_ms + ttl_ms, claim
            return Verdict(None, job_id, term.fence)
        if failure := self._obstacle(job_id, now_ms):
            return failure
        for each in self._about(job.kind):
            if each.rate:
                each.level, each.at_ms = each.holds(now_ms) - 1, now_ms
        job.attempts, job.state, job.fence = job.attempts + 1, "claimed", seq
        job.term = JobTerm(worker, claim, seq, now_ms, now_ms + ttl_ms, claim)
        return Verdict(None, job_id, seq)

    def _obstacle(self, job_id: str, now_ms: int) -> str | None:
        """Why no new term of it begins."""
        job = self.jobs[job_id]
        waits = [each for each in job.needs if not self._is_done(each)]
        if waits:
            late = now_ms - job.scheduled_ms > WEEK_MS
            return "job_dependency_blocked" if late else "job_waiting_dependency"
        if job.attempts - job.excused >= ATTEMPTS_MAX:
            return "job_attempts_spent"
        approval = self.approval_of(job_id)
        if approval in ("waiting", "rejected"):
            return "approval_missing" if approval == "waiting" else "approval_rejected"
        if self._scopes(job_id) & self.paused:
            return "work_paused"
        if job.run_at_ms > now_ms:
            return "job_not_due"
        for kind in self._said_of(job.kind):
            bound = self.bounds[kind]
            if bound.at_once and self.held(kind) >= bound.at_once:
                return "job_limit_reached"
            if bound.rate and bound.holds(now_ms) < 1:
                return "job_rate_limited"
        return None

    def _is_done(self, op_id: str) -> bool:
        job = self.jobs.get(op_id.removeprefix("complete/"))
        return job is not None and job.state == "completed"

    def _ladder(self, job: Job, asked: dict[str, Any], now_ms: int) -> str | None:
        term, fence = job.term, asked.get("fence")
        if term is None:
            return "lease_missing"
        if fence is None:
            return "lease_fence_missing"
        if fence != term.fence:
            return "lease_fence_unknown" if fence > term.fence else "lease_fence_stale"
        if now_ms > term.deadline_ms:
            return "lease_stale"
        if asked.get("worker") != term.owner:
            return "lease_owner_mismatch"
        return None if asked.get("leaseId") == term.lease_id else "lease_id_mismatch"

    def _job_complete(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        failure = self._over(asked["jobId"])
        failure = failure or self._ladder(self.jobs[asked["jobId"]], asked, now_ms)
        if failure is None:
            self.jobs[asked["jobId"]].end_term("completed")
        return failure

    def _job_yield(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        failure = self._over(asked["jobId"])
        failure = failure or self._ladder(self.jobs[asked["jobId"]], asked, now_ms)
        if failure is None:
            self.jobs[asked["jobId"]].excused += bool(asked.get("handedBack"))
            self.jobs[asked["jobId"]].end_term("pending")
        return failure

    def _job_expire(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        job = self.jobs.get(asked["jobId"])
        if job is None:
            return "lease_not_found"
        if asked["fence"] > job.fence:
            return "lease_fence_unknown"
        term = job.term
        if term is None or (asked["claim"], asked["fence"]) != (term.claim, term.fence):
            return None
        if now_ms <= term.deadline_ms:
            return "job_claim_live"
        job.end_term("pending")
        return None

    # --- what operators say ---------------------------------------------------------------------

    def _job_cancel(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        failure = self._over(asked["jobId"])
        if failure is None:
            self.jobs[asked["jobId"]].end_term("cancelled")
        return failure

    def _job_retry(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        if failure := self._over(asked["jobId"]):
            return failure
        job = self.jobs[asked["jobId"]]
        stands = job.attempts > job.excused or job.approval == "rejected"
        if job.state != "pending" or not stands:
            return "work_not_blocked"
        job.excused = job.attempts
        if job.approval == "rejected":
            job.approval = "waiting"
        return None

    def _pause_set(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        family, _, name = asked["scope"].partition("/")
        if family == "job" and name not in self.jobs:
            return "job_not_found"
        self.paused.add(asked["scope"])
        for job_id, job in self.jobs.items():
            if asked.get("now") and job.term and asked["scope"] in self._scopes(job_id):
                job.excused += 1
                job.end_term("pending")
        return None

    def _pause_clear(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        if asked["scope"] not in self.paused:
            return "pause_missing"
        self.paused.remove(asked["scope"])
        return None

    def _policy_set(self, asked: dict[str, Any], seq: int, now_ms: int) -> None:
        self.approve = set(asked["approve"])

    def _approval_give(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        if failure := self._over(asked["jobId"]):
            return failure
        job = self.jobs[asked["jobId"]]
        if self.approval_of(asked["jobId"]) != "waiting" or job.state != "pending":
            return "approval_not_asked"
        job.approval = asked["decision"]
        return None

    def approval_of(self, job_id: str) -> str | None:
        asked = "waiting" if self._scopes(job_id) & self.approve else None
        return self.jobs[job_id].approval or asked

    def _scopes(self, job_id: str) -> set[str]:
        kind = self.jobs[job_id].kind
        prefixes = {f"kind/{kind[: at + 1]}" for at, each in enumerate(kind) if each == "."}
        return {"*", f"job/{job_id}", f"kind/{kind}"} | prefixes

    # --- limits ---------------------------------------------------------------------------------

    def _said_of(self, kind: str) -> list[str]:
        """The kinds and prefixes with a limit that counts for this one, the longest first."""
        own = [x for x in self.bounds if x == kind or (x.endswith(".") and kind.startswith(x))]
        return sorted(own, key=len, reverse=True)

    def _about(self, kind: str) -> list[Bound]:
        return [self.bounds[each] for each in self._said_of(kind)]

    def held(self, kind: str) -> int:
        """Jobs of a kind, or below a prefix, that are claimed; also those whose claim lapsed."""
        kinds = [job.kind for job in self.jobs.values() if job.state == "claimed"]
        return sum(x == kind or (kind.endswith(".") and x.startswith(kind)) for x in kinds)

    def timeout_of(self, job: Job) -> int:
        said = [each.timeout_ms for each in self._about(job.kind) if each.timeout_ms]
        return job.timeout_ms or next(iter(said), 0)

    def _limit_set(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        at_once, rate = asked.get("concurrency"), asked.get("ratePerMinute")
        burst, timeout_ms = asked.get("burst"), asked.get("timeoutMs")
        flawed = 0 in (at_once, rate, burst) or (burst and not rate)
        flawed = flawed or (timeout_ms is not None and timeout_ms < TIMEOUT_MS[0])
        if flawed or not (at_once or rate or timeout_ms):
            return "job_limit_invalid"
        burst = (burst or 1) if rate else 0
        level, before = Fraction(burst), self.bounds.get(asked["kind"])
        if before is not None and before.rate:
            level = min(level, before.holds(now_ms))
        bound = Bound(at_once or 0, rate or 0, burst, timeout_ms or 0, level, now_ms if rate else 0)
        self.bounds[asked["kind"]] = bound
        return None

    def _limit_clear(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        return None if self.bounds.pop(asked["kind"], None) else "job_limit_missing"

    # --- schedules ------------------------------------------------------------------------------

    def _schedule_set(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        if asked["everyMs"] < 1_000:
            return "schedule_times_invalid"
        name, known = asked["scheduleId"], self.calendars.get(asked["scheduleId"])
        start_ms = asked.get("startMs", now_ms)
        last_ms = start_ms - 1 if "startMs" in asked else now_ms
        last_ms, fired = (max(last_ms, known.last_ms), known.fired) if known else (last_ms, 0)
        self.calendars[name] = Calendar(
            asked["everyMs"], start_ms, asked["missed"], asked["job"], last_ms, fired
        )
        return None

    def _schedule_clear(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        return None if self.calendars.pop(asked["scheduleId"], None) else "schedule_not_found"

    def _schedule_fire(self, asked: dict[str, Any], seq: int, now_ms: int) -> str | None:
        calendar, due_ms = self.calendars.get(asked["scheduleId"]), asked["dueMs"]
        if calendar is None:
            return "schedule_not_found"
        if due_ms > now_ms or (due_ms - calendar.start_ms) % calendar.every_ms:
            return "schedule_not_due"
        if due_ms <= calendar.last_ms:
            return "schedule_fired"
        if calendar.missed == "skip" and now_ms - due_ms > GRACE_MS:
            return "schedule_missed"
        made = {"jobId": f"{asked['scheduleId']}@{due_ms}"} | calendar.job
        if failure := self._job_schedule(made, seq, now_ms):
            return failure
        calendar.last_ms, calendar.fired = due_ms, calendar.fired + 1
        return None
