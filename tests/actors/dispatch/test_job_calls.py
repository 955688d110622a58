"""The dialect of jobs, order by order, against the authority itself."""

from typing import Any

import orjson
import pytest

from tests.fakes.desk import Time, asked
from tests.fakes.journal import Disk, MemoryJournal
from understudy.actors.dispatch import orders
from understudy.actors.dispatch.dispatcher import Dispatcher
from understudy.actors.dispatch.job_calls import Jobs, policy_of
from understudy.actors.dispatch.kinds import Kinds
from understudy.actors.dispatch.orders import Ask, Effect, Event
from understudy.actors.dispatch.settings import Settings
from understudy.authority.engine.engine import Authority
from understudy.contracts import limits, retry_policy

KINDS = Kinds.of([("k.", ("true",)), ("m", ("true",))])


class Mesh:
    """An authority, with time in the test's own hands, and one node that asks it."""

    def __init__(self) -> None:
        self.time = Time()
        self.authority = Authority(MemoryJournal(Disk()), self.time.clock())
        self.node = Jobs("w1", KINDS)

    def says(self, action: str, **payload: Any) -> dict[str, Any]:
        (answer,), _ = self.authority.submit([asked(action, payload, door="cli")])
        found: dict[str, Any] = orjson.loads(answer)
        return found

    def schedule(self, *names: str, kind: str = "k.x", **more: Any) -> None:
        for name in names:
            self.time.passes(1)
            assert self.says("job.schedule", jobId=name, kind=kind, **more)["result"] == "accepted"

    def ask(self, ask: Ask, node: Jobs | None = None) -> list[Event]:
        speaker = node or self.node
        calls = [asked(each.action, each.payload, door="coordinator")
                 for each in speaker.calls_of(ask)]  # fmt: skip
        answers, _ = self.authority.submit(calls) if calls else ([], None)
        return speaker.events_of(ask, [orjson.loads(each) for each in answers])

    def one(self, ask: Ask) -> Event:
        (event,) = self.ask(ask)
        return event

    def claims(self, name: str, token: str = "t1") -> orders.Claimed:
        event = self.one(orders.Claim(token, name, "w1/r/1", 30))
        assert isinstance(event, orders.Claimed), event
        return event

    def job(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.says("job.show", jobId=name)["job"]
        return found


@pytest.fixture
def mesh() -> Mesh:
    return Mesh()


# --- order by order -------------------------------------------------------------------------------


def test_a_look_finds_what_we_handle_and_may_claim_the_oldest_first(mesh: Mesh) -> None:
    mesh.schedule("b", kind="m")
    mesh.schedule("a")
    mesh.schedule("far", kind="k.far")
    mesh.schedule("odd", kind="odd")
    mesh.schedule("late", causalDeps=["complete/a"])
    mesh.says("route.set", kind="k.far", route="w2")
    event = mesh.one(orders.AskReady("t"))
    assert isinstance(event, orders.Listed)
    assert [each.issue_id for each in event.issues] == ["b", "a"]
    assert (event.lapsed_ids, event.lapses, event.is_whole) == ((), (), True)


def test_more_than_a_page_is_not_the_whole(mesh: Mesh) -> None:
    mesh.schedule(*(f"j{number}" for number in range(limits.ROSTER_PAGE_MAX + 1)))
    event = mesh.one(orders.AskReady("t"))
    assert isinstance(event, orders.Listed)
    assert (len(event.issues), event.is_whole) == (limits.ROSTER_PAGE_MAX, False)


def test_all_workers_of_a_node_claim_under_its_name_and_have_their_own_among_us(mesh: Mesh) -> None:
    mesh.schedule("a", payload={"x": 1})
    event = mesh.claims("a")
    assert (event.holder.owner, event.attempt) == ("w1/r/1", 1)
    assert (event.issue["payload"], event.issue["lease"]["owner"]) == ({"x": 1}, "w1")
    assert mesh.claims("a") == event, "asked again, it is answered again"
    mesh.one(orders.Release("t2", event.holder))
    assert isinstance(mesh.one(orders.Claim("t1", "a", "w1/r/1", 30)), orders.RequestRefused)


def test_a_renewal_is_a_claim_with_the_fence(mesh: Mesh) -> None:
    mesh.schedule("a")
    holder = mesh.claims("a").holder
    mesh.time.passes(20_000)
    renew = orders.RenewMany((orders.Renewal("r1", holder, 60),))
    assert mesh.ask(renew) == [orders.Renewed(("r1",))]
    lease = mesh.job("a")["lease"]
    assert (lease["renewals"], lease["fence"]) == (1, holder.fence)
    mesh.time.passes(60_001)
    (lost,) = mesh.ask(orders.RenewMany((orders.Renewal("r2", holder, 60),)))
    assert isinstance(lost, orders.RequestRefused)
    assert lost.failure_class == "job_claim_lapsed"


def test_a_renewal_that_comes_after_an_expiry_is_no_new_claim(mesh: Mesh) -> None:
    mesh.schedule("a")
    holder = mesh.claims("a").holder
    mesh.time.passes(60_001)
    lease = mesh.job("a")["lease"]
    mesh.one(orders.Expire("e1", "a", lease["claim"], lease["fence"]))
    (lost,) = mesh.ask(orders.RenewMany((orders.Renewal("r1", holder, 60),)))
    assert isinstance(lost, orders.RequestRefused)
    assert (lost.token, lost.failure_class) == ("r1", "lease_missing")
    assert mesh.job("a")["state"] == "pending"


def test_lapsed_claims_of_our_kinds_are_expired_before_they_are_claimed(mesh: Mesh) -> None:
    mesh.schedule("a")
    mesh.schedule("odd", kind="odd")
    for name in ("a", "odd"):
        mesh.says("job.claim", jobId=name, worker="gone", leaseDurationMs=30_000)
    mesh.time.passes(30_001)
    event = mesh.one(orders.AskReady("t"))
    assert isinstance(event, orders.Listed)
    (lapse,) = event.lapses
    assert lapse.issue_id == "a"
    assert isinstance(mesh.one(orders.Claim("c1", "a", "w1/r/1", 30)), orders.RequestRefused)
    expire = orders.Expire("e1", "a", lapse.claim, lapse.fence)
    assert mesh.one(expire) == orders.Settled("e1")
    again = orders.Expire("e2", "a", lapse.claim, lapse.fence)
    assert mesh.one(again) == orders.Settled("e2"), "expired twice is expired once"
    assert mesh.claims("a", "c2").attempt == 2


def test_what_was_produced_goes_with_the_completion(mesh: Mesh) -> None:
    mesh.says("route.set", kind="k.", audited=True)
    mesh.schedule("a")
    holder = mesh.claims("a").holder
    refused = mesh.one(orders.CloseWork("c1", holder))
    assert isinstance(refused, orders.RequestRefused)
    assert refused.failure_class == "job_snapshot_missing"
    plain = {"artifactId": "x", "artifactType": "y"}
    mesh.says("route.set", kind="k.")
    assert mesh.one(orders.CloseWork("c2", holder, (plain,))) == orders.Settled("c2")
    assert (mesh.job("a")["state"], mesh.job("a")["artifacts"]) == ("completed", [plain])


def test_a_yield_says_why_and_another_reason_is_another_request(mesh: Mesh) -> None:
    mesh.schedule("a")
    holder = mesh.claims("a").holder
    assert mesh.one(orders.Release("t", holder, "exit code 3")) == orders.Settled("t")
    assert mesh.job("a")["reason"] == "exit code 3"
    assert mesh.one(orders.Release("t", holder, "exit code 3")) == orders.Settled("t")
    other = mesh.one(orders.Release("t", holder, "it was lost"))
    assert isinstance(other, orders.RequestRefused)
    assert other.failure_class == "lease_missing"


def test_only_our_own_leases_are_held_and_stories_are_short(mesh: Mesh) -> None:
    mesh.schedule("a", "b", "c")
    mesh.says("job.claim", jobId="b", worker="w2", leaseDurationMs=30_000)
    fence = mesh.claims("a").holder.fence
    mesh.time.passes(10_000)
    event = mesh.one(orders.AskHeld("t", ("w1/",)))
    assert isinstance(event, orders.Held)
    (held,) = event.leases
    assert (held.holder.name, held.holder.fence, held.attempts) == ("a", fence, 1)
    assert held.remaining_ms == 20_000
    shown = mesh.one(orders.AskIssues("t", ("b", "c", "none")))
    assert isinstance(shown, orders.Shown)
    assert [(each.issue_id, each.status) for each in shown.issues] == [
        ("b", "claimed"), ("c", "open"),
    ]  # fmt: skip


def test_the_dependencies_of_jobs_are_not_asked_for(mesh: Mesh) -> None:
    assert mesh.ask(orders.AskDiagnostics("t")) == [orders.Diagnosed("t", (), ())]


def test_jobs_are_tried_as_often_as_the_authority_grants_and_never_without_a_pause() -> None:
    policy = policy_of(retry_policy())
    rules = [policy.default, *policy.rules.values()]
    assert {each.max_attempts for each in rules} == {limits.JOB_ATTEMPTS_MAX}
    assert {each.escalation_action for each in rules} == {"blocked"}
    assert all(policy.backoff[each.backoff_class].base_ms for each in rules)
    assert policy.rules["network_timeout"].backoff_class == "exponential_short"


# --- the machine in this dialect ------------------------------------------------------------------


class Loop:
    """A dispatcher that asks the mesh until nothing more comes of it."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        settings = Settings("w1", "r1", 2, 30, 1_000)
        self.machine = Dispatcher(settings, policy_of(retry_policy()))
        self.seen: list[Effect] = []

    def tell(self, *events: Event) -> list[Effect]:
        """All effects, those of answers included."""
        self.seen, waiting = [], list(events)
        while waiting:
            now_ms = self.mesh.time.steady_ms
            effects = self.machine.step(waiting.pop(0), now_ms, lambda: 0)
            self.seen += effects
            for effect in effects:
                if isinstance(effect, orders.Ask):
                    waiting += self.mesh.ask(effect)
        return self.seen

    def passes(self, ms: int) -> list[Effect]:
        self.mesh.time.passes(ms)
        return self.tell(orders.Tick())

    def starts(self) -> list[str]:
        return [each.holder.name for each in self.seen if isinstance(each, orders.StartWorker)]

    def started(self) -> orders.StartWorker:
        (start,) = [each for each in self.seen if isinstance(each, orders.StartWorker)]
        return start

    def reports(self) -> list[tuple[str, str | None]]:
        return [(each.what, each.issue_id) for each in self.seen if isinstance(each, orders.Report)]


def test_a_loop_claims_no_more_than_it_has_workers_and_leaves_other_kinds(mesh: Mesh) -> None:
    mesh.schedule("odd", kind="odd")
    mesh.schedule("a", "b", "c")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    assert loop.starts() == ["a", "b"]
    loop.tell(orders.WorkerExited("w1/r1/3", 0), orders.Tick())
    assert mesh.says("job.roster", query="claimed")["count"] == 2


def test_what_an_earlier_run_left_is_yielded_and_what_strangers_left_is_expired(mesh: Mesh) -> None:
    mesh.schedule("a", "b")
    mesh.claims("a")
    mesh.says("job.claim", jobId="b", worker="gone", leaseDurationMs=30_000)
    mesh.time.passes(25_000)
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    assert (mesh.job("a")["state"], mesh.job("b")["state"]) == ("pending", "claimed")
    assert "did not outlive" in mesh.job("a")["reason"]
    loop.passes(5_100)
    assert mesh.job("b")["state"] == "pending", "it is held in name only"
    assert [each for each in loop.seen if isinstance(each, orders.Expire)]


def test_a_handler_that_fails_yields_with_its_reason_and_rests(mesh: Mesh) -> None:
    mesh.schedule("a")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    name = loop.started().holder.owner
    loop.tell(orders.WorkerExited(name, 3, detail="no\nluck"))
    assert mesh.job("a")["reason"] == "job_failed: exit code 3: no luck"
    loop.passes(1_900)
    assert loop.starts() == [], "not before the pause is over"
    loop.passes(200)
    loop.passes(5_000)
    assert mesh.job("a")["attempts"] == 2


def test_rubbish_in_the_file_of_artefacts_is_a_failed_attempt(mesh: Mesh) -> None:
    mesh.schedule("a")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    name = loop.started().holder.owner
    wrong = ("job_artifact_invalid",)
    loop.tell(orders.WorkerExited(name, 0, failure_classes=wrong, unsound="line 2: no object"))
    assert mesh.job("a")["state"] == "pending"
    assert mesh.job("a")["reason"] == "job_artifact_invalid: line 2: no object"


def test_a_completion_without_its_snapshot_is_a_failed_attempt_and_rests(mesh: Mesh) -> None:
    mesh.says("route.set", kind="k.", audited=True)
    mesh.schedule("a")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    loop.tell(orders.WorkerExited(loop.started().holder.owner, 0))
    assert mesh.job("a")["state"] == "pending"
    assert mesh.job("a")["reason"].startswith("job_snapshot_missing: ")
    assert ("attempt failed", "a") in loop.reports()
    loop.passes(500)
    assert mesh.job("a")["attempts"] == 1, "it is not asked for at once"


def test_the_last_attempt_leaves_it_blocked_and_says_so(mesh: Mesh) -> None:
    mesh.schedule("a")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    for attempt in range(1, limits.JOB_ATTEMPTS_MAX + 1):
        for _ in range(60):
            if loop.starts():
                break
            loop.passes(5_000)
        start = loop.started()
        assert start.attempt == attempt
        loop.tell(orders.WorkerExited(start.holder.owner, signal=9))
    assert ("blocked", "a") in loop.reports()
    assert (mesh.job("a")["state"], mesh.job("a")["reason"]) == (
        "blocked", "job_worker_lost: signal 9",
    )  # fmt: skip


def test_who_may_not_claim_does_not_ask_again_and_again(mesh: Mesh) -> None:
    mesh.schedule("a")
    mesh.says("node.register", node="w2", capabilities=["job.claim"])
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    assert loop.reports() == [("claim refused", "a")]
    refused = 0
    for _ in range(50):
        loop.passes(1_000)
        refused += len(loop.reports())
    assert refused == 0, "for most of a minute"


def test_a_stop_yields_what_is_worked_on(mesh: Mesh) -> None:
    mesh.schedule("a")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    name = loop.started().holder.owner
    loop.tell(orders.StopDispatcher())
    loop.tell(orders.WorkerExited(name, 0, was_stopped=True))
    assert (mesh.job("a")["state"], mesh.job("a")["reason"]) == ("pending", "the dispatcher stops")
    assert isinstance(loop.seen[-1], orders.Stopped)


def test_a_job_that_was_expired_meanwhile_is_stopped_and_not_held(mesh: Mesh) -> None:
    mesh.schedule("a")
    loop = Loop(mesh)
    loop.tell(orders.DispatcherStarted())
    start = loop.started()
    mesh.time.passes(30_001)  # the loop was frozen
    lease = mesh.job("a")["lease"]
    mesh.says("job.expire", jobId="a", claim=lease["claim"], fence=lease["fence"], worker="x")
    loop.tell(orders.Tick())
    assert [each for each in loop.seen if isinstance(each, orders.StopWorker)]
    loop.tell(orders.WorkerExited(start.holder.owner, 0, was_stopped=True))
    assert mesh.job("a")["state"] == "pending", "nothing is held that is not worked on"
