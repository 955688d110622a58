"""Errands: what a standby asks of the active authority for its clients, and what comes back.

    clients -> standby -> errand -> active authority -> reply -> standby -> clients

An errand is a few lines through their doors, in one piece: a header, a JSON line that says how many
lines came through which door, and the lines. A reply has one answer for each, in the same order.

I1  All lines of an errand are decided in one commit, and its reply is a part of it. So an errand
    without a reply, under whichever authority, has changed nothing.
I2  What may have been decided, with no answer known, is asked again only where that changes
    nothing: reads, what is no request at all, and mutations with a `requestId`.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import orjson

from ...contracts import (
    FAILURES,
    STRENGTH,
    Door,
    Garbage,
    Reason,
    Transport,
    canonical,
    limits,
    parse,
    refuse_garbage,
)

VERSION = 1
Line = tuple[Door, bytes]
Run = tuple[Door, list[bytes]]  # lines through one door


class Errand:
    """Lines on their way, and the answers that have come so far."""

    def __init__(self, lines: Sequence[Line], seq: int) -> None:
        """`seq` is what refusals say of where the journal was."""
        assert 0 < len(lines) <= limits.ERRAND_LINES_MAX
        self.lines = list(lines)
        self.answers: list[bytes | None] = [None] * len(lines)
        self.begun_s = time.monotonic()
        self.number: int | None = None  # under which it was handed over, if it was
        self._seq = seq

    @property
    def is_whole(self) -> bool:
        """Whether every line has its answer."""
        return None not in self.answers

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.begun_s > limits.ERRAND_PATIENCE_MS / 1000

    @property
    def missing(self) -> list[Line]:
        """The lines without an answer."""
        return [self.lines[place] for place in self._open]

    def body(self) -> bytes:
        """What is still to be asked, as it is written down."""
        return packed(self.missing)

    def fill(self, lines: bytes) -> bool:
        """Take a reply; False, and nothing taken, where it is none to what was asked."""
        *answers, rest = lines.split(b"\n")
        places = list(self._open)
        if rest or len(answers) != len(places) or not all(answers):
            return False
        for place, answer in zip(places, answers, strict=True):
            self.answers[place] = answer
        return True

    def refuse(self, reason: Reason, detail: str) -> None:
        """Whatever has no answer was not done."""
        for place in list(self._open):
            garbage = Garbage(reason, detail, id=mark_of(self.lines[place][1]))
            self.answers[place] = refuse_garbage(garbage, self._seq)

    def doubt(self, detail: str) -> None:
        """Whatever has no answer may have been done; leave what can be asked again (I2)."""
        for place in list(self._open):
            if not is_repeatable(*self.lines[place]):
                mark = mark_of(self.lines[place][1])
                garbage = Garbage(Reason.AUTHORITY_OUTCOME_UNKNOWN, detail, id=mark)
                self.answers[place] = refuse_garbage(garbage, self._seq)
        self.number = None

    def run(self, start: int, stop: int) -> bytes:
        """Some of the answers, each with its line break."""
        return b"".join(b"%s\n" % answer for answer in self.answers[start:stop])

    @property
    def _open(self) -> Iterator[int]:
        return (place for place, answer in enumerate(self.answers) if answer is None)


@dataclass(frozen=True, slots=True)
class TakenErrand:
    """An errand that another host's clients wait for."""

    asker: str
    number: int
    runs: list[Run]
    count: int  # lines


class RelayReply(NamedTuple):
    """What became of an errand: answers, or why it was not read at all."""

    asker: str
    number: int
    reason: int | None
    lines: bytes


class Messenger(Protocol):
    """Carries errands to the active authority, and gives them back whole, in their order."""

    def __len__(self) -> int:
        """How many are on their way."""

    def send(self, errand: Errand) -> None:
        """Take one along. It comes back, whatever happens, when its time is over."""

    def close(self) -> list[Errand]:
        """Stop; those that have not come back."""

    def leave(self) -> None:
        """Stop, and take everything back."""


class Inbox(Protocol):
    """Hands in the errands of others, while we are active."""

    @property
    def is_full(self) -> bool:
        """Whether so much is on its way out that no more should be answered for now."""

    def answer(self, replies: Sequence[RelayReply], *, written: bool) -> None:
        """These are decided; `written` says that their replies went with the rows."""

    def close(self) -> None:
        """Write out what is to be written, and stop."""


class RelayChannel(Protocol):
    """What a journal that is shared can do beside keeping rows."""

    def messenger(self, deliver: Callable[[Errand], None]) -> Messenger:
        """One that calls from a thread of its own."""

    def inbox(self, take: Callable[[list[TakenErrand]], None], *, frozen_clock: bool) -> Inbox:
        """As `messenger`, for the other side."""

    def enclose(self, replies: Sequence[RelayReply]) -> None:
        """Let these be a part of the next commit."""

    def settle(self, errands: Sequence[Errand]) -> None:
        """Now that we are active: what has a reply is filled, and the rest is ours to do.

        What was handed over, and cannot be found, is doubted.
        """


# --- how it is written down -----------------------------------------------------------------------


def packed(lines: Iterable[Line]) -> bytes:
    """Lines through their doors, in one piece."""
    runs: list[tuple[str, bool, int]] = []
    text: list[bytes] = []
    for door, line in lines:
        name = (door.transport, door.frozen_clock)
        if runs and runs[-1][:2] == name:
            runs[-1] = (*name, runs[-1][2] + 1)
        else:
            runs.append((*name, 1))
        text.append(line.replace(b"\n", b" "))
    return b"\n".join([orjson.dumps({"errand": VERSION, "runs": runs}), *text])


def unpacked(body: bytes | None, *, frozen_clock: bool) -> list[Run] | Garbage:
    """The lines of an errand, which is refused where it is not one of ours."""
    if body is None or len(body) > limits.ERRAND_BYTES_MAX:
        return _invalid(f"over {limits.ERRAND_BYTES_MAX} bytes")
    header, *lines = body.split(b"\n")
    if not 0 < len(lines) <= limits.ERRAND_LINES_MAX:
        return _invalid(f"{len(lines)} lines")
    try:
        said = canonical.decode(header)
    except canonical.NotCanonical:
        return _invalid("it has no header")
    if not isinstance(said, dict) or said.get("errand") != VERSION:
        return _invalid(f"we know version {VERSION}")
    runs, at = list[Run](), 0
    for each in said["runs"] if isinstance(said.get("runs"), list) else ():
        door, count = _door(each, frozen_clock=frozen_clock)
        if door is None or count > len(lines) - at:
            return _invalid("its header is not that of its lines")
        runs.append((door, lines[at : at + count]))
        at += count
    if at != len(lines):
        return _invalid("its header is not that of its lines")
    return runs


def _door(said: object, *, frozen_clock: bool) -> tuple[Door | None, int]:
    """A frozen clock counts only where the one who decides has one."""
    if not isinstance(said, list) or len(said) != len(("door", "frozen", "count")):
        return None, 0
    name, frozen, count = said
    if not isinstance(name, str) or name not in STRENGTH or not isinstance(frozen, bool):
        return None, 0
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        return None, 0
    return Door(cast("Transport", name), frozen_clock=frozen and frozen_clock), count


def _invalid(detail: str) -> Garbage:
    return Garbage(Reason.AUTHORITY_ERRAND_INVALID, f"an errand: {detail}")


def parcels(lines: Sequence[Line]) -> Iterator[Sequence[Line]]:
    """Lines in as few pieces as the bounds of an errand allow."""
    room = limits.ERRAND_BYTES_MAX - limits.REQUEST_BYTES_MAX  # for the header, and one more line
    start = size = 0
    for place, (_, line) in enumerate(lines):
        if place > start and (size > room or place - start == limits.ERRAND_LINES_MAX):
            yield lines[start:place]
            start, size = place, 0
        size += len(line) + _HEADER_BYTES_PER_LINE
    if start < len(lines):
        yield lines[start:]


_HEADER_BYTES_PER_LINE = 40


def bounded(lines: bytes, seq: int) -> bytes:
    """A reply that is not too long to be carried; what was decided, was."""
    if len(lines) <= limits.REPLY_BYTES_MAX:
        return lines
    kept, size = [], 0
    detail = f"over {limits.REPLY_BYTES_MAX} bytes"
    for line in lines.split(b"\n")[:-1]:
        said = line
        if size + len(line) + 1 > limits.REPLY_BYTES_MAX:
            garbage = Garbage(Reason.AUTHORITY_ANSWER_TOO_LONG, detail, id=mark_of(line))
            said = refuse_garbage(garbage, seq)
        else:
            size += len(line) + 1
        kept.append(said + b"\n")
    return b"".join(kept)


def reason_of(number: object) -> Reason | None:
    """Why an errand was not read, if that is a reason that we know."""
    return next((reason for reason in FAILURES if reason.value == number), None)


def is_repeatable(door: Door, line: bytes) -> bool:
    """Whether a line that may have been decided can be asked again."""
    asked = parse(line, door)
    return isinstance(asked, Garbage) or not asked.action.mutates or asked.request_id is not None


def mark_of(line: bytes) -> str | int | None:
    """The `id` of a line that is refused unread, so that its sender can tell which one it was."""
    try:
        value: Any = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    mark = value.get("id") if isinstance(value, dict) else None
    return mark if isinstance(mark, str | int) and not isinstance(mark, bool) else None
