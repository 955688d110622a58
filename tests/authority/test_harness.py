"""What workers leave behind: kept by worker, replayed, and read back through any boundary."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.desk import Desk
from understudy.authority.engine import ffi
from understudy.authority.engine.envelope import glean
from understudy.authority.journal.journal import Unavailable
from understudy.authority.journal.state_dir import create_state_dir
from understudy.authority.journal.state_files import TRAJECTORY
from understudy.authority.law.image import dump, load
from understudy.authority.service.local import Office
from understudy.authority.service.native_local import NativeOffice
from understudy.contracts import Door, limits
from understudy.contracts.registry.check import validator

STEP = {"worker": "ada", "action": "lint", "resultClass": "passed"}


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    return desk


def test_many_workers_write_side_by_side_and_lose_nothing(desk: Desk) -> None:
    workers = [f"w{number}" for number in range(20)]
    for turn in range(3):
        for worker in workers:
            desk.grant("harness.session.write", worker=worker, summary=f"{worker} at {turn}")
            desk.grant("harness.feature.write", worker=worker, featureId="f", summary=worker)
    for worker in workers:
        session = desk.grant("harness.session.read", worker=worker)["session"]
        assert session["summary"] == f"{worker} at 2"
        (feature,) = desk.grant("harness.feature.read", worker=worker)["ledger"]["features"]
        assert feature["summary"] == worker
    desk.prove()


def test_everything_that_is_left_survives_a_snapshot(desk: Desk) -> None:
    held = desk.claim("a", "ann")
    for place in range(limits.HANDOVERS_PER_ISSUE_MAX + 1):
        desk.grant("issue.handover", **held, checkpoint={"summary": f"number {place}"})
    desk.grant("harness.session.write", worker="ada", issueId="a", state="stopped")
    desk.grant("harness.feature.write", worker="ada", featureId="f", verificationRefs=["v"])
    image = dump(desk.authority.state)
    again = load(image)
    assert dump(again) == image
    assert [len(each) for each in (again.handovers["a"], again.sessions, again.features)] == [
        limits.HANDOVERS_PER_ISSUE_MAX,
        1,
        1,
    ]
    desk.authority.snapshot()
    desk.restart()
    assert (
        desk.grant("issue.show", id="a")["issue"]["handover"]["checkpoint"]["summary"] == "number 4"
    )
    desk.prove()


def test_step_ids_never_repeat_whichever_worker_reports_what(desk: Desk) -> None:
    ids = [desk.grant("harness.trajectory.append", **STEP)["step"]["stepId"] for _ in range(5)]
    desk.restart()
    ids += [desk.grant("harness.trajectory.append", **STEP)["step"]["stepId"] for _ in range(5)]
    assert len(set(ids)) == 10


def test_a_damaged_row_is_named_and_not_guessed_at(desk: Desk) -> None:
    desk.grant("harness.trajectory.append", **STEP)
    row = next(iter(desk.journal.read(1)))
    for broken in (b"{", b"[]", b'{"effect":{}}'):
        with pytest.raises(Unavailable, match=f"row {row.seq}"):
            glean(row._replace(response=broken))


# --- the trajectory -------------------------------------------------------------------------------


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    create_state_dir(tmp_path / "state", "n1")
    return tmp_path / "state"


def test_a_step_stands_in_the_trajectory_in_the_words_of_its_worker(state_dir: Path) -> None:
    with Office(state_dir) as office:
        said = office.ask("harness.trajectory.append", STEP | {"witnessRefs": ["b", "a", "b"]})
    (line,) = (state_dir / TRAJECTORY).read_bytes().splitlines()
    row = orjson.loads(line)
    assert row["step"] == said["step"]
    assert (row["stepId"], row["step"]["witnessRefs"]) == (said["step"]["stepId"], ["a", "b"])
    assert {"a", "b"} <= set(row["effect"]["witnessRefs"]), "the chain covers what it rests on"
    assert row["route"] == "eta.session_to_ev"
    assert [error.message for error in validator("trajectory-row").iter_errors(row)] == []


def _lines(*asked: tuple[str, dict[str, Any]]) -> list[tuple[bytes, Door]]:
    door = Door("mcp", frozen_clock=True)
    return [
        (orjson.dumps({"action": action, "payload": payload, "now": 1_000_000}), door)
        for action, payload in asked
    ]


@pytest.mark.skipif(not ffi.available(), reason="there is no C here")
def test_decisions_in_c_are_seen_before_and_after_their_commit(tmp_path: Path) -> None:
    asked = _lines(
        ("issue.add", {"id": "a", "title": "t"}),
        ("issue.claim", {"id": "a", "assignee": "ann"}),
        ("issue.claim", {"id": "a", "assignee": "bob"}),
        ("harness.trajectory.query", {}),
        ("observe.latest", {}),
        ("issue.close", {"id": "a", "assignee": "ann", "leaseId": "lease1_a_ann_2", "fence": 1}),
        ("observe.needs_attention", {}),
    )
    answers = []
    for boundary, together in ((Office, True), (NativeOffice, True), (NativeOffice, False)):
        folder = tmp_path / f"{boundary.__name__}-{together}"
        create_state_dir(folder, "n1")
        with boundary(folder) as office:
            if together:
                answers.append(office.submit_lines(asked))
            else:
                answers.append([office.submit_lines([each])[0] for each in asked])
    assert answers[0] == answers[1] == answers[2]
    query, latest, attention = (orjson.loads(answers[0][place]) for place in (3, 4, 6))
    assert [item["resultClass"] for item in query["trajectory"]["items"]] == [
        "lease_contention_active", "accepted", "accepted",
    ]  # fmt: skip
    assert latest["latest"]["decision"]["worker"] == "bob"
    assert [item["kind"] for item in attention["attention"]["items"]] == ["refused_hand_in"]
