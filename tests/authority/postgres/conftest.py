"""A server for the module's tests, and an empty journal in it for each."""

from collections.abc import Iterator

import pytest

from tests.services.shared import Database, database
from understudy.authority.place import Place, parsed
from understudy.authority.postgres import PostgresJournal


@pytest.fixture(scope="session")
def server() -> Iterator[Database]:
    with database() as found:
        yield found


@pytest.fixture
def url(server: Database) -> Iterator[str]:
    found = server.url()
    yield found
    server.drop(found)


@pytest.fixture
def place(url: str) -> Place:
    found = parsed(url)
    PostgresJournal.create(found, "n1")
    return found
