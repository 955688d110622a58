"""A real sidecar on a real state directory, and a desk in front of it."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.surfaces.process import Serve
from understudy.actors.agents.authority_link import AuthorityLink
from understudy.authority import create_state_dir


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "local")
    return folder


@pytest.fixture
def sidecar(state_dir: Path) -> Iterator[Serve]:
    with Serve(state_dir) as running:
        yield running.ready()


@pytest.fixture(scope="module")
def common(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """A sidecar for all tests of a module, where they are not in each other's way."""
    folder = tmp_path_factory.mktemp("common") / "state"
    create_state_dir(folder, "local")
    with Serve(folder) as running:
        yield running.ready()


@pytest.fixture
async def desk(sidecar: Serve) -> AsyncIterator[AuthorityLink]:
    opened = await AuthorityLink.open(sidecar.state_dir)
    yield opened
    await opened.close()
