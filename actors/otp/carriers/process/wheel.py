"""Timers of one cell, over a clock that its owner hands in.

I1  Timers come in the order of their time, and those of one time in the order they were set.
I2  A cancelled timer never comes.
"""

import heapq
from collections.abc import Iterator


class Wheel:
    def __init__(self) -> None:
        self._set = 0
        self._heap: list[tuple[int, int, str]] = []
        self._messages: dict[str, object] = {}

    def __len__(self) -> int:
        return len(self._messages)

    def set(self, due_ms: int, message: object) -> str:
        self._set += 1
        timer = f"t{self._set}"
        heapq.heappush(self._heap, (due_ms, self._set, timer))
        self._messages[timer] = message
        return timer

    def cancel(self, timer: str) -> None:
        self._messages.pop(timer, None)
        # Dead entries are left behind; they may not outnumber the living for ever.
        if len(self._heap) > 2 * len(self._messages) + 64:
            self._heap = [each for each in self._heap if each[2] in self._messages]
            heapq.heapify(self._heap)

    def next_due_ms(self) -> int | None:
        while self._heap and self._heap[0][2] not in self._messages:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def due(self, now_ms: int) -> Iterator[str]:
        """The timers whose time has come; `take` gives their messages."""
        while (due_ms := self.next_due_ms()) is not None and due_ms <= now_ms:
            yield heapq.heappop(self._heap)[2]

    def take(self, timer: str) -> tuple[object] | None:
        """The message, unless the timer was cancelled in the meantime (I2)."""
        if timer not in self._messages:
            return None
        return (self._messages.pop(timer),)
