"""What order, limits and budgets cost: a claim of a job with and without, and a look at many jobs.

Decisions in memory, as an authority makes them before the commit; microseconds of the processor for
each, since these are too short to be timed by the clock of a busy machine.
"""

import gc
import time
from collections.abc import Callable, Sequence

import orjson
from msgspec import UNSET

from benchmarks.kernel import Nowhere
from benchmarks.progress import Progress
from understudy.authority.engine.engine import Authority
from understudy.authority.law.outcome import JobPut
from understudy.authority.law.state import apply
from understudy.contracts import Door, JobOrder, JobRecord, parse

PLAIN, LIMITED = "claim", "claim, with priorities, limits and budgets"
FEW, MANY = "next of 1,000", "next of 100,000"
_DOOR = Door("cli")
_CYCLES = 512
_LOOKS = 256


def measure(rounds: int, progress: Progress) -> dict[str, list[float]]:
    """Microseconds for each, a figure a round."""
    ways: dict[str, Callable[[], float]] = {
        PLAIN: lambda: _claims(is_limited=False),
        LIMITED: lambda: _claims(is_limited=True),
        FEW: lambda: _looks(1_000),
        MANY: lambda: _looks(100_000),
    }
    found: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds):
        for name, way in ways.items():
            progress.say(f"jobs, round {number + 1} of {rounds}: {name}")
            found[name].append(way())
    return found


def _claims(*, is_limited: bool) -> float:
    authority = _filled(2_000, is_ordered=is_limited)
    if is_limited:
        for kind in ("ci.", "ci.build"):
            bounds: dict[str, object] = {"ratePerMinute": 60_000, "burst": 60_000}
            bounds |= {"kind": kind, "concurrency": 65_536, "timeoutMs": 3_600_000}
            _ask(authority, "limit.set", bounds)
        for scope, per in (("*", "work"), ("*", "day"), ("kind/ci.", "day")):
            cap: dict[str, object] = {"scope": scope, "per": per, "usdMicrosMax": 1_000_000}
            _ask(authority, "budget.set", cap | {"tokensMax": 1_000_000})
        _spend(authority, "j1999")
    claims = [_line("job.claim", {"jobId": f"j{each}", "worker": "w"}) for each in range(_CYCLES)]
    return _each_us(authority, claims)


def _spend(authority: Authority, job_id: str) -> None:
    """Something was spent, so that there are sums to hold against the budgets."""
    holder: dict[str, object] = {"jobId": job_id, "worker": "w"}
    _ask(authority, "job.claim", holder)
    lease = authority.state.leases[f"job/{job_id}"]
    shown = {"leaseId": lease.lease_id, "fence": lease.fence}
    _ask(authority, "spend.report", holder | shown | {"tokens": 7, "usdMicros": 9})


def _looks(count: int) -> float:
    authority = _filled(count, is_ordered=True)
    look = _line("job.roster", {"kind": "ci.", "worker": "w", "limit": 1})
    return _each_us(authority, [look] * _LOOKS)


def _filled(count: int, *, is_ordered: bool) -> Authority:
    authority = Authority(Nowhere())
    jobs = [
        JobRecord(
            job_id=f"j{each}", kind="ci.build", author="n", scheduled_seq=each, scheduled_ms=0,
            last_op="x", order=JobOrder(priority=each % 7) if is_ordered else UNSET,
        )
        for each in range(count)
    ]  # fmt: skip
    apply(authority.state, [JobPut(each) for each in jobs])
    return authority


def _each_us(authority: Authority, lines: Sequence[bytes]) -> float:
    gc.collect()
    gc.freeze()  # as a sidecar does with what it has read
    try:
        begun = time.process_time()
        for line in lines:
            authority.propose([parse(line, _DOOR)])
        return 1e6 * (time.process_time() - begun) / len(lines)
    finally:
        gc.unfreeze()


def _ask(authority: Authority, action: str, payload: dict[str, object]) -> None:
    answer = authority.propose([parse(_line(action, payload), _DOOR)]).answers.lines()[0]
    assert orjson.loads(answer)["result"] == "accepted", answer


def _line(action: str, payload: dict[str, object]) -> bytes:
    return orjson.dumps({"action": action, "payload": payload})
