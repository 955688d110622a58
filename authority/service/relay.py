"""A sidecar's part in a journal that several hosts share: errands out as a standby, in when active.

    standby:  lines that wait -> errands -> the active authority -> answers to their askers
    active:   errands of standbys -> the next batch -> replies, in the commit of their rows

I1  Lines that wait keep their order: when a standby takes over, what is on its way is settled
    before anything newer is decided.
I2  Errands have half of a batch where local lines wait, so that neither keeps the other waiting.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ...contracts import Door, Reason, limits
from ..engine.answers import Answers
from ..journal.relay_message import (
    Errand,
    Inbox,
    Messenger,
    RelayReply,
    Run,
    TakenErrand,
    bounded,
    parcels,
)
from .local import Office


class Asker(Protocol):
    """A connection that waits for answers."""

    door: Door

    def answer(self, lines: bytes, count: int) -> None:
        """So many of them."""


Batch = Sequence[tuple[Asker, list[bytes]]]
_What = TypeVar("_What")


class Relay:
    """Everything here is called in the event loop, but for `settle`."""

    def __init__(self, office: Office, wake: Callable[[], None], *, frozen_clock: bool) -> None:
        self._office, self._wake, self._frozen_clock = office, wake, frozen_clock
        self._post = office.journal.post
        self._messenger: Messenger | None = None
        self._inbox: Inbox | None = None
        self._settling = False
        self._askers: dict[int, list[tuple[Asker, int]]] = {}  # of errands, by their `id()`
        self._taken: deque[TakenErrand] = deque()

    # --- as a standby -------------------------------------------------------------------------

    @property
    def has_room(self) -> bool:
        """Whether one more errand may be sent."""
        return not self._settling and self.sent < limits.ERRANDS_SENT_MAX

    @property
    def sent(self) -> int:
        """Errands that are on their way."""
        return len(self._askers)

    def hand_on(self, batch: Batch) -> None:
        """Ask the active authority for these lines."""
        flat = [(asker, (asker.door, line)) for asker, lines in batch for line in lines]
        seq, at = self._office.authority.head.seq, 0
        for lines in parcels([line for _, line in flat]):
            errand = Errand(lines, seq)
            askers = [asker for asker, _ in flat[at : at + len(lines)]]
            self._askers[id(errand)] = _counted(askers)
            at += len(lines)
            self._send(errand)

    def _send(self, errand: Errand) -> None:
        if self._post is None:
            errand.refuse(Reason.AUTHORITY_STANDBY, self._office.journal.who())
            self._deliver(errand)
            return
        if self._messenger is None:
            loop = asyncio.get_running_loop()
            self._messenger = self._post.messenger(
                lambda errand: _call(loop, self._deliver, errand)
            )
        self._messenger.send(errand)

    def _deliver(self, errand: Errand) -> None:
        at = 0
        for asker, count in self._askers.pop(id(errand)):
            asker.answer(errand.run(at, at + count), count)
            at += count
        self._wake()

    # --- between the two ----------------------------------------------------------------------

    def hold(self) -> None:
        """Send nothing more: it is our turn."""
        self._settling = True

    def settle(self) -> list[Errand]:
        """What is on its way, as far as it is answered; no other authority will answer the rest.

        It waits for the database, and so belongs into a thread.
        """
        if self._messenger is None or self._post is None:
            return []
        errands = self._messenger.close()
        self._post.settle(errands)
        return errands

    def resume(self) -> None:
        """It was not our turn for long enough; what is on its way is waited for again."""
        if self._settling:
            errands = self._messenger.close() if self._messenger is not None else []
            self._messenger, self._settling = None, False
            for errand in errands:
                self._send(errand)
            self._wake()

    def finish(self, errands: Sequence[Errand]) -> None:
        """Decide ourselves what was not decided yet, and answer all."""
        for errand in errands:
            lines = errand.missing
            if lines:
                office = self._office
                proposal = office.authority.propose_lines([(door, [line]) for door, line in lines])
                office.commit(proposal)
                errand.fill(proposal.answers.run(0, len(lines)))
            self._deliver(errand)
        self._messenger = None

    # --- as the active one --------------------------------------------------------------------

    def open(self) -> None:
        """Take errands in from now on."""
        if self._post is not None and self._inbox is None:
            loop = asyncio.get_running_loop()
            self._inbox = self._post.inbox(
                lambda taken: _call(loop, self._take, taken), frozen_clock=self._frozen_clock
            )

    def _take(self, taken: list[TakenErrand]) -> None:
        self._taken.extend(taken)
        self._wake()

    @property
    def waits(self) -> bool:
        """Whether errands are to be decided."""
        return bool(self._taken) and self._inbox is not None and not self._inbox.is_full

    def share(self, *, alone: bool) -> list[TakenErrand]:
        """The next errands, as many as may be in a batch (I2)."""
        room = limits.BATCH_MAX if alone else limits.BATCH_MAX // 2
        share: list[TakenErrand] = []
        while self.waits and (not share or self._taken[0].count <= room):
            share.append(self._taken.popleft())
            room -= share[-1].count
        return share

    def enclose(self, share: Sequence[TakenErrand], answers: Answers, at: int) -> list[RelayReply]:
        """The replies to errands whose answers begin there; they go with the rows, if any."""
        replies, seq = [], self._office.authority.head.seq
        for each in share:
            lines = bounded(answers.run(at, at + each.count), seq)
            replies.append(RelayReply(each.asker, each.number, None, lines))
            at += each.count
        if replies and self._post is not None:
            self._post.enclose(replies)
        return replies

    def committed(self, replies: Sequence[RelayReply], *, written: bool) -> None:
        """They may leave; those that went with rows have left."""
        if replies and self._post is not None and self._inbox is not None:
            self._post.enclose(())
            self._inbox.answer(replies, written=written)

    def close(self) -> None:
        """Let go of both sides; it may wait for the database for a moment."""
        if self._inbox is not None:
            self._inbox.close()
        if self._messenger is not None:
            self._messenger.leave()


def runs_of(share: Sequence[TakenErrand]) -> list[Run]:
    return [run for each in share for run in each.runs]


def _counted(askers: Sequence[Asker]) -> list[tuple[Asker, int]]:
    counted: list[tuple[Asker, int]] = []
    for asker in askers:
        if counted and counted[-1][0] is asker:
            counted[-1] = (asker, counted[-1][1] + 1)
        else:
            counted.append((asker, 1))
    return counted


def _call(loop: asyncio.AbstractEventLoop, target: Callable[[_What], None], what: _What) -> None:
    """From another thread; a loop that has ended hears nothing any more."""
    try:
        loop.call_soon_threadsafe(target, what)
    except RuntimeError:
        if not loop.is_closed():
            raise
