"""What operators say about work: how much of it there can be, and what no vector shows."""

import pytest

from tests.fakes.desk import Desk, fits
from tests.limits import stands_on
from understudy.authority.law.scope import plain_scope
from understudy.authority.law.state import check_invariants
from understudy.contracts import limits


@stands_on("PAUSES_MAX", "APPROVE_SCOPES_MAX")
def test_scopes_that_are_paused_or_wait_for_a_person_have_an_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (limits.PAUSES_MAX, limits.APPROVE_SCOPES_MAX) == (1024, 64)
    scopes = [f"label/{number}" for number in range(65)]
    desk = Desk()
    desk.grant("policy.set", "cli", approve=scopes[:64])
    assert not fits("policy.set", {"approve": scopes})
    monkeypatch.setattr(limits, "PAUSES_MAX", 2)
    for scope in scopes[:2]:
        desk.grant("pause.set", scope=scope)
    assert desk.refusal("pause.set", scope=scopes[2]) == "pauses_full"


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("*", "*"), ("label/a/b", "label/a/b"), ("kind/ci.*", "kind/ci."), ("kind/ci", "kind/ci"),
        ("issue/a", "issue/a"), ("job/s:a", "job/s:a"), ("", None), ("label", None),
        ("label/", None), ("kind/", None), ("kind/.*", None), ("spec/a", None), ("**", None),
    ],
)  # fmt: skip
def test_a_scope_has_one_spelling_or_is_none(given: str, plain: str | None) -> None:
    assert plain_scope(given) == plain


def test_a_job_that_waited_when_it_was_cancelled_is_freed_by_nothing() -> None:
    """Issue 15: it was told as freed, and after a start from a snapshot it was not."""
    desk = Desk()
    for name, needs in (("a", []), ("b", ["complete/a"]), ("c", ["complete/a"])):
        desk.grant("job.schedule", jobId=name, kind="k", causalDeps=needs)
    desk.grant("job.cancel", jobId="b")
    lease = desk.grant("job.claim", jobId="a", worker="ann")["job"]["lease"]
    desk.authority.snapshot()
    desk.restart()
    held = {"jobId": "a", "worker": "ann", "leaseId": lease["leaseId"], "fence": lease["fence"]}
    assert desk.grant("job.complete", **held)["freed"] == ["c"]
    desk.prove()


def test_a_cancelled_job_closes_no_circle() -> None:
    desk = Desk()
    for name in ("a", "c"):
        desk.grant("job.schedule", jobId=name, kind="k", causalDeps=["complete/b"])
    desk.grant("job.cancel", jobId="a")
    desk.grant("job.schedule", jobId="b", kind="k", causalDeps=["complete/a"])
    check_invariants(desk.authority.state)
