"""A picture of a tree as text, from what a tree says of itself."""

from typing import Any

import pytest

from understudy.surfaces.cli.tree_text import (
    count_lines,
    drawn,
    fitted,
    paint,
    rests,
    running_lines,
    summary,
)


def picture(**changes: Any) -> dict[str, Any]:
    child = {"state": "running", "type": "worker", "pid": 7, "restarts": 0, "upMs": 61_000}
    workers = [child | {"id": "worker"}]
    return {
        "upSeconds": 3_700,
        "tree": [
            child | {"id": "authority_client", "mailbox": 0},
            child | {"id": "worker_sup", "type": "supervisor", "children": workers},
            child | {"id": "lease_dispatcher", "restarts": 2, "mailbox": 5},
        ],
        "authority": {"pid": 9, "boundary": "native", "epoch": 3, "restarts": 1},
        "evidence": {"seq": 12},
        "dispatcher": {
            "slots": 4,
            "stopping": None,
            "terms": [
                {"issue": "us-1", "worker": "c/r/1", "fence": 5, "attempt": 2, "phase": "running",
                 "remainingMs": 59_000, "runsMs": 125_000, "title": "Mend\nthe roof", "pid": 8},
            ],
            "reports": [{"what": "attempt failed", "detail": "exit code 3", "issue": "us-1"}],
        },
    } | changes  # fmt: skip


def text(found: dict[str, Any]) -> str:
    return "\n".join(line for line, _ in drawn(found))


def test_everything_that_matters_is_in_it() -> None:
    shown = text(picture())
    for word in (
        "up 1h01m", "1 of 4 workers busy", "row 12", "3 restarts", "sidecar 9, native, epoch 3",
        "started again 1 times", "pid 7", "up 1m01s", "2 restarts", "5 in its mailbox",
        "us-1", "59s", "2m05s", "Mend the roof", "c/r/1", "attempt failed", "exit code 3",
    ):  # fmt: skip
        assert word in shown, word


def test_jobs_are_shown_beside_issues() -> None:
    jobs = {
        "slots": 2,
        "terms": [{"job": "build", "worker": "n/r/1", "fence": 8, "attempt": 1, "phase": "running",
                   "remainingMs": 9_000, "pid": 8}],
        "reports": [{"what": "attempt failed", "detail": "exit code 4", "job": "test"}],
    }  # fmt: skip
    shown = text(picture(jobs=jobs))
    for word in ("1 of 4 workers busy, 1 of 2 workers busy with jobs", "us-1", "job/build", "n/r/1",
                 "job/test: exit code 4", "us-1: exit code 3"):  # fmt: skip
        assert word in shown, word
    assert "stopping: so" in summary(picture(jobs=jobs | {"stopping": "so"}))


def test_a_tree_that_stops_says_why() -> None:
    stopping = picture()["dispatcher"] | {"stopping": "asked to"}
    assert "stopping: asked to" in summary(picture(dispatcher=stopping))


def test_what_runs_is_named_and_timed_and_the_rest_is_counted() -> None:
    counts = {"issues": {"ready": 3, "held": 1, "resting": 0, "blocked": 2, "done": 40}}
    assert list(running_lines(picture())) == [
        "us-1  running 2m05s, attempt 2, fence 5, c/r/1: Mend the roof"
    ]
    line = "issues  3 ready, 1 held, 0 resting, 2 blocked, 40 done"
    assert list(count_lines(picture(counts=counts))) == [line]
    assert line in text(picture(counts=counts))


def test_what_rests_is_shown_with_its_time_and_its_reason() -> None:
    rest = {"issue": "us-7", "restMs": 11_001, "why": "retry pause"}
    found = picture(dispatcher=picture()["dispatcher"] | {"rests": [rest]})
    assert list(rests(found)) == ["us-7 rests 12s: retry pause"]
    assert "us-7 rests 12s: retry pause" in text(found)


def test_a_narrow_screen_cuts_lines_and_keeps_the_head() -> None:
    whole = list(drawn(picture()))
    assert max(len(line) for line, _ in whole) > 60
    shown = [line for line, _ in fitted(picture(), 60, 4)]
    assert len(shown) == 4
    assert max(map(len, shown)) == 60
    assert shown[0].startswith("coord_sup  up 1h01m")
    assert list(fitted(picture(), 200, 100)) == whole


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_is_none(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\033[" in paint("x", "green")
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert (paint("x", "green"), paint("x", "bold")) == ("x", "x")


def test_parts_that_do_not_answer_leave_the_rest_visible() -> None:
    gone = {"missing": "noproc"}
    shown = text(picture(authority=gone, evidence=gone, dispatcher=gone))
    assert "authority_client" in shown
    assert "row ?" in shown


def test_who_makes_jobs_and_who_dispatches_them_are_counted_and_heard() -> None:
    said = {"what": "not written", "detail": "the disk is full", "issue": None, "at_ms": 5}
    specs = {
        "runner": {"specs": 2, "jobs": 101, "terms": [{"specId": "a"}], "reports": []},
        "dispatcher": {"jobs": 99, "failures": 3, "terms": [], "reports": [said]},
    }
    alone = [child for child in picture()["tree"] if child["id"] == "authority_client"]
    runner = alone[0] | {"id": "chain_runner"}
    shown = text(picture(specs=specs, tree=[*alone, runner], dispatcher={"missing": "none"}))
    for word in (
        "101 jobs made of 2 specs", "99 jobs dispatched", "3 files not written", "1 in hand",
        "the disk is full",
    ):  # fmt: skip
        assert word in shown, word
    assert "workers busy" not in shown
    gone = {"missing": "noproc"}
    assert "? jobs dispatched" in summary(picture(specs={"runner": gone, "dispatcher": gone}))
