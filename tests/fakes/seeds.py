"""Which worlds a simulator runs, which of them failed, and which broken rules they would find."""

import os
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from types import ModuleType

import pytest

from tests.fakes.mutant import break_rule

Mutant = tuple[ModuleType, str, str, str]  # the module, a function, what it says, what is put there
World = Callable[[int], object]


def in_chunks(count: int, size: int) -> pytest.MarkDecorator:
    """So many seeds unless the environment says otherwise, in parts for several processes."""
    only = os.environ.get("UNDERSTUDY_SEED")
    count = int(os.environ.get("UNDERSTUDY_SEEDS", count))
    parts = [range(first, min(first + size, count)) for first in range(0, count, size)]
    if only:
        parts = [range(int(only), int(only) + 1)]
    return pytest.mark.parametrize("seeds", parts, ids=lambda each: f"{each.start}+{len(each)}")


def run_all(run: World, seeds: Iterable[int]) -> None:
    """Run the worlds of all seeds; those that fail are named, and how to run one again."""
    failures = []
    for seed in seeds:
        try:
            run(seed)
        except BaseException as error:
            error.add_note(f"seed {seed}: run it again with UNDERSTUDY_SEED={seed}")
            if not isinstance(error, Exception):
                raise
            failures.append(error)
    if failures:
        raise ExceptionGroup("seeds fail", failures)


def for_mutants(mutants: Sequence[Mutant]) -> pytest.MarkDecorator:
    names = [f"{where}:{right[:28]}" for _, where, right, _ in mutants]
    return pytest.mark.parametrize("mutant", mutants, ids=names)


def find(
    patch: pytest.MonkeyPatch, mutant: Mutant, run: World, count: int, first: Sequence[int] = ()
) -> None:
    """Break a rule; one of so many worlds must fail. Seeds that find what few find come first."""
    break_rule(patch, *mutant)
    for seed in chain(first, range(count)):
        try:
            run(seed)
        except (AssertionError, LookupError, AttributeError, TypeError):
            return
    pytest.fail(f"{mutant[1]} can be broken, and {count} worlds do not notice")
