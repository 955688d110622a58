"""Judges from outside are there, or their tests are skipped, or that is a failure."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mcp.outside import node
from tests.mcp.stand import Stand, standing
from tests.services.server import Missing


@pytest.fixture(scope="session")
def judges() -> Path:
    """The folder of their packages."""
    try:
        return node.packages()
    except Missing as missing:
        if "UNDERSTUDY_REQUIRE_SERVICES" in os.environ:
            pytest.fail(str(missing))
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def stand(judges: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """What the product serves, and nothing else."""
    with standing(tmp_path_factory.mktemp("plain"), "--tools", "all") as each:
        yield each


@pytest.fixture(scope="session")
def equipped(judges: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    """The same stack with the conformance suite's own fixtures mounted into it."""
    mount = ("--mount", "tests.mcp.outside.fixtures:mount")
    with standing(tmp_path_factory.mktemp("equipped"), "--tools", "all", *mount) as each:
        yield each
