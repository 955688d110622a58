"""The trajectory: a projection that is filled, mended, rewritten and held against the journal."""

from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import pytest

from tests.fakes.desk import Desk, asked
from tests.fakes.journal import MemoryJournal
from understudy.authority.journal.journal import Row, Unavailable
from understudy.authority.views import trajectory
from understudy.authority.views.trajectory import Trajectory, line, rewrite, verify
from understudy.contracts import STEP_KIND, canonical
from understudy.contracts.reason import Reason
from understudy.contracts.registry.check import document_findings


@pytest.fixture
def desk() -> Desk:
    """Five rows, one of them a refusal."""
    desk = Desk()
    desk.grant("issue.add", id="a", title="t")
    ann = desk.claim("a", "ann")
    desk.grant("issue.update", **ann, notes="n" * 200)
    assert desk.refusal("issue.claim", id="a", assignee="bob") is not None
    request = asked("issue.close", ann, context={"instructionRef": "do it"})
    desk.authority.submit([request])
    return desk


@pytest.fixture
def path(desk: Desk, tmp_path: Path) -> Path:
    path = tmp_path / "t.jsonl"
    rewrite(path, desk.journal)
    return path


def rows(desk: Desk) -> list[Row]:
    return list(desk.journal.read())


# --- lines ----------------------------------------------------------------------------------------


def test_every_row_is_one_canonical_line_that_its_schema_takes(desk: Desk) -> None:
    prev = None
    for row in rows(desk):
        data = line(row)
        step = orjson.loads(data)
        assert data == canonical.encode(step) + b"\n"
        assert document_findings("trajectory-row", step) == []
        assert (step["stepKind"], step["digest"]) == (STEP_KIND, row.digest)
        assert step["stepId"] == f"n1.{row.seq}.{step['action']}"
        assert prev is None or step["lineageRefs"] == [prev]
        assert step["issueId"] == "a"
        prev = row.digest
    assert step["instructionRefs"] == ["do it"]
    assert orjson.loads(line(rows(desk)[3]))["resultClass"] == "lease_contention_active"


def test_a_row_about_no_issue_names_none() -> None:
    desk = Desk()
    desk.grant("policy.set", "cli", evidenceReads=True)
    assert "issueId" not in orjson.loads(line(rows(desk)[0]))


@pytest.mark.parametrize("response", [b"", b"{}", b"[]", b'{"effect":{}}', b"5"])
def test_a_row_whose_answer_is_damaged_is_named(desk: Desk, response: bytes) -> None:
    with pytest.raises(Unavailable, match="row 2") as refused:
        line(rows(desk)[1]._replace(response=response))
    assert refused.value.reason is Reason.JOURNAL_CORRUPT


def test_a_row_without_a_route_is_refused(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trajectory, "evidence_routes", dict)
    with pytest.raises(Unavailable) as refused:
        line(rows(desk)[0])
    assert refused.value.reason is Reason.EVIDENCE_ROUTE_MISSING


OPENED: list[Trajectory] = []


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    while OPENED:
        OPENED.pop().close()


def opened(path: Path, last_seq: int) -> Trajectory:
    """A trajectory that is closed when the test is over."""
    OPENED.append(Trajectory(path, last_seq))
    return OPENED[-1]


# --- following ------------------------------------------------------------------------------------


def test_rows_at_hand_are_appended_as_they_come(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    file = opened(path, 0)
    for row in rows(desk):
        file.follow(desk.journal, [row])
    assert path.read_bytes() == b"".join(line(row) for row in rows(desk))
    assert verify(path, desk.journal) == (5, None)
    file.follow(desk.journal, [])
    assert verify(path, desk.journal) == (5, None)


@pytest.mark.parametrize("known", range(6))
def test_what_is_missing_is_filled_from_the_journal(desk: Desk, tmp_path: Path, known: int) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"".join(line(row) for row in rows(desk)[:known]))
    opened(path, 5).follow(desk.journal, rows(desk)[-1:])
    assert verify(path, desk.journal) == (5, None)


def test_rows_that_are_there_are_not_repeated(desk: Desk, path: Path) -> None:
    opened(path, 5).follow(desk.journal, rows(desk)[2:])
    assert verify(path, desk.journal) == (5, None)


@pytest.mark.parametrize("chunk", [64, 65_536])
def test_a_torn_last_line_is_cut_off_wherever_it_tore(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    monkeypatch.setattr(trajectory, "_TAIL_BYTES", chunk)
    lines = [line(row) for row in rows(desk)]
    path = tmp_path / "t.jsonl"
    step = 97 if chunk == 64 else 13
    for cut in [0, 1, *range(2, len(lines[-1]), step), len(lines[-1]) - 1]:
        path.write_bytes(b"".join(lines[:4]) + lines[4][:cut])
        file = opened(path, 5)
        assert path.read_bytes() == b"".join(lines[:4])
        file.follow(desk.journal, [])
        assert verify(path, desk.journal) == (5, None)


def test_a_file_that_holds_half_a_line_becomes_empty(desk: Desk, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(line(rows(desk)[0])[:-1])
    opened(path, 5)
    assert path.read_bytes() == b""


@pytest.mark.parametrize("last", [b"{}\n", b"no json\n", b"[]\n", b'{"effect":1}\n'])
def test_a_last_line_that_is_none_of_ours_stops_the_start(
    desk: Desk, path: Path, last: bytes
) -> None:
    path.write_bytes(path.read_bytes() + last)
    with pytest.raises(Unavailable) as refused:
        opened(path, 5)
    assert refused.value.reason is Reason.TRAJECTORY_MISMATCH


def test_a_file_that_knows_more_than_the_journal_stops_the_start(path: Path) -> None:
    with pytest.raises(Unavailable) as refused:
        opened(path, 4)
    assert refused.value.reason is Reason.TRAJECTORY_MISMATCH


def test_a_sync_that_fails_once_repeats_nothing(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t.jsonl"
    file = opened(path, 0)
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", _fail)
        with pytest.raises(OSError, match="no space"):
            file.follow(desk.journal, rows(desk))
    file.follow(desk.journal, [])
    assert verify(path, desk.journal) == (5, None)


def _fail(_: int) -> None:
    raise OSError(28, "no space")


# --- rewriting and verifying ----------------------------------------------------------------------


def test_rewriting_gives_the_same_bytes_and_leaves_nothing_beside(desk: Desk, path: Path) -> None:
    before = path.read_bytes()
    path.write_bytes(b"damaged")
    assert rewrite(path, desk.journal) == 5
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_an_empty_journal_has_an_empty_trajectory(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    assert verify(path, MemoryJournal()) == (0, None)
    assert rewrite(path, MemoryJournal()) == 0
    assert verify(path, MemoryJournal()) == (0, None)


def _without_third(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], *lines[3:]]


def _third_no_json(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], b"{]\n", *lines[3:]]


def _third_no_step(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], b'{"a":1}\n', *lines[3:]]


def _third_with_another_effect(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2].replace(b'"transport":"mcp"', b'"transport":"cli"'), *lines[3:]]


def _third_with_other_bytes(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2].replace(b'"stepId":"n1.3', b'"stepId":"n1.4'), *lines[3:]]


def _third_with_a_space(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[2].replace(b"\n", b" \n"), *lines[3:]]


def _swapped(lines: list[bytes]) -> list[bytes]:
    return [*lines[:2], lines[3], lines[2], lines[4]]


@pytest.mark.parametrize(
    ("damage", "seen", "words"),
    [
        (_without_third, 2, "row 3: its envelope"),
        (_third_no_json, 2, "row 3: the line is no step"),
        (_third_no_step, 2, "row 3: the line is no step"),
        (_third_with_another_effect, 2, "row 3: its envelope"),
        (_third_with_other_bytes, 2, "row 3: its bytes differ"),
        (_third_with_a_space, 2, "row 3: its bytes differ"),
        (_swapped, 2, "row 3: its envelope"),
        (lambda lines: lines[:2], 2, "row 3 is missing"),
        (lambda _: [], 0, "row 1 is missing"),
        (lambda lines: [*lines, lines[4]], 5, "line 6 stands behind"),
        (lambda lines: [*lines[:4], lines[4][:-1]], 4, "row 5: its bytes differ"),
    ],
)
def test_the_first_row_that_differs_is_named(
    desk: Desk,
    path: Path,
    damage: Callable[[list[bytes]], list[bytes]],
    seen: int,
    words: str,
) -> None:
    path.write_bytes(b"".join(damage([line(row) for row in rows(desk)])))
    count, problem = verify(path, desk.journal)
    assert count == seen
    assert problem is not None
    assert problem.startswith(words)


def test_a_line_that_is_chained_to_another_row_is_named(desk: Desk, path: Path) -> None:
    journal = MemoryJournal()
    journal.disk.rows = rows(desk)
    journal.disk.rows[1] = journal.disk.rows[1]._replace(digest="row1_" + "0" * 64)
    count, problem = verify(path, journal)
    assert (count, str(problem)[:5]) == (1, "row 2")
    journal.disk.rows = rows(desk)[1:]
    path.write_bytes(b"".join(line(row) for row in journal.disk.rows))
    count, problem = verify(path, journal)
    assert (count, "is chained to" in str(problem)) == (0, True)
