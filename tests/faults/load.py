"""A load whose course is known in advance: request number N becomes row N, so fences can be told.

Every request has a `requestId`, so a lost answer can be asked for again, and the request after it
can be written before its answer is heard.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Step:
    """One request, and whether the authority has to grant it."""

    request: dict[str, Any]
    granted: bool

    @property
    def payload(self) -> dict[str, Any]:
        payload: dict[str, Any] = self.request["payload"]
        return payload


class Load:
    """Work that is added, claimed, renewed, changed, lent, broken, released and closed.

    With `splitting` it is also spread over fibers.
    """

    def __init__(self, seed: int, *, splitting: bool = False) -> None:
        self._splitting = splitting
        self._random = random.Random(seed)
        self._open: list[str] = []
        self._held: list[dict[str, Any]] = []
        self._lost: list[dict[str, Any]] = []  # holders whose term is over
        self._split: set[str] = set()  # leases under which fibers run
        self.steps: list[Step] = []

    def more(self, count: int) -> list[Step]:
        """The next requests, in the order in which they have to be sent."""
        first = len(self.steps)
        for _ in range(count):
            self._random.choice(self._moves())()
        return self.steps[first:]

    def probe(self) -> list[Step]:
        """A new issue and a claim on it: whatever came before, its fence has to be greater."""
        first = len(self.steps)
        self._add()
        self._open.append(self._open.pop())
        self._claim(last=True)
        return self.steps[first:]

    def _moves(self) -> list[Callable[[], None]]:
        moves: list[Callable[[], None]] = [self._add]
        if self._open:
            moves += [self._claim] * 3
        if self._held:
            moves += [self._renew, self._renew, self._update, self._lend]
            moves += [self._close, self._release, self._break]
            moves += [self._spawn] * self._splitting
        if self._lost:
            moves.append(self._haunt)
        return moves

    def _add(self) -> None:
        issue_id = f"i{len(self.steps)}"
        self._step("issue.add", {"id": issue_id, "title": "work", "notes": "x" * self._below(300)})
        self._open.append(issue_id)

    def _claim(self, *, last: bool = False) -> None:
        issue_id = self._open.pop(-1 if last else self._below(len(self._open)))
        holder = {"id": issue_id, "assignee": "ada", "leaseId": f"lease-{len(self.steps)}"}
        self._step("issue.claim", holder)
        self._held.append(holder | {"fence": len(self.steps)})

    def _renew(self) -> None:
        self._step("issue.lease_renew", self._random.choice(self._held))

    def _update(self) -> None:
        self._step("issue.update", self._random.choice(self._held) | {"notes": "half done"})

    def _lend(self) -> None:
        lent = {"holder": "sub", "capabilityScope": ["issue.update"]}
        self._step("sublease.grant", self._random.choice(self._held) | lent)

    def _spawn(self) -> None:
        holder = self._random.choice(self._held)
        self._step("fiber.spawn", holder | {"taskRef": "a part of it"})
        self._split.add(holder["leaseId"])

    def _close(self) -> None:
        """Work is closed once nothing of it runs; until then this ends what does."""
        split = [holder for holder in self._held if holder["leaseId"] in self._split]
        if split:
            self._split.remove(split[0]["leaseId"])
            self._step("fiber.cancel", split[0] | {"wholeScope": True})
        else:
            self._step("issue.close", self._loser())

    def _release(self) -> None:
        holder = self._loser()
        self._step("issue.lease_release", holder)
        self._open.append(holder["id"])

    def _break(self) -> None:
        holder = self._loser()
        self._step("issue.lease_break", {"id": holder["id"], "reason": "it hangs"})
        self._open.append(holder["id"])

    def _haunt(self) -> None:
        """A former holder writes: refused for one reason or another, and recorded."""
        zombie = self._random.choice(self._lost)
        self._step("issue.update", zombie | {"notes": "overwritten"}, granted=False)

    def _loser(self) -> dict[str, Any]:
        holder = self._held.pop(self._below(len(self._held)))
        self._lost.append(holder)
        return holder

    def _below(self, end: int) -> int:
        return self._random.randrange(end)

    def _step(self, action: str, payload: dict[str, Any], *, granted: bool = True) -> None:
        number = len(self.steps) + 1
        payload = payload | {"requestId": f"r{number}"}
        self.steps.append(Step({"id": number, "action": action, "payload": payload}, granted))
