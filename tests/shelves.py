"""Vectors as tests play them: a case for each suite and shelf, in which every broken one is named.

`make test` plays a vector once, against the bytes of its file; `make hosts` plays it twice on every
boundary, to prove that the bytes repeat.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import pytest

from understudy.authority.conformance.vectors import Result, Vector, load_vectors, run_vector

IS_EVERY = bool(os.environ.get("UNDERSTUDY_EVERY_VECTOR"))
TIMES = 2 if IS_EVERY else 1
VECTORS = load_vectors()
Judge = Callable[[Vector], Result]


def by_shelf(vectors: Iterable[Vector], step: int = 1) -> pytest.MarkDecorator:
    """One case for each shelf of each suite; every so manieth vector unless all are wanted."""
    shown = [*vectors][:: 1 if IS_EVERY else step]
    groups = groupby(shown, key=lambda vector: f"{vector.suite}/{vector.shelf}")
    cases: list[Any] = [pytest.param([*found], id=name) for name, found in groups]
    return pytest.mark.parametrize("shelf", cases)


def on(boundary: str) -> Judge:
    return lambda vector: run_vector(vector, boundary, TIMES)


def broken(shelf: Sequence[Vector], judge: Judge) -> dict[str, list[str]]:
    """What is wrong with which vector; nothing if all of them hold."""
    found = {vector.id: judge(vector) for vector in shelf}
    return {
        name: [*result.problems, *result.stale] for name, result in found.items() if not result.ok
    }
