"""What all tests share: one profile for Hypothesis, and the switch that rewrites vectors."""

import pytest
from hypothesis import HealthCheck, Phase, settings

# The same examples on every machine. Explaining a failure can take minutes that a signal of
# pytest-timeout does not end, since Hypothesis takes it for one more failure to explain.
settings.register_profile(
    "house",
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-vectors",
        action="store_true",
        help="fill in the digests of conformance vectors anew; expectations stay as they are",
    )
