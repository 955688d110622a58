"""The clerk against a real sidecar, and whole dispatchers behind it."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import orjson
import pytest

from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import Serve, journal_rows, report_of
from understudy.actors.dispatch import orders
from understudy.actors.dispatch.dispatcher import Dispatcher
from understudy.actors.dispatch.issue_calls import Clerk, Issues
from understudy.actors.dispatch.settings import Settings
from understudy.actors.leasing.work_kind import HeldLease
from understudy.authority import create_state_dir
from understudy.authority.service.client import Client
from understudy.contracts import retry_policy

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "n1")
    return folder


@pytest.fixture
def serve(state_dir: Path) -> Iterator[Serve]:
    with Serve(state_dir) as running:
        yield running.ready()


@pytest.fixture
def operator(serve: Serve) -> Iterator[Client]:
    with Client(serve.state_dir, "cli", retry_seconds=PATIENCE_SECONDS) as client:
        yield client


@pytest.fixture
def clerk(serve: Serve) -> Iterator[Clerk]:
    with closing(Clerk(serve.state_dir)) as clerk:
        yield clerk


def add(operator: Client, issue: str, **payload: object) -> None:
    answer = operator.ask("issue.add", {"id": issue, "title": issue} | payload)
    assert answer["result"] == "accepted", answer


def show(operator: Client, issue: str) -> dict[str, Any]:
    found: dict[str, Any] = operator.ask("issue.show", {"id": issue})["issue"]
    return found


def claimed(clerk: Clerk, issue: str, token: str = "t1", worker: str = "w1") -> orders.Claimed:
    [event] = clerk.perform([orders.Claim(token, issue, worker, 30)])
    assert isinstance(event, orders.Claimed), event
    return event


# --- effect by effect -----------------------------------------------------------------------------


def test_a_claim_brings_the_lease_and_the_whole_issue(clerk: Clerk, operator: Client) -> None:
    add(operator, "a", description="how it is done", labels=["x"])
    event = claimed(clerk, "a")
    assert (event.holder.name, event.holder.owner, event.attempt) == ("a", "w1", 1)
    assert event.issue["description"] == "how it is done"
    assert event.issue["lease"]["fence"] == event.holder.fence
    rows = len(journal_rows(clerk._state_dir))
    assert claimed(clerk, "a") == event, "asked again, it is answered again"
    assert len(journal_rows(clerk._state_dir)) == rows
    refused = clerk.perform([orders.Claim("t2", "a", "w2", 30)])
    assert [type(each) for each in refused] == [orders.RequestRefused]
    assert refused[0].failure_class == "lease_contention_active"


def test_a_grant_that_was_lost_since_is_none(clerk: Clerk, operator: Client) -> None:
    add(operator, "a")
    claimed(clerk, "a")
    operator.ask("issue.lease_break", {"id": "a", "reason": "no sign of life"})
    [event] = clerk.perform([orders.Claim("t1", "a", "w1", 30)])
    assert isinstance(event, orders.RequestRefused)
    assert event.failure_class == "lease_fence_stale"


def test_many_are_renewed_at_once_and_each_is_answered(clerk: Clerk, operator: Client) -> None:
    for issue in "abc":
        add(operator, issue)
    holders = [claimed(clerk, issue, f"t{issue}", f"w{issue}").holder for issue in "abc"]
    operator.ask("issue.lease_break", {"id": "b", "reason": "no sign of life"})
    renewals = tuple(orders.Renewal(f"r{each.name}", each, 30) for each in holders)
    renewed, refused = clerk.perform([orders.RenewMany(renewals)])
    assert renewed == orders.Renewed(("ra", "rc"))
    assert isinstance(refused, orders.RequestRefused)
    assert (refused.token, refused.failure_class) == ("rb", "lease_missing")


def test_work_is_closed_released_filed_and_blocked_under_the_fence(
    clerk: Clerk, operator: Client
) -> None:
    for issue in "abc":
        add(operator, issue)
    done, back, bad = (claimed(clerk, each, f"t{each}", f"w{each}").holder for each in "abc")
    events = clerk.perform(
        [
            orders.CloseWork("close", done),
            orders.Report("nothing", "for the authority"),
            orders.Release("release", back),
            orders.Discover("file", bad, "c.escalation-1", "look at c", "why", ("escalation",)),
            orders.Amend("block", bad, "blocked", "why"),
        ]
    )
    assert events == [orders.Settled(each) for each in ("close", "release", "file", "block")]
    assert [show(operator, each)["status"] for each in "abc"] == ["closed", "open", "blocked"]
    filed = show(operator, "c.escalation-1")
    assert (filed["description"], filed["labels"]) == ("why", ["escalation"])
    assert filed["dependencies"] == [
        {"issueId": "c.escalation-1", "dependsOnId": "c", "type": "discovered-from"}
    ]
    zombie = clerk.perform([orders.CloseWork("again", back)])
    assert zombie == [orders.RequestRefused("again", "lease_missing", zombie[0].detail)]
    for row in journal_rows(clerk._state_dir)[3:]:
        assert orjson.loads(row[3])["effect"]["transport"] == "coordinator"


def test_reads_tell_what_the_dispatcher_must_know(clerk: Clerk, operator: Client) -> None:
    add(operator, "a", notes="by ann", labels=["x"])
    add(operator, "b")
    operator.ask("dep.add", {"id": "b", "dependsOnId": "a"})
    holder = claimed(clerk, "a", worker="tree/r1/1").holder
    listed, held, shown, diagnosed = clerk.perform(
        [
            orders.AskReady("l"),
            orders.AskHeld("h", ("tree/",)),
            orders.AskIssues("s", ("a", "nothing", "b")),
            orders.AskDiagnostics("d"),
        ]
    )
    assert listed == orders.Listed("l", (), (), is_whole=True)
    assert isinstance(held, orders.Held)
    [lease] = held.leases
    assert (lease.holder, lease.attempts, lease.labels) == (holder, 1, ("x",))
    assert 29_000 < lease.remaining_ms <= 30_000
    assert isinstance(shown, orders.Shown)
    assert [(each.issue_id, each.notes) for each in shown.issues] == [("a", "by ann"), ("b", "")]
    assert 0 <= shown.issues[0].quiet_ms < 10_000
    assert diagnosed == orders.Diagnosed("d", (), ())
    assert clerk.perform([orders.AskHeld("h", ("other/",))]) == [
        orders.Held("h", (), is_whole=True)
    ]


def test_a_lapsed_lease_is_told_from_a_live_one(state_dir: Path) -> None:
    """Time is ours here, so that the test does not wait for thirty seconds."""
    from tests.fakes.desk import Desk

    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    desk.claim("a", "w1", leaseTtlSeconds=30)
    desk.time.passes(31_500)
    ready, ask = orders.AskReady("l"), orders.AskIssues("s", ("a",))
    [listed] = Issues().events_of(
        ready, [desk.ask(call.action) for call in Issues().calls_of(ready)]
    )
    assert isinstance(listed, orders.Listed)
    assert listed.lapsed_ids == ("a",)
    [shown] = Issues().events_of(
        ask, [desk.ask(each.action, **each.payload) for each in Issues().calls_of(ask)]
    )
    assert isinstance(shown, orders.Shown)
    [story] = shown.issues
    assert (story.is_lapsed, story.quiet_ms, story.attempts) == (True, 1_500, 1)


def test_without_a_sidecar_nothing_is_answered_and_with_one_again_all_is(
    state_dir: Path,
) -> None:
    asks: list[orders.Effect] = [
        orders.AskReady("l"),
        orders.RenewMany((orders.Renewal("r", HeldLease("a", "w", "l", 1), 30),)),
    ]
    with closing(Clerk(state_dir, retry_seconds=0.05)) as clerk:
        unanswered = [orders.Unanswered("l"), orders.Unanswered("r")]
        assert clerk.perform(asks) == unanswered
        assert clerk.perform([]) == []
        with Serve(state_dir) as running:
            running.ready()
            assert [type(each) for each in clerk.perform(asks)] == [
                orders.Listed,
                orders.RequestRefused,
            ]
            running.kill()
            assert clerk.perform(asks) == unanswered
        with Serve(state_dir) as running:
            running.ready()
            assert isinstance(clerk.perform(asks)[0], orders.Listed)


@pytest.mark.parametrize("failure", ["authority_overloaded", "authority_standby"])
def test_an_answer_that_decides_nothing_is_none(failure: str) -> None:
    answer = {"failureClasses": [failure], "diagnostic": "not now"}
    holder = HeldLease("a", "w", "l", 1)
    for ask in (orders.AskReady("t"), orders.CloseWork("t", holder)):
        assert Issues().events_of(ask, [answer]) == [orders.Unanswered("t")]
    renew = orders.RenewMany((orders.Renewal("t", holder, 30),))
    assert Issues().events_of(renew, [answer]) == [orders.Unanswered("t")]


def test_where_the_policy_wants_evidence_the_instruction_is_brought_along(
    serve: Serve, operator: Client
) -> None:
    add(operator, "a")
    assert operator.ask("policy.set", {"mutation": "instruction-linked"})["result"] == "accepted"
    with closing(Clerk(serve.state_dir)) as bare:
        [event] = bare.perform([orders.Claim("t1", "a", "w1", 30)])
        assert isinstance(event, orders.RequestRefused)
        assert event.failure_class == "mutation.use_evidence_missing"
    with closing(Clerk(serve.state_dir, instruction_ref="instr://night-run")) as clerk:
        holder = claimed(clerk, "a", "t2").holder
        assert clerk.perform([orders.Release("t3", holder)]) == [orders.Settled("t3")]


# --- whole dispatchers ----------------------------------------------------------------------------


class Shell(threading.Thread):
    """A dispatcher, its clerk, and workers that have nothing to do."""

    def __init__(
        self,
        state_dir: Path,
        name: str,
        slots: int,
        end: Callable[[orders.StartWorker], orders.WorkerExited],
        *,
        work_seconds: float = 0.0,
    ) -> None:
        super().__init__(name=name)
        self._work_seconds = work_seconds
        self._clerk = Clerk(state_dir, retry_seconds=0.2)
        self._dispatcher = Dispatcher(Settings(name, "r1", slots), retry_policy())
        self._random = Random(name)
        self._end = end
        self._news = threading.Condition()
        self._events: list[orders.Event] = [orders.DispatcherStarted()]
        self.started: list[orders.StartWorker] = []
        self.claims = 0
        self.stopped: orders.Stopped | None = None
        self.failure: BaseException | None = None

    def say(self, event: orders.Event) -> None:
        with self._news:
            self._events.append(event)
            self._news.notify()

    def run(self) -> None:
        try:
            with closing(self._clerk):
                while self.stopped is None:
                    self._turn()
        except BaseException as error:  # noqa: BLE001 - the test raises it
            self.failure = error

    def _turn(self) -> None:
        with self._news:
            if not self._events:
                next_ms = self._dispatcher.next_ms
                wait_ms = 1_000 if next_ms is None else max(0, next_ms - _now_ms())
                self._news.wait(min(wait_ms, 1_000) / 1_000)
            events, self._events = self._events or [orders.Tick()], []
        effects = [
            effect
            for event in events
            for effect in self._dispatcher.step(event, _now_ms(), self._dice)
        ]
        for effect in effects:
            match effect:
                case orders.StartWorker():
                    self.started.append(effect)
                    ended = self._end(effect)
                    threading.Timer(self._work_seconds, self.say, [ended]).start()
                case orders.Stopped():
                    self.stopped = effect
                case _:
                    self.claims += isinstance(effect, orders.Claim)
        for event in self._clerk.perform(effects):
            self.say(event)

    def _dice(self) -> int:
        return self._random.randint(0, 1_000)

    def finish(self) -> None:
        self.say(orders.StopDispatcher())
        self.join(PATIENCE_SECONDS)
        if self.failure is not None:
            raise self.failure
        assert self.stopped is not None


def _now_ms() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


def well(start: orders.StartWorker) -> orders.WorkerExited:
    return orders.WorkerExited(start.holder.owner, 0)


def rows_of(state_dir: Path, action: str) -> Counter[str]:
    """How often an action was decided, by what came of it."""
    answers = [orjson.loads(row[3]) for row in journal_rows(state_dir)]
    return Counter(each["effect"]["resultClass"] for each in answers if each["action"] == action)


def statuses(operator: Client) -> Counter[str]:
    return Counter(each["status"] for each in operator.ask("issue.list", {})["issues"])


def test_a_dispatcher_works_off_what_waits_for_each_other(serve: Serve, operator: Client) -> None:
    for number in range(20):
        add(operator, f"i{number}")
        if number:
            operator.ask("dep.add", {"id": f"i{number}", "dependsOnId": f"i{number // 2}"})
    shell = Shell(serve.state_dir, "tree", 4, well)
    shell.start()
    eventually(lambda: statuses(operator) == {"closed": 20})
    shell.finish()
    assert len(shell.started) == 20
    assert rows_of(serve.state_dir, "issue.claim") == {"accepted": 20}
    assert rows_of(serve.state_dir, "issue.close") == {"accepted": 20}


def test_a_sidecar_that_is_killed_on_the_way_costs_no_issue_and_closes_none_twice(
    state_dir: Path,
) -> None:
    with Serve(state_dir) as first:
        with Client(first.ready().state_dir, "cli") as operator:
            for number in range(60):
                add(operator, f"i{number}")
        shell = Shell(state_dir, "tree", 4, well)
        shell.start()
        eventually(lambda: len(shell.started) > 10)
        first.kill()
    with Serve(state_dir) as second, Client(second.ready().state_dir, "cli") as operator:
        eventually(lambda: statuses(operator) == {"closed": 60})
        shell.finish()
        assert second.terminate() == 0, second.complaint()
    assert rows_of(state_dir, "issue.close") == {"accepted": 60}
    rows = len(journal_rows(state_dir))
    assert report_of("replay", "--state-dir", state_dir)["rows"] == rows
    assert report_of("verify", "--state-dir", state_dir)["rows"] == rows


def test_a_poisoned_issue_runs_out_of_attempts_and_is_escalated_once(
    serve: Serve, operator: Client
) -> None:
    add(operator, "a")

    def killed(start: orders.StartWorker) -> orders.WorkerExited:
        classes = ("flaky_execution",)  # three attempts, with short pauses
        return orders.WorkerExited(start.holder.owner, signal=9, failure_classes=classes)

    shell = Shell(serve.state_dir, "tree", 4, killed)
    shell.start()
    eventually(lambda: show(operator, "a")["status"] == "blocked")
    shell.finish()
    assert [each.attempt for each in shell.started] == [1, 2, 3]
    assert show(operator, "a")["notes"].startswith("[harness-escalation]")
    assert show(operator, "a.escalation-1")["status"] == "open"
    assert rows_of(serve.state_dir, "issue.discover") == {"accepted": 1}
    assert rows_of(serve.state_dir, "issue.claim") == {"accepted": 3}


def test_five_hundred_idle_workers_in_five_trees_make_no_herd_of_one_job(
    serve: Serve, operator: Client
) -> None:
    shells = [Shell(serve.state_dir, f"tree{number}", 100, well) for number in range(5)]
    for shell in shells:
        shell.start()
    rounds = 6
    for number in range(rounds):
        add(operator, f"i{number}")
        for shell in shells:
            shell.say(orders.Wake())
        eventually(lambda done=number + 1: statuses(operator) == {"closed": done})  # type: ignore[misc]  # mypy infers no lambda's default
    for shell in shells:
        shell.finish()
    claims = rows_of(serve.state_dir, "issue.claim")
    assert claims["accepted"] == rounds
    assert claims.total() <= 3 * rounds, claims
    assert sum(shell.claims for shell in shells) <= 3 * rounds


def test_trees_that_share_an_authority_share_its_work(serve: Serve, operator: Client) -> None:
    for number in range(120):
        add(operator, f"i{number}")
    shells = [
        Shell(serve.state_dir, f"tree{number}", 4, well, work_seconds=0.1) for number in range(3)
    ]
    for shell in shells:
        shell.start()
    eventually(lambda: statuses(operator) == {"closed": 120})
    for shell in shells:
        shell.finish()
    claims = rows_of(serve.state_dir, "issue.claim")
    assert claims["accepted"] == 120, "each was handed out once"
    assert claims.total() <= 2 * 120, claims
    assert min(len(shell.started) for shell in shells) > 12, "no dispatcher starves"
