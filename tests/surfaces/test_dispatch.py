"""`understudy dispatch` as a process: lines in, answers out, in order, whatever else happens."""

import os
import random
import signal
import struct
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.faults.aftermath import prove, pump
from tests.faults.load import Load
from tests.long import LONG
from tests.patience import PATIENCE_SECONDS
from tests.surfaces.conftest import Run
from tests.surfaces.process import (
    UNDERSTUDY,
    Dispatch,
    encoded,
    environment,
    journal_rows,
    report_of,
    understudy,
)
from understudy.contracts import limits

START_MS = 4_000_000_000_000  # ahead of any clock, so that only `now` moves the time
TTL_MS = limits.TTL_SECONDS_MIN * 1000
FLOOD = 100_000


def _add(issue_id: str, **more: object) -> dict[str, Any]:
    return {"action": "issue.add", "payload": {"id": issue_id, "title": "work", **more}}


def _claim(running: Dispatch, now: int | None = None) -> dict[str, Any]:
    """Add and claim an issue; what its holder has to show from now on."""
    running.ask("issue.add", now, id="w", title="work")
    lease = running.ask("issue.claim", now, id="w", assignee="ada", leaseTtlSeconds=30)["issue"][
        "lease"
    ]
    return {"id": "w", "assignee": "ada", "leaseId": lease["leaseId"], "fence": lease["fence"]}


# --- lines --------------------------------------------------------------------------------------


def test_answers_come_in_order_one_a_line_with_the_caller_s_mark(state_dir: Path) -> None:
    marks: list[Any] = [7, "seven", 'é\u2028"', None, -1, 0, "", 2**53 - 1]
    with Dispatch(state_dir) as running:
        for number, mark in enumerate(marks):
            request = _add(f"i{number}")
            running.send(request if mark is None else request | {"id": mark})
        assert running.finish() == 0
        answers = [orjson.loads(line) for line in running.rest()]
    assert [answer.get("id") for answer in answers] == marks
    assert "id" not in answers[3]
    assert [answer["seq"] for answer in answers] == [*range(1, len(marks) + 1)]
    assert [answer["issue"]["id"] for answer in answers] == [f"i{n}" for n in range(len(marks))]


def test_accepted_refused_unreadable_and_read_lines_are_all_answered_in_their_place(
    state_dir: Path,
) -> None:
    lines = [
        encoded([_add("a")]),
        b"\xff\xfe\n",
        encoded([{"action": "issue.show", "payload": {"id": "nope"}}]),
        encoded([_add("a")]),
        b"{}\n",
        b"[]\n",
        encoded([{"action": "issue.fly"}]),
        encoded([{"action": "observe.instruction"}]),
        encoded([{"action": "issue.list"}]),
    ]
    with Dispatch(state_dir) as running:
        running.write(b"".join(lines))
        assert running.finish() == 0
        answers = [orjson.loads(line) for line in running.rest()]
        assert "5 lines were no requests" in running.complaint()
    assert [next(iter(answer["failureClasses"]), None) for answer in answers] == [
        None,
        "transport_invalid_request",
        "issue_not_found",
        "issue_id_exists",
        "transport_invalid_request",
        "transport_invalid_request",
        "transport_unknown_action",
        "harness_invalid_payload",
        None,
    ]
    assert [row[0] for row in journal_rows(state_dir)] == [1, 2], "refusals are rows, garbage not"


def test_a_line_may_arrive_in_pieces(state_dir: Path) -> None:
    first, second = encoded([_add("a")]), encoded([_add("b")])
    with Dispatch(state_dir) as running:
        for cut in range(1, len(second), 11):
            running.write(encoded([{"action": "issue.list"}]) + second[:cut])
            assert running.answer()["action"] == "issue.list", "whole lines do not wait"
            running.write(second[cut:])
            assert running.answer()["action"] == "issue.add"
        for place in range(len(first)):
            running.write(first[place : place + 1])
        assert running.answer()["issue"]["id"] == "a"


def test_a_last_line_needs_no_line_feed_and_blank_lines_are_nothing(state_dir: Path) -> None:
    with Dispatch(state_dir) as running:
        running.write(b"\n  \n\t\r\n" + encoded([_add("a")]).replace(b"\n", b"\r\n") + b"\n")
        running.write(encoded([_add("b")]).removesuffix(b"\n"))
        assert running.finish() == 0
        assert [orjson.loads(line)["issue"]["id"] for line in running.rest()] == ["a", "b"]
        assert running.complaint() == ""


def test_no_lines_at_all_are_fine(state_dir: Path) -> None:
    done = understudy("dispatch", "--state-dir", state_dir)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_lines_that_arrive_together_are_committed_together(state_dir: Path) -> None:
    with Dispatch(state_dir) as running:
        running.ask("issue.add", id="first", title="takes the epoch")
        before = _commits(state_dir)
        for number in range(20):
            running.ask("issue.add", id=f"alone{number}", title="work")
        alone = _commits(state_dir)
        running.send(*(_add(f"together{number}") for number in range(100)))
        for _ in range(100):
            running.answer()
        together = _commits(state_dir)
    assert alone - before == 20, "an answer in lockstep has a commit of its own"
    assert together - alone <= 3


def test_a_batch_has_a_largest_size(state_dir: Path) -> None:
    count = 3 * limits.BATCH_MAX + 1
    with Dispatch(state_dir) as running:
        running.send(*(_add(f"i{number}") for number in range(count)))
        running.hang_up()
        assert len(running.rest()) == count
        assert running.wait() == 0
    assert len(journal_rows(state_dir)) == count


# --- floods -------------------------------------------------------------------------------------


def test_a_line_of_ten_megabytes_is_refused_and_the_next_one_is_served(state_dir: Path) -> None:
    huge = b'{"action":"issue.add","payload":{"title":"' + b"x" * 10_000_000 + b'"}}'
    with Dispatch(state_dir) as running:
        running.write(huge + b"\n" + encoded([_add("a")]))
        assert running.answer()["failureClasses"] == ["transport_request_too_large"]
        assert running.answer()["issue"]["id"] == "a"
        running.write(b"\n" + huge + huge)
        assert running.finish() == 0
        assert [orjson.loads(line)["failureClasses"] for line in running.rest()] == [
            ["transport_request_too_large"]
        ]
    assert len(journal_rows(state_dir)) == 1


def test_the_longest_line_is_served_and_one_byte_more_is_not(state_dir: Path) -> None:
    line = encoded([_add("a")]).strip()
    longest = line + b" " * (limits.REQUEST_BYTES_MAX - len(line))
    with Dispatch(state_dir) as running:
        running.write(longest + b"\n" + longest + b" \n" + encoded([_add("b")]))
        assert running.answer()["issue"]["id"] == "a"
        assert running.answer()["failureClasses"] == ["transport_request_too_large"]
        assert running.answer()["issue"]["id"] == "b"


def test_a_flood_of_garbage_fills_neither_the_disk_nor_the_memory(state_dir: Path) -> None:
    chance = random.Random(1)
    lines = [chance.randbytes(60).replace(b"\n", b" ") + b"x\n" for _ in range(1000)]
    with Dispatch(state_dir) as running:
        running.write(b"".join(lines))
        for _ in lines:
            assert running.answer()["result"] == "rejected"
        size, peak = _disk_bytes(state_dir), _peak_bytes(running.pid)
        for _ in range(FLOOD // len(lines) - 1):
            running.write(b"".join(lines))
        for _ in range(FLOOD - len(lines)):
            assert b'"transport_invalid_request"' in running.line()
        assert _disk_bytes(state_dir) == size
        assert _peak_bytes(running.pid) < peak + 32 * 2**20
        assert running.ask("issue.add", id="a", title="still here")["seq"] == 1
        assert running.finish() == 0
        assert running.complaint() == f"{FLOOD} lines were no requests\n"
    assert not (state_dir / "harness_trajectory.jsonl").read_bytes().count(b"\n") > 1


# --- time ---------------------------------------------------------------------------------------


def test_a_request_may_bring_its_time_only_to_a_frozen_clock(state_dir: Path) -> None:
    with Dispatch(state_dir) as running:
        refused = running.ask("issue.add", START_MS, id="a", title="work")
        assert refused["failureClasses"] == ["clock_not_frozen"]
        assert running.ask("issue.add", id="a", title="work")["stamp"]["wallMs"] < START_MS
    assert len(journal_rows(state_dir)) == 1


def test_a_lease_holds_on_the_tick_of_its_deadline_and_not_after_it(state_dir: Path) -> None:
    with Dispatch(state_dir, "--frozen-clock") as running:
        holder = _claim(running, START_MS)
        last_ms = START_MS + TTL_MS
        contender = {"id": "w", "assignee": "bob"}
        assert running.ask("issue.claim", last_ms, **contender)["failureClasses"] == [
            "lease_contention_active"
        ]
        update = running.ask("issue.update", last_ms, **holder, notes="in time")
        assert update["result"] == "accepted"
        renew = running.ask("issue.lease_renew", last_ms, **holder, leaseTtlSeconds=30)
        assert renew["issue"]["lease"]["fence"] == holder["fence"]
        late = running.ask("issue.update", last_ms + TTL_MS + 1, **holder, notes="too late")
        assert late["failureClasses"] == ["lease_stale"]
        granted = running.ask("issue.claim", last_ms + TTL_MS + 1, **contender)
        assert granted["issue"]["lease"]["fence"] > holder["fence"]


def test_a_clock_that_is_set_back_moves_no_stamp_back(state_dir: Path) -> None:
    moments = [START_MS, START_MS - 5_000, START_MS - 5_000, START_MS, 0, START_MS + 1, START_MS]
    with Dispatch(state_dir, "--frozen-clock") as running:
        answers = [
            running.ask("issue.add", now, id=f"i{number}", title="work")
            for number, now in enumerate(moments)
        ]
    stamps = [(answer["stamp"]["wallMs"], answer["stamp"]["counter"]) for answer in answers]
    assert stamps == sorted(set(stamps)), "strictly growing"
    assert [wall_ms - START_MS for wall_ms, _ in stamps] == [0, 0, 0, 0, 0, 1, 1]
    assert report_of("replay", "--state-dir", state_dir)["rows"] == len(moments)


# --- doors --------------------------------------------------------------------------------------


@pytest.mark.parametrize("transport", ["cli", "local-repl"])
@pytest.mark.parametrize("action", ["issue.lease_renew", "issue.lease_release"])
def test_a_weaker_transport_cannot_renew_or_release(
    state_dir: Path, transport: str, action: str
) -> None:
    with Dispatch(state_dir) as running:
        holder = _claim(running)
        request = {"action": action, "payload": holder}
        running.send(request | {"context": {"transport": transport}})
        refused = running.answer()
        assert refused["failureClasses"] == ["control_plane_host_action_mcp_transport_required"]
        assert refused["effect"]["transport"] == transport
        running.send(request)
        granted = running.answer()
        assert (granted["result"], granted["effect"]["transport"]) == ("accepted", "mcp")


def test_no_request_can_name_a_stronger_transport_than_its_door(state_dir: Path) -> None:
    with Dispatch(state_dir) as running:
        running.send(_add("a") | {"context": {"transport": "coordinator"}})
        assert running.answer()["failureClasses"] == ["transport_escalation_denied"]


# --- two at once, and one after another ---------------------------------------------------------


def test_a_second_dispatch_waits_for_the_first_and_goes_on_behind_it(state_dir: Path) -> None:
    with Dispatch(state_dir) as first:
        assert first.ask("issue.add", id="a", title="work")["seq"] == 1
        with Dispatch(state_dir) as second:
            second.send(_add("b"))
            assert first.ask("issue.add", id="c", title="work")["seq"] == 2
            assert first.finish() == 0
            assert second.answer()["seq"] == 3
            assert second.finish() == 0
    assert [row[1] for row in journal_rows(state_dir)] == [1, 1, 2], "each took its own epoch"


@LONG  # it waits for the lock as long as commands do
def test_a_second_dispatch_that_waited_long_enough_is_told_who_is_busy(state_dir: Path) -> None:
    with Dispatch(state_dir) as first:
        first.ask("issue.list")
        with Dispatch(state_dir, "--json") as second:
            second.send(_add("b"))
            assert second.wait() == 75
            report = second.answer()
            assert report["failureClasses"] == ["authority_busy"]
            assert str(first.pid) in report["diagnostic"]
        assert first.ask("issue.add", id="a", title="work")["seq"] == 1
    assert len(journal_rows(state_dir)) == 1


def test_a_reader_needs_not_wait_and_sees_what_was_answered(state_dir: Path, call: Run) -> None:
    with Dispatch(state_dir) as running:
        for number in range(3):
            running.ask("issue.add", id=f"i{number}", title="work")
            listed = call("issue", "list", "--json").json
            assert (listed["seq"], listed["count"]) == (number + 1, number + 1)


def test_a_restart_goes_on_where_the_last_process_ended(state_dir: Path) -> None:
    request = _add("a", requestId="once") | {"id": 1}
    with Dispatch(state_dir) as running:
        running.send(request)
        first = running.line()
        holder = _claim(running)
        stamp = running.ask("issue.lease_renew", **holder)["stamp"]
        assert running.finish() == 0
    with Dispatch(state_dir) as running:
        running.send(request)
        assert running.line() == first, "the same request gets the same bytes"
        running.send(_add("b", requestId="once"))
        assert running.answer()["failureClasses"] == ["request_id_conflict"]
        closed = running.ask("issue.close", **holder)
        assert (closed["result"], closed["seq"]) == ("accepted", 6)
        assert (closed["stamp"]["wallMs"], closed["stamp"]["counter"]) > (
            stamp["wallMs"],
            stamp["counter"],
        )


# --- endings ------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_under_load_loses_nothing_that_was_answered(
    state_dir: Path, number: signal.Signals
) -> None:
    load = Load(1)
    with Dispatch(state_dir) as running:
        heard = pump(running, load.more(40), window=8)
        running.send(*(step.request for step in load.more(200)))
        heard += [running.line() for _ in range(10)]
        running.signal(number)
        code = running.wait()
        heard += running.rest()
        said = running.complaint()
    assert "Traceback" not in said, said
    if number is signal.SIGINT:
        assert (code, said.strip()) == (130, "interrupted")
    prove(state_dir, load, heard)


def test_ctrl_c_while_waiting_for_a_request_ends_with_130(state_dir: Path) -> None:
    with Dispatch(state_dir) as running:
        assert running.ask("issue.add", id="a", title="work")["seq"] == 1
        running.signal(signal.SIGINT)
        assert running.wait() == 130
        assert running.complaint().strip() == "interrupted"
        assert running.rest() == []
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 1


def test_ctrl_c_while_waiting_for_another_process_ends_with_130(state_dir: Path) -> None:
    with Dispatch(state_dir) as first:
        first.ask("issue.list")
        with Dispatch(state_dir) as second:
            _wait_until_open(second.pid, state_dir / "lock")
            second.signal(signal.SIGINT)
            assert second.wait() == 130
            assert second.complaint().strip() == "interrupted"


@pytest.mark.parametrize(
    "arguments",
    [
        ["dispatch"],
        ["issue", "list"],
        ["issue", "list", "--json"],
        ["issue", "add", "more"],
        ["export", "-"],
        ["check", "--json"],
        ["--help"],
    ],
    ids=" ".join,
)
def test_a_reader_that_went_away_is_no_reason_for_a_traceback(
    state_dir: Path, arguments: list[str]
) -> None:
    report_of("issue", "add", "x" * 400, "--state-dir", state_dir)
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [UNDERSTUDY, *arguments],
            input=encoded([_add("a")]),
            stdout=writer,
            stderr=subprocess.PIPE,
            env=environment(UNDERSTUDY_STATE_DIR=str(state_dir)),
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")
    assert report_of("replay", "--state-dir", state_dir)["rows"] >= 1


@pytest.mark.parametrize(
    "arguments", [["dispatch"], ["issue", "list"], ["issue", "list", "--json"]], ids=" ".join
)
@pytest.mark.parametrize("stream", [0, 1, 2])
def test_a_standard_stream_that_is_closed_is_no_reason_for_a_traceback(
    state_dir: Path, arguments: list[str], stream: int
) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" "$@" {stream}>&-', UNDERSTUDY, *arguments],
        input=encoded([_add("a")]),
        capture_output=True,
        env=environment(UNDERSTUDY_STATE_DIR=str(state_dir)),
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr.decode()
    assert report_of("replay", "--state-dir", state_dir)["rows"] <= 1


# --- what the machine tells ---------------------------------------------------------------------


def _commits(state_dir: Path) -> int:
    """Frames of the journal's log that end a transaction: their header has the database's size."""
    data = (state_dir / "journal.db-wal").read_bytes()
    page_bytes = struct.unpack_from(">I", data, 8)[0]
    salt = data[16:24]
    count = 0
    for start in range(32, len(data), 24 + page_bytes):
        if data[start + 8 : start + 16] == salt and struct.unpack_from(">I", data, start + 4)[0]:
            count += 1
    return count


def _disk_bytes(state_dir: Path) -> int:
    return sum(path.stat().st_size for path in state_dir.iterdir())


def _peak_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024


def _wait_until_open(pid: int, path: Path) -> None:
    """Until the process has the file open; it is then about to wait for its lock."""
    folder = Path(f"/proc/{pid}/fd")
    while not any(_target(link) == str(path) for link in folder.iterdir()):
        os.sched_yield()


def _target(link: Path) -> str | None:
    try:
        return str(link.readlink())
    except OSError:
        return None
