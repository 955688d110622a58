"""Vectors of requests with their journals in PostgreSQL: the same digests as in their files.

In C where that is built, since its packed rows take a path of their own. Some by default;
`make hosts` plays all of them.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.shared import Database
from tests.shelves import TIMES, VECTORS, broken, by_shelf, on
from understudy.authority.conformance import scene
from understudy.authority.conformance.vectors import Vector, asks
from understudy.authority.engine import ffi
from understudy.authority.journal import journal_url
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres import PostgresJournal


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


@by_shelf([each for each in VECTORS if asks(each)], step=14)
def test_vectors_give_the_bytes_of_their_files(shelf: list[Vector], made: list[Path]) -> None:
    assert broken(shelf, on("native" if ffi.available() else "reference")) == {}
    assert len(made) >= TIMES * len(shelf)
