"""What is to be asked of the authority, and who wants to hear the answer.

I1  What was not decided is asked again under its own `requestId`, so that it is done once.
I2  Every errand hears one answer, or is dropped with all others.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...authority.service import client
from ...contracts import BY_WIRE
from ..dispatch.answers import UNDECIDED, Answer, class_of
from .moment import Moment

Then = Callable[[Answer, int, Moment], None]  # the answer, when it was first asked for, and now

_PAUSE_MS = 250  # where nobody could be asked; doubled every time
_PAUSE_MS_MAX = 5_000


@dataclass(frozen=True, slots=True)
class _Errand:
    call: client.Call
    then: Then
    asked_ms: int  # the first time


class Docket:
    """Requests of one machine; `name` is part of every `requestId`, and nobody else's."""

    def __init__(self, name: str) -> None:
        self._name, self._count = name, 0
        self._open: list[_Errand] = []
        self._misses = 0
        self.again_ms = 0  # before then nobody is asked

    def __len__(self) -> int:
        return len(self._open)

    def read(self, action: str, payload: dict[str, Any], then: Then, moment: Moment) -> None:
        self._open.append(_Errand(client.Call(action, payload), then, moment.ms))

    def change(self, action: str, payload: dict[str, Any], then: Then, moment: Moment) -> None:
        self._count += 1
        named = payload | {"requestId": f"{self._name}-{self._count}"}
        self._open.append(_Errand(client.Call(action, named), then, moment.ms))

    def calls(self, moment: Moment) -> list[client.Call]:
        """All that is open, in order; nothing during a pause."""
        return [each.call for each in self._open] if moment.ms >= self.again_ms else []

    def heard(self, answers: Sequence[Answer], moment: Moment) -> None:
        """Answers to the last `calls`, in their order."""
        errands, self._open = self._open, []
        undecided = []
        for errand, answer in zip(errands, answers, strict=True):
            if BY_WIRE.get(class_of(answer) or "") in UNDECIDED:
                undecided.append(errand)
            else:
                errand.then(answer, errand.asked_ms, moment)
        self._open[:0] = undecided  # I1
        if undecided:
            self._pause(moment)
        else:
            self._misses = 0

    def unheard(self, moment: Moment) -> None:
        """Nobody answered; nobody knows what was done."""
        self._pause(moment)

    def drop(self) -> None:
        self._open.clear()

    def _pause(self, moment: Moment) -> None:
        self.again_ms = moment.jittered(min(_PAUSE_MS << min(self._misses, 16), _PAUSE_MS_MAX))
        self._misses += 1
