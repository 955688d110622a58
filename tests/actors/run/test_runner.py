"""A holder's own clock: it stops before its lease ends, reached or not."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.actors.litter import Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.patience import eventually
from tests.surfaces.process import Program
from understudy.actors.run.attempts import attempts_of
from understudy.actors.run.runner import Outcome, Runner, Task
from understudy.authority import Unavailable
from understudy.contracts import Reason, rfc3339

HOLDER = Path(__file__).parents[1] / "holder.py"
Answer = dict[str, Any]


class Played:
    """An authority that says what the test wants, and remembers what it was asked."""

    def __init__(self, ttl_ms: int, **answers: Callable[[], Answer]) -> None:
        self.ttl_ms = ttl_ms
        self.asked: list[str] = []
        self.answers = answers
        self.renewed_at: list[float] = []

    def __call__(self, action: str, payload: dict[str, Any]) -> Answer:
        name = action.partition(".")[2]
        self.asked.append(name)
        if name == "lease_renew":
            self.renewed_at.append(time.monotonic())
        return self.answers.get(name, self.granted)()

    def granted(self) -> Answer:
        now_ms = time.time_ns() // 1_000_000
        lease = {"fence": 7, "leaseId": "l", "owner": "ada"}
        lease["expiresAt"] = rfc3339.answer_text(now_ms + self.ttl_ms)
        issue = {"id": "x", "attempts": 1, "lease": lease}
        return {"result": "accepted", "seq": 7, "stamp": {"wallMs": now_ms}, "issue": issue}


def refusing(failure: str) -> Callable[[], Answer]:
    return lambda: {"result": "rejected", "failureClasses": [failure], "diagnostic": "no"}


def away() -> Answer:
    raise Unavailable(Reason.SIDECAR_UNREACHABLE, "nobody")


def in_turn(*answers: Callable[[], Answer]) -> Callable[[], Answer]:
    """One after the other, and the last one for ever."""
    rest = iter(answers[:-1])

    def answer() -> Answer:
        return next(rest, answers[-1])()

    return answer


def ran(played: Played, tmp_path: Path, mark: Mark, *argv: str, grace_ms: int = 200) -> Outcome:
    task = Task("x", "ada", argv, env=mark.env, grace_ms=grace_ms)
    return Runner(task, played, tmp_path).run()


def test_a_lease_is_renewed_at_a_third_of_its_time_while_the_command_runs(
    mark: Mark, tmp_path: Path
) -> None:
    played = Played(3_000)
    begun = time.monotonic()
    outcome = ran(played, tmp_path, mark, "sleep", "3.2")
    assert (outcome.result, outcome.code) == ("completed", 0)
    assert played.asked[0] == "claim"
    assert played.asked[-1] == "close"
    gaps = [b - a for a, b in zip([begun, *played.renewed_at], played.renewed_at, strict=False)]
    assert len(gaps) >= 2
    assert all(gap >= 0.9 for gap in gaps), "no sooner than a third, less the jitter"


@pytest.mark.parametrize("kind", ["sleep", "daemons"])
def test_a_holder_that_cannot_renew_stops_before_its_lease_ends(
    mark: Mark, tmp_path: Path, kind: str
) -> None:
    words = [sys.executable, str(HOLDER), str(tmp_path), kind, "4000"]
    with Program(words, env={"UNDERSTUDY_TEST_MARK": mark.word}) as holder:
        assert holder.wait() == 6, holder.complaint()
        assert seconds(tmp_path / "over") - seconds(tmp_path / "asked") < 4
        assert mark.alive() == []
        assert "it could not be renewed in time" in holder.complaint()


def seconds(path: Path) -> float:
    return float(path.read_text())


def test_a_frozen_holder_has_its_command_stopped_before_its_lease_ends(
    mark: Mark, tmp_path: Path
) -> None:
    log = tmp_path / "logs" / "x" / "1.log"
    words = [sys.executable, str(HOLDER), str(tmp_path), "daemons", "6000"]
    with Program(words, env={"UNDERSTUDY_TEST_MARK": mark.word}) as holder:
        eventually(lambda: log.exists() and b"up" in log.read_bytes())
        holder.halt()
        eventually(lambda: len(mark.alive()) <= 2)  # the holder and its keeper
        assert 4 < time.monotonic() - seconds(tmp_path / "asked") < 6
        holder.wake()
        assert holder.wait() == 6
        assert "it could not be renewed in time" in holder.complaint()
    mark.gone()  # its keeper notices its end a moment later


def test_an_authority_that_is_away_for_a_while_costs_nothing(mark: Mark, tmp_path: Path) -> None:
    played = Played(6_000)
    played.answers["lease_renew"] = in_turn(away, refusing("authority_overloaded"), played.granted)
    outcome = ran(played, tmp_path, mark, "sleep", "5")
    assert outcome.result == "completed"
    assert played.asked.count("lease_renew") >= 3


@pytest.mark.parametrize(
    "failure",
    [
        "lease_missing",
        "lease_fence_stale",
        "lease_stale",
        "lease_owner_mismatch",
        "lease_not_found",
    ],
)
def test_a_refused_renewal_is_a_lost_lease(mark: Mark, tmp_path: Path, failure: str) -> None:
    played = Played(3_600, lease_renew=refusing(failure))
    outcome = ran(played, tmp_path, mark, "sleep", "1000")
    assert (outcome.result, outcome.code, outcome.failure) == ("lost", 6, failure)
    assert mark.alive() == []
    assert played.asked == ["claim", "lease_renew"], "what is lost is not given back"


def test_the_end_is_told_again_until_it_is_heard(mark: Mark, tmp_path: Path) -> None:
    played = Played(20_000)
    played.answers["close"] = in_turn(away, refusing("authority_overloaded"), played.granted)
    assert ran(played, tmp_path, mark, "true").result == "completed"
    assert played.asked == ["claim", "close", "close", "close"]


def test_an_end_that_is_not_heard_in_time_is_said_so(mark: Mark, tmp_path: Path) -> None:
    played = Played(2_500, close=away)
    outcome = ran(played, tmp_path, mark, "true")
    assert (outcome.result, outcome.code) == ("unrecorded", 7)
    assert outcome.ended is not None
    assert outcome.ended.code == 0


def test_a_completion_that_is_refused_is_a_lost_lease(mark: Mark, tmp_path: Path) -> None:
    played = Played(20_000, close=refusing("lease_fence_stale"))
    outcome = ran(played, tmp_path, mark, "true")
    assert (outcome.result, outcome.code) == ("lost", 6)


@pytest.mark.parametrize(
    ("assignee", "result"), [("ada", "completed"), ("bob", "lost"), ("", "lost")]
)
def test_an_issue_that_is_closed_already_is_ours_only_if_we_closed_it(
    mark: Mark, tmp_path: Path, assignee: str, result: str
) -> None:
    issue = {"id": "x", "status": "closed", "assignee": assignee}
    played = Played(
        20_000,
        close=refusing("lease_issue_closed"),
        show=lambda: {"result": "accepted", "issue": issue},
    )
    assert ran(played, tmp_path, mark, "true").result == result


def test_a_grace_is_never_longer_than_a_third_of_the_lease(mark: Mark, tmp_path: Path) -> None:
    played = Played(3_000, lease_renew=away)
    begun = time.monotonic()
    outcome = ran(played, tmp_path, mark, "sh", "-c", "trap '' TERM; sleep 1000", grace_ms=600_000)
    assert outcome.result == "lost"
    assert time.monotonic() - begun < 3


def test_signals_before_the_command_begins_hand_the_issue_back(mark: Mark, tmp_path: Path) -> None:
    wake, sink = os.pipe()
    os.write(sink, bytes([signal.SIGCHLD, signal.SIGTERM]))
    played = Played(20_000)
    task = Task("x", "ada", ["touch", str(tmp_path / "ran")], env=mark.env)
    outcome = Runner(task, played, tmp_path, wake=wake).run()
    for each in (wake, sink):
        os.close(each)
    assert (outcome.result, outcome.code) == ("interrupted", 143)
    assert played.asked == ["claim", "lease_release"]
    assert not (tmp_path / "ran").exists()


def test_an_outcome_is_written_down_beside_its_output(mark: Mark, tmp_path: Path) -> None:
    outcome = ran(Played(20_000), tmp_path, mark, "sh", "-c", "echo hello; exit 3")
    (attempt,) = attempts_of(tmp_path, "x")
    assert attempt.path == outcome.log
    record = attempt.record()
    assert (record["outcome"], record["exitCode"], record["fence"]) == ("failed", 3, 7)
    assert record["endedAt"]
    assert (
        b"".join(part for part in attempt.output().read() if isinstance(part, bytes)) == b"hello\n"
    )


# --- jobs -----------------------------------------------------------------------------------------


class PlayedJob(Played):
    """The same for a job, whose renewal is another claim."""

    def granted(self) -> Answer:
        now_ms = time.time_ns() // 1_000_000
        lease = {"fence": 7, "leaseId": "l", "owner": "ada", "deadlineMs": now_ms + self.ttl_ms}
        job = {"jobId": "x", "kind": "k", "attempts": 1, "lease": lease}
        return {"result": "accepted", "seq": 7, "stamp": {"wallMs": now_ms}, "job": job}


def ran_job(played: Played, tmp_path: Path, mark: Mark, *argv: str) -> Outcome:
    task = Task("x", "ada", argv, "job", env=mark.env, grace_ms=200)
    return Runner(task, played, tmp_path).run()


def test_a_job_is_renewed_by_another_claim(mark: Mark, tmp_path: Path) -> None:
    played = PlayedJob(3_000)
    assert ran_job(played, tmp_path, mark, "sleep", "1.3").result == "completed"
    assert played.asked == ["claim", "claim", "complete"]


@pytest.mark.parametrize(
    "failure", ["lease_contention_active", "job_claim_lapsed", "lease_missing", "job_completed"]
)
def test_a_job_whose_renewal_is_refused_is_lost(mark: Mark, tmp_path: Path, failure: str) -> None:
    played = PlayedJob(3_600, show=lambda: {"result": "accepted", "job": {"state": "claimed"}})
    played.answers["claim"] = in_turn(played.granted, refusing(failure))
    outcome = ran_job(played, tmp_path, mark, "sleep", "1000")
    assert (outcome.result, outcome.code, outcome.failure) == ("lost", 6, failure)
    assert mark.alive() == []
    assert "yield" not in played.asked, "what is lost is not given back"


# What a node may not do is no word on its lease: that is the holder's until its deadline.
DENIED = ["job_node_quarantined", "job_node_unknown", "job_capability_missing"]


@pytest.mark.parametrize("failure", DENIED)
def test_a_right_that_is_gone_refuses_more_time_and_ends_no_lease(
    mark: Mark, tmp_path: Path, failure: str
) -> None:
    played = PlayedJob(6_000)
    played.answers["claim"] = in_turn(played.granted, refusing(failure))
    assert ran_job(played, tmp_path, mark, "sleep", "2.3").result == "completed"
    assert played.asked.count("claim") > 1


@pytest.mark.parametrize("failure", DENIED)
def test_an_end_that_the_authority_will_not_hear_is_no_lost_lease(
    mark: Mark, tmp_path: Path, failure: str
) -> None:
    played = PlayedJob(20_000, complete=refusing(failure))
    outcome = ran_job(played, tmp_path, mark, "true")
    assert (outcome.result, outcome.code, outcome.failure) == ("unrecorded", 4, failure)
    assert played.asked == ["claim", "complete"], "asking again could only hear the same"
