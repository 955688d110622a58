"""A console that the tests of one file share."""

from collections.abc import Iterator

import pytest

from tests.web.stand import ConsoleStand, Person, console


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleStand]:
    with console(tmp_path_factory.mktemp("console")) as found:
        yield found


@pytest.fixture
def person(stand: ConsoleStand) -> Person:
    """Signed in, on a fresh link."""
    return stand.visit()
