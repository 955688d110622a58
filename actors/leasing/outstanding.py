"""What was asked of the authority and is not answered yet: asked again, until it is.

I1  A request is asked again under its own token, which is the `requestId` of a change, so that it
    is done once.
I2  Only the first answer finds its request; a second one, or one to an earlier run, finds none.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from ...contracts import BY_WIRE, Reason
from .moment import Moment, doubled_ms

Answer = dict[str, Any]

_ANSWER_MS = 5_000  # after so long without an answer it is asked again; doubled every time
_ANSWER_MS_MAX = 60_000
_UNREACHABLE_MS = 250  # where no authority was there; doubled every time

# Nothing was decided, or that is not known: to be asked again, under the same token.
UNDECIDED: Final = frozenset(
    {
        Reason.AUTHORITY_BUSY,
        Reason.AUTHORITY_OVERLOADED,
        Reason.AUTHORITY_STANDBY,
        Reason.JOURNAL_DEPOSED,
        Reason.JOURNAL_UNREACHABLE,
        Reason.JOURNAL_WRITE_FAILED,
        Reason.SIDECAR_UNREACHABLE,
    }
)


def class_of(answer: Answer) -> str | None:
    """The failure class of a refusal."""
    classes: list[str] = answer["failureClasses"]
    return classes[0] if classes else None


def is_decided(answer: Answer) -> bool:
    """Whether an answer says yes or no; else the same is asked again."""
    return BY_WIRE.get(class_of(answer) or "") not in UNDECIDED


@dataclass(slots=True)
class OpenRequest:
    """One request. A subclass says what is asked, and what is done with the answer."""

    asked_ms: int  # the first time
    again_ms: int = field(default=0, kw_only=True)  # when to ask, or to ask again
    tries: int = field(default=0, kw_only=True)


R = TypeVar("R", bound=OpenRequest)


@dataclass(slots=True)
class Outstanding(Generic[R]):
    """Requests by their tokens, in the order in which they were added."""

    _open: dict[str, R] = field(default_factory=dict)

    def add(self, token: str, request: R) -> None:
        """It is due as soon as its `again_ms` says."""
        self._open[token] = request

    def send(self, token: str, request: R, now_ms: int) -> R:
        """It is asked now, the first time or again (I1)."""
        request.again_ms = now_ms + doubled_ms(_ANSWER_MS, request.tries, _ANSWER_MS_MAX)
        request.tries += 1
        self._open[token] = request
        return request

    def due(self, now_ms: int) -> list[tuple[str, R]]:
        """What is to be asked now."""
        return [each for each in self._open.items() if each[1].again_ms <= now_ms]

    def answered(self, token: str) -> R | None:
        """What was asked under this token; None where it was answered before (I2)."""
        return self._open.pop(token, None)

    def put_off(self, token: str, moment: Moment) -> None:
        """Nothing was decided; ask again soon."""
        request = self._open.get(token)
        if request is not None:
            pause_ms = doubled_ms(_UNREACHABLE_MS, request.tries - 1, _ANSWER_MS)
            request.again_ms = moment.jittered(pause_ms)

    def hurry(self) -> None:
        """Ask again at once, whatever has to wait."""
        for request in self:
            request.again_ms = 0

    def drop(self, is_dropped: Callable[[R], bool]) -> None:
        """The answers to these are not waited for any more."""
        self._open = {key: each for key, each in self._open.items() if not is_dropped(each)}

    def __contains__(self, token: str) -> bool:
        return token in self._open

    def __iter__(self) -> Iterator[R]:
        return iter(self._open.values())

    def __len__(self) -> int:
        return len(self._open)
