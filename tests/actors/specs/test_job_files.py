"""The courier against an authority that says what a test wants, and a folder that is real."""

from pathlib import Path
from typing import Any

import pytest

from tests.actors.specs.door import LOST, START_MS, Door, granted, lease, refused
from understudy.actors.specs import job_file_format
from understudy.actors.specs.job_file_format import Sheet
from understudy.actors.specs.job_files import CLAIMS_MAX, JOBS_MAX, Courier
from understudy.actors.specs.lease_loop import Post

TTL_MS = 60_000
Answer = dict[str, Any]


class Jobs:
    """What an authority knows of jobs that can be dispatched."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)
        self.dispatched: dict[str, Answer] = {}
        self.fence = 0

    def roster(self, payload: Answer) -> Answer:
        names = [name for name in self.names if name not in self.dispatched]
        return granted(jobs=[{"jobId": name} for name in names[: payload["limit"]]], count=1)

    def claim(self, payload: Answer) -> Answer:
        self.fence += 1
        job_id = payload["jobId"]
        spec_id, _, key = job_id.partition(":")
        job = {
            "jobId": job_id,
            "kind": "k",
            "attempts": 0,
            "payload": {"specId": spec_id, "stepKey": key, "inputs": {}},
            "causalDeps": [],
            "dispatchLease": lease(f"dispatch/{job_id}", self.fence),
        }
        return granted(job=job)

    def complete(self, payload: Answer) -> Answer:
        assert payload["jobId"] not in self.dispatched, "once"
        self.dispatched[payload["jobId"]] = payload
        return granted(changed=True)


class Desk(Door):
    """A courier with a folder."""

    def __init__(self, folder: Path, jobs: Jobs, **says: Any) -> None:
        answers: dict[str, Any] = {
            "dispatch_roster": jobs.roster,
            "dispatch_claim": jobs.claim,
            "dispatch_complete": jobs.complete,
            "dispatch_release": granted(changed=True),
        }
        self.courier = Courier(Post("ada", "r1", TTL_MS))
        self.folder = folder
        super().__init__(self.courier, **(answers | says))

    def write(self) -> list[Sheet]:
        sheets = self.courier.writes(self.moment)
        outcomes = job_file_format.place(self.folder, sheets, lambda: self.ms)
        self.courier.written(sheets, outcomes, self.moment)
        return sheets

    def turn(self) -> list[str]:
        asked = super().turn()
        self.write()
        return asked


def names(count: int) -> list[str]:
    return [f"s:{number}" for number in range(count)]


def test_a_job_is_claimed_written_and_completed_with_what_was_written(tmp_path: Path) -> None:
    jobs = Jobs("s:a")
    door = Desk(tmp_path, jobs)
    assert door.turns(3) == [["dispatch.roster"], ["dispatch.claim"], ["dispatch.complete"]]
    done = jobs.dispatched["s:a"]
    (path,) = tmp_path.iterdir()
    assert done["file"] == path.name
    assert done["digest"] == Sheet("", "", path.read_bytes(), 0).digest
    assert (done["leaseId"], done["fence"]) == ("dispatch/s:a/1", 1)
    assert (door.courier.jobs, door.courier.is_idle) == (1, True)


def test_many_jobs_are_in_flight_and_no_more_than_there_is_room_for(tmp_path: Path) -> None:
    jobs = Jobs(*names(3 * JOBS_MAX))
    door = Desk(tmp_path, jobs)
    assert door.turns(2)[1] == ["dispatch.claim"] * CLAIMS_MAX, "the rest is left to others"
    most = 0
    for _ in range(20):
        door.turns(1)
        most = max(most, len(door.courier.terms))
    assert CLAIMS_MAX < most <= JOBS_MAX
    assert len(jobs.dispatched) == len(list(tmp_path.iterdir())) == 3 * JOBS_MAX


def test_nothing_is_completed_before_it_is_written(tmp_path: Path) -> None:
    door = Desk(tmp_path, Jobs(*names(100)))
    for _ in range(20):
        door.turns(1)
        on_disk = {path.name for path in tmp_path.iterdir()}
        assert {each["file"] for each in door.payloads("dispatch.complete")} <= on_disk


def test_leases_are_renewed_while_the_disk_is_slow(tmp_path: Path) -> None:
    jobs = Jobs(*names(JOBS_MAX))
    door = Desk(tmp_path, jobs)
    door.turns(2)
    for _ in range(20):
        door.ms += TTL_MS // 4  # of each portion
        door.turn()
    assert len(jobs.dispatched) == JOBS_MAX
    assert len(door.payloads("dispatch.claim")) > JOBS_MAX
    assert not door.courier.reports


@pytest.mark.parametrize("of_folder", [True, False])
def test_what_cannot_be_written_is_given_back_with_the_reason_and_tried_again_later(
    tmp_path: Path, of_folder: bool
) -> None:
    folder = tmp_path / "jobs"
    if of_folder:
        folder.write_bytes(b"in the way")
    else:
        folder.mkdir()
        (folder / "s+0.json").symlink_to(tmp_path)
    jobs = Jobs(*names(3))
    door = Desk(folder, jobs)
    door.turns(3)
    releases = door.payloads("dispatch.release")
    assert len(releases) == (3 if of_folder else 1)
    assert all(each["reason"].startswith("not written: ") for each in releases)
    assert len(door.courier.reports) == 1, "said once"
    assert door.courier.is_idle
    claims = len(door.payloads("dispatch.claim"))
    while door.ms < START_MS + 950:
        door.turn()
        door.ms += 50
        assert len(door.payloads("dispatch.claim")) == claims, "not at once"
    (folder if of_folder else folder / "s+0.json").unlink()
    door.turns(8)
    assert len(jobs.dispatched) == 3


def test_a_courier_that_was_frozen_past_its_lease_writes_nothing_and_asks_nothing(
    tmp_path: Path,
) -> None:
    door = Desk(tmp_path, Jobs("s:a"))
    door.turns(1)
    door.ms = door.machine.next_ms
    Door.turn(door)  # claimed, and frozen before it could write
    door.ms += TTL_MS
    assert door.write() == []
    assert "dispatch.complete" not in Door.turn(door)
    assert [each.what for each in door.courier.reports] == ["lapsed"]


def test_a_courier_that_is_frozen_while_it_writes_renames_nothing(tmp_path: Path) -> None:
    door = Desk(tmp_path, Jobs("s:a"))
    door.turns(1)
    door.ms = door.machine.next_ms
    Door.turn(door)
    sheets = door.courier.writes(door.moment)
    door.ms += TTL_MS
    outcomes = job_file_format.place(tmp_path, sheets, lambda: door.ms)
    door.courier.written(sheets, outcomes, door.moment)
    assert outcomes == [job_file_format.Late()]
    assert list(tmp_path.iterdir()) == []
    assert "dispatch.complete" not in Door.turn(door)


@pytest.mark.parametrize("name", LOST)
def test_a_late_completion_is_dropped(tmp_path: Path, name: str) -> None:
    door = Desk(tmp_path, Jobs("s:a"), dispatch_complete=refused(name))
    door.turns(3)
    assert door.courier.is_idle
    assert door.courier.jobs == 0
    assert not door.payloads("dispatch.release")


def test_a_stop_completes_what_is_written_and_gives_back_the_rest(tmp_path: Path) -> None:
    jobs = Jobs(*names(100))
    door = Desk(tmp_path, jobs)
    door.turns(2)
    written = {path.name for path in tmp_path.iterdir()}
    assert 0 < len(written) < 100
    door.machine.stop("it is late")
    door.turns(1)
    assert door.machine.is_over
    assert {each["file"] for each in jobs.dispatched.values()} == written
    assert len(door.payloads("dispatch.release")) == CLAIMS_MAX - len(written)
    assert {path.name for path in tmp_path.iterdir()} == written


def test_a_page_of_jobs_that_must_wait_does_not_hide_those_behind_it(tmp_path: Path) -> None:
    jobs = Jobs("s:bad", "s:good")

    def roster(payload: Answer) -> Answer:
        name = "s:good" if payload.get("cursor") == "2" else "s:bad"
        last = {} if name == "s:good" else {"cursor": "2"}
        free = [] if name in jobs.dispatched else [{"jobId": name}]
        return granted(jobs=free, count=1) | last

    (tmp_path / "s+bad.json").mkdir()
    door = Desk(tmp_path, jobs, dispatch_roster=roster)
    door.turns(8)
    assert list(jobs.dispatched) == ["s:good"]
