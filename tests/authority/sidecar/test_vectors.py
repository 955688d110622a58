"""Vectors of requests, through a sidecar: the same digests as in their files, twice.

A sidecar decides in C where it can; what must make no difference is shown without C as well. Every
third by default, since all of them are played in this process, with C and without it; `make hosts`
plays all of them here as well.
"""

import os

import pytest

from understudy.authority import Office
from understudy.authority.conformance import served
from understudy.authority.conformance.vectors import Vector, asks, load_vectors, run_vector
from understudy.authority.engine import ffi
from understudy.authority.service.native_local import NativeOffice

_STEP = 1 if os.environ.get("UNDERSTUDY_EVERY_VECTOR") else 3
EVERY = [each for each in load_vectors() if asks(each)]
VECTORS = EVERY[::_STEP]
INVARIANCE = [each for each in EVERY if each.shelf == "invariance"]


def _holds(vector: Vector) -> None:
    result = run_vector(vector, "sidecar")
    assert result.problems == ()
    assert result.stale == ()


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_a_vector_gives_the_bytes_of_its_file(
    vector: Vector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "Office", NativeOffice if ffi.available() else Office)
    _holds(vector)


@pytest.mark.parametrize("vector", INVARIANCE, ids=lambda vector: vector.id)
def test_what_makes_no_difference_makes_none_without_c(
    vector: Vector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served, "Office", Office)
    _holds(vector)


def test_what_must_make_no_difference_is_shown_on_every_boundary() -> None:
    """The other boundaries run all vectors; there is something for this one to run."""
    assert len(INVARIANCE) >= 20
