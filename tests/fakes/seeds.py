"""Which worlds a simulator runs, and which one it was that failed."""

import os
from collections.abc import Callable


def chunks(count: int, size: int) -> list[range]:
    """So many seeds unless the environment says otherwise, in parts for several processes."""
    only = os.environ.get("UNDERSTUDY_SEED")
    if only:
        return [range(int(only), int(only) + 1)]
    count = int(os.environ.get("UNDERSTUDY_SEEDS", count))
    return [range(first, first + size) for first in range(0, count, size)]


def noted(run: Callable[[], str], seed: int) -> str:
    """Run the world of a seed; should it fail, it says how to run it again."""
    try:
        return run()
    except BaseException as error:
        error.add_note(f"seed {seed}: run it again with UNDERSTUDY_SEED={seed}")
        raise
