"""Vectors of requests, through a sidecar: the same digests as in their files.

A sidecar decides in C where it can; what must make no difference is shown without C as well. Some
by default, since all of them are played in this process, with C and without it; `make hosts` plays
all of them here as well.
"""

import pytest

from tests.shelves import VECTORS, broken, by_shelf, on
from understudy.authority.conformance import served
from understudy.authority.conformance.vectors import Vector, asks

ASKING = [each for each in VECTORS if asks(each)]
INVARIANCE = [each for each in ASKING if each.shelf == "invariance"]


@by_shelf(ASKING, step=7)
def test_vectors_give_the_bytes_of_their_files(shelf: list[Vector]) -> None:
    assert broken(shelf, on("sidecar")) == {}


@by_shelf(INVARIANCE, step=5)
def test_what_makes_no_difference_makes_none_without_c(
    shelf: list[Vector], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "fastest", lambda: "reference")
    assert broken(shelf, on("sidecar")) == {}


def test_what_must_make_no_difference_is_shown_on_every_boundary() -> None:
    """The other boundaries run all vectors; there is something for this one to run."""
    assert len(INVARIANCE) >= 20
