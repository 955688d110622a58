"""Which kinds of jobs are worked on here, and by what: handlers by kind and by prefix.

    ci.build     this kind
    ci.          all kinds that begin so; `ci.*` says the same
    *            all kinds

An exact kind goes before a prefix and a longer prefix before a shorter one, as among routes. A job
of a kind without a handler here is left alone.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from ...contracts import limits

ALL = "*"
KINDS_MAX = 64  # handlers of one tree; each is a page to ask for at every look


@dataclass(frozen=True, slots=True)
class Kinds:
    """Handlers by kind. Raises `ValueError` for what cannot be told apart."""

    handlers: tuple[tuple[str, tuple[str, ...]], ...] = ()  # kind or prefix, and its command

    @classmethod
    def of(cls, given: Iterable[tuple[str, tuple[str, ...]]]) -> Self:
        return cls(tuple((_plain(kind), command) for kind, command in given))

    def __post_init__(self) -> None:
        names = [kind for kind, _ in self.handlers]
        twice = sorted({kind or ALL for kind in names if names.count(kind) > 1})
        if twice:
            raise ValueError(f"{', '.join(twice)}: one handler for a kind")
        if len(names) > KINDS_MAX:
            raise ValueError(f"{len(names)} handlers: there can be {KINDS_MAX}")
        if not all(command and command[0] for _, command in self.handlers):
            raise ValueError("there is nothing to run")

    def __bool__(self) -> bool:
        return bool(self.handlers)

    def command_of(self, kind: str) -> tuple[str, ...] | None:
        """What is run for a job of this kind; None where it is left alone."""
        found = [(name, command) for name, command in self.handlers if _covers(name, kind)]
        best = max(found, key=lambda each: (each[0] == kind, len(each[0])), default=None)
        return None if best is None else best[1]

    def asked(self) -> Iterator[str | None]:
        """The fewest kinds and prefixes that name all of them, each once; None for all kinds."""
        names = sorted(kind for kind, _ in self.handlers)
        for name in names:
            if not any(_covers(other, name) for other in names if other != name):
                yield name or None


def _plain(kind: str) -> str:
    """A kind, or a prefix with its dot; of all kinds the prefix is nothing."""
    kind = kind.strip()
    if kind == ALL:
        return ""
    name = kind.removesuffix("*") if kind.endswith(".*") else kind
    if not name.strip(".") or "*" in name or len(name) > limits.NAME_LENGTH_MAX:
        raise ValueError(f"{kind!r} is no kind: a name, a prefix that ends with a dot, or {ALL}")
    return name


def _covers(name: str, kind: str) -> bool:
    is_prefix = not name or name.endswith(".")
    return kind.startswith(name) if is_prefix else kind == name
