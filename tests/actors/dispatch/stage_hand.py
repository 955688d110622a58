"""A dispatcher with time and dice in the test's own hands."""

from collections.abc import Sequence
from typing import TypeVar

from understudy.actors.dispatch import orders
from understudy.actors.dispatch.dispatcher import Dispatcher
from understudy.actors.dispatch.orders import Effect, Event
from understudy.actors.dispatch.settings import Settings
from understudy.actors.leasing.holding import Timing
from understudy.actors.leasing.work_kind import HeldLease
from understudy.contracts import FAILURES, retry_policy

TTL_SECONDS = 30
GRACE_MS = 5_000
TTL_MS = TTL_SECONDS * 1_000
TIMING = Timing(TTL_MS, GRACE_MS)
LISTED = (orders.Listing("a", 0, "", "task"),)
LOST = [each.wire for each in FAILURES.values() if each.ends_lease]
Kind = TypeVar("Kind")


class StageHand:
    """Feeds a dispatcher, and keeps what it asks for until the test looks."""

    def __init__(self, slots: int = 2, *, permille: int = 0, job_ms: int | None = None) -> None:
        settings = Settings("tree", "r1", slots, TTL_SECONDS, GRACE_MS, job_ms)
        self.dispatcher = Dispatcher(settings, retry_policy())
        self.now_ms = 1_000_000
        self.permille = permille
        self.effects: list[Effect] = []
        self._fences = 100

    def tell(self, event: Event) -> list[Effect]:
        fresh = self.dispatcher.step(event, self.now_ms, lambda: self.permille)
        self.effects += fresh
        return fresh

    def passes(self, ms: int) -> list[Effect]:
        """Let time pass, and stop on the way wherever the dispatcher wants to be woken."""
        end_ms, fresh = self.now_ms + ms, []
        for _ in range(1_000):
            next_ms = self.dispatcher.next_ms
            if next_ms is None or next_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, next_ms)
            fresh += self.tell(orders.Tick())
        else:
            raise AssertionError("time stands still")
        self.now_ms = end_ms
        return fresh + self.tell(orders.Tick())

    def take(self, kind: type[Kind]) -> list[Kind]:
        """What was asked for of this kind since the last look."""
        found: list[Kind] = [each for each in self.effects if isinstance(each, kind)]
        self.effects = [each for each in self.effects if not isinstance(each, kind)]
        return found

    def one(self, kind: type[Kind]) -> Kind:
        [found] = self.take(kind)
        return found

    def asks(self, *kinds: type) -> bool:
        """Whether any of these was asked for since the last look at them."""
        return any(isinstance(each, kinds) for each in self.effects)

    # --- the usual way --------------------------------------------------------------------------

    def started(self) -> "StageHand":
        """Past the start, with nothing left from before."""
        self.tell(orders.DispatcherStarted())
        self.tell(orders.Held(self.one(orders.AskHeld).token, (), is_whole=True))
        self.tell(orders.Diagnosed(self.one(orders.AskDiagnostics).token, (), ()))
        return self

    def look(self) -> str:
        """The look that was asked for; time passes until one is."""
        while not self.asks(orders.AskReady):
            assert self.dispatcher.next_ms is not None, "it never looks again"
            self.passes(max(0, self.dispatcher.next_ms - self.now_ms))
        self.take(orders.AskDiagnostics)
        return self.take(orders.AskReady)[-1].token

    def lists(
        self,
        *issues: str,
        attempts: int = 0,
        excused: int = 0,
        lapsed: Sequence[str] = (),
        is_whole: bool = True,
    ) -> None:
        """Answer a look."""
        tried = (attempts, "", "task", (), excused)
        listings = tuple(orders.Listing(each, *tried) for each in issues)
        self.tell(orders.Listed(self.look(), listings, tuple(lapsed), is_whole))

    def grants(
        self, claim: orders.Claim, attempt: int = 1, labels: Sequence[str] = ()
    ) -> HeldLease:
        self._fences += 1
        holder = HeldLease(claim.issue_id, claim.assignee, f"lease{self._fences}", self._fences)
        issue = {"id": claim.issue_id, "labels": list(labels)}
        self.tell(orders.Claimed(claim.token, holder, attempt, issue))
        return holder

    def running(self, issue: str = "a", attempt: int = 1, labels: Sequence[str] = ()) -> HeldLease:
        """A worker that works on this issue."""
        self.lists(issue, attempts=attempt - 1)
        for read in self.take(orders.AskIssues):
            rested = orders.Story(issue, "open", attempt - 1, 10**9, is_lapsed=False)
            self.tell(orders.Shown(read.token, (rested,)))
        while not self.asks(orders.Claim):
            assert self.dispatcher.next_ms is not None, "it is never claimed"
            self.passes(max(0, self.dispatcher.next_ms - self.now_ms))
        holder = self.grants(self.one(orders.Claim), attempt, labels)
        self.one(orders.StartWorker)
        return holder

    def exits(self, holder: HeldLease, code: int | None = None, **members: object) -> list[Effect]:
        return self.tell(orders.WorkerExited(holder.owner, code, **members))  # type: ignore[arg-type]  # members by name


def story(issue: str = "a", **members: object) -> orders.Story:
    usual = {"status": "open", "attempts": 1, "quiet_ms": 0, "is_lapsed": False}
    return orders.Story(issue, **usual | members)  # type: ignore[arg-type]  # members by name


def escalated(
    hand: StageHand, holder: HeldLease, notes: str = "", filed: bool = True
) -> str | None:
    """Answer the steps of an escalation; the status that the issue gets."""
    read = hand.one(orders.AskIssues)
    shown = story(holder.name, status="in_progress", notes=notes)
    hand.tell(orders.Shown(read.token, (shown,)))
    if filed:
        discover = hand.one(orders.Discover)
        assert discover.new_id == f"{holder.name}.escalation-1"
        assert "escalation" in discover.labels
        hand.tell(orders.Settled(discover.token))
    amend = hand.one(orders.Amend)
    assert amend.holder == holder
    assert amend.notes is not None
    assert "[harness-escalation]" in amend.notes
    hand.tell(orders.Settled(amend.token))
    return amend.status
