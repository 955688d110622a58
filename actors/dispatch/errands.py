"""What was asked of the authority and is not answered yet: asked again, until it is.

I1  An errand is asked again under its own token, so that it is done once.
I2  Only the first answer finds its errand; a second one, or one to an earlier run, finds none.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from .orders import AskIssues, AskReady, Effect
from .search import Candidate, Dice
from .term import Term

_ANSWER_MS = 5_000  # after so long without an answer it is asked again; doubled every time
_ANSWER_MS_MAX = 60_000
_UNREACHABLE_MS = 250  # where nobody could be asked; doubled every time


@dataclass(slots=True)
class Errand:
    effect: Effect
    asked_ms: int  # the first time
    candidate: Candidate | None = None  # that is claimed
    term: Term | None = None  # that waits for the answer
    again_ms: int = 0
    tries: int = 0


@dataclass(slots=True)
class Errands:
    _open: dict[str, Errand] = field(default_factory=dict)  # by token

    def send(self, token: str, errand: Errand, now_ms: int) -> Effect:
        """Ask, the first time or again."""
        errand.again_ms = now_ms + min(_ANSWER_MS << min(errand.tries, 16), _ANSWER_MS_MAX)
        errand.tries += 1
        self._open[token] = errand
        return errand.effect

    def done(self, token: str) -> Errand | None:
        """It is answered; None where it was before."""
        return self._open.pop(token, None)

    def put_off(self, token: str, now_ms: int, dice: Dice) -> None:
        """Nobody could be asked; try again soon."""
        errand = self._open.get(token)
        if errand is not None:
            pause_ms = min(_UNREACHABLE_MS << min(errand.tries - 1, 16), _ANSWER_MS)
            errand.again_ms = now_ms + pause_ms - pause_ms * dice() // 2_000

    def due(self, now_ms: int) -> list[tuple[str, Errand]]:
        return [each for each in self._open.items() if each[1].again_ms <= now_ms]

    def drop(self, term: Term) -> None:
        """Whatever a term waited for, it waits no more."""
        self._open = {key: each for key, each in self._open.items() if each.term is not term}

    def __contains__(self, token: str) -> bool:
        return token in self._open

    def claims(self) -> list[str]:
        """The issues that were claimed, with an open end."""
        found = (each.candidate for each in self._open.values())
        return [candidate.issue_id for candidate in found if candidate is not None]

    def is_looking(self) -> bool:
        """Whether a look for work is under way."""
        return any(
            each.term is None and isinstance(each.effect, AskReady | AskIssues)
            for each in self._open.values()
        )

    def moments(self) -> Iterator[int]:
        return (each.again_ms for each in self._open.values())
