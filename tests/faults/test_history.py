"""The checker knows good histories from bad ones."""

from math import inf

import pytest

from tests.faults.history import Op, assert_one_holder, linearizable


def test_the_checker_knows_good_histories_from_bad_ones() -> None:
    first = Op("claim", 1, 2, granted=True, fence=5)
    leave = Op("release", 5, 6, granted=True, fence=5)
    early, second = (Op("claim", at, at + 1, granted=True, fence=6) for at in (3, 7))
    for good in (
        [first, leave, Op("claim", 7, 8, granted=True, fence=9)],
        [first, Op("claim", 3, 4, granted=False), leave],
        [first, Op("claim", 3, 9, granted=True, fence=6), leave],
        [first, Op("release", 3, inf, granted=None, fence=5), second],
        [Op("claim", 1, inf, granted=None), Op("claim", 3, 4, granted=False)],
        [Op("claim", 1, inf, granted=None), first],
    ):
        assert linearizable(sorted(good, key=lambda op: op.start)), good
    for bad in (
        [first, early, leave],
        [first, leave, Op("claim", 7, 8, granted=True, fence=4)],
        [first, leave, Op("claim", 7, 8, granted=False)],
        [Op("claim", 1, 2, granted=False)],
        [first, Op("release", 3, 4, granted=False, fence=5)],
        [first, Op("release", 7, inf, granted=None, fence=5), early],
    ):
        assert not linearizable(sorted(bad, key=lambda op: op.start)), bad
    with pytest.raises(AssertionError):
        assert_one_holder([first, early, leave])
