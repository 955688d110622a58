"""A browser for each worker, found once; and a page for each test."""

import os
from collections.abc import Iterator

import pytest

from tests.browser.stand import Browser, BrowserPage, opened
from tests.services.server import Missing


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    try:
        found = Browser()
    except Missing as missing:
        if "UNDERSTUDY_REQUIRE_SERVICES" in os.environ:
            pytest.fail(str(missing))
        pytest.skip(str(missing))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[BrowserPage]:
    with opened(browser) as found:
        yield found
