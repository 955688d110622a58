"""Replay: the same bytes again, or the name of the first row that has others."""

from pathlib import Path
from random import Random

import apsw
import pytest

from tests.authority.pair import Pair
from tests.fakes.desk import Desk
from understudy.authority.journal.journal import Head, Snapshot
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.views.replay import replay
from understudy.contracts.reason import Reason

# One row of every kind that a journal can hold, by its number.
KINDS = {
    1: "an issue is added",
    2: "a claim is granted",
    3: "a sublease is granted",
    4: "an update is accepted",
    5: "a claim is refused",
    6: "a request id is reused",
    7: "a lapsed lease is reclaimed",
    8: "a zombie is refused",
    9: "records are imported",
    10: "the policy is set",
    11: "a read is recorded",
    12: "work is closed",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    SqliteJournal.create(path, "n1")
    desk = Desk(SqliteJournal(path))
    desk.grant("issue.add", id="a", title="t", requestId="r1")
    ann = desk.claim("a", "ann", leaseTtlSeconds=30)
    desk.grant("sublease.grant", **ann, holder="h", capabilityScope=["issue.close"])
    desk.grant("issue.update", **ann, notes="n")
    desk.ask("issue.claim", id="a", assignee="bob", requestId="r2")
    desk.ask("issue.claim", id="a", assignee="bob", requestId="r1")
    desk.time.passes(30_001)
    bob = desk.grant("issue.claim_next", assignee="bob", requestId="r3")["issue"]["lease"]
    desk.ask("issue.close", **ann)
    moment = "2027-01-15T08:00:00Z"
    record = {"id": "b", "title": "t", "created_at": moment, "updated_at": moment}
    desk.grant("issue.import", "cli", records=[record])
    desk.grant("policy.set", "cli", evidenceReads=True)
    desk.grant("issue.ready")
    held = {"assignee": "bob", "leaseId": bob["leaseId"], "fence": bob["fence"]}
    desk.grant("issue.close", id="a", **held)
    assert desk.authority.head.seq == len(KINDS)
    desk.authority.journal.close()
    return path


def edited(path: Path, query: str) -> str | None:
    with apsw.Connection(str(path)) as db:
        db.execute(query)
        assert db.total_changes() > 0, query
    found = replay(SqliteJournal(path, read_only=True))
    assert (found.reason is Reason.REPLAY_MISMATCH) == (found.mismatch is not None)
    assert found.rows == found.head.seq
    return found.mismatch


EDITS = {
    "wall_ms": "wall_ms + 1",
    "counter": "counter + 1",
    "node": "'n2'",
    "request": 'CAST(replace(CAST(request AS TEXT), \'"id":"a"\', \'"id":"z"\') AS BLOB)',
    "response": "CAST(replace(CAST(response AS TEXT), 'mcp', 'cli') AS BLOB)",
    "changes": "x'5b5d20'",
    "digest": "'row1_x'",
    "state_digest": "'st1_x'",
}
# Where the text that an edit replaces does not occur.
SAME = {"request": {7, 9, 10, 11}, "response": {9, 10}}
CASES = [(column, seq) for column in EDITS for seq in KINDS if seq not in SAME.get(column, ())]


@pytest.mark.parametrize(("column", "seq"), CASES, ids=[f"{c}, {KINDS[s]}" for c, s in CASES])
def test_an_edit_of_any_column_of_any_kind_of_row_is_named(
    path: Path, column: str, seq: int
) -> None:
    mismatch = edited(path, f"UPDATE journal SET {column} = {EDITS[column]} WHERE seq = {seq}")
    assert mismatch is not None
    assert mismatch.startswith(f"row {seq}: ")


@pytest.mark.parametrize("value", [0, 99])
def test_an_epoch_that_was_never_taken_or_was_over_is_named(path: Path, value: int) -> None:
    mismatch = edited(path, f"UPDATE journal SET epoch = {value} WHERE seq = 4")
    assert mismatch is not None


@pytest.mark.parametrize("seq", [1, 5, 11])
def test_a_row_that_is_gone_is_named(path: Path, seq: int) -> None:
    assert edited(path, f"DELETE FROM journal WHERE seq = {seq}") == f"row {seq}: it is missing"


def test_a_row_that_moved_is_named(path: Path) -> None:
    mismatch = edited(path, "UPDATE journal SET seq = 40 WHERE seq = 4")
    assert mismatch == "row 4: it is missing"


REQUESTS = [
    ("no json", "cannot be read"),
    ('{"a":1,"a":2}', "cannot be read"),
    ("{}", "cannot be read"),
    ('{"door":"mcp","policy":"","action":"no.such","payload":{}}', "is none"),
    ('{"door":"mcp","policy":"","action":"issue.add","payload":{}}', "is none"),
]


@pytest.mark.parametrize(("text", "words"), REQUESTS)
def test_a_request_that_is_none_is_named(path: Path, text: str, words: str) -> None:
    mismatch = edited(path, f"UPDATE journal SET request = CAST('{text}' AS BLOB) WHERE seq = 3")
    assert mismatch is not None
    assert mismatch.startswith("row 3: its request")
    assert words in mismatch


HOSTILE = [
    (3, "request", "CAST('[]' AS BLOB)"),
    (3, "request", "CAST('5' AS BLOB)"),
    (3, "request", "CAST(replace(CAST(request AS TEXT), '\"mcp\"', '\"odd\"') AS BLOB)"),
    (3, "request", "CAST(replace(CAST(request AS TEXT), '\"mcp\"', '7') AS BLOB)"),
    (1, "wall_ms", "9000000000000000"),
    (1, "wall_ms", "-9000000000000000"),
]


@pytest.mark.parametrize(("seq", "column", "value"), HOSTILE)
def test_a_row_that_no_authority_could_have_written_is_named_too(
    path: Path, seq: int, column: str, value: str
) -> None:
    mismatch = edited(path, f"UPDATE journal SET {column} = {value} WHERE seq = {seq}")
    assert mismatch is not None
    assert mismatch.startswith(f"row {seq}: ")


def test_a_request_that_was_answered_before_is_no_row(path: Path) -> None:
    """Its answer is the first one's; a second row would be a second effect."""
    query = "UPDATE journal SET request = (SELECT request FROM journal WHERE seq = 1) WHERE seq = 4"
    assert edited(path, query) == "row 4: its request id was answered by row 1"


# --- snapshots ------------------------------------------------------------------------------------


@pytest.fixture
def saved(path: Path) -> Path:
    desk = Desk(SqliteJournal(path))
    desk.authority.snapshot()
    desk.grant("issue.add", id="after", title="t")
    assert replay(desk.journal).mismatch is None
    desk.authority.journal.close()
    return path


def test_an_edit_of_a_snapshot_is_named_with_its_row(saved: Path) -> None:
    mismatch = edited(saved, "UPDATE snapshot SET image = x'7b7d'")
    assert mismatch is not None
    assert mismatch.startswith("row 12: the snapshot differs")


@pytest.mark.parametrize("column", ["digest", "state_digest"])
def test_a_snapshot_that_is_chained_elsewhere_is_named(saved: Path, column: str) -> None:
    mismatch = edited(saved, f"UPDATE snapshot SET {column} = 'x'")
    assert mismatch == "row 12: the snapshot is chained to another row"


def test_a_snapshot_of_a_row_that_is_not_there_is_named(saved: Path) -> None:
    assert edited(saved, "UPDATE snapshot SET seq = 14") is not None


def test_an_edit_of_the_digest_of_an_image_is_named(saved: Path) -> None:
    assert edited(saved, "UPDATE snapshot SET image_digest = 'x'") is not None


# --- soundness ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_any_walk_replays_with_a_snapshot_at_any_place(seed: int) -> None:
    pair, random = Pair(), Random(seed)
    for _ in range(4):
        pair.wander(random, 15)
        pair.desk.authority.snapshot()
    pair.wander(random, 10)
    assert replay(pair.desk.journal).mismatch is None


def test_progress_is_told_row_by_row_and_the_head_is_the_last_rows(path: Path) -> None:
    seen: list[int] = []
    found = replay(SqliteJournal(path, read_only=True), seen.append)
    assert seen == list(KINDS)
    assert (found.rows, found.mismatch, found.reason) == (len(KINDS), None, None)


def test_an_empty_journal_replays() -> None:
    desk = Desk()
    assert replay(desk.journal).head == Head()
    desk.journal.put_snapshot(Snapshot.of(Head(1, "row1_", "st1_"), b""))
    assert replay(desk.journal).mismatch == "row 1: the snapshot is ahead of the journal"
