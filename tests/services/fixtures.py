"""PostgreSQL for whatever test asks for it: one server for each process that runs tests.

It is the plugin of `tests/conftest.py`, so that no folder starts a server of its own.
"""

from collections.abc import Iterator

import pytest

from tests.services.shared import Database, database


@pytest.fixture(scope="session")
def server() -> Iterator[Database]:
    with database() as found:
        yield found


@pytest.fixture
def url(server: Database) -> Iterator[str]:
    """Of a journal that is not made yet."""
    found = server.url()
    yield found
    server.drop(found)
