"""An empty state directory, and a sidecar that serves it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.authority.sidecar.serving import Serving
from understudy.authority import create_state_dir


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "n1")
    return folder


@pytest.fixture
def serving(state_dir: Path) -> Iterator[Serving]:
    with Serving(state_dir) as running:
        yield running
