"""Every vector of requests, on the native boundary: the same digests as in its file, twice."""

import pytest

from understudy.authority.conformance.vectors import Vector, asks, load_vectors, run_vector

VECTORS = [each for each in load_vectors() if asks(each)]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_a_vector_gives_the_bytes_of_its_file(vector: Vector) -> None:
    result = run_vector(vector, "native")
    assert result.problems == ()
    assert result.stale == ()
