"""Tests for which several things can vary: every value by default, every combination on demand.

`make pairs` asks for all combinations of what hardly depends on each other.
"""

import os
from collections.abc import Sequence
from itertools import cycle, islice, product
from typing import Any


def pairs(*axes: Sequence[Any]) -> list[tuple[Any, ...]]:
    """As few combinations as have every value of every axis; all of them where that is wanted."""
    if os.environ.get("UNDERSTUDY_EVERY_PAIR"):
        return list(product(*axes))
    longest = max(map(len, axes))
    return [*zip(*(islice(cycle(axis), longest) for axis in axes), strict=True)]
