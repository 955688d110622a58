"""Tests of C need the library: without it they are skipped, or fail where it is required."""

import os

import pytest

from understudy.authority.engine import ffi


@pytest.fixture(autouse=True, scope="session")
def library() -> None:
    if ffi.available():
        return
    if "UNDERSTUDY_REQUIRE_SERVICES" in os.environ:
        pytest.fail(str(ffi.why_not()))
    pytest.skip(str(ffi.why_not()))
