"""Answers to a batch, in the order of its requests: one run of bytes, and where each line ends.

A decision in C writes its answer behind the one before, and a caller that asked for several gets
a slice. Only who wants them one by one pays for that.
"""

from itertools import pairwise

from ..journal.journal import Bytes


class Answers:
    def __init__(self) -> None:
        self._parts: list[Bytes] = []
        self._ends = [0]

    def __len__(self) -> int:
        return len(self._ends) - 1

    def add(self, answer: bytes) -> None:
        """One more, without a line break."""
        self._parts.append(answer + b"\n")
        self._ends.append(self._ends[-1] + len(answer) + 1)

    def extend(self, lines: Bytes, ends: list[int]) -> None:
        """Many more, each with its line break; the first one begins at 0."""
        before = self._ends[-1]
        self._parts.append(lines)
        self._ends += [before + end for end in ends] if before else ends

    def run(self, start: int, stop: int) -> bytes:
        """The lines of some requests that follow one another."""
        return bytes(self._joined()[self._ends[start] : self._ends[stop]])

    def lines(self) -> list[bytes]:
        """One by one, without line breaks."""
        data = self._joined()
        return [bytes(data[start : end - 1]) for start, end in pairwise(self._ends)]

    def _joined(self) -> Bytes:
        if len(self._parts) != 1:
            self._parts = [b"".join(self._parts)]
        return self._parts[0]
