"""The sidecar's door, byte by byte: who is let in, what is answered and when, and what is not."""

import asyncio
import os
import socket
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import orjson
import pytest

from understudy.authority import (
    SOCKET,
    TRAJECTORY,
    Office,
    Unavailable,
    create_state_dir,
    open_journal,
)
from understudy.authority.client import _connected
from understudy.authority.journal import Row
from understudy.authority.replay import replay
from understudy.authority.service import recover
from understudy.authority.sidecar import Sidecar
from understudy.authority.state import dump
from understudy.authority.trajectory import verify
from understudy.contracts import Reason, contract_digest, limits

PATIENCE_SECONDS = 10  # far beyond anything that works
_PAUSE_SECONDS = 0.002
HELLO = {"hello": {"protocol": 1, "transport": "mcp"}}
TOO_LARGE = "transport_request_too_large"
OVERLOADED = "authority_overloaded"


def eventually(holds: Callable[[], object]) -> None:
    """Look again and again, until it is so; a test that waits for nothing fails."""
    pause = threading.Event()
    for _ in range(int(PATIENCE_SECONDS / _PAUSE_SECONDS)):
        if holds():
            return
        pause.wait(_PAUSE_SECONDS)
    raise AssertionError("it never came to that")


def add(mark: int, **payload: object) -> dict[str, Any]:
    return {
        "id": mark,
        "action": "issue.add",
        "payload": {"id": f"i{mark}", "title": "t"} | payload,
    }


def show(mark: int, issue_id: str) -> dict[str, Any]:
    return {"id": mark, "action": "issue.show", "payload": {"id": issue_id}}


def lines_of(*requests: dict[str, Any]) -> bytes:
    return b"".join(orjson.dumps(request) + b"\n" for request in requests)


class Commits:
    """Every `append` of a journal, counted; a test may hold them up, or let them fail."""

    def __init__(self, append: Callable[[Sequence[Row], int, int], None]) -> None:
        self._append = append
        self.sizes: list[int] = []
        self.begun = threading.Semaphore(0)
        self.way = threading.Event()
        self.way.set()
        self.failure: Exception | None = None

    def __call__(self, rows: Sequence[Row], expected_seq: int, epoch: int) -> None:
        self.begun.release()
        assert self.way.wait(PATIENCE_SECONDS), "the test forgot to let it go"
        if self.failure is not None:
            raise self.failure
        self._append(rows, expected_seq, epoch)
        self.sizes.append(len(rows))

    def hold(self) -> None:
        self.way.clear()

    def wait_for_one(self) -> None:
        assert self.begun.acquire(timeout=PATIENCE_SECONDS), "no commit begins"

    def go(self) -> None:
        self.way.set()


class Serving:
    """A sidecar in a thread of this process. Leaving the block stops it."""

    def __init__(self, state_dir: Path, *, frozen_clock: bool = False) -> None:
        self.state_dir = state_dir
        self.office = Office(state_dir)
        self.commits = Commits(self.office.journal.append)
        setattr(self.office.journal, "append", self.commits)  # noqa: B010 - a method, to mypy
        self.sidecar = Sidecar(self.office, frozen_clock=frozen_clock)
        self.ended_with: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="sidecar")
        self._thread.start()
        assert self.sidecar.ready.wait(PATIENCE_SECONDS), "the sidecar does not come up"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.commits.go()
        self.stop()
        self.wait()
        self._loop.close()
        self.office.close()

    def stop(self) -> None:
        with suppress(RuntimeError):  # it has ended by itself
            self._loop.call_soon_threadsafe(self.sidecar.stop)

    def wait(self) -> None:
        self._thread.join(PATIENCE_SECONDS)
        assert not self._thread.is_alive(), "it does not stop"

    def _serve(self) -> None:
        try:
            self._loop.run_until_complete(self.sidecar.run())
        except BaseException as error:  # noqa: BLE001 - the test asks for it
            self.ended_with = error


class Peer:
    """A raw connection: bytes out, lines in."""

    def __init__(self, state_dir: Path, hello: dict[str, Any] | None = HELLO) -> None:
        self.socket = _connected(state_dir)
        self.socket.settimeout(PATIENCE_SECONDS)
        self._file = self.socket.makefile("rb")
        if hello is not None:
            self.send(hello)
            self.server: dict[str, Any] = self.answer()["hello"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def write(self, data: bytes) -> None:
        self.socket.sendall(data)

    def send(self, *requests: dict[str, Any]) -> None:
        self.write(lines_of(*requests))

    def line(self) -> bytes:
        """The next line; nothing at the end, whether it came with a bang or without."""
        try:
            return self._file.readline()
        except ConnectionError:
            return b""

    def answer(self) -> dict[str, Any]:
        line = self.line()
        assert line.endswith(b"\n"), f"hung up with {line!r}"
        value: dict[str, Any] = orjson.loads(line)
        return value

    def answers(self, count: int) -> list[dict[str, Any]]:
        return [self.answer() for _ in range(count)]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        self.send(request)
        return self.answer()

    def rest(self) -> list[bytes]:
        """What still comes until the other side hangs up."""
        lines = []
        while line := self.line():
            lines.append(line)
        return lines

    def is_still_unanswered(self) -> bool:
        """Nothing has come so far. What is refused at the door overtakes all: that comes first."""
        self.write(b"x" * (limits.REQUEST_BYTES_MAX + 1))
        refused = refusal(self.answer()) == TOO_LARGE
        self.write(b"\n")
        return refused

    def close(self) -> None:
        self._file.close()
        self.socket.close()


def refusal(answer: dict[str, Any]) -> str | None:
    classes: list[str] = answer["failureClasses"]
    return classes[0] if classes else None


def results(answers: Sequence[dict[str, Any]]) -> dict[int, str | None]:
    """How each request ended, by its id; no id comes twice."""
    found = {answer["id"]: refusal(answer) for answer in answers}
    assert len(found) == len(answers)
    return found


def rows_of(state_dir: Path) -> list[Row]:
    with open_journal(state_dir, read_only=True) as journal:
        return list(journal.read())


def prove(state_dir: Path) -> None:
    """The journal replays to its bytes, and a start from its snapshot gives what replay gives."""
    with open_journal(state_dir, read_only=True) as journal:
        result = replay(journal)
        assert result.mismatch is None
        assert recover(journal)[1] == result.head


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "n1")
    return folder


@pytest.fixture
def serving(state_dir: Path) -> Iterator[Serving]:
    with Serving(state_dir) as running:
        yield running


# --- hello ----------------------------------------------------------------------------------------


def test_the_greeting_says_who_serves_and_by_which_contract(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        assert peer.server["protocol"] == 1
        assert peer.server["node"] == "n1"
        assert peer.server["pid"] == os.getpid()
        assert peer.server["contractDigest"] == contract_digest()


@pytest.mark.parametrize(
    "hello",
    [
        b'{"hello":{"protocol":2,"transport":"mcp"}}',
        b'{"hello":{"protocol":0,"transport":"mcp"}}',
        b'{"hello":{"protocol":"1","transport":"mcp"}}',
        b'{"hello":{"protocol":1.0,"transport":"mcp"}}',
        b'{"hello":{"protocol":true,"transport":"mcp"}}',
        b'{"hello":{"transport":"mcp"}}',
        b'{"hello":{"protocol":1}}',
        b'{"hello":{"protocol":1,"transport":"carrier-pigeon"}}',
        b'{"hello":{"protocol":1,"transport":null}}',
        b'{"hello":{"protocol":1,"transport":["mcp"]}}',
        b'{"hello":{"protocol":1,"transport":{}}}',
        b'{"hello":1}',
        b'{"hello":null}',
        b'["hello"]',
        b"1",
        b"garbage",
        b"\xff\x00",
        b'{"hello":{"protocol":1,"protocol":1,"transport":"mcp"}}',
        b'{"action":"issue.list","payload":{}}',
        b"[" * 1000,
    ],
    ids=lambda hello: hello[:60].decode(errors="replace"),
)
def test_whoever_does_not_say_hello_is_told_so_and_shown_out(
    serving: Serving, hello: bytes
) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(hello + b"\n")
        assert refusal(peer.answer()) == "sidecar_protocol_mismatch"
        assert peer.rest() == []
    with Peer(serving.state_dir) as other:
        assert refusal(other.ask(add(1))) is None


def test_nothing_behind_a_refused_hello_is_taken_in(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(b"garbage\n" + lines_of(HELLO, add(1)))
        assert [orjson.loads(line).get("result") for line in peer.rest()] == ["rejected"]
    with Peer(serving.state_dir) as other:
        assert refusal(other.ask(show(1, "i1"))) == "issue_not_found"


def test_a_hello_that_is_too_long_is_refused_and_a_second_try_is_heard(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(b"x" * (2 * limits.REQUEST_BYTES_MAX) + b"\n")
        assert refusal(peer.answer()) == TOO_LARGE
        assert "hello" in peer.ask(HELLO)


def test_requests_may_follow_the_hello_without_waiting(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.send(HELLO, add(1), add(2))
        assert "hello" in peer.answer()
        assert results(peer.answers(2)) == {1: None, 2: None}


def test_a_newcomer_is_greeted_while_sqlite_is_busy_with_a_commit(serving: Serving) -> None:
    inside, leave = threading.Event(), threading.Event()

    def commit_hook() -> bool:
        inside.set()
        return not leave.wait(PATIENCE_SECONDS)

    with Peer(serving.state_dir) as first:
        first.ask(add(1))  # the epoch is taken
        serving.office.journal._db.set_commit_hook(commit_hook)
        first.send(add(2))
        assert inside.wait(PATIENCE_SECONDS)
        try:
            with Peer(serving.state_dir, hello=None) as second:
                second.send(HELLO)
                assert "hello" in second.answer()
        finally:
            leave.set()
        assert refusal(first.answer()) is None


# --- doors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transport", "expected"),
    [("mcp", None), ("cli", "control_plane_host_action_mcp_transport_required")],
)
def test_a_lease_is_renewed_through_the_mcp_door_alone(
    serving: Serving, transport: str, expected: str | None
) -> None:
    with Peer(serving.state_dir) as holder:
        holder.ask(add(1))
        claim = {"id": "i1", "assignee": "ada", "leaseId": "l"}
        fence = holder.ask({"action": "issue.claim", "payload": claim})["issue"]["lease"]["fence"]
    hello = {"hello": {"protocol": 1, "transport": transport}}
    with Peer(serving.state_dir, hello) as peer:
        renew = {"action": "issue.lease_renew", "payload": claim | {"fence": fence}}
        assert refusal(peer.ask(renew)) == expected


def test_a_door_does_not_get_stronger_by_asking(serving: Serving) -> None:
    with Peer(serving.state_dir, {"hello": {"protocol": 1, "transport": "cli"}}) as peer:
        asked = {"action": "issue.list", "payload": {}, "context": {"transport": "mcp"}}
        assert refusal(peer.ask(asked)) == "transport_escalation_denied"


@pytest.mark.parametrize(
    ("frozen_server", "frozen_hello", "taken"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_time_is_brought_along_only_where_both_sides_want_it(
    state_dir: Path, frozen_server: bool, frozen_hello: bool, taken: bool
) -> None:
    hello = {"hello": {"protocol": 1, "transport": "mcp", "frozenClock": frozen_hello}}
    with Serving(state_dir, frozen_clock=frozen_server), Peer(state_dir, hello) as peer:
        answer = peer.ask(add(1) | {"now": 4_000_000_000_000})
        assert (refusal(answer) is None) is taken
        if taken:
            assert answer["stamp"]["wallMs"] == 4_000_000_000_000


# --- frames ---------------------------------------------------------------------------------------


def test_a_frame_may_come_byte_by_byte(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        for byte in lines_of(add(1)):
            peer.write(bytes([byte]))
        assert peer.answer()["id"] == 1


def test_frames_that_are_cut_anywhere_are_put_together(serving: Serving) -> None:
    data = lines_of(*(add(mark) for mark in range(60)))
    with Peer(serving.state_dir) as peer:
        for start in range(0, len(data), 37):
            peer.write(data[start : start + 37])
        assert [answer["id"] for answer in peer.answers(60)] == list(range(60))


def test_blank_lines_are_nothing_and_a_carriage_return_is_blank(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(b"\n\r\n" + orjson.dumps(HELLO) + b"\r\n")
        assert "hello" in peer.answer()
        peer.write(b"\n \n\t\n\r\n" + orjson.dumps(add(1)) + b"\r\n\n" + lines_of(add(2)))
        assert results(peer.answers(2)) == {1: None, 2: None}


@pytest.mark.parametrize("extra", [1, 300_000, 5_000_000])
def test_a_frame_that_is_too_long_is_refused_and_the_next_is_heard(
    serving: Serving, extra: int
) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(b"[" * (limits.REQUEST_BYTES_MAX + extra) + b"\n" + lines_of(add(1)))
        by_class = {refusal(answer): answer for answer in peer.answers(2)}
        assert set(by_class) == {TOO_LARGE, None}
        assert by_class[None]["id"] == 1
        assert peer.ask(add(2))["id"] == 2


def test_a_frame_that_is_too_long_is_refused_before_its_end(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(b"x" * (limits.REQUEST_BYTES_MAX + 1))
        assert refusal(peer.answer()) == TOO_LARGE
        peer.write(b"x" * (3 * limits.REQUEST_BYTES_MAX))
        peer.write(b"\n" + lines_of(add(1)))
        assert peer.answer()["id"] == 1, "one refusal for one frame"


def test_the_longest_frame_is_taken(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(orjson.dumps(add(1)).ljust(limits.REQUEST_BYTES_MAX) + b"\n")
        assert refusal(peer.answer()) is None


@pytest.mark.parametrize(
    "line",
    [b"{", b"[]", b"\xff\xfe", b'{"id":1}', b'{"action":"no.such","payload":{}}', b"\0"],
)
def test_garbage_is_answered_in_its_turn_and_leaves_no_row(serving: Serving, line: bytes) -> None:
    with Peer(serving.state_dir) as peer:
        peer.write(lines_of(add(1)) + line + b"\n" + lines_of(add(2)))
        first, garbage, second = peer.answers(3)
        assert (first["id"], second["id"]) == (1, 2)
        assert garbage["result"] == "rejected"
        assert (first["seq"], second["seq"]) == (1, 2)


# --- answers --------------------------------------------------------------------------------------


def test_answers_come_in_order_and_carry_the_id_of_their_request(serving: Serving) -> None:
    marks: list[Any] = [7, "seven", 0, -1, "", "é", 2**53 - 1, None, 7]
    with Peer(serving.state_dir) as peer:
        peer.send(*({"id": mark, "action": "issue.list", "payload": {}} for mark in marks))
        assert [answer.get("id") for answer in peer.answers(len(marks))] == marks


def test_a_read_sees_what_was_asked_for_before_it(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(show(1, "i2"), add(2), show(3, "i2"))
        assert results(peer.answers(3)) == {1: "issue_not_found", 2: None, 3: None}


def test_many_requests_are_in_flight_on_many_connections(serving: Serving) -> None:
    peers = [Peer(serving.state_dir) for _ in range(24)]
    try:
        for round_ in range(4):
            for place, peer in enumerate(peers):
                marks = range(place * 1000 + round_ * 25, place * 1000 + round_ * 25 + 25)
                peer.send(*(add(mark) for mark in marks))
        for place, peer in enumerate(peers):
            answers = peer.answers(100)
            assert [each["id"] for each in answers] == [place * 1000 + n for n in range(100)]
            assert [each["seq"] for each in answers] == sorted(each["seq"] for each in answers)
            assert not any(map(refusal, answers))
    finally:
        for peer in peers:
            peer.close()
    assert len(rows_of(serving.state_dir)) == 2400
    assert sum(serving.commits.sizes) == 2400
    prove(serving.state_dir)


def test_an_answer_is_the_answer_of_its_row_byte_for_byte(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(add(1), add(2))
        lines = [peer.line(), peer.line()]
    rows = rows_of(serving.state_dir)
    assert lines == [b'{"id":%d,' % row.seq + row.response[1:] + b"\n" for row in rows]


# --- commits --------------------------------------------------------------------------------------


def test_nobody_hears_of_a_decision_before_it_is_on_disk(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        serving.commits.hold()
        peer.send(add(1), show(2, "i1"))
        serving.commits.wait_for_one()
        other.send(show(3, "i1"))
        assert peer.is_still_unanswered()
        assert other.is_still_unanswered(), "others may not see it either"
        assert rows_of(serving.state_dir) == []
        serving.commits.go()
        assert results(peer.answers(2)) == {1: None, 2: None}
        assert refusal(other.answer()) is None


def test_what_waits_is_committed_together(serving: Serving) -> None:
    peers = [Peer(serving.state_dir) for _ in range(5)]
    serving.commits.hold()
    peers[0].send(add(0))
    serving.commits.wait_for_one()
    for place, peer in enumerate(peers):
        peer.send(*(add(1 + place * 50 + n) for n in range(50)))
        assert peer.is_still_unanswered(), "and now it is in the queue"
    serving.commits.go()
    for place, peer in enumerate(peers):
        assert not any(map(refusal, peer.answers(51 if place == 0 else 50)))
        peer.close()
    assert sum(serving.commits.sizes) == 251
    assert serving.commits.sizes[0] == 1
    assert len(serving.commits.sizes) <= 3, "one, those who came next, all the others"


def test_a_batch_is_no_longer_than_a_batch_may_be(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BATCH_MAX", 16)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(100)))
        assert [answer["id"] for answer in peer.answers(100)] == list(range(100))
    assert max(serving.commits.sizes) == 16
    assert sum(serving.commits.sizes) == 100


def test_reads_alone_commit_nothing(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(*(show(mark, "x") for mark in range(10)))
        assert len(peer.answers(10)) == 10
    assert serving.commits.sizes == []


def test_after_a_failed_commit_nothing_is_answered_any_more(serving: Serving) -> None:
    failure = Unavailable(Reason.JOURNAL_WRITE_FAILED, "the disk is full")
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        assert refusal(peer.ask(add(1))) is None
        serving.commits.wait_for_one()
        serving.commits.failure = failure
        serving.commits.hold()
        peer.send(add(2, requestId="r2"))
        serving.commits.wait_for_one()
        other.send(show(3, "i1"), add(4))
        assert other.is_still_unanswered()
        peer.send(*(add(mark) for mark in range(5, 9)))
        assert peer.is_still_unanswered()
        serving.commits.go()
        assert peer.rest() == other.rest() == []
    serving.wait()
    assert serving.ended_with is failure
    assert [row.seq for row in rows_of(serving.state_dir)] == [1]
    assert not (serving.state_dir / SOCKET).exists()


def test_after_a_failed_commit_a_new_start_goes_on_from_the_disk(state_dir: Path) -> None:
    with Serving(state_dir) as broken, Peer(state_dir) as peer:
        broken.commits.failure = Unavailable(Reason.JOURNAL_WRITE_FAILED, "the disk is full")
        peer.send(add(1, requestId="r1"))
        assert peer.rest() == []
        broken.wait()
    with Serving(state_dir), Peer(state_dir) as peer:
        again = peer.ask(add(1, requestId="r1"))
        assert (refusal(again), again["seq"]) == (None, 1)
    prove(state_dir)


def test_evidence_that_cannot_be_written_ends_it_and_is_filled_in_at_the_next_start(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(handle: int) -> None:
        raise OSError(5, "Input/output error")

    with Serving(state_dir) as running, Peer(state_dir) as peer:
        with monkeypatch.context() as patch:
            patch.setattr("understudy.authority.trajectory.os.fsync", broken)
            peer.send(add(1, requestId="r1"))
            heard = peer.rest()
            running.wait()
        assert isinstance(running.ended_with, OSError)
    assert len(rows_of(state_dir)) == 1
    with Serving(state_dir), Peer(state_dir) as peer:
        peer.send(add(1, requestId="r1"), add(2))
        again = peer.line()
        assert heard in ([], [again])
        assert refusal(peer.answer()) is None
    with open_journal(state_dir, read_only=True) as journal:
        assert verify(state_dir / TRAJECTORY, journal) == (2, None)
    prove(state_dir)


def test_evidence_follows_by_itself(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(5)))
        peer.answers(5)
        path = serving.state_dir / TRAJECTORY
        eventually(lambda: path.exists() and path.read_bytes().count(b"\n") == 5)
        with open_journal(serving.state_dir, read_only=True) as journal:
            assert verify(path, journal) == (5, None)


def test_a_decision_that_raises_ends_it_and_answers_nobody(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(*_: object) -> None:
        raise AssertionError("we are wrong")

    with Peer(serving.state_dir) as peer:
        monkeypatch.setattr("understudy.authority.service.decide", wrong)
        peer.send(add(1))
        assert peer.rest() == []
    serving.wait()
    assert isinstance(serving.ended_with, AssertionError)
    assert rows_of(serving.state_dir) == []


def test_snapshots_during_service_hold_nobody_up_and_replay_agrees(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "SNAPSHOT_ROWS", 10)
    monkeypatch.setattr(limits, "BATCH_MAX", 7)
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        peer.send(*(add(mark) for mark in range(150)))
        other.send(*(add(mark) for mark in range(1000, 1150)))
        assert not any(map(refusal, peer.answers(150) + other.answers(150)))
        found = serving.office.journal.row(300)
        assert found is not None
    with open_journal(serving.state_dir, read_only=True) as journal:
        snapshot = journal.snapshot()
        assert snapshot is not None
        assert 200 < snapshot.head.seq <= 300
        state, head, _ = recover(journal)
        assert head == serving.office.authority.head
        assert dump(state) == dump(serving.office.authority.state)
    prove(serving.state_dir)


# --- the same request again -----------------------------------------------------------------------


def test_a_retry_gets_the_first_answer_while_another_commit_is_in_flight(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        peer.send(add(1, requestId="old"))
        old = peer.line()
        serving.commits.wait_for_one()
        serving.commits.hold()
        peer.send(add(2, requestId="new"))
        serving.commits.wait_for_one()
        other.send(add(1, requestId="old"), add(2, requestId="new"))
        assert other.is_still_unanswered()
        serving.commits.go()
        new = peer.line()
        assert [other.line(), other.line()] == [old, new]
    assert len(rows_of(serving.state_dir)) == 2


def test_a_retry_is_answered_from_disk_when_its_row_arrives_there_just_now(
    serving: Serving,
) -> None:
    class Slippery(dict[int, bytes]):
        """The writer thread takes an entry away between a look and a grasp."""

        def __contains__(self, key: object) -> bool:
            found = super().__contains__(key)
            self.pop(key, None)  # type: ignore[call-overload]
            return found

    with Peer(serving.state_dir) as peer:
        peer.send(add(1, requestId="r1"))
        first = peer.line()
        row = rows_of(serving.state_dir)[0]
        serving.office.authority._uncommitted = Slippery({1: row.response})
        peer.send(add(1, requestId="r1"))
        assert peer.line() == first


# --- bounds ---------------------------------------------------------------------------------------


def test_a_full_queue_refuses_with_the_id_and_loses_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 4)
    with Peer(serving.state_dir) as peer:
        peer.send(*(add(mark) for mark in range(10)))
        found = results(peer.answers(10))
        assert found == dict.fromkeys(range(4), None) | dict.fromkeys(range(4, 10), OVERLOADED)
        peer.send(*(add(mark) for mark in range(4, 8)))
        assert results(peer.answers(4)) == dict.fromkeys(range(4, 8), None), "a pause is enough"
    assert len(rows_of(serving.state_dir)) == 8


def test_a_full_queue_refuses_even_what_has_no_id(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 1)
    with Peer(serving.state_dir) as peer:
        lines = [b'{"id":true}', b'{"id":[1]}', b'{"id":1.5}', b"garbage", b"[1]", b'{"id":"x"}']
        peer.write(lines_of(add(1)) + b"\n".join(lines) + b"\n")
        answers = peer.answers(7)
        refused = [each for each in answers if refusal(each) == OVERLOADED]
        assert [each.get("id") for each in refused] == [None, None, None, None, None, "x"]


def test_a_connection_has_its_share_and_others_have_theirs(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 3)
    with Peer(serving.state_dir) as greedy, Peer(serving.state_dir) as modest:
        serving.commits.hold()
        greedy.send(*(add(mark) for mark in range(5)))
        assert results(greedy.answers(2)) == {3: OVERLOADED, 4: OVERLOADED}
        modest.send(add(10))
        assert modest.is_still_unanswered(), "it is not refused"
        serving.commits.go()
        assert results(greedy.answers(3)) == {0: None, 1: None, 2: None}
        assert refusal(modest.answer()) is None
        greedy.send(*(add(mark) for mark in range(3, 6)))
        assert results(greedy.answers(3)) == {3: None, 4: None, 5: None}
    assert len(rows_of(serving.state_dir)) == 7


def test_under_overload_every_request_is_answered_once_and_done_as_answered(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "QUEUE_MAX", 40)
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 15)
    monkeypatch.setattr(limits, "BATCH_MAX", 8)
    peers = [Peer(serving.state_dir) for _ in range(6)]
    done: dict[int, str | None] = {}
    for place, peer in enumerate(peers):
        peer.send(*(add(place * 1000 + n) for n in range(200)))
    for peer in peers:
        done |= results(peer.answers(200))
        peer.close()
    assert len(done) == 1200
    assert set(done.values()) == {None, OVERLOADED}
    written = {orjson.loads(row.request)["payload"]["id"] for row in rows_of(serving.state_dir)}
    assert written == {f"i{mark}" for mark, refused in done.items() if refused is None}


def test_a_reader_that_does_not_read_is_cut_off_and_others_go_on(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "OUTPUT_BYTES_MAX", 200_000)
    with Peer(serving.state_dir) as slow, Peer(serving.state_dir) as other:
        slow.ask(add(0, notes="x" * 100_000))
        for mark in range(40):
            with suppress(ConnectionError):
                slow.send(show(mark, "i0"))
            assert refusal(other.ask(add(1000 + mark))) is None
        heard = slow.rest()
        assert len(heard) < 40
        assert sum(map(len, heard)) < 40 * 100_000
    with Peer(serving.state_dir) as again:
        assert refusal(again.ask(show(1, "i0"))) is None


def test_what_a_slow_reader_asked_for_is_done_all_the_same(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Peer(serving.state_dir) as slow:
        slow.ask(add(0, notes="x" * 100_000))
        monkeypatch.setattr(limits, "OUTPUT_BYTES_MAX", 1)
        slow.send(*(show(mark, "i0") for mark in range(20)), *(add(mark) for mark in (1, 2, 3)))
        slow.rest()
    eventually(lambda: len(rows_of(serving.state_dir)) == 4)


def test_there_is_room_for_so_many_connections(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CONNECTIONS_MAX", 3)
    peers = [Peer(serving.state_dir) for _ in range(3)]
    with Peer(serving.state_dir, hello=None) as late:
        assert late.rest() == []
    assert all(refusal(peer.ask(add(mark))) is None for mark, peer in enumerate(peers))
    peers.pop().close()

    def is_let_in() -> bool:
        with Peer(serving.state_dir, hello=None) as peer:
            with suppress(ConnectionError):
                peer.send(HELLO)
            return bool(peer.line())

    eventually(is_let_in)
    for peer in peers:
        peer.close()


# --- leaving --------------------------------------------------------------------------------------


def test_what_a_peer_sent_whole_before_it_left_is_done(serving: Serving) -> None:
    with Peer(serving.state_dir) as other:
        serving.commits.hold()
        with Peer(serving.state_dir) as leaver:
            leaver.write(lines_of(*(add(mark) for mark in range(100))) + b'{"id":100,"action":')
        serving.commits.wait_for_one()
        other.send(add(1000))
        assert other.is_still_unanswered()
        serving.commits.go()
        assert refusal(other.answer()) is None
        eventually(lambda: len(rows_of(serving.state_dir)) == 101)
    prove(serving.state_dir)


def test_a_peer_that_resets_the_connection_disturbs_nobody(serving: Serving) -> None:
    with Peer(serving.state_dir) as other:
        for mark in range(20):
            rude = Peer(serving.state_dir)
            rude.send(*(add(mark * 100 + n) for n in range(20)))
            rude.answer()  # what it leaves unread becomes a reset
            rude.close()
            assert refusal(other.ask(add(5000 + mark))) is None


def test_a_stop_answers_what_was_taken_in_and_refuses_the_rest(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer, Peer(serving.state_dir) as other:
        serving.commits.hold()
        peer.send(add(1))
        serving.commits.wait_for_one()
        peer.send(add(2))
        other.send(add(3), add(4))
        assert peer.is_still_unanswered()
        assert other.is_still_unanswered()
        serving.stop()
        late = peer.ask(add(5))
        assert (late["id"], refusal(late)) == (5, OVERLOADED)
        eventually(lambda: not (serving.state_dir / SOCKET).exists())  # nobody else comes in
        serving.commits.go()
        assert [orjson.loads(line)["id"] for line in peer.rest()] == [1, 2]
        assert [orjson.loads(line)["id"] for line in other.rest()] == [3, 4]
    serving.wait()
    assert serving.ended_with is None
    assert len(rows_of(serving.state_dir)) == 4
    prove(serving.state_dir)


def test_a_stop_sends_off_its_answers_whole_to_whoever_reads_them(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, drained, snapshot = 60, threading.Event(), serving.office.authority.snapshot

    def last_act() -> None:
        snapshot()
        drained.set()

    monkeypatch.setattr(serving.office.authority, "snapshot", last_act)
    with Peer(serving.state_dir) as peer:
        peer.ask(add(0, notes="x" * 100_000))
        serving.commits.wait_for_one()
        serving.commits.hold()
        peer.send(add(1), *(show(mark, "i0") for mark in range(2, asked + 1)))
        serving.commits.wait_for_one()
        serving.stop()
        assert refusal(peer.ask(add(99))) == OVERLOADED
        serving.commits.go()
        drained.wait(0.5)  # everything is decided, and most of it has not left yet
        heard = peer.rest()  # six megabytes, much more than a socket holds
        assert [orjson.loads(line)["id"] for line in heard] == list(range(1, asked + 1))


def test_a_stop_takes_a_snapshot_so_that_the_next_start_folds_nothing(state_dir: Path) -> None:
    with Serving(state_dir), Peer(state_dir) as peer:
        peer.send(*(add(mark) for mark in range(5)))
        peer.answers(5)
    with open_journal(state_dir, read_only=True) as journal:
        snapshot = journal.snapshot()
    assert snapshot is not None
    assert snapshot.head.seq == 5


def test_a_stop_in_idleness_leaves_no_socket_and_no_row(state_dir: Path) -> None:
    with Serving(state_dir) as running, Peer(state_dir) as peer:
        running.stop()
        assert peer.rest() == []
        running.wait()
        assert running.ended_with is None
    assert not (state_dir / SOCKET).exists()
    assert rows_of(state_dir) == []


# --- the socket -----------------------------------------------------------------------------------


def test_the_socket_is_its_owner_s_alone(serving: Serving) -> None:
    found = (serving.state_dir / SOCKET).stat()
    assert stat.S_ISSOCK(found.st_mode)
    assert stat.S_IMODE(found.st_mode) == 0o600
    assert found.st_uid == os.geteuid()


def test_a_stranger_is_shown_out(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("understudy.authority.sidecar.os.geteuid", lambda: os.getuid() + 1)
    monkeypatch.setattr(
        "understudy.authority.sidecar.struct.unpack", lambda *_: (1, os.getuid() + 2, 1)
    )
    with Peer(serving.state_dir, hello=None) as stranger:
        assert stranger.rest() == []


@pytest.mark.parametrize("kind", ["socket", "file", "link to nothing"])
def test_whatever_a_dead_sidecar_left_in_its_place_is_replaced(state_dir: Path, kind: str) -> None:
    path = state_dir / SOCKET
    if kind == "socket":
        here = Path.cwd()
        os.chdir(state_dir)  # a socket's path is short
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(SOCKET)
        os.chdir(here)
    elif kind == "file":
        path.write_bytes(b"?")
    else:
        path.symlink_to("nowhere")
    with Serving(state_dir), Peer(state_dir) as peer:
        assert refusal(peer.ask(add(1))) is None
    assert not path.is_symlink()
    assert not path.exists()


def test_a_second_sidecar_of_the_same_directory_does_not_come_up(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 10)
    with pytest.raises(Unavailable) as caught:
        Serving(serving.state_dir)
    assert caught.value.reason is Reason.AUTHORITY_BUSY
    with Peer(serving.state_dir) as peer:
        assert refusal(peer.ask(add(1))) is None
