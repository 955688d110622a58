"""An empty state directory, whose gateway is gone when its test is over."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from understudy.actors.agents import gateway_lock
from understudy.authority.journal.state_dir import create_state_dir
from understudy.surfaces.mcp import wire


@pytest.fixture
def state_dir(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "state"
    create_state_dir(folder, "local")
    yield folder
    gateway_lock.clear(folder / wire.LOCK)
