"""The world of `dispatch_world` with jobs in it: the same machine and faults, in the other dialect.

Beside what goes wrong there, kinds are routed to one node and back, strangers claim jobs and are
never heard of again, and jobs of a kind that has no handler lie about.
"""

from collections import Counter
from typing import Any

from tests.actors.dispatch.issue_world import ENDS_WELL, Book, Tree, World
from tests.actors.dispatch.issue_world import NATURES as ALL_NATURES
from tests.authority.simulator import Term, must
from tests.fakes.journal import MemoryJournal
from understudy.actors.dispatch.dialect import Dialect
from understudy.actors.dispatch.job_calls import Jobs, policy_of
from understudy.actors.dispatch.kinds import Kinds
from understudy.authority.journal.journal import Row
from understudy.authority.law.scope import approval_of
from understudy.authority.views.replay import replay
from understudy.contracts import (
    Approval,
    JobState,
    RetryPolicy,
    excused_of,
    is_spent,
    job_resource,
    limits,
    retry_policy,
)

KINDS = ("k.a", "k.b", "m")
# Those that time out at each of sixteen attempts show nothing that others do not.
NATURES = [each for each in ALL_NATURES if each.name not in ("endless", "failing", "hopeless")]
CANCELS = 0.5  # of the times that an operator thinks of it: no job comes back
HANDLED = Kinds.of([("k.", ("true",)), ("m", ("true",))])


class JobBook(Book):
    """Who holds which job, read from the disk."""

    family = "job"
    grants: Counter[str]
    kinds: dict[str, str]  # of jobs that were granted
    bounds: dict[str, int]  # how many of a kind, or below a prefix, may be held at once
    wanted: tuple[str, ...]  # kinds that wait for a person
    approved: set[str]

    def _accepted(
        self, action: str, payload: dict[str, Any], answer: dict[str, Any], row: Row
    ) -> None:
        job = payload.get("jobId", "")
        term = self.terms.get(job)
        match action:
            case "job.claim":
                self.kinds[job] = answer["job"]["kind"]
                self._granted(job, term, answer["job"]["lease"], row)
                if term is None:
                    self._within_bounds(self.kinds[job], row)
            case "limit.set":
                self.bounds[payload["kind"]] = payload["concurrency"]
            case "limit.clear":
                del self.bounds[payload["kind"]]
            case "job.cancel":
                self.terms.pop(job, None)
                self.cancelled.add(job)
            case "pause.set" | "pause.clear":
                self._paused(action, payload, answer, row)
            case "policy.set":
                self.wanted = tuple(each.removeprefix("kind/") for each in payload["approve"])
            case "approval.give":
                self.approved.add(job)
            case "job.complete":
                self._held(term, payload, row)
                must(job not in self.closed, f"row {row.seq}: {job} was done twice")
                self.closed.add(job)
                del self.terms[job]
            case "job.yield":
                self._held(term, payload, row)
                del self.terms[job]
            case "job.expire" if answer["changed"]:
                late = term is not None and row.wall_ms > term.deadline_ms
                must(late, f"row {row.seq}: a live claim was expired")
                del self.terms[job]
            case _:
                pass

    def _within_bounds(self, kind: str, row: Row) -> None:
        held = [self.kinds[job] for job in self.terms]
        for bound, most in self.bounds.items():
            if kind == bound or (bound.endswith(".") and kind.startswith(bound)):
                count = sum(each == bound or each.startswith(bound) for each in held)
                must(count <= most, f"row {row.seq}: {count} of {bound} are held, not {most}")

    def _granted(self, job: str, term: Term | None, lease: dict[str, Any], row: Row) -> None:
        must(job not in self.closed, f"row {row.seq}: done work was handed out")
        must(job not in self.cancelled, f"row {row.seq}: cancelled work was handed out")
        if term is None:
            self._free_to_begin(job, row)
            unapproved = job not in self.approved and self.kinds[job].startswith(self.wanted)
            must(not unapproved, f"row {row.seq}: unapproved work was handed out")
            must(lease["fence"] > self.fence, f"row {row.seq}: its fence does not grow")
            self.fence = lease["fence"]
            self.grants[job] += 1
        else:
            must(lease["fence"] == term.fence, f"row {row.seq}: {job} has two live holders")
        owner, deadline_ms = lease["owner"], lease["deadlineMs"]
        self.terms[job] = Term(owner, lease["leaseId"], lease["fence"], deadline_ms)

    def _held(self, term: Term | None, payload: dict[str, Any], row: Row) -> None:
        fence = None if term is None else term.fence
        must(payload["fence"] == fence, f"row {row.seq}: a deposed holder was heard")


class JobWorld(World):
    book: JobBook
    attempts_max = limits.JOB_ATTEMPTS_MAX
    quiet_ms = 4 * 3_600_000  # the last attempts are two minutes apart, and each may time out

    def _new_book(self) -> JobBook:
        book = JobBook()
        book.grants = Counter()
        book.kinds, book.bounds = {}, {}
        book.wanted, book.approved = (), set()
        return book

    def _dialect(self, tree: Tree) -> Dialect:
        return Jobs(tree.name, HANDLED)

    def _policy(self) -> RetryPolicy:
        return policy_of(retry_policy())

    # --- what goes wrong here alone -------------------------------------------------------------

    def _faults(self) -> list[Any]:
        there = [each for each in super()._faults() if each != self._operator_breaks]
        return [*there, self._route_changes, self._stranger_claims, self._limit_changes]

    def _operator_cancels(self) -> None:
        """Once and for all; renewals may be on their way."""
        job = self.random.choice(sorted(self.natures))
        if self.process is not None and self.random.random() < CANCELS:
            self._operate("job.cancel", {"jobId": job})
            self._take([job])

    def _retry_cancelled(self) -> bool:
        return False

    def _want_approval(self) -> None:
        scopes = self.random.choice(([], ["kind/m"], ["kind/k.", "kind/m"]))
        self._operate("policy.set", {"approve": scopes})

    def _relent(self) -> None:
        """What is claimed now and comes back later waits for nobody, either."""
        self._operate("policy.set", {"approve": []})
        super()._relent()

    def _unapproved(self) -> list[dict[str, str]]:
        assert self.process is not None
        state = self.process.state
        pending = [each for each in state.lane.jobs.values() if each.state is JobState.PENDING]
        return [{"jobId": x.job_id} for x in pending if approval_of(state, x) == Approval.WAITING]

    def _is_held(self, job: str) -> bool:
        assert self.process is not None
        return job_resource(job) in self.process.state.leases

    def _limit_changes(self) -> None:
        if self.process is not None:
            kind, most = self.random.choice(("k.", "k.a", "m")), self.random.randint(1, 3)
            self._operate("limit.set", {"kind": kind, "concurrency": most})

    def _route_changes(self) -> None:
        if self.process is not None:
            node = self.random.choice([None, *(tree.name for tree in self.trees)])
            self._route(self.random.choice(("k.", "k.a", "m")), node)

    def _route(self, kind: str, node: str | None) -> None:
        self._operate("route.set", {"kind": kind} | ({} if node is None else {"route": node}))

    def _stranger_claims(self) -> None:
        """It gets a job, perhaps, and dies with it."""
        job = self.random.choice(sorted(self.natures))
        if self.process is not None:
            claim = {"jobId": job, "worker": "stranger", "leaseDurationMs": 30_000}
            self._operate("job.claim", claim)

    def _heal(self) -> None:
        self._turn()
        while self.process is None:
            self._turn()
        for kind in ("k.", "k.a", "m"):
            self._route(kind, None)
            self._operate("limit.clear", {"kind": kind})
        super()._heal()

    # --- what must hold -------------------------------------------------------------------------

    def _is_settled(self) -> bool:
        if self.process is None or any(tree.workers for tree in self.trees):
            return False
        return all(
            status in ("completed", "cancelled", "blocked", "waiting")
            for status in self._statuses().values()
        ) and not any(self._will_be_freed(job) for job in self.natures)

    def _will_be_freed(self, job: str) -> bool:
        """Whether it waits for something that a loop here will still do."""
        assert self.process is not None
        lane = self.process.state.lane
        waits = [op_id.removeprefix("complete/") for op_id in lane.missing(lane.jobs[job])]
        return any(self._status(each) in ("pending", "claimed") for each in waits)

    def _statuses(self) -> dict[str, str]:
        return {job: self._status(job) for job in self.natures}

    def _status(self, job: str) -> str:
        """As it is seen: what waits, and what has used up its attempts, are pending jobs."""
        assert self.process is not None
        lane = self.process.state.lane
        found = lane.jobs[job]
        if found.state is not JobState.PENDING:
            return found.state.value
        if lane.missing(found):
            return "waiting"
        return "blocked" if is_spent(found) else "pending"

    def _prove(self) -> None:
        """Each job ended as its nature is, what has no handler was left alone, it all replays."""
        assert self.process is not None
        jobs = self.process.state.lane.jobs
        for job, status in self._statuses().items():
            nature = self.natures[job]
            if status == "completed":
                must(nature.name in ENDS_WELL, f"{job} is {nature.name} and completed")
            elif status == "blocked":
                counted = jobs[job].attempts - excused_of(jobs[job])
                spent = counted == limits.JOB_ATTEMPTS_MAX
                must(spent and nature.name not in ENDS_WELL, f"{job} is {nature.name}, blocked")
            must(jobs[job].attempts == self.book.grants[job], f"{job}: attempts and grants differ")
        must(jobs["foreign"].attempts == 0, "a kind that has no handler was claimed")
        must(not self.book.terms, f"held at the end: {sorted(self.book.terms)}")
        must(replay(MemoryJournal(self.disk)).mismatch is None, "it does not replay")

    def _lay_out_work(self) -> None:
        self._operate("job.schedule", {"jobId": "foreign", "kind": "x.y"})
        for number in range(self.random.randint(1, 6)):
            job = f"j{number}"
            self.natures[job] = self.random.choice(NATURES)
            asked: dict[str, Any] = {"jobId": job, "kind": self.random.choice(KINDS)}
            if number and self.random.random() < 0.4:
                asked["causalDeps"] = [f"complete/j{self.random.randrange(number)}"]
            self._operate("job.schedule", asked)
