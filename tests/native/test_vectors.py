"""Every vector of requests, on the native boundary: the same digests as in its file."""

from tests.shelves import VECTORS, broken, by_shelf, on
from understudy.authority.conformance.vectors import Vector, asks


@by_shelf(vector for vector in VECTORS if asks(vector))
def test_vectors_give_the_bytes_of_their_files(shelf: list[Vector]) -> None:
    assert broken(shelf, on("native")) == {}
