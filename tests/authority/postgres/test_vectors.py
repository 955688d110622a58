"""Every vector of requests with its journal in PostgreSQL: the same digests as in its file, twice.

In C where that is built, since its packed rows take a path of their own.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.shared import Database
from understudy.authority import create_state_dir, native
from understudy.authority.conformance import scene
from understudy.authority.conformance.vectors import Vector, asks, load_vectors, run_vector

VECTORS = [each for each in load_vectors() if asks(each)]


@pytest.fixture
def made(server: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The journals that a vector made, all of them in the database."""
    urls: list[str] = []

    def make(state_dir: Path, node: str) -> None:
        urls.append(server.url())
        create_state_dir(state_dir, node, urls[-1])

    monkeypatch.setattr(scene, "create_state_dir", make)
    yield urls
    for url in urls:
        server.drop(url)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_a_vector_gives_the_bytes_of_its_file(vector: Vector, made: list[str]) -> None:
    result = run_vector(vector, "native" if native.available() else "reference")
    assert result.problems == ()
    assert result.stale == ()
    assert len(made) >= 2
