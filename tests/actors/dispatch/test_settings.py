"""What a dispatcher is told to be, and the timing that follows from it."""

import pytest

from understudy.actors.dispatch.settings import SLOTS_MAX, Settings
from understudy.actors.leasing.holding import Timing
from understudy.contracts import limits


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""}, {"name": "a/b"}, {"name": "x" * 65}, {"name": "tree\n"}, {"run": ""},
        {"slots": 0}, {"slots": SLOTS_MAX + 1},
        {"ttl_seconds": limits.TTL_SECONDS_MIN - 1}, {"ttl_seconds": limits.TTL_SECONDS_MAX + 1},
        {"grace_ms": -1}, {"grace_ms": 20_001}, {"job_ms": 0},
    ],
)  # fmt: skip
def test_settings_that_cannot_work_are_refused(wrong: dict[str, object]) -> None:
    right: dict[str, object] = {"name": "tree", "run": "r1", "slots": 1}
    Settings(**right)  # type: ignore[arg-type]  # members by name
    with pytest.raises(ValueError):
        Settings(**right | wrong)  # type: ignore[arg-type]  # members by name


@pytest.mark.parametrize("ttl_seconds", [30, 60, 3_600, 86_400])
@pytest.mark.parametrize("share", [0, 3])
def test_a_worker_is_gone_before_its_lease_however_fast_the_other_clock(
    ttl_seconds: int, share: int
) -> None:
    ttl_ms = ttl_seconds * 1_000
    timing = Timing(ttl_ms, ttl_ms // share if share else 0)
    asked_ms = 7
    renewals = [timing.renew_ms(asked_ms, permille) for permille in (0, 1_000)]
    assert asked_ms < min(renewals) < max(renewals) == asked_ms + ttl_ms // 3
    assert max(renewals) + timing.again_ms < timing.stop_ms(asked_ms), "there is a second chance"
    assert timing.stop_ms(asked_ms) + timing.grace_ms < timing.until_ms(asked_ms)
    fast_ms = ttl_ms - ttl_ms // 2_000 - limits.CLOCK_DRIFT_MS_MAX  # 500 ppm, and merged stamps
    assert timing.until_ms(asked_ms) < asked_ms + fast_ms
