"""Jobs against their model: limits, buckets, schedules, pauses and approvals, in any order.

A failing seed is printed. `UNDERSTUDY_SEED=1234` walks that way alone, `make worlds` thousands.
"""

from collections.abc import Callable, Sequence
from math import ceil
from random import Random
from typing import Any

import orjson
import pytest

from tests.authority.job_model import MINUTE_MS, Job, JobModel
from tests.fakes.desk import START_MS, Desk, asked, records
from tests.fakes.seeds import Mutant, find, for_mutants, in_chunks, run_all
from understudy.authority.law import agents, scope, state, steering
from understudy.authority.law.jobs import job, job_index, kind_limit, schedule
from understudy.authority.law.state import check_invariants
from understudy.contracts import excused_of, job_resource
from understudy.contracts.requests.shapes import Transport

Payload = dict[str, Any]
Pick = Callable[[Sequence[Any]], Any]

JOBS = ("j1", "j2", "j3", "j4", "j5")
KINDS = ("k.a", "k.b", "m", "k.a.x")
BOUNDED = ("k.", "k.a", "k.a.", "m")
WORKERS = ("ann", "bob", "cy")
SCOPES = ("*", "kind/k.", "kind/m", "kind/k.a", "job/j1", "job/none")
TTLS = (30_000, 30_000, 60_000, 86_400_000, None)
EVERY_MS = (1_000, 7_000, MINUTE_MS)
OPERATORS = ("limit.set", "limit.clear", "schedule.set", "schedule.clear", "schedule.fire")
CLI = frozenset({*OPERATORS, "policy.set"})
MOVES = (
    "schedule", "schedule", "claim", "claim", "claim", "claim_what_is_told", "claim_what_is_told",
    "act_as_the_holder", "act_as_the_holder", "act_as_the_holder", "act_as_a_former_holder",
    "expire", "expire", "steer", "steer", "limit", "limit", "change_a_schedule", "fire", "fire",
    "fire_twice", "approve_who_may_not", "let_go_on", "time_passes", "time_passes",
    "time_passes_to_an_edge", "time_passes_to_an_edge", "the_process_restarts",
)  # fmt: skip


class JobPair:
    """The authority and the model side by side: every move asks both."""

    def __init__(self) -> None:
        self.desk, self.model = Desk(), JobModel()
        self.shown: list[Payload] = []  # what holders were given, oldest first
        for name, kind in zip(JOBS[:3], KINDS, strict=False):
            self.both("job.schedule", {"jobId": name, "kind": kind})
        self.both("job.claim", {"jobId": "j1", "worker": "ann"})

    def wander(self, random: Random, steps: int) -> None:
        for _ in range(steps):
            getattr(self, random.choice(MOVES))(random.choice)
            self.check()
        self.desk.prove()

    @property
    def now_ms(self) -> int:
        return self.desk.time.wall_ms

    def both(self, action: str, payload: Payload) -> None:
        payload = {name: value for name, value in payload.items() if value is not None}
        before = records(self.desk.authority.state)
        seq = self.desk.authority.head.seq + 1
        expected = self.model.ask(action, payload, seq, self.now_ms)
        door: Transport = "cli" if action in CLI else "mcp"
        answer = self.desk.ask(action, door, **payload)
        found = answer["failureClasses"][0] if answer["failureClasses"] else None
        assert found == expected.failure, (action, payload, answer)
        if expected.failure:
            assert records(self.desk.authority.state) == before, "a refusal changed something"
        if action == "job.claim" and expected.fence is not None:
            lease = answer["job"]["lease"]
            assert lease["fence"] == expected.fence
            shown = {"jobId": payload["jobId"], "worker": payload["worker"]}
            self.shown.append(shown | {"leaseId": lease["leaseId"], "fence": lease["fence"]})

    # --- jobs -----------------------------------------------------------------------------------

    def schedule(self, pick: Pick) -> None:
        payload: Payload = {"jobId": pick(JOBS), "kind": pick(KINDS)}
        payload |= {"priority": pick((None, 0, 5)), "timeoutMs": pick((None, None, 40_000, 999))}
        payload |= {"delayMs": pick((None, None, 0, 1, 45_000))}
        payload |= {"runAtMs": pick((None, None, None, START_MS, self.now_ms + 30_000))}
        payload |= {"causalDeps": pick((None, None, None, [f"complete/{pick(JOBS)}"]))}
        self.both("job.schedule", payload)

    def claim(self, pick: Pick) -> None:
        payload = {"jobId": self._any_job(pick), "worker": pick((*WORKERS, " "))}
        payload |= {"leaseDurationMs": pick((*TTLS, 29_999)), "fence": pick((None, None, None, 1))}
        self.both("job.claim", payload)

    def claim_what_is_told(self, pick: Pick) -> None:
        """As the workers do: all of it, until a limit is reached."""
        for job_id in self.model.claimable(self.now_ms):
            claim = {"jobId": job_id, "worker": pick(WORKERS), "leaseDurationMs": pick(TTLS)}
            self.both("job.claim", claim)

    def act_as_the_holder(self, pick: Pick) -> None:
        held = [(name, each) for name, each in self.model.jobs.items() if each.term]
        if held:
            name, each = pick(held)
            shown = {"jobId": name, "worker": each.term.owner, "fence": each.term.fence}
            self._act(shown | {"leaseId": each.term.lease_id}, pick)

    def act_as_a_former_holder(self, pick: Pick) -> None:
        self._act(pick(self.shown[-6:]), pick)

    def _act(self, shown: Payload, pick: Pick) -> None:
        match pick(("complete", "yield", "renew", "renew")):
            case "complete":
                self.both("job.complete", shown)
            case "yield":
                self.both("job.yield", shown | {"handedBack": pick((None, True))})
            case _:
                renewal = {name: shown[name] for name in ("jobId", "worker", "fence")}
                self.both("job.claim", renewal | {"leaseDurationMs": pick(TTLS)})

    def expire(self, pick: Pick) -> None:
        name = self._any_job(pick)
        known = self.model.jobs.get(name)
        term = known.term if known else None
        claim, fence = (term.claim, term.fence) if term else ("claim/none/1", pick((1, 10**6)))
        self.both("job.expire", {"jobId": name, "worker": "ann", "claim": claim, "fence": fence})

    def _any_job(self, pick: Pick) -> str:
        return str(pick((*JOBS, *[each for each in self.model.jobs if "@" in each][-3:])))

    # --- operators ------------------------------------------------------------------------------

    def steer(self, pick: Pick) -> None:
        match pick(
            ("cancel", "retry", "pause", "pause", "unpause", "policy", "policy", "rule", "rule")
        ):
            case "cancel":
                self.both("job.cancel", {"jobId": self._any_job(pick)})
            case "retry":
                self.both("job.retry", {"jobId": self._any_job(pick)})
            case "pause":
                self.both("pause.set", {"scope": pick(SCOPES), "now": pick((None, True))})
            case "unpause":
                self.both("pause.clear", {"scope": pick(SCOPES)})
            case "policy":
                self.both("policy.set", {"approve": pick(([], ["kind/m"], ["kind/k."]))})
            case _:
                waiting = [x for x in JOBS if self.model.jobs.get(x) and self.model.approval_of(x)]
                ruled = {"jobId": pick((self._any_job(pick), *waiting))}
                self.both("approval.give", ruled | {"decision": pick(("approved", "rejected"))})

    def approve_who_may_not(self, pick: Pick) -> None:
        """An agent without the grant, and the tree itself, are no persons."""
        before = records(self.desk.authority.state)
        payload = {"jobId": pick(JOBS), "decision": "approved"}
        agent = asked("approval.give", payload, context={"agent": {"name": "eve"}})
        tree = asked("approval.give", payload, door="coordinator")
        answers, _ = self.desk.authority.submit([agent, tree])
        for answer in map(orjson.loads, answers):
            assert answer["result"] == "rejected", answer
        assert orjson.loads(answers[0])["failureClasses"] == ["operator_required"]
        assert records(self.desk.authority.state) == before

    def let_go_on(self, pick: Pick) -> None:
        """Else walks would end with all work withheld."""
        for each in sorted(self.model.paused):
            self.both("pause.clear", {"scope": each})
        if pick((True, False)):
            self.both("policy.set", {"approve": []})
        for each in sorted(self.model.bounds):
            if pick((True, False, False)):
                self.both("limit.clear", {"kind": each})

    def limit(self, pick: Pick) -> None:
        kind = pick(BOUNDED)
        if pick((True, False, False, False, False)):
            self.both("limit.clear", {"kind": kind})
            return
        payload = {"kind": kind, "concurrency": pick((None, 1, 2, 0)), "burst": pick((None, 1, 3))}
        payload |= {"ratePerMinute": pick((None, 1, 7, 600)), "timeoutMs": pick((None, 35_000))}
        self.both("limit.set", payload)

    # --- schedules ------------------------------------------------------------------------------

    def change_a_schedule(self, pick: Pick) -> None:
        name = pick(("s", "t"))
        if pick((True, False, False, False)):
            self.both("schedule.clear", {"scheduleId": name})
            return
        made = {"kind": pick(KINDS), "priority": pick((0, 5))}
        payload = {"scheduleId": name, "everyMs": pick((*EVERY_MS, 999)), "job": made}
        payload |= {"missed": pick(("one", "all", "skip")), "startMs": pick((None, START_MS))}
        self.both("schedule.set", payload)

    def fire(self, pick: Pick) -> None:
        self.both("schedule.fire", self._firing(pick))

    def fire_twice(self, pick: Pick) -> None:
        """Two hosts propose one moment: the second is refused, and makes nothing."""
        firing = self._firing(pick)
        self.both("schedule.fire", firing)
        count = len(self.model.jobs)
        self.both("schedule.fire", firing)
        assert len(self.desk.authority.state.lane.jobs) == count

    def _firing(self, pick: Pick) -> Payload:
        """The newest moment, one near it, or one on no grid at all."""
        name = pick(("s", "t"))
        known = self.model.calendars.get(name)
        every_ms, start_ms = (known.every_ms, known.start_ms) if known else (1_000, START_MS)
        newest = max(0, self.now_ms - start_ms) // every_ms
        due_ms = start_ms + (newest + pick((0, 0, 0, 1, -1, -60))) * every_ms
        return {"scheduleId": name, "dueMs": due_ms + pick((0, 0, 0, 0, 1))}

    # --- time -----------------------------------------------------------------------------------

    def time_passes(self, pick: Pick) -> None:
        self.desk.time.passes(pick((0, 1, 99, 999, 8_571, 30_001, MINUTE_MS, 3 * MINUTE_MS)))

    def time_passes_to_an_edge(self, pick: Pick) -> None:
        """To a tick on which something turns, or one millisecond off: a deadline, a time-out, when
        a delayed job's time comes, when a bucket is full enough, when a schedule is due."""
        jobs, now_ms = self.model.jobs.values(), self.now_ms
        terms = [each.term for each in jobs if each.term]
        edges = [each.deadline_ms for each in terms] + [each.run_at_ms for each in jobs]
        edges += [x.term.granted_ms + self.model.timeout_of(x) for x in jobs if x.term]
        for bound in self.model.bounds.values():
            if bound.rate and (lacking := 1 - bound.holds(now_ms)) > 0:
                edges.append(now_ms + ceil(lacking * MINUTE_MS / bound.rate))
        for each in self.model.calendars.values():
            edges.append(now_ms + each.every_ms - (now_ms - each.start_ms) % each.every_ms)
        off_ms = pick((-1, 0, 1))
        ahead = sorted({each + off_ms for each in edges if each + off_ms >= now_ms})
        if ahead:
            self.desk.time.passes(pick(ahead) - now_ms)

    def the_process_restarts(self, pick: Pick) -> None:
        if pick((True, False)):
            self.desk.authority.snapshot()
        self.desk.restart()

    # --- after every move -----------------------------------------------------------------------

    def check(self) -> None:
        known = self.desk.authority.state
        assert set(known.lane.jobs) == set(self.model.jobs)
        assert set(known.pauses) == self.model.paused
        for name, each in self.model.jobs.items():
            self._same(name, each)
        for kind, bound in self.model.bounds.items():
            assert known.lane.limits[kind].parts == bound.level * MINUTE_MS
            assert known.lane.held.get(kind, 0) == self.model.held(kind)
        moments = {key: (x.last_due_ms, x.fired) for key, x in known.lane.schedules.items()}
        assert moments == {k: (x.last_ms, x.fired) for k, x in self.model.calendars.items()}
        told = self.desk.ask("job.roster", worker="ann", limit=100)["jobs"]
        assert [each["jobId"] for each in told] == self.model.claimable(self.now_ms)
        check_invariants(known)

    def _same(self, name: str, expected: Job) -> None:
        known = self.desk.authority.state
        record, lease = known.lane.jobs[name], known.leases.get(job_resource(name))
        assert (record.state.value, record.attempts) == (expected.state, expected.attempts)
        assert (excused_of(record), record.fence) == (expected.excused, expected.fence)
        assert (record.approval or None) == expected.approval
        term = expected.term
        assert (lease is None) is (term is None)
        if lease is not None and term is not None:
            found = (lease.owner, lease.lease_id, lease.fence, lease.deadline_ms, record.claim)
            assert found == (term.owner, term.lease_id, term.fence, term.deadline_ms, term.claim)


def wander(seed: int) -> None:
    JobPair().wander(Random(seed), 80)


@in_chunks(60, 20)
def test_long_walks_agree_with_the_model_at_every_step(seeds: range) -> None:
    run_all(wander, seeds)


MUTANTS: list[Mutant] = [
    (kind_limit, "hold_back", "limit.concurrency <= lane", "limit.concurrency < lane"),
    (kind_limit, "hold_back", "free_ms := _free_ms(limit, now_ms)", "free_ms := 0"),
    (kind_limit, "hold_back", "run_at_ms > now_ms", "run_at_ms >= now_ms"),
    (kind_limit, "draw", "- CLAIM_PARTS", ""),
    (kind_limit, "outlast", "< timeout_ms", "<= timeout_ms"),
    (kind_limit, "timeout_of", "own or not lane.limits", "True"),
    (kind_limit, "set_limit", "min(full, _parts(before, now_ms))", "full"),
    (kind_limit, "_parts", "min(limit.burst * CLAIM_PARTS, ", "max(0, "),
    (kind_limit, "_free_ms", "-(-lacking // limit.rate_per_minute)", "lacking // 60_001"),
    (kind_limit, "_limits", "in kinds_above(kind)", "in (kind,)"),
    (kind_limit, "is_open", "not lane.limits or", "True or"),
    (job_index, "kinds_above", 'end = kind.rfind(".", 0, end)', "end = -1"),
    (job_index, "JobIndex.ripe", "wall_ms + 1", "wall_ms"),
    (job_index, "pending_place", "job.ordered.priority", "0"),
    (job, "claim", "draw(turn, job.kind) if lease is None else ()", "draw(turn, job.kind)"),
    (job, "_obstacle", "withheld(turn.state, job) or", ""),
    (job, "find", "job.state is JobState.CANCELLED", "False"),
    (schedule, "fire", "due_ms > now_ms", "False"),
    (schedule, "fire", "or is_off", ""),
    (schedule, "fire", "due_ms <= schedule.last_due_ms", "False"),
    (schedule, "fire", "> limits.SCHEDULE_GRACE_MS", ">= limits.SCHEDULE_GRACE_MS"),
    (schedule, "set_schedule", "max(last_ms, before.last_due_ms)", "last_ms"),
    (scope, "scopes_of", "in kinds_above(work.kind)", "in (work.kind,)"),
    (scope, "approval_of", "if work.approval is not UNSET:", "if False:"),
    (steering, "_hand_back", "excused=excused_of(work) + 1", "excused=excused_of(work)"),
    (steering, "retry_job", "excused=job.attempts", "excused=excused_of(job)"),
    (steering, "give_approval", "or job.state is not JobState.PENDING", ""),
    (agents, "admit", "action.action not in agent.grants", "False"),
    (state, "apply", "state.pauses[pause.scope] = pause", "pass"),
]


@for_mutants(MUTANTS)
def test_a_broken_rule_does_not_survive_the_model(
    monkeypatch: pytest.MonkeyPatch, mutant: Mutant
) -> None:
    find(monkeypatch, mutant, wander, 200)
