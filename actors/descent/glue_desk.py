"""What a gluer asks of the authority, with the proof of its lease in every request.

An authority that cannot be reached is asked again for a while, with the same request id, so that
no answer is given twice. A refusal is an exception: `LeaseOver` where the lease is another's.
"""

import secrets
import time
from collections.abc import Callable
from typing import Any, Final

from ...authority import Unavailable
from ...contracts import ends_lease
from ..leasing.work_kind import WORK, HeldLease

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Answer = dict[str, Any]

_TRIES_MAX: Final = 20
_PAUSE_SECONDS: Final = 0.5


class GlueRefused(Exception):
    """The authority does not let a gluer do this; the text says why and what to do."""

    def __init__(self, failure: str, diagnostic: str) -> None:
        super().__init__(f"{diagnostic} ({failure})")
        self.failure = failure


class LeaseOver(GlueRefused):
    """The lease on the branch is over, or another gluer's: this one has to stop."""


class GlueStopped(Exception):
    """Nothing can be glued until a person has looked; the text says at what."""


class GlueDesk:
    """One gluer's door to the authority."""

    def __init__(self, ask: Ask, held: HeldLease) -> None:
        self.held = held
        self.target = held.name
        self._ask = ask
        self._name = f"glue-{held.fence}-{secrets.token_hex(6)}"
        self._asked = 0

    def act(self, action: str, **payload: Any) -> Answer:
        """A request under the lease; `GlueRefused` if it is not accepted."""
        return self._accepted(action, WORK["glue"].proof(self.held) | payload)

    def record(self, action: str, **payload: Any) -> Answer:
        """A request that changes something and needs no lease."""
        return self._accepted(action, payload)

    def read(self, action: str, **payload: Any) -> Answer:
        """Whatever is answered, also a refusal."""
        return self._tried(action, payload)

    def look(self) -> Answer:
        """Sections that wait for the branch, in their order, and the branch itself."""
        answer = self._tried("descent.show", {"target": self.target})
        return _checked(answer)

    def _accepted(self, action: str, payload: dict[str, Any]) -> Answer:
        self._asked += 1
        return _checked(self._tried(action, payload | {"requestId": f"{self._name}-{self._asked}"}))

    def _tried(self, action: str, payload: dict[str, Any]) -> Answer:
        for tries in range(_TRIES_MAX):
            try:
                return self._ask(action, payload)
            except (Unavailable, OSError):
                if tries == _TRIES_MAX - 1:
                    raise
                time.sleep(_PAUSE_SECONDS)
        raise AssertionError  # the last try has raised


def _checked(answer: Answer) -> Answer:
    if answer["result"] == "accepted":
        return answer
    failure, said = answer["failureClasses"][0], answer["diagnostic"]
    raise (LeaseOver if ends_lease(failure) else GlueRefused)(failure, said)
