"""More time for leases: asked for at a third of their time, for all that are due soon at once.

    due --asked, under a token--> open --granted--> held for longer
                                    |---not decided--> due again soon
                                    \\--refused--> its holder asks `ends_lease`

I1  What falls due a little later goes with what is due now: one batch, one commit.
I2  Only the answer to a token that is open counts, and each once.
I3  Of several answers about one lease the one that was asked for last counts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from .holding import Holding
from .moment import Moment

H = TypeVar("H", bound=Holding)


def due(holdings: Iterable[H], now_ms: int) -> list[H]:
    """All that want more time about now, if one wants it now (I1)."""
    found = [each for each in holdings if each.renew_ms <= now_ms + each.timing.again_ms]
    return found if any(each.renew_ms <= now_ms for each in found) else []


@dataclass(slots=True)
class Renewals(Generic[H]):
    """Requests for more time that are not answered yet."""

    _open: dict[str, tuple[H, int]] = field(default_factory=dict)  # token -> whose, when asked

    def ask(self, token: str, holding: H, now_ms: int) -> None:
        holding.asking(now_ms)
        self._open[token] = (holding, now_ms)

    def granted(self, tokens: Iterable[str], moment: Moment) -> list[H]:
        """Those that have more time now than before (I2, I3)."""
        answered = [self._open.pop(token) for token in tokens if token in self._open]
        return [holding for holding, asked_ms in answered if holding.extend(asked_ms, moment)]

    def put_off(self, token: str, moment: Moment) -> None:
        """Nothing was decided."""
        if token in self._open:
            self._open.pop(token)[0].put_off(moment)

    def refused(self, token: str) -> H | None:
        """Whose it was; None where it was answered before."""
        return self._open.pop(token, (None, 0))[0]

    def drop(self, holding: H) -> None:
        """What is answered for it from now on finds nothing."""
        self._open = {key: each for key, each in self._open.items() if each[0] is not holding}
