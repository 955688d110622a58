"""Systems of real processes for tests, and the proof that each leaves none behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.actors.otp.carriers.process.stage import Stage
from understudy.actors.otp.carriers.process import process_id


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """One system for all tests of a module that do it no harm."""
    yield from _staged(tmp_path_factory.mktemp("shared"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A system of one's own."""
    yield from _staged(tmp_path / "run")


def _staged(run_dir: Path) -> Iterator[Stage]:
    stage = Stage(run_dir)
    with stage.troupe:
        yield stage
    assert process_id.members(stage.troupe.name) == []
