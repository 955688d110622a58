"""A world in one thread: dispatchers that die and are replaced, workers that fail in every way, and
a network that delays, loses and doubles, around the real authority. A seed decides everything.

    dispatcher --asks--> network --calls--> authority --rows--> disk
         ^--------------- answers <---------'
         '--start, stop--> workers --exits--^

Effects are spelled and answers read by the clerk's own functions; only its socket is missing.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random
from typing import Any

import orjson

from tests.authority.simulator import Auditor, Violation, must
from tests.fakes.desk import Time, asked
from tests.fakes.journal import Disk, MemoryJournal
from understudy.actors.dispatch import orders
from understudy.actors.dispatch.dialect import Dialect, tokens_of
from understudy.actors.dispatch.dispatcher import Dispatcher
from understudy.actors.dispatch.issue_calls import _ASKS, Issues
from understudy.actors.dispatch.settings import Settings
from understudy.actors.leasing.work_kind import HeldLease
from understudy.authority.engine.engine import Authority
from understudy.authority.journal.journal import Row
from understudy.authority.law.state import check_invariants
from understudy.authority.views.replay import replay
from understudy.contracts import RetryPolicy, issue_resource, retry_policy

TTL_SECONDS = 30
GRACE_MS = 4_000
MAX_ATTEMPTS = 3  # of every rule that a worker of ours meets, but for those that allow one
STILLS_MAX = 100
QUIET_MS = 3_600_000  # of healing, after which nothing can still be under way


# --- work -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Nature:
    """How attempts at an issue end, one after the other; the last one again and again."""

    name: str
    ends: tuple[tuple[int | None, tuple[str, ...]], ...]  # exit code, or None for a signal; classes
    work_ms: int = 500


NATURES = (
    Nature("good", ((0, ()),)),
    Nature("slow", ((0, ()),), work_ms=40_000),
    Nature("flaky", ((1, ()), (0, ()))),
    Nature("crashing once", ((None, ()), (None, ()), (0, ()))),
    Nature("poison", ((None, ()),)),
    Nature("failing", ((3, ()),), work_ms=2_000),
    Nature("hopeless", ((1, ("check_failed",)),)),
    Nature("handing back", ((75, ()), (75, ()), (0, ()))),
    Nature("deferring", ((75, ()), (75, ()), (75, ()), (1, ()), (0, ()))),
    Nature("misdirected", ((127, ()), (127, ()), (127, ()), (0, ()))),
    Nature("unstartable", ((None, ("executor_unavailable",)),), work_ms=0),
    Nature("endless", ((0, ()),), work_ms=10**9),
)
ENDS_WELL = {"good", "slow", "flaky", "crashing once", "handing back", "deferring", "misdirected"}


@dataclass
class Worker:
    holder: HeldLease
    until_ms: int
    ends_ms: int
    exit: orders.WorkerExited
    stubborn: bool


@dataclass
class Tree:
    """A dispatcher that can be replaced, and the workers that outlive it."""

    name: str
    slots: int
    runs: int = 0
    dispatcher: Dispatcher | None = None
    paused_until_ms: int = -1
    workers: dict[str, Worker] = field(default_factory=dict)
    unburied: dict[str, tuple[HeldLease, orders.WorkerExited]] = field(default_factory=dict)
    stopped: orders.Stopped | None = None
    stop_after: int = 0


@dataclass(order=True)
class Parcel:
    """Something on its way."""

    at_ms: int
    number: int
    tree: int = field(compare=False)
    asks: tuple[orders.Ask, ...] = field(compare=False, default=())
    events: tuple[orders.Event, ...] = field(compare=False, default=())


class Book(Auditor):
    """Who holds what, read from the disk; a status that ends a lease is no release."""

    escalated: Counter[str]

    def _accepted(
        self, action: str, payload: dict[str, Any], answer: dict[str, Any], row: Row
    ) -> None:
        super()._accepted(action, payload, answer, row)
        if action == "issue.update" and payload.get("status"):
            self.terms.pop(payload["id"], None)
            self.escalated[payload["id"]] += 1


# --- the world ------------------------------------------------------------------------------------


class World:
    def __init__(self, seed: int, *, rounds: int = 120) -> None:
        self.random = Random(seed)
        self.rounds = rounds
        self.time, self.disk = Time(), Disk()
        self.book = self._new_book()
        self.book.escalated = Counter()
        self.process: Authority | None = Authority(MemoryJournal(self.disk), self.time.clock())
        self.parcels: list[Parcel] = []
        self.sent = 0
        self.trace = hashlib.sha256()
        self.natures: dict[str, Nature] = {}
        self.runs: Counter[str] = Counter()  # workers started, by issue
        self.excused: Counter[str] = Counter()  # attempts that failed through no fault of theirs
        self.broken: set[str] = set()  # an operator took the lease away under a worker's hands
        self.claims: set[str] = set()
        self.stills = 0  # turns in which no time passed
        self.calm = self.healthy = seed % 7 == 3  # nothing goes wrong but the work
        self._lay_out_work()
        count = self.random.choice((1, 1, 2, 3))
        self.trees = [Tree(f"tree{n}", self.random.randint(1, 3)) for n in range(count)]
        for tree in self.trees:
            tree.stop_after = self.random.choice((0, 0, 2, 4))

    def run(self) -> str:
        """Faults, then none; all promises are looked at after every step. The trace's digest."""
        for tree in range(len(self.trees)):
            self._start(tree)
        for _ in range(self.rounds):
            if not self.calm and self.random.random() < 0.12:
                self.random.choice(self._faults())()
            self._turn()
        self._heal()
        self._prove()
        return self.trace.hexdigest()

    # --- what goes wrong ------------------------------------------------------------------------

    def _faults(self) -> list[Any]:
        return [
            self._dispatcher_dies,
            self._dispatcher_dies,
            self._tree_dies,
            self._dispatcher_pauses,
            self._worker_is_killed,
            self._authority_dies,
            self._operator_breaks,
            self._operator_cancels,
            self._operator_pauses,
            self._operator_pauses,
            self._approval_is_wanted,
            self._news,
        ]

    def _dispatcher_dies(self) -> None:
        """Workers live on; a new one starts later."""
        self.random.choice(self.trees).dispatcher = None

    def _tree_dies(self) -> None:
        tree = self.random.choice(self.trees)
        tree.workers.clear()
        tree.unburied.clear()
        tree.dispatcher = None

    def _dispatcher_pauses(self) -> None:
        tree = self.random.choice(self.trees)
        tree.paused_until_ms = self.now + self.random.choice(
            (1_000, 15_000, 2 * TTL_SECONDS * 1000)
        )

    def _worker_is_killed(self) -> None:
        tree = self.random.choice(self.trees)
        if tree.workers:
            worker = tree.workers[self.random.choice(sorted(tree.workers))]
            worker.ends_ms = self.now
            worker.exit = orders.WorkerExited(worker.holder.owner, signal=9)

    def _authority_dies(self) -> None:
        self.process = None

    def _operator_breaks(self) -> None:
        issue = self.random.choice(sorted(self.natures))
        if self.process is not None:
            self._operate("issue.lease_break", {"id": issue, "reason": "no sign of life"})
            self.broken.add(issue)
            self.excused[issue] += 1

    def _operator_cancels(self) -> None:
        """Renewals may be on their way; what is cancelled already comes back."""
        if self.process is None or self._retry_cancelled():
            return
        issue = self.random.choice(sorted(self.natures))
        if self._statuses()[issue] in ("open", "in_progress"):
            self._operate("issue.cancel", {"id": issue})
            self._take([issue])

    def _retry_cancelled(self) -> bool:
        """With attempts anew."""
        found = [each for each, status in self._statuses().items() if status == "cancelled"]
        for issue in found:
            self._operate("issue.retry", {"id": issue})
            self.excused[issue] = max(self.excused[issue], self.runs[issue])
        return bool(found)

    def _operator_pauses(self) -> None:
        """Claims may be on their way; what is paused already goes on."""
        if self.process is None:
            return
        if self.process.state.pauses:
            self._operate("pause.clear", {})
            return
        now = self.random.choice((True, False))
        self._take([each for each in self.natures if now and self._is_held(each)])
        self._operate("pause.set", {"now": now})

    def _take(self, issues: list[str]) -> None:
        """Their leases are gone, and some dispatcher hears of it."""
        self.broken.update(issues)
        for issue in issues:
            self.excused[issue] += 1
            self._deliver(self.random.randrange(len(self.trees)), (orders.Doubt(issue),))

    def _approval_is_wanted(self) -> None:
        """Claims may be on their way. Before a person says yes, some who may not say it."""
        if self.process is None:
            return
        waiting = self._unapproved()
        if not waiting:
            self._want_approval()
        for each in waiting:
            self._approve(each)

    def _want_approval(self) -> None:
        self._operate("approval.ask", {"id": self.random.choice(sorted(self.natures))})

    def _unapproved(self) -> list[dict[str, str]]:
        """What waits for a person, as it is named in a request."""
        return [{"id": each} for each in sorted(self.book.unapproved)]

    def _approve(self, named: dict[str, str]) -> None:
        assert self.process is not None
        ruling = named | {"decision": "approved"}
        agent = asked("approval.give", ruling, context={"agent": {"name": "eve"}})
        tree = asked("approval.give", ruling, door="coordinator")
        for answer in self.process.submit([agent, tree])[0]:
            must(b'"rejected"' in answer, "somebody approved who may not")
        self._operate("approval.give", ruling)

    def _is_held(self, issue: str) -> bool:
        assert self.process is not None
        return issue_resource(issue) in self.process.state.leases

    def _news(self) -> None:
        self._deliver(self.random.randrange(len(self.trees)), (orders.Wake(),))

    # --- one step -------------------------------------------------------------------------------

    @property
    def now(self) -> int:
        return self.time.steady_ms

    def _turn(self) -> None:
        """Go to the next moment at which anything happens, and let it happen."""
        moment = min(self._moments(), default=self.now + 1_000)
        self.stills = self.stills + 1 if moment <= self.now else 0
        must(self.stills < STILLS_MAX, "time stands still")
        self.time.passes(max(0, min(moment, self.now + 20_000) - self.now))
        if self.process is None and (self.healthy or self.random.random() < 0.3):
            self.process = Authority(MemoryJournal(self.disk), self.time.clock())
        while self.parcels and self.parcels[0].at_ms <= self.now:
            self._open(heappop(self.parcels))
        for place, tree in enumerate(self.trees):
            self._work(place, tree)
            if tree.dispatcher is None and tree.stopped is None:
                if self.healthy or self.random.random() < 0.3:
                    self._start(place)
            elif self._is_awake(tree) and self._is_due(tree):
                self._tell(place, orders.Tick())
        self._check()

    def _is_due(self, tree: Tree) -> bool:
        next_ms = None if tree.dispatcher is None else tree.dispatcher.next_ms
        return next_ms is not None and next_ms <= self.now

    def _moments(self) -> Iterator[int]:
        yield from (parcel.at_ms for parcel in self.parcels[:1])
        for tree in self.trees:
            yield from (min(each.ends_ms, each.until_ms) for each in tree.workers.values())
            if tree.dispatcher is None:
                if tree.stopped is None:
                    yield self.now + 50
            elif tree.paused_until_ms > self.now:
                yield tree.paused_until_ms
            elif tree.dispatcher.next_ms is not None:
                yield max(tree.dispatcher.next_ms, self.now)

    def _open(self, parcel: Parcel) -> None:
        for ask in parcel.asks:
            self._answer(parcel.tree, ask)
        tree = self.trees[parcel.tree]
        if not parcel.events:
            return
        if tree.dispatcher is not None and not self._is_awake(tree):
            parcel.at_ms = tree.paused_until_ms
            heappush(self.parcels, parcel)
            return
        for event in parcel.events:
            self._tell(parcel.tree, event)

    def _answer(self, tree: int, ask: orders.Ask) -> None:
        """The authority decides, if it lives; the answer may take its time."""
        if self.process is None:
            self._deliver(tree, tuple(orders.Unanswered(token) for token in tokens_of(ask)))
            return
        dialect = self._dialect(self.trees[tree])
        calls = dialect.calls_of(ask)
        answers, _ = self.process.submit(
            [asked(call.action, call.payload, door="coordinator") for call in calls]
        )
        events = dialect.events_of(ask, [orjson.loads(each) for each in answers])
        self._deliver(tree, tuple(events))

    def _deliver(self, tree: int, events: tuple[orders.Event, ...]) -> None:
        for _ in range(self._copies()):
            self._post(Parcel(self.now + self._delay(), 0, tree, events=events))

    def _post(self, parcel: Parcel) -> None:
        self.sent += 1
        parcel.number = self.sent
        heappush(self.parcels, parcel)

    def _copies(self) -> int:
        if self.healthy:
            return 1
        return self.random.choices((1, 0, 2), (90, 5, 5))[0]

    def _delay(self) -> int:
        if self.healthy:
            return 1
        slow = self.random.randint(1_000, 40_000)
        return self.random.choices((self.random.randint(1, 20), slow), (95, 5))[0]

    # --- what is worked on: a world of jobs has others --------------------------------------------

    attempts_max = MAX_ATTEMPTS
    quiet_ms = QUIET_MS

    def _new_book(self) -> Book:
        return Book()

    def _dialect(self, tree: Tree) -> Dialect:
        return Issues()

    def _policy(self) -> RetryPolicy:
        return retry_policy()

    # --- a tree ---------------------------------------------------------------------------------

    def _start(self, place: int) -> None:
        tree = self.trees[place]
        tree.runs += 1
        settings = Settings(
            tree.name,
            f"r{tree.runs}",
            tree.slots,
            TTL_SECONDS,
            GRACE_MS,
            60_000,
            stop_after=tree.stop_after,
        )
        tree.dispatcher = Dispatcher(settings, self._policy())
        tree.paused_until_ms = -1
        left = [each.holder for each in tree.workers.values()]
        left += [holder for holder, _ in tree.unburied.values()]
        self._tell(place, orders.DispatcherStarted(tuple(left)))
        for _, exited in list(tree.unburied.values()):
            self._tell(place, exited)

    def _is_awake(self, tree: Tree) -> bool:
        return tree.dispatcher is not None and tree.paused_until_ms <= self.now

    def _tell(self, place: int, event: orders.Event) -> None:
        tree = self.trees[place]
        if tree.dispatcher is None:
            return
        effects = tree.dispatcher.step(event, self.now, lambda: self.random.randint(0, 1000))
        self.trace.update(repr((place, self.now, event, effects)).encode())
        if isinstance(event, orders.WorkerExited):
            tree.unburied.pop(event.worker, None)
        asks = tuple(each for each in effects if isinstance(each, _ASKS))
        claims = {each.token for each in asks if isinstance(each, orders.Claim)} - self.claims
        if claims:
            must(tree.dispatcher.summary(0)["free"] >= 0, "I1: a claim without a free worker")
        self.claims |= claims
        self._look_for_faults(tree, effects, claims)
        if asks:
            for _ in range(self._copies()):
                self._post(Parcel(self.now + self._delay(), 0, place, asks))
        for effect in effects:
            self._carry_out(tree, effect)

    def _look_for_faults(self, tree: Tree, effects: list[orders.Effect], claims: set[str]) -> None:
        """Who sees that the tree is at fault starts another, as soon as nothing is in its hands."""
        assert tree.dispatcher is not None
        for each in effects:
            if isinstance(each, orders.Report) and each.what == "no fault of the work":
                assert each.issue_id is not None
                self.excused[each.issue_id] += 1
        known = tree.dispatcher.summary(0)
        if known["fault"] is not None:
            must(not claims, "I7: a tree that is at fault claims")
            if not known["terms"] and not known["claiming"]:
                tree.dispatcher = None

    def _carry_out(self, tree: Tree, effect: orders.Effect) -> None:
        match effect:
            case orders.StartWorker():
                self._start_worker(tree, effect)
            case orders.StopWorker(name, grace_ms, why):
                worker = tree.workers.get(name)
                if worker is not None:
                    if why != "time is up":
                        self.excused[worker.holder.name] += 1
                    lasts_ms = grace_ms if worker.stubborn else self.random.randint(0, grace_ms)
                    worker.ends_ms = min(worker.ends_ms, self.now + lasts_ms)
                    code = self.random.choice((None, 0, 1))
                    signal = 15 if code is None else None
                    worker.exit = orders.WorkerExited(name, code, signal, was_stopped=True)
            case orders.ExtendWorkers(until_ms):
                for name, moment_ms in until_ms:
                    if name in tree.workers:
                        tree.workers[name].until_ms = moment_ms
            case orders.Stopped():
                tree.stopped, tree.dispatcher = effect, None
                must(not tree.workers, "stopped, and workers live")
            case _:
                pass

    def _start_worker(self, tree: Tree, effect: orders.StartWorker) -> None:
        issue, nature = effect.holder.name, self.natures[effect.holder.name]
        must(effect.holder.owner not in tree.workers, "a name was given twice")
        faulty = self.runs[issue] - self.excused[issue]
        must(faulty < self.attempts_max, f"{issue} failed {faulty} times, and is tried again")
        counted = effect.attempt > self.runs[issue]
        must(counted or issue in self.broken, f"{issue}: an attempt was not counted")
        code, classes = nature.ends[min(self.runs[issue], len(nature.ends) - 1)]
        self.runs[issue] += 1
        signal = None if code is not None or classes else 9
        exited = orders.WorkerExited(effect.holder.owner, code, signal, classes, "some output")
        tree.workers[effect.holder.owner] = Worker(
            effect.holder,
            effect.until_ms,
            self.now + nature.work_ms,
            exited,
            stubborn=self.random.random() < 0.3,
        )

    def _work(self, place: int, tree: Tree) -> None:
        """A worker that is done ends; one that outlives its lease is ended by its host."""
        for name, worker in sorted(tree.workers.items()):
            if min(worker.ends_ms, worker.until_ms) > self.now:
                continue
            exited = worker.exit
            if worker.ends_ms > self.now:
                exited = orders.WorkerExited(name, signal=9, was_stopped=True)
                self.excused[worker.holder.name] += 1
            if exited.code == 75:
                self.excused[worker.holder.name] += 1
            del tree.workers[name]
            tree.unburied[name] = (worker.holder, exited)
            if self._is_awake(tree):
                self._tell(place, exited)
            elif tree.dispatcher is not None:
                self._post(Parcel(tree.paused_until_ms, 0, place, events=(exited,)))

    # --- what must hold -------------------------------------------------------------------------

    def _check(self) -> None:
        is_news = self.book.seq < len(self.disk.rows)
        self.book.follow(self.disk.rows)
        for tree in self.trees:
            must(len(tree.workers) <= tree.slots, f"{tree.name} has more workers than it may")
            self._one_worker([tree])
        self._one_worker(self.trees, but=self.broken)
        for issue, count in self.book.escalated.items():
            must(count == 1, f"{issue} was escalated {count} times")
        if is_news and self.process is not None:
            check_invariants(self.process.state)

    def _one_worker(self, trees: list[Tree], but: Collection[str] = ()) -> None:
        names = [each.holder.name for tree in trees for each in tree.workers.values()]
        twice = {issue for issue, count in Counter(names).items() if count > 1}.difference(but)
        must(not twice, f"two workers for {sorted(twice)} at {self.now}")

    def _heal(self) -> None:
        """No more faults: everything comes to an end, within an hour of that world's time."""
        self.healthy = True
        for tree in self.trees:
            tree.paused_until_ms = -1
        self._turn()
        if self.process is not None:
            self._relent()
        end_ms = self.now + self.quiet_ms
        while self.now < end_ms:
            if self._is_settled():
                return
            self._turn()
        raise Violation(f"it never ends: {self._statuses()}")

    def _relent(self) -> None:
        """What operators withhold goes on."""
        assert self.process is not None
        if self.process.state.pauses:
            self._operate("pause.clear", {})
        self._retry_cancelled()
        for each in self._unapproved():
            self._approve(each)

    def _is_settled(self) -> bool:
        if self.process is None or any(tree.workers for tree in self.trees):
            return False
        ended = {"closed", "blocked"}
        return all(
            status in ended or self._waits_for_ever(issue)
            for issue, status in self._statuses().items()
        )

    def _waits_for_ever(self, issue: str) -> bool:
        """It waits for something that a person must look at first."""
        assert self.process is not None
        state = self.process.state
        return state.issues[issue].status == "open" and any(
            state.issues[each].status == "blocked" or self._waits_for_ever(each)
            for each in state.blockers(issue)
        )

    def _statuses(self) -> dict[str, str]:
        assert self.process is not None
        return {issue: self.process.state.issues[issue].status for issue in self.natures}

    def _prove(self) -> None:
        """Each issue ended as its nature is, and the journal replays."""
        assert self.process is not None
        state = self.process.state
        for issue, status in self._statuses().items():
            nature, record = self.natures[issue], state.issues[issue]
            filed = [each for each in state.issues if each.startswith(f"{issue}.escalation")]
            if status == "blocked":
                must("[harness-escalation]" in record.notes, f"{issue}: blocked without a word")
                must(filed or nature.name == "hopeless", f"{issue}: nothing was filed")
            else:
                must(not filed or issue in self.broken, f"{issue}: filed, and not blocked")
            must(len(filed) <= 1, f"{issue}: {filed}")
            # A tree that has worked takes 127 for a failure of the issue, and three are too many.
            if self.calm and nature.name in ENDS_WELL - {"misdirected"}:
                must(status != "blocked", f"{issue} is {nature.name} and blocked")
            if status == "closed":
                must(nature.name in ENDS_WELL, f"{issue} is {nature.name} and closed")
        must(replay(MemoryJournal(self.disk)).mismatch is None, "it does not replay")

    # --- at first -------------------------------------------------------------------------------

    def _operate(self, action: str, payload: dict[str, Any]) -> None:
        assert self.process is not None
        self.process.submit([asked(action, payload, door="cli")])

    def _lay_out_work(self) -> None:
        for number in range(self.random.randint(1, 6)):
            issue = f"i{number}"
            self.natures[issue] = self.random.choice(NATURES)
            priority = self.random.randint(0, 2)
            self._operate("issue.add", {"id": issue, "title": issue, "priority": priority})
            if number and self.random.random() < 0.4:
                target = f"i{self.random.randrange(number)}"
                self._operate("dep.add", {"id": issue, "dependsOnId": target})
