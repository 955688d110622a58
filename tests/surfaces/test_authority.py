"""`understudy authority`, and how every other command finds its way to a sidecar that runs."""

import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.authority.client.impostor import Impostor, hang_up
from tests.authority.sidecar.peer import Peer, refusal
from tests.patience import eventually
from tests.surfaces.conftest import Run
from tests.surfaces.process import (
    Dispatch,
    Serve,
    encoded,
    journal_rows,
    report_of,
    understudy,
)
from understudy.authority import SOCKET, Office
from understudy.authority.engine import ffi
from understudy.authority.journal.journal import Unavailable
from understudy.contracts import Reason, contract_digest, limits

START_MS = 4_000_000_000_000


@pytest.fixture
def sidecar(state_dir: Path) -> Iterator[Serve]:
    with Serve(state_dir) as running:
        yield running.ready()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that wants the lock in this process does not wait for it."""
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 10)


def _is_held(state_dir: Path, pid: int) -> bool:
    with pytest.raises(Unavailable, match=f"process {pid}") as caught:
        Office(state_dir)
    return caught.value.reason is Reason.AUTHORITY_BUSY


# --- serve and status -----------------------------------------------------------------------------


def test_serve_says_what_it_serves_and_ends_in_peace(sidecar: Serve, state_dir: Path) -> None:
    mode = "native" if ffi.available() else "reference"
    said = f"serving {state_dir}, process {sidecar.pid}, {mode} decisions\n"
    assert sidecar.complaint() == said
    assert sidecar.terminate() == 0
    assert sidecar.complaint().count("\n") == 1
    assert not (state_dir / SOCKET).exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_serve_stops_when_it_is_told_to(
    sidecar: Serve, state_dir: Path, number: signal.Signals
) -> None:
    with Peer(state_dir) as peer:
        assert refusal(peer.ask({"action": "issue.add", "payload": {"title": "t"}})) is None
        sidecar.signal(number)
        assert peer.rest() == []
    assert sidecar.wait() == 0, sidecar.complaint()
    assert report_of("replay", "--state-dir", state_dir)["rows"] == 1
    assert report_of("verify", "--state-dir", state_dir)["rows"] == 1


def test_status_names_the_process_to_people_and_says_more_to_programs(
    sidecar: Serve, state_dir: Path, call: Run
) -> None:
    to_people = call("authority", "status")
    assert (to_people.code, to_people.err) == (0, "")
    assert to_people.out == f"process {sidecar.pid} serves {state_dir}\n"
    to_programs = call("authority", "status", "--json").json
    assert (to_programs["result"], to_programs["failureClasses"]) == ("accepted", [])
    assert to_programs["sidecar"]["pid"] == sidecar.pid
    assert to_programs["sidecar"]["protocol"] == 1
    assert to_programs["sidecar"]["contractDigest"] == contract_digest()


def test_status_leaves_with_7_where_none_serves(call: Run, bare: Run, tmp_path: Path) -> None:
    to_people = call("authority", "status")
    assert (to_people.code, to_people.out) == (7, "")
    assert "sidecar_unreachable" in to_people.err
    assert "authority serve" in to_people.err
    assert "authority status" not in to_people.err, "that is where the reader is"
    to_programs = call("authority", "status", "--json")
    assert (to_programs.code, to_programs.json["failureClasses"]) == (7, ["sidecar_unreachable"])
    nowhere = bare("authority", "status", "--state-dir", tmp_path / "nowhere", "--json")
    assert (nowhere.code, nowhere.json["failureClasses"]) == (7, ["sidecar_unreachable"])


def test_status_of_a_sidecar_that_was_killed_is_7(
    sidecar: Serve, state_dir: Path, call: Run
) -> None:
    sidecar.kill()
    assert (state_dir / SOCKET).exists()
    assert call("authority", "status").code == 7


def test_serve_needs_a_state_directory(bare: Run, tmp_path: Path) -> None:
    said = bare("authority", "serve", "--state-dir", tmp_path / "nowhere", "--json")
    assert (said.code, said.json["failureClasses"]) == (78, ["state_dir_missing"])


def test_a_second_serve_is_told_to_try_later_and_by_whom(sidecar: Serve, call: Run) -> None:
    said = call("authority", "serve", "--json")
    assert (said.code, said.json["failureClasses"]) == (75, ["authority_busy"])
    assert str(sidecar.pid) in said.json["diagnostic"]
    assert call("authority", "status").code == 0, "the first one serves on"


# --- every command by itself ----------------------------------------------------------------------


def test_commands_go_through_the_sidecar_that_holds_the_lock(
    sidecar: Serve, state_dir: Path, call: Run
) -> None:
    assert _is_held(state_dir, sidecar.pid)
    added = call("issue", "add", "work", "--id", "w", "--json")
    assert (added.code, added.json["effect"]["transport"]) == (0, "cli")
    claimed = call("issue", "claim", "w", "--assignee", "ada", "--json").json["issue"]["lease"]
    holder = ("--assignee", "ada", "--lease-id", claimed["leaseId"], "--fence", claimed["fence"])
    renewed = call("issue", "renew", "w", *holder, "--json")
    assert renewed.code == 0
    effect = renewed.json["effect"]
    assert (effect["transport"], effect["escalatedFrom"]) == ("mcp", "cli")
    assert call("issue", "show", "w").code == call("issue", "list").code == 0
    refused = call("issue", "update", "w", "--notes", "x", "--json")
    assert (refused.code, refused.json["failureClasses"]) == (6, ["lease_fence_missing"])
    assert call("issue", "close", "w", *holder).code == 0
    assert call("policy", "set", "--evidence-reads").code == 0
    assert call("issue", "list").code == 0
    assert _is_held(state_dir, sidecar.pid)
    assert {row[1] for row in journal_rows(state_dir)} == {1}, "one epoch: one writer wrote it all"
    assert len(journal_rows(state_dir)) == 7


def test_what_leaves_no_row_waits_for_no_sidecar_though_reads_are_evidence(
    sidecar: Serve, state_dir: Path, call: Run
) -> None:
    assert call("policy", "set", "--evidence-reads").code == 0
    assert call("export", "-").code == 0
    assert _is_held(state_dir, sidecar.pid)
    assert len(journal_rows(state_dir)) == 1


def test_an_answer_is_the_same_through_a_sidecar_and_without(
    call: Run, state_dir: Path, sidecar: Serve
) -> None:
    words = ("issue", "add", "t", "--id", "i", "--request-id", "r", "--json")
    served, listed = call(*words), call("issue", "list")
    assert served.code == 0
    assert sidecar.terminate() == 0
    assert (call(*words), call("issue", "list")) == (served, listed)
    assert len(journal_rows(state_dir)) == 1


@pytest.mark.parametrize("number", [2**53, 2**60])
def test_a_number_that_is_too_great_is_refused_as_without_a_sidecar(
    state_dir: Path, call: Run, number: int
) -> None:
    words = ("issue", "claim", "w", "--assignee", "ada", "--fence", number, "--json")
    direct = call(*words)
    assert direct.json["failureClasses"] == ["transport_invalid_request"]
    with Serve(state_dir) as running:
        running.ready()
        served = call(*words)
    assert (served.code, served.json) == (direct.code, direct.json)


def test_a_socket_that_is_not_served_is_no_obstacle(
    sidecar: Serve, state_dir: Path, call: Run
) -> None:
    assert call("issue", "add", "before").code == 0
    sidecar.kill()
    assert (state_dir / SOCKET).exists()
    assert call("issue", "add", "after").code == 0
    assert call("issue", "list", "--json").json["count"] == 2


def test_a_sidecar_that_hangs_up_at_once_is_an_error_with_a_class(
    state_dir: Path, call: Run
) -> None:
    """As one does that has no room for another connection."""
    with Impostor(state_dir, hang_up):
        said = call("authority", "status", "--json")
    assert said.code in (7, 75), said.err
    assert said.json["failureClasses"][0] in {"sidecar_unreachable", "authority_overloaded"}


# --- boundaries -----------------------------------------------------------------------------------


def test_the_boundary_can_be_required(call: Run, bare: Run, state_dir: Path) -> None:
    alone = call("issue", "add", "x", "--boundary", "sidecar", "--json")
    assert (alone.code, alone.json["failureClasses"]) == (7, ["sidecar_unreachable"])
    assert call("issue", "add", "x", "--boundary", "reference").code == 0
    with Serve(state_dir) as running:
        running.ready()
        assert call("issue", "add", "x", "--boundary", "sidecar").code == 0
        assert bare("--boundary", "sidecar", "issue", "list", "--state-dir", state_dir).code == 0
        busy = call("issue", "add", "x", "--boundary", "reference", "--json")
        assert (busy.code, busy.json["failureClasses"]) == (75, ["authority_busy"])
        assert call("issue", "list", "--boundary", "reference", "--json").json["count"] == 2


def test_an_unknown_boundary_is_a_usage_error(call: Run) -> None:
    said = call("issue", "list", "--boundary", "wall", "--json")
    assert (said.code, said.json["failureClasses"]) == (2, ["transport_invalid_request"])


def test_dispatch_asks_for_a_sidecar_where_one_is_required(state_dir: Path) -> None:
    said = understudy("dispatch", "--boundary", "sidecar", "--state-dir", state_dir, "--json")
    assert said.returncode == 7
    assert orjson.loads(said.stdout)["failureClasses"] == ["sidecar_unreachable"]


# --- dispatch -------------------------------------------------------------------------------------


def _add(mark: int, **members: object) -> dict[str, object]:
    return {
        "id": mark,
        "action": "issue.add",
        "payload": {"id": f"i{mark}", "title": "t"},
    } | members


def test_dispatch_goes_through_a_sidecar_in_order(sidecar: Serve, state_dir: Path) -> None:
    requests = [_add(mark) for mark in range(700)]
    lines = encoded(requests) + b"\n \ngarbage\n" + encoded([_add(0), _add(700)])
    done = understudy("dispatch", "--state-dir", state_dir, stdin=lines)
    assert (done.returncode, done.stderr) == (0, b"")
    answers = list(map(orjson.loads, done.stdout.splitlines()))
    assert [answer.get("id") for answer in answers] == [*range(700), None, 0, 700]
    assert refusal(answers[-2]) == "issue_id_exists"
    assert answers[0]["effect"]["transport"] == "mcp"
    assert _is_held(state_dir, sidecar.pid)


def test_dispatch_answers_in_order_even_where_a_line_is_too_long(
    sidecar: Serve, state_dir: Path
) -> None:
    lines = encoded([_add(1)]) + b"x" * (3 * limits.REQUEST_BYTES_MAX) + b"\n" + encoded([_add(2)])
    done = understudy("dispatch", "--state-dir", state_dir, stdin=lines)
    found = [refusal(orjson.loads(line)) for line in done.stdout.splitlines()]
    assert found == [None, "transport_request_too_large", None]


@pytest.mark.parametrize("flags", [[], ["--frozen-clock"]], ids=["running", "frozen"])
def test_dispatch_takes_the_time_along_only_if_it_was_told_to(
    state_dir: Path, flags: list[str]
) -> None:
    with Serve(state_dir, "--frozen-clock") as running:
        running.ready()
        with Dispatch(state_dir, *flags) as door:
            door.send(_add(1, now=START_MS))
            assert (refusal(door.answer()) is None) is bool(flags)


def test_dispatch_ends_with_7_when_its_sidecar_is_killed(sidecar: Serve, state_dir: Path) -> None:
    with Dispatch(state_dir) as door:
        door.send(_add(1))
        assert refusal(door.answer()) is None
        sidecar.kill()
        door.send(_add(2))
        assert door.finish() == 7
        assert "sidecar_unreachable" in door.complaint()


# --- commands that need the journal for themselves ------------------------------------------------


@pytest.mark.parametrize("words", [["import", "more.jsonl"], ["rebuild"]], ids=" ".join)
def test_what_needs_the_journal_for_itself_has_to_wait(
    sidecar: Serve, call: Run, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "more.jsonl").write_bytes(b'{"id":"m","title":"more"}\n')
    said = call(*words, "--json")
    assert (said.code, said.json["failureClasses"]) == (75, ["authority_busy"])
    assert str(sidecar.pid) in said.json["diagnostic"]
    assert sidecar.terminate() == 0
    assert call(*words).code == 0


def test_what_only_reads_the_journal_works_beside_a_sidecar(
    sidecar: Serve, call: Run, state_dir: Path
) -> None:
    assert call("issue", "add", "x").code == 0
    assert call("replay", "--json").json["rows"] == 1
    assert call("export", "--json").json["issues"] == 1
    eventually(lambda: call("verify").code == 0)  # the evidence is a little behind
    with socket.socket(socket.AF_UNIX) as probe:  # and the socket is undisturbed
        probe.connect(f"/proc/self/cwd/{state_dir.name}/{SOCKET}")
