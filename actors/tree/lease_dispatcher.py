"""The dispatcher in a cell: carries out what `dispatcher.Dispatcher` decides.

    authority <--asks-- [dispatcher] --StartWorker, StopWorker, Extend--> workers
                             ^------------- Begun, WorkerExited -------------/

Asks to the authority block this cell for a moment, or for `Clerk`'s patience where it is away;
nothing depends on being quicker than that, since wardens enforce the time of a lease themselves.

I1  A worker counts as ended when every process of its job is gone, also if its cell was killed.
I2  After a restart the workers that live are asked what they do, before anything is claimed.
"""

import random
import secrets
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from ...contracts import Exit
from ..descent import names
from ..descent.git import GitRefused
from ..dispatch import orders
from ..dispatch.dispatcher import Dispatcher
from ..dispatch.issue_calls import Clerk
from ..dispatch.orders import Effect, Event
from ..otp import (
    KILL,
    Caller,
    CallFailed,
    ChildInfo,
    ChildSpec,
    Continue,
    Done,
    Down,
    Exited,
    ExitReason,
    GenServer,
    Next,
    Ref,
    Start,
    StartChild,
    WhichChildren,
    Word,
)
from ..otp.identity import Identity, ticks_of
from ..process.guard.descendants import now_ms
from . import news, notifier, worker
from .plan import Plan

NAME: Final = "lease_dispatcher"
WORKER_SUP: Final = "worker_sup"
_ASK_MS = 5_000
_GONE_MS = 20  # between two looks whether the processes of a dead worker are gone
_LULL_MS = 5  # between two steps that only time has asked for: mail comes in between
_TOLD_MAX = 200  # reports that are kept for people


@dataclass(frozen=True, slots=True)
class DispatchLook:
    """What it has in hand, for people: a dictionary."""


@dataclass(frozen=True, slots=True)
class _Due:
    """Time to go on."""

    number: int


@dataclass(frozen=True, slots=True)
class _Gone:
    """Time to see whether the last processes of a dead worker are gone."""

    ref: Ref


@dataclass(slots=True)
class _Post:
    """One worker cell."""

    ref: Ref
    job: str | None = None  # its worker's name, as long as it works
    processes: list[Identity] = field(default_factory=list)  # of the job
    is_dead: bool = False


class LeaseDispatcher(GenServer):
    """Answers `DispatchLook`; takes `orders.Stop`, `orders.Wake` and what workers say as casts."""

    name = NAME
    crew = WORKER_SUP  # who starts workers
    subject = "issue"  # what is worked on

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._posts: dict[Ref, _Post] = {}
        self._monitors: dict[str, Ref] = {}
        self._unmanned: deque[orders.StartWorker] = deque()  # jobs that wait for a cell
        self._starting = 0  # cells that were asked for
        self._dropped: set[str] = set()  # of the jobs that wait, what was stopped meanwhile
        self._told: deque[dict[str, Any]] = deque(maxlen=_TOLD_MAX)
        self._timer: str | None = None
        self._alarms = 0
        self._is_stepping = False
        self._events: deque[Event] = deque()
        self._ending: ExitReason | None = None

    def init(self) -> Next | Word:
        self.cell.trap_exits = True
        self._dispatcher = self._new_dispatcher(secrets.token_hex(4))
        self._dice = random.Random()  # noqa: S311 - nothing hangs on it but the load
        self._clerk = self._new_clerk()
        return Continue()

    def _new_dispatcher(self, run: str) -> Dispatcher:
        return Dispatcher(self._plan.settings(run), self._plan.policy)

    def _new_clerk(self) -> Clerk:
        return Clerk(self._plan.state_dir)

    def _new_worker(self) -> Start:
        return Start(worker.Worker, (self._plan, self.name), "worker")

    def handle_continue(self, argument: object) -> Next:  # noqa: ARG002 - a callback of OTP
        self.ask(self.crew, WhichChildren(), self._found, _ASK_MS)
        return None

    def handle_call(self, request: object, caller: Caller) -> object:
        if isinstance(request, DispatchLook):
            return self._known()
        return super().handle_call(request, caller)

    def handle_cast(self, message: object) -> Next:
        match message:
            case orders.WorkerExited():
                self._exited(message)
            case worker.Begun(name, pid, warden_pid):
                self._begun(name, [pid, warden_pid])
            case orders.Wake() | orders.Doubt() | orders.Spent() | orders.StopDispatcher():
                self._step(message)
            case _:
                return super().handle_cast(message)
        return None

    def handle_info(self, message: object) -> Next:
        match message:
            case _Due(number):
                if number == self._alarms:
                    self._step(orders.Tick())
            case Down(monitor, _, reason) if monitor in self._monitors:
                self._down(self._posts[self._monitors.pop(monitor)], reason)
            case _Gone(ref):
                self._bury(self._posts[ref])
            case Exited():
                pass  # a cell that linked to us
            case _:
                return super().handle_info(message)
        return None

    def parent_exited(self, reason: ExitReason) -> None:
        """Hand everything back first."""
        self._ending = reason
        self._step(orders.StopDispatcher(0, "the tree stops"))

    def terminate(self, reason: ExitReason) -> None:  # noqa: ARG002 - a callback of OTP
        self._clerk.close()

    def summary(self) -> object:
        return {"workers": len(self._posts), "waiting": len(self._unmanned)}

    # --- taking up what is there ----------------------------------------------------------------

    def _found(self, answer: object) -> None:
        """The workers of a dispatcher before us (I2)."""
        if isinstance(answer, CallFailed):
            raise answer
        assert isinstance(answer, list)
        refs = [each.ref for each in answer if isinstance(each, ChildInfo) and each.ref]
        heard: dict[Ref, worker.Doing | None] = {}

        def then(ref: Ref) -> Callable[[object], None]:
            def told(said: object) -> None:
                heard[ref] = said if isinstance(said, worker.Doing) else None
                if len(heard) == len(refs):
                    self._resume(heard)

            return told

        for ref in refs:
            self.ask(ref, worker.WorkerLook(), then(ref), _ASK_MS)
        if not refs:
            self._resume({})

    def _resume(self, heard: dict[Ref, worker.Doing | None]) -> None:
        holders, exits = [], []
        for ref, doing in heard.items():
            if doing is None:
                self.cell.signal(ref, KILL)  # it does not answer; its lease is found without it
                continue
            post = self._post(ref)
            if doing.holder is not None:
                post.job = doing.holder.owner
                holders.append(doing.holder)
                self._begun(post.job, [doing.pid, doing.warden_pid])
            elif doing.exited is not None:
                exits.append((post, doing.exited))
        self._step(orders.DispatcherStarted(tuple(holders)))
        for post, exited in exits:
            self._step(exited)
            self.cast(post.ref, worker.Heard(exited.worker))

    # --- deciding -------------------------------------------------------------------------------

    def _step(self, event: Event) -> None:
        """One thing after another: what comes of an effect is the next event."""
        self._events.append(event)
        if self._is_stepping:
            return
        self._is_stepping = True
        try:
            while self._events and not self.leaving:
                upcoming = self._events.popleft()
                effects = self._dispatcher.step(upcoming, now_ms(), self._roll)
                self._carry_out(effects)
        finally:
            self._is_stepping = False
        self._set_alarm()

    def _roll(self) -> int:
        return self._dice.randint(0, 1_000)

    def _set_alarm(self) -> None:
        if self._timer is not None:
            self.cell.cancel(self._timer)
            self._timer = None
        due_ms = self._dispatcher.next_ms
        if due_ms is not None:
            self._alarms += 1
            delay_ms = max(_LULL_MS, due_ms - now_ms())
            self._timer = self.cell.after(delay_ms, _Due(self._alarms))

    def _carry_out(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            match effect:
                case orders.StartWorker():
                    self._man(effect)
                case orders.StopWorker():
                    self._halt(effect)
                case orders.ExtendWorkers(until_ms):
                    for name, until in until_ms:
                        self._tell(name, worker.Extend(name, until))
                case orders.Report(what, detail, issue_id, more):
                    self._report(what, detail, issue_id, **more)
                case orders.Stopped():
                    self._stopped(effect)
                case _:
                    pass  # for the authority
        self._events.extend(self._clerk.perform(effects))

    def _stopped(self, effect: orders.Stopped) -> None:
        self._report("stopped", effect.reason)
        if self._ending is not None:
            self.leave(self._ending)
        else:
            code = Exit.FAILED if effect.is_failure else Exit.OK
            self.leave(ExitReason("shutdown", effect.reason, code))

    def _report(
        self, what: str, detail: str, issue_id: str | None = None, **more: int | str
    ) -> None:
        row = news.tell(self.cell, "dispatch", what, detail, **{self.subject: issue_id}, **more)
        self._told.append(row)
        if self._plan.hooks:
            self.cast(notifier.NAME, notifier.Told(row))

    # --- workers --------------------------------------------------------------------------------

    def _man(self, effect: orders.StartWorker) -> None:
        """Give the job to a cell that is idle; have one made if there is none."""
        idle = next((each for each in self._posts.values() if _is_idle(each)), None)
        if idle is not None:
            self._begin(idle, effect)
            return
        self._unmanned.append(effect)
        if self._starting >= len(self._unmanned):
            return  # one is on its way, for a job that an idle cell has taken meanwhile
        self._starting += 1
        shutdown_ms = self._plan.grace_ms + worker.WORKER_SHUTDOWN_SLACK_MS
        spec = ChildSpec("worker", self._new_worker(), "temporary", shutdown_ms)
        self.ask(self.crew, StartChild(spec), self._manned, self._plan.ttl_seconds * 500)

    def _manned(self, answer: object) -> None:
        self._starting -= 1
        if isinstance(answer, Done) and answer.ref is not None:
            self._serve(self._post(answer.ref))
        elif self._unmanned:
            effect = self._unmanned.popleft()
            name, classes = effect.holder.owner, (worker.UNAVAILABLE,)
            self._step(orders.WorkerExited(name, failure_classes=classes, detail=str(answer)))

    def _serve(self, post: _Post) -> None:
        """Give an idle cell the job that waits the longest."""
        while self._unmanned:
            effect = self._unmanned.popleft()
            name = effect.holder.owner
            if name not in self._dropped:
                self._begin(post, effect)
                return
            self._dropped.discard(name)
            self._step(orders.WorkerExited(name, was_stopped=True))

    def _begin(self, post: _Post, effect: orders.StartWorker) -> None:
        post.job = effect.holder.owner
        self.cast(post.ref, effect)

    def _halt(self, effect: orders.StopWorker) -> None:
        if any(each.holder.owner == effect.worker for each in self._unmanned):
            self._dropped.add(effect.worker)
        self._tell(effect.worker, effect)

    def _tell(self, name: str, message: object) -> None:
        post = self._post_of(name)
        if post is not None:
            self.cast(post.ref, message)

    def _begun(self, name: str, pids: Sequence[int | None]) -> None:
        post = self._post_of(name)
        if post is not None:
            ticks = [(pid, ticks_of(pid)) for pid in pids if pid is not None]
            post.processes = [Identity(pid, since) for pid, since in ticks if since is not None]

    def _exited(self, event: orders.WorkerExited) -> None:
        post = self._post_of(event.worker)
        if post is not None:
            self.cast(post.ref, worker.Heard(event.worker))
            post.job, post.processes = None, []
            self._serve(post)
        self._step(event)

    def _down(self, post: _Post, reason: ExitReason) -> None:
        post.is_dead = True
        if post.job is not None:
            self._report("worker died", f"{reason.kind} {reason.detail}".strip(), None)
        self._bury(post)

    def _bury(self, post: _Post) -> None:
        """When nothing of a dead worker is left, its job is over (I1)."""
        if any(each.is_alive for each in post.processes):
            self.cell.after(_GONE_MS, _Gone(post.ref))
            return
        del self._posts[post.ref]
        if post.job is not None:
            self._step(orders.WorkerExited(post.job, detail="its worker died"))

    def _post(self, ref: Ref) -> _Post:
        post = _Post(ref)
        self._posts[ref] = post
        self._monitors[self.cell.monitor(ref)] = ref
        return post

    def _post_of(self, name: str) -> _Post | None:
        return next((each for each in self._posts.values() if each.job == name), None)

    # --- looking --------------------------------------------------------------------------------

    def _known(self) -> dict[str, Any]:
        known = dict(self._dispatcher.summary(now_ms()))
        terms = [
            {self.subject: term["issue"], "pid": self._pid_of(term["worker"])}
            | {name: value for name, value in term.items() if name != "issue"}
            | self._place_of(term["issue"], term["fence"])
            for term in known["terms"]
        ]
        rests = [
            {self.subject: rest["issue"], "restMs": rest["restMs"], "why": rest["why"]}
            for rest in known["rests"]
        ]
        known |= {"terms": terms, "rests": rests}
        return known | {"cells": len(self._posts), "reports": list(self._told)}

    def _place_of(self, name: str, fence: int) -> dict[str, str]:
        """The branch that is worked on, where each lease has a worktree."""
        if self._plan.leg and self.subject == "issue":
            with suppress(GitRefused):  # an id that no branch can be named after
                return {"branch": names.branch(name, fence)}
        return {}

    def _pid_of(self, name: str) -> int | None:
        """Of the command that works under this name."""
        post = self._post_of(name)
        return post.processes[0].pid if post is not None and post.processes else None


def _is_idle(post: _Post) -> bool:
    return post.job is None and not post.is_dead
