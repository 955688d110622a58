"""An empty state directory."""

from pathlib import Path

import pytest

from understudy.authority import create_state_dir


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "local")
    return folder
