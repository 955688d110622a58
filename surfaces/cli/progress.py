"""How far a long walk over the journal is: a bar on a terminal, nothing elsewhere."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_ROWS = 1_000  # at a time; each row would cost more than what is done with it


@contextmanager
def bar(rows: int, label: str, *, as_lines: bool = False) -> Iterator[Callable[[int], None]]:
    """What to call with the number of every row that is done; lines are for programs."""
    if as_lines:
        yield lambda seq: _line(seq, rows)
        return
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(length=rows, label=label, file=sys.stderr) as shown:

        def step(seq: int) -> None:
            if seq % _ROWS == 0 or seq == rows:
                shown.update(_ROWS if seq % _ROWS == 0 else rows % _ROWS)

        yield step


def _line(seq: int, rows: int) -> None:
    if seq % _ROWS == 0 or seq == rows:
        print(f"{seq}/{rows}", file=sys.stderr, flush=True)
