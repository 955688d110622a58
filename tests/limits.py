"""Which limit a test stands on, with what just fits and with one more."""

from collections.abc import Callable
from typing import TypeVar

from understudy.contracts import limits

Test = TypeVar("Test", bound=Callable[..., object])


def stands_on(*names: str) -> Callable[[Test], Test]:
    """Say so; `tests/house` reads it, and wants every limit named."""
    assert all(hasattr(limits, name) for name in names)
    return lambda test: test
