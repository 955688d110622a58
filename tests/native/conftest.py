"""Tests of C need the library: without it they are skipped, or fail where it is required."""

import os

import pytest

from understudy.authority import native


@pytest.fixture(autouse=True, scope="session")
def library() -> None:
    if native.available():
        return
    if "UNDERSTUDY_REQUIRE_SERVICES" in os.environ:
        pytest.fail(str(native.why_not()))
    pytest.skip(str(native.why_not()))
