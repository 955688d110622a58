"""An empty journal in the database."""

import pytest

from understudy.authority.journal.journal_url import JournalUrl, parsed
from understudy.authority.journal.postgres import PostgresJournal


@pytest.fixture
def place(url: str) -> JournalUrl:
    found = parsed(url)
    PostgresJournal.create(found, "n1")
    return found
