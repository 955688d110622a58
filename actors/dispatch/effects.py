"""What one step of the dispatcher asks for, in order, and its requests until they are answered."""

from collections.abc import Callable
from dataclasses import dataclass

from ..leasing.moment import Dice, Moment
from ..leasing.outstanding import OpenRequest, Outstanding
from ..leasing.polling import Candidate
from . import orders
from .assignment import Assignment
from .orders import Effect


@dataclass(slots=True)
class DispatchRequest(OpenRequest):
    """A request; what is claimed with it, or which assignment waits for its answer."""

    effect: Effect
    candidate: Candidate | None = None
    term: Assignment | None = None


class Effects:
    """`name` and `run` are the dispatcher's; `now` is the time of the step."""

    def __init__(self, name: str, run: str) -> None:
        self.now = Moment(0, lambda: 0)
        self.requests = Outstanding[DispatchRequest]()
        self.serial = 0
        self._name, self._run = name, run
        self._effects: list[Effect] = []

    def begin(self, now_ms: int, dice: Dice) -> None:
        assert now_ms >= self.now.ms, "time goes back"
        self.now = Moment(now_ms, dice)

    def end(self) -> list[Effect]:
        """All that was put in since the step began."""
        effects, self._effects = self._effects, []
        return effects

    def put(self, effect: Effect) -> None:
        self._effects.append(effect)

    def report(
        self, what: str, detail: str, issue_id: str | None = None, **more: int | str
    ) -> None:
        self.put(orders.Report(what, detail, issue_id, more))

    # --- requests -------------------------------------------------------------------------------

    def new_token(self, what: str) -> str:
        self.serial += 1
        return f"{self._name}.{self._run}.{what}.{self.serial}"

    def same_token(self, what: str, name: str, fence: int) -> str:
        """Of a request that says the same in every run."""
        return f"{self._name}.{what}.{name}.{fence}"

    def is_of_this_run(self, token: str) -> bool:
        return token.startswith(f"{self._name}.{self._run}.")

    def read(self, make: Callable[[str], Effect]) -> None:
        token = self.new_token("look")
        self.send(token, make(token))

    def send(
        self,
        token: str,
        effect: Effect,
        *,
        candidate: Candidate | None = None,
        term: Assignment | None = None,
    ) -> None:
        request = DispatchRequest(self.now.ms, effect, candidate, term)
        self.put(self.requests.send(token, request, self.now.ms).effect)

    def send_again(self) -> None:
        """All that is without an answer for too long."""
        for token, request in self.requests.due(self.now.ms):
            self.put(self.requests.send(token, request, self.now.ms).effect)

    def claims(self) -> list[str]:
        """The issues that were claimed, with an open end."""
        found = (each.candidate for each in self.requests)
        return [candidate.name for candidate in found if candidate is not None]

    def is_looking(self) -> bool:
        """Whether a look for work is under way."""
        looks = orders.AskReady | orders.AskIssues
        return any(each.term is None and isinstance(each.effect, looks) for each in self.requests)
