"""What all tests share: the switch that fills in the digests of vectors anew."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-vectors",
        action="store_true",
        help="fill in the digests of conformance vectors anew; expectations stay as they are",
    )
