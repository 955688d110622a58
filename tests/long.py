"""What `make test` leaves to `make long`: between them they run every case.

LONG     the whole test is long
few      some cases of a test are short, and the others are long
pairs    of all combinations so many are short that every value occurs in one
SCALED   the test does more where `IS_LONG`
tried    a property is tried with more examples where `IS_LONG`
"""

import os
from collections.abc import Collection, Sequence
from itertools import cycle, islice, product
from typing import Any

import pytest
from hypothesis import settings

IS_LONG = "UNDERSTUDY_LONG" in os.environ
LONG = pytest.mark.long
SCALED = pytest.mark.scaled
SHARE = 4  # one of so many examples of a property is tried in `make test`


def few(cases: Sequence[Any], count: int = 1) -> list[Any]:
    """This many of the cases, spread over all of them, are short; a tuple is one case's values."""
    return _marked(cases, {number * len(cases) // count for number in range(count)})


def pairs(*axes: Sequence[Any]) -> list[Any]:
    """All combinations of the values of several axes; as few as have every value are short."""
    longest = max(map(len, axes))
    short = set(zip(*(islice(cycle(range(len(axis))), longest) for axis in axes), strict=True))
    places = [*product(*(range(len(axis)) for axis in axes))]
    return _marked([*product(*axes)], {n for n, place in enumerate(places) if place in short})


def tried(examples: int) -> settings:
    """So many examples in `make long`."""
    return settings(max_examples=examples if IS_LONG else max(examples // SHARE, 1))


def _marked(cases: Sequence[Any], short: Collection[int]) -> list[Any]:
    sets = [each if isinstance(each, tuple) else (each,) for each in cases]
    return [
        pytest.param(*each, marks=() if number in short else LONG)
        for number, each in enumerate(sets)
    ]
