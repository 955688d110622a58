"""What all tests share: signals, a profile for Hypothesis, a database, a switch for vectors."""

import signal

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests.long import tried

pytest_plugins = ["tests.services.fixtures"]

# The same examples on every machine. Explaining a failure can take minutes that a signal of
# pytest-timeout does not end, since Hypothesis takes it for one more failure to explain.
settings.register_profile(
    "house",
    tried(100),
    derandomize=True,
    deadline=None,
    phases=(Phase.explicit, Phase.generate, Phase.shrink),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("house")

# A shell that starts the tests in the background may ignore them, and so would what we start.
for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-vectors",
        action="store_true",
        help="fill in the digests of conformance vectors anew; expectations stay as they are",
    )
