"""An authority in a state directory: its lock, its journal, and the projections that follow."""

import queue
import time
import uuid
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Literal, Self

import apsw
import orjson

from ...contracts import (
    Door,
    Garbage,
    Reason,
    Request,
    Transport,
    host_actions,
    limits,
    startup_check,
)
from ..engine.engine import Authority, Proposal
from ..journal.failpoint import failpoint
from ..journal.journal import Row, Steps, Unavailable
from ..journal.relay_message import Errand, Messenger, parcels
from ..journal.state_dir import evidence_locked, locked, open_journal
from ..journal.state_files import TRAJECTORY
from ..views.high_water import AnsweredMark, high_water_marks, refuse_rewound
from ..views.trajectory import Trajectory, last_seq

LOOK_SECONDS = 0.25  # between two looks of a standby

Call = tuple[str, dict[str, Any], dict[str, Any] | None]  # an action, its payload, its context
Evidence = Literal["inside", "outside"]  # who writes the trajectory
WhileStandby = Literal["wait", "relay"]  # what to do until another authority's turn is over


class Office:
    """An authority, its lock and its projections, in a state directory.

    The trajectory is left to another process where `evidence` is `outside`, and where one has it
    already.
    """

    boundary = "reference"
    authority: Authority

    def __init__(
        self,
        state_dir: Path,
        *,
        writable: bool = True,
        lasting: bool = False,
        evidence: Evidence = "inside",
        while_standby: WhileStandby = "wait",
        accepts_loss: bool = False,
    ) -> None:
        """Raises `Unavailable` where another authority is active and does not end in time.

        That is one that shares the database; `relay` hands requests on to it meanwhile. A journal
        that ends before a row which was answered is refused, unless the caller accepts the loss.
        """
        report = startup_check()
        if report["result"] != "accepted":
            raise Unavailable(Reason.CONTRACT_DRIFT, ", ".join(report["failureClasses"]))
        self.state_dir = state_dir
        self._writable = writable
        self._trajectory: Trajectory | None = None
        self._unwritten: deque[Row | Steps] = deque()  # what the trajectory does not show yet
        self._wrote = False
        self.left_behind: str | None = None  # why what follows a commit could not be done
        self._relays = writable and while_standby == "relay"  # until it is our turn
        self._messenger: Messenger | None = None
        self._brought: queue.SimpleQueue[Errand] = queue.SimpleQueue()
        with ExitStack() as opened:
            if writable:
                opened.enter_context(locked(state_dir))
                known = high_water_marks(state_dir)  # first: they are never ahead of the journal
            self.journal = opened.enter_context(
                open_journal(state_dir, read_only=not writable, lasting=lasting)
            )
            self.authority = self._authority()
            self._followed_seq = self.authority.head.seq
            if writable:
                self._open_trajectory(opened, evidence)
                if not accepts_loss:
                    refuse_rewound(known, self.authority.head.seq)
                self._mark = opened.enter_context(closing(AnsweredMark(state_dir)))
            if writable and while_standby == "wait":
                self._wait_for_turn()
            self._opened = opened.pop_all()

    def _open_trajectory(self, opened: ExitStack, evidence: Evidence) -> None:
        """To write it, unless another process does."""
        path, last_seq = self.state_dir / TRAJECTORY, self.authority.head.seq
        if evidence == "outside" or not self._take_evidence_lock(opened):
            return
        doubt = self.journal if self.journal.was_abandoned else None
        self._trajectory = opened.enter_context(closing(Trajectory(path, last_seq, doubt)))

    def _take_evidence_lock(self, opened: ExitStack) -> bool:
        """False where another process writes the trajectory."""
        try:
            opened.enter_context(evidence_locked(self.state_dir, wait_ms=0))
        except Unavailable as error:
            if error.reason is not Reason.AUTHORITY_BUSY:
                raise
            return False
        return True

    @property
    def leads(self) -> bool:
        """Whether this authority is the one that writes."""
        return self.journal.leads

    def stand_in(self) -> bool:
        """Take over where no authority is active, and keep up with one that is; whether we lead.

        The epoch comes first, so that nothing is committed behind the last row that is taken in.
        """
        epoch = self.journal.stand_in()
        while rows := self.authority.catch_up():
            self._unwritten.extend(rows)
            self.follow()
        if epoch is not None:
            self.authority.lead(epoch)
        return epoch is not None

    def _wait_for_turn(self) -> None:
        give_up = time.monotonic() + limits.LOCK_WAIT_MS / 1000
        while not self.journal.leads and not self.stand_in():
            if time.monotonic() > give_up:
                raise Unavailable(Reason.AUTHORITY_STANDBY, self.journal.who())
            time.sleep(LOOK_SECONDS)

    @property
    def evidence(self) -> Evidence:
        """Who writes the trajectory: this process, or another."""
        return "outside" if self._trajectory is None else "inside"

    def _authority(self) -> Authority:
        return Authority(self.journal)

    def submit(self, batch: Sequence[Request | Garbage]) -> list[bytes]:
        """The answers; when they come back, their rows and their evidence are on disk.

        Where the evidence could not be written, `left_behind` says why. What is committed is
        answered all the same, so that it is not asked again; and nothing more is decided before the
        evidence has caught up.
        """
        self._catch_up()
        return self._followed(self.authority.propose(batch))

    def submit_lines(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        """As `submit`, for requests as they come through their doors."""
        if not self._try_to_lead():
            return self._relayed(lines)
        self._catch_up()
        return self._followed(
            self.authority.propose_lines([(door, [line]) for line, door in lines])
        )

    def _try_to_lead(self) -> bool:
        """Take over from a standby's place; False while requests go to the active authority.

        An office that was deposed relays nothing: its own engine refuses.
        """
        if self._relays and (self.leads or self.stand_in()):
            self._relays = False
        return not self._relays

    def _relayed(self, lines: Sequence[tuple[bytes, Door]]) -> list[bytes]:
        """What the active authority answers, or we, if it becomes our turn meanwhile."""
        post = self.journal.post
        if post is None:
            raise Unavailable(Reason.AUTHORITY_STANDBY, self.journal.who())
        if self._messenger is None:
            self._messenger = post.messenger(self._brought.put)
        seq = self.authority.head.seq
        errands = [Errand(part, seq) for part in parcels([(door, line) for line, door in lines])]
        for errand in errands:
            self._messenger.send(errand)
        left = len(errands)
        while left:
            try:
                self._brought.get(timeout=LOOK_SECONDS)
                left -= 1
            except queue.Empty:
                if not self._try_to_lead():
                    continue
                post.settle(self._messenger.close())
                self._messenger = None
                self._finish(errands)
                break
        return [answer for errand in errands for answer in errand.answers if answer is not None]

    def _finish(self, errands: Sequence[Errand]) -> None:
        """Decide ourselves what has not been decided."""
        for errand in errands:
            if missing := errand.missing:
                runs = [(door, [line]) for door, line in missing]
                answers = self._followed(self.authority.propose_lines(runs))
                errand.fill(b"".join(answer + b"\n" for answer in answers))

    def _followed(self, proposal: Proposal) -> list[bytes]:
        self.commit(proposal)
        if self.authority.snapshot_due:
            self.authority.try_snapshot()
        try:
            self.follow()
        except OSError as error:
            self.left_behind = f"{error.filename}: {error.strerror}"
        except Unavailable as error:
            if error.reason is not Reason.JOURNAL_WRITE_FAILED:
                raise
            self.left_behind = str(error)
        failpoint("answer.ready")
        return proposal.answers.lines()

    def _catch_up(self) -> None:
        if self.left_behind is not None:
            self.follow()
            self.left_behind = None

    def commit(self, proposal: Proposal) -> None:
        """Put what was proposed on disk; `follow` writes the evidence out later."""
        self.authority.commit(proposal)
        self._unwritten.extend(proposal.steps)

    @property
    def behind(self) -> int:
        """For how many rows `follow` has not done yet what comes behind a commit."""
        return self.authority.head.seq - self._followed_seq

    def follow(self) -> None:
        """Do what comes behind a commit; another thread may be committing more.

        The trajectory is brought up to what was committed, if it is ours, and the journal is kept
        tidy.
        """
        if not self._writable:
            return
        fresh = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
        self._wrote = self._wrote or bool(fresh)
        if fresh:
            self._mark.move(last_seq(fresh[-1]))
        if self._trajectory is not None:
            self._followed_seq = self._trajectory.follow(self.journal, fresh)
        elif fresh:
            self._followed_seq = last_seq(fresh[-1])
        self.journal.tidy()

    def ask(
        self,
        action: str,
        payload: dict[str, Any],
        context: dict[str, Any] | None = None,
        *,
        transport: Transport = "local-repl",
    ) -> dict[str, Any]:
        """One request from this interpreter or from a command, and its answer.

        Raises `ValueError` for what is no JSON at all; everything else is an answer.
        """
        return self.ask_many([(action, payload, context)], Door(transport))[0]

    def ask_many(self, calls: Sequence[Call], door: Door) -> list[dict[str, Any]]:
        """Requests that are decided in order and committed together; their answers.

        A standby names changes, so that they can be asked again.
        """
        names_changes = not self._try_to_lead()
        lines = [(_line(*call, names_changes=names_changes), door) for call in calls]
        return [orjson.loads(answer) for answer in self.submit_lines(lines)]

    def close(self) -> None:
        """Let go; the SQL tables catch up last, when no answer waits for them any more."""
        with self._opened:
            if self._messenger is not None:
                self._messenger.leave()
            if self._wrote and self.journal.leads:
                self._follow_with_tables()

    def _follow_with_tables(self) -> None:
        """They are a projection: if they cannot follow, that takes no answer away."""
        try:
            with closing(self.journal.tables(self.state_dir)) as tables:
                tables.follow(self.journal)
        except (apsw.Error, Unavailable) as error:
            if isinstance(error, Unavailable) and error.reason is Reason.JOURNAL_CORRUPT:
                raise
            import logging  # only in trouble

            logging.getLogger(__name__).warning("the SQL tables are behind: %s", error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _line(
    action: str,
    payload: dict[str, Any],
    context: dict[str, Any] | None = None,
    *,
    names_changes: bool,
) -> bytes:
    known = host_actions().get(action)
    if names_changes and known is not None and known.mutates and "requestId" not in payload:
        payload = {**payload, "requestId": uuid.uuid4().hex}
    try:
        return orjson.dumps({"action": action, "payload": payload, "context": context or {}})
    except orjson.JSONEncodeError as error:
        raise ValueError(f"not JSON: {error}") from None
