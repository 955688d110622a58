"""Vectors of requests with their journals in PostgreSQL: the same digests as in their files, twice.

In C where that is built, since its packed rows take a path of their own. Every seventh by default;
`make hosts` plays all of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.shared import Database
from understudy.authority.conformance import scene
from understudy.authority.conformance.vectors import Vector, asks, load_vectors, run_vector
from understudy.authority.engine import ffi
from understudy.authority.journal import journal_url
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres import PostgresJournal

_STEP = 1 if os.environ.get("UNDERSTUDY_EVERY_VECTOR") else 7
VECTORS = [each for each in load_vectors() if asks(each)][::_STEP]


@pytest.fixture(scope="module")
def shared(server: Database) -> Iterator[str]:
    """The one journal that all vectors are played on, one after the other."""
    url = server.url()
    PostgresJournal.create(parsed(url), scene.NODE)
    yield url
    server.drop(url)


@pytest.fixture
def made(server: Database, shared: str, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The state directories that a vector made, each with an empty journal in the database."""
    folders: list[Path] = []

    def make(state_dir: Path, node: str) -> None:
        assert node == scene.NODE
        folders.append(state_dir)
        server.reset(shared)
        state_dir.mkdir(parents=True, exist_ok=True)
        journal_url.remember(state_dir, shared)

    monkeypatch.setattr(scene, "create_state_dir", make)
    return folders


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.id)
def test_a_vector_gives_the_bytes_of_its_file(vector: Vector, made: list[Path]) -> None:
    result = run_vector(vector, "native" if ffi.available() else "reference")
    assert result.problems == ()
    assert result.stale == ()
    assert len(made) >= 2
