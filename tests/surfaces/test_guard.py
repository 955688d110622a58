"""`understudy guard`: a yes is current, and everything else is no."""

import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.patience import eventually
from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, Serve, environment, journal_rows, understudy
from understudy.authority import Office
from understudy.authority.service import fence_check
from understudy.contracts import Door, limits

LONG_AGO_MS = 1_000_000_000_000
ODD_IDS = ["ü/..", 'quo"te', "back\\slash", "new\nline", "issue/issue/x", "'; DROP TABLE journal"]


@pytest.fixture
def held(call: Run) -> int:
    """Ada holds `x`; the fence."""
    assert call("issue", "add", "work", "--id", "x").code == 0
    assert call("issue", "add", "more", "--id", "y").code == 0
    return claimed(call, "x", "ada")


def claimed(call: Run, issue: str, assignee: str, *more: object) -> int:
    answer = call("issue", "claim", issue, "--assignee", assignee, *more, "--json").json
    return int(answer["issue"]["lease"]["fence"])


def guarded(state_dir: Path, resource: str, fence: object, *more: str) -> tuple[int, str, str]:
    """As a hook runs it: in a process of its own, by the fast way in."""
    words = ("guard", f"--resource={resource}", "--fence", str(fence), "--state-dir", state_dir)
    done = understudy(*words, *more)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


# --- what it says ---------------------------------------------------------------------------------


def test_leases_of_specs_and_dispatches_are_guarded_too(state_dir: Path) -> None:
    steps = [{"stepKey": "root", "kind": "k"}]
    with Office(state_dir) as office:
        office.ask("spec.submit", {"specId": "s", "steps": steps}, transport="cli")
        lease = office.ask("spec.claim", {"specId": "s", "runner": "r"}, transport="cli")["spec"][
            "lease"
        ]
        assert fence_check.glance(state_dir, "spec/s", lease["fence"]).failure is None
        assert fence_check.glance(state_dir, "spec/s", 99).failure == "lease_fence_unknown"
        held = {"specId": "s", "runner": "r", "leaseId": lease["leaseId"], "fence": lease["fence"]}
        office.ask("spec.materialize", held | {"stepKeys": ["root"]}, transport="cli")
        assert (
            fence_check.glance(state_dir, "spec/s", lease["fence"]).failure == "spec_materialized"
        )
        answer = office.ask(
            "dispatch.claim", {"jobId": "s:root", "dispatcher": "d"}, transport="cli"
        )
        fence = answer["job"]["dispatchLease"]["fence"]
        assert fence_check.glance(state_dir, "dispatch/s:root", fence).failure is None
        assert fence_check.glance(state_dir, "dispatch/s:root", 1).failure == "lease_fence_stale"
        assert fence_check.glance(state_dir, "job/s:root", fence).failure == "lease_missing"
    with Serve(state_dir) as running:
        running.ready()
        assert guarded(state_dir, "dispatch/s:root", fence)[0] == 0


@pytest.mark.parametrize("served", [False, True], ids=["direct", "sidecar"])
def test_a_fence_is_guarded_with_and_without_a_sidecar(
    call: Run, held: int, state_dir: Path, served: bool
) -> None:
    def judge(resource: str, fence: int) -> tuple[int, str]:
        code, out, err = guarded(state_dir, resource, fence)
        assert bool(out) == (code == 0)
        return code, out or err

    def check() -> None:
        code, said = judge("issue/x", held)
        assert (code, said.startswith(f"issue/x: fence {held} is current, for ")) == (0, True)
        for name, fence, expected, failure in (
            ("issue/x", held - 1, 6, "lease_fence_stale"),
            ("issue/x", held + 1, 6, "lease_fence_unknown"),
            ("issue/x", limits.INTEGER_MAX, 6, "lease_fence_unknown"),
            ("issue/y", held, 6, "lease_missing"),
            ("issue/z", held, 3, "lease_not_found"),
        ):
            code, said = judge(name, fence)
            assert code == expected, said
            assert said.endswith(f"({failure})\n")

    if served:
        with Serve(state_dir) as running:
            running.ready()
            check()
    else:
        check()


MOVES: dict[str, tuple[Callable[[int], list[str]], bool]] = {
    "renew": (lambda fence: ["issue", "renew", "x", *holder(fence)], True),
    "update": (lambda fence: ["issue", "update", "x", "--notes", "n", *holder(fence)], True),
    "release": (lambda fence: ["issue", "release", "x", *holder(fence)], False),
    "close": (lambda fence: ["issue", "close", "x", *holder(fence)], False),
    "block": (lambda fence: ["issue", "update", "x", "--status", "blocked", *holder(fence)], False),
    "break": (lambda _: ["issue", "break", "x", "--reason", "r"], False),
    "another's claim": (lambda _: ["issue", "claim", "y", "--assignee", "bob"], True),
    "another's break": (lambda _: ["issue", "break", "y", "--reason", "r"], True),
}


def holder(fence: int) -> list[str]:
    return ["--assignee", "ada", "--lease-id", f"lease1_x_ada_{fence}", "--fence", str(fence)]


@pytest.mark.parametrize("move", MOVES)
def test_the_journal_read_alone_says_what_the_whole_state_says(
    call: Run, held: int, state_dir: Path, move: str
) -> None:
    words, stays = MOVES[move]
    call(*words(held))
    found = fence_check.certain(str(state_dir), "issue/x", held)
    assert (found is not None) == stays
    assert (guarded(state_dir, "issue/x", held)[0] == 0) == stays


def test_a_second_term_ends_the_first(call: Run, held: int, state_dir: Path) -> None:
    assert call("issue", "break", "x", "--reason", "r").code == 0
    second = claimed(call, "x", "ada")
    assert guarded(state_dir, "issue/x", held)[0] == 6
    assert guarded(state_dir, "issue/x", second)[0] == 0


@pytest.mark.parametrize("issue", ODD_IDS)
def test_a_name_that_no_issue_has_is_never_current(held: int, state_dir: Path, issue: str) -> None:
    code, out, err = guarded(state_dir, f"issue/{issue}", held)
    assert (code, out, "Traceback" in err) == (3, "", False)
    with Serve(state_dir) as running:
        running.ready()
        assert guarded(state_dir, f"issue/{issue}", held)[0] == 3


def submit(state_dir: Path, action: str, payload: dict[str, Any], now_ms: int) -> dict[str, Any]:
    """At a moment of our own."""
    line = orjson.dumps({"action": action, "payload": payload, "now": now_ms})
    with Office(state_dir) as office:
        answer = office.submit_lines([(line, Door("mcp", frozen_clock=True))])[0]
    found: dict[str, Any] = orjson.loads(answer)
    assert found["result"] == "accepted"
    return found


def test_a_fence_is_not_current_past_its_deadline(state_dir: Path) -> None:
    submit(state_dir, "issue.add", {"id": "x", "title": "t"}, LONG_AGO_MS)
    claim = {"id": "x", "assignee": "ada", "leaseTtlSeconds": 30}
    fence = submit(state_dir, "issue.claim", claim, LONG_AGO_MS)["issue"]["lease"]["fence"]
    code, _, err = guarded(state_dir, "issue/x", fence)
    assert (code, "lease_stale" in err) == (6, True)
    with Serve(state_dir) as running:
        running.ready()
        code, _, err = guarded(state_dir, "issue/x", fence)
    assert (code, "lease_stale" in err) == (6, True)


def test_the_journal_s_own_time_counts_where_ours_is_behind(
    call: Run, held: int, state_dir: Path
) -> None:
    assert fence_check.certain(str(state_dir), "issue/x", held) is not None
    future_ms = fence_check._now_ms(0) + 2 * limits.TTL_SECONDS_DEFAULT * 1000
    submit(state_dir, "issue.add", {"id": "late", "title": "t"}, future_ms)
    assert fence_check.certain(str(state_dir), "issue/x", held) is None
    assert guarded(state_dir, "issue/x", held)[0] == 6


def test_it_speaks_to_programs(call: Run, held: int, state_dir: Path) -> None:
    code, out, err = guarded(state_dir, "issue/x", held, "--json")
    said = orjson.loads(out)
    assert (code, err, said["result"], said["current"]) == (0, "", "accepted", held)
    assert said["deadlineMs"] > fence_check._now_ms(0)
    code, out, err = guarded(state_dir, "issue/x", held - 1, "--json")
    said = orjson.loads(out)
    assert (code, err, said["failureClasses"]) == (6, "", ["lease_fence_stale"])
    assert (said["fence"], said["current"]) == (held - 1, held)


def test_the_slow_way_in_says_the_same(call: Run, held: int, state_dir: Path) -> None:
    """A root option before the command is none of the fast way's business."""
    words = ("--state-dir", state_dir, "guard", "--resource", "issue/x", "--fence", str(held))
    slow, fast = understudy(*words, "--json"), guarded(state_dir, "issue/x", held, "--json")
    assert (slow.returncode, slow.stdout.decode()) == fast[:2]
    assert call("guard", "--resource", "issue/x", "--fence", held).code == 0


def test_a_reader_that_is_gone_changes_no_answer(held: int, state_dir: Path) -> None:
    words = f"guard --resource issue/x --fence {held} --state-dir {state_dir}"
    for closed in ("| true", ">&-", ">&- 2>&- <&-", "> /dev/full"):
        script = f'"{UNDERSTUDY}" {words} {closed}'
        done = subprocess.run(["bash", "-o", "pipefail", "-c", script], check=False)
        assert done.returncode == 0, closed


# --- where it looks -------------------------------------------------------------------------------


def test_a_worker_s_environment_names_what_to_guard(held: int, state_dir: Path) -> None:
    known = {"UNDERSTUDY_ISSUE": "x", "UNDERSTUDY_FENCE": str(held)}
    known["UNDERSTUDY_STATE_DIR"] = str(state_dir)
    assert understudy("guard", env=known).returncode == 0
    assert understudy("guard", env=known | {"UNDERSTUDY_FENCE": "1"}).returncode == 6
    assert understudy("guard", "--resource", "issue/y", env=known).returncode == 2
    assert understudy("guard", "--fence", "9", env=known).returncode == 2
    explicit = understudy("guard", "--resource", "issue/y", "--fence", "1", env=known)
    assert explicit.returncode == 6


def test_a_lease_of_another_authority_says_nothing_here(
    held: int, state_dir: Path, tmp_path: Path
) -> None:
    """Issue and fence are by chance the same in both; only one of them has granted it."""
    env = {"UNDERSTUDY_ISSUE": "x", "UNDERSTUDY_FENCE": str(held)}
    here, elsewhere = state_dir / "authority.sock", tmp_path / "elsewhere" / "authority.sock"
    words = ("guard", "--state-dir", state_dir)
    assert understudy(*words, env=env | {"UNDERSTUDY_SOCKET": str(here)}).returncode == 0
    found = understudy(*words, env=env | {"UNDERSTUDY_SOCKET": str(elsewhere)})
    assert found.returncode == 2
    assert b"of another authority" in found.stderr


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["--resource", "issue/x"],
        ["--fence", "1"],
        ["--resource", "x", "--fence", "1"],
        ["--resource", "issue/", "--fence", "1"],
        ["--resource", "job/", "--fence", "1"],
        ["--resource", "jobs/1", "--fence", "1"],
        ["--resource", "issue/x", "--fence", "0"],
        ["--resource", "issue/x", "--fence", "-1"],
        ["--resource", "issue/x", "--fence", "²"],
        ["--resource", "issue/x", "--fence", "9" * 17],
        ["--resource", "issue/x", "--fence"],
        ["--resource", "issue/x", "--fence", "1", "--loud"],
        ["--resource", "issue/x", "--fence", "1", "more"],
    ],
    ids=" ".join,
)
def test_what_is_not_said_plainly_is_a_question_of_usage(
    held: int, state_dir: Path, words: list[str]
) -> None:
    done = understudy("guard", *words, env={"UNDERSTUDY_STATE_DIR": str(state_dir)})
    assert done.returncode == 2
    assert b"Error: " in done.stderr
    assert b"Traceback" not in done.stderr


def test_without_a_journal_there_is_no_yes(tmp_path: Path) -> None:
    assert guarded(tmp_path, "issue/x", 1)[0] == 78
    (tmp_path / "journal.db").write_bytes(b"this is no journal" * 1000)
    code, out, err = guarded(tmp_path, "issue/x", 1)
    assert (code, out) == (9, "")
    assert "Traceback" not in err


# --- in whose way it is ---------------------------------------------------------------------------


def test_it_leaves_no_row_and_takes_no_lock(call: Run, held: int, state_dir: Path) -> None:
    rows = len(journal_rows(state_dir))
    with Office(state_dir):  # an office writes, for long
        assert guarded(state_dir, "issue/x", held)[0] == 0
        assert guarded(state_dir, "issue/x", held + 1)[0] == 6
    assert call("policy", "set", "--evidence-reads").code == 0
    assert guarded(state_dir, "issue/x", held)[0] == 0
    assert guarded(state_dir, "issue/y", held)[0] == 6
    assert len(journal_rows(state_dir)) == rows + 1


def test_a_sidecar_that_is_stopped_holds_no_guard_up(held: int, state_dir: Path) -> None:
    with Serve(state_dir) as running:
        running.ready()
        running.halt()
        assert guarded(state_dir, "issue/x", held)[0] == 0
        assert guarded(state_dir, "issue/x", held + 1)[0] == 6
        running.wake()
    (state_dir / "authority.sock").touch()  # and what a killed one left behind
    assert guarded(state_dir, "issue/x", held)[0] == 0


def test_a_sidecar_that_is_insisted_on_must_be_there(held: int, state_dir: Path) -> None:
    assert guarded(state_dir, "issue/x", held, "--boundary", "sidecar")[0] == 7
    assert guarded(state_dir, "issue/x", held, "--boundary", "reference")[0] == 0


def test_a_reader_sees_what_a_writer_has_just_answered(
    call: Run, held: int, state_dir: Path
) -> None:
    """Through a sidecar and past it: an answer is on disk before anybody hears of it."""
    with Serve(state_dir) as running:
        running.ready()
        assert call("issue", "break", "x", "--reason", "r").code == 0
        assert guarded(state_dir, "issue/x", held)[0] == 6
        assert guarded(state_dir, "issue/x", held, "--boundary", "reference")[0] == 6


def test_many_rows_since_the_grant_do_not_change_the_answer(held: int, state_dir: Path) -> None:
    with Office(state_dir) as office:
        door = Door("mcp")
        for start in range(0, 2_000, 500):
            lines = [
                orjson.dumps({"action": "issue.add", "payload": {"id": f"n{n}", "title": "t"}})
                for n in range(start, start + 500)
            ]
            office.submit_lines([(line, door) for line in lines])
    assert fence_check.certain(str(state_dir), "issue/x", held) is not None
    shutil.copytree(state_dir, copy := state_dir.with_name("copy"))
    assert guarded(copy, "issue/x", held)[0] == 0


# --- speed ----------------------------------------------------------------------------------------


def test_a_guard_costs_little_more_than_the_interpreter(
    held: int, state_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    guard = [str(UNDERSTUDY), "guard", "--resource", "issue/x", "--fence", str(held)]
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "guard": [*guard, "--state-dir", str(state_dir)],
        "version": [str(UNDERSTUDY), "--version"],
    }
    best = {name: min(_cpu_seconds(words) for _ in range(7)) for name, words in commands.items()}
    with capsysbinary.disabled():
        print("\nCPU:", *(f"{name} {cost * 1000:.0f} ms" for name, cost in best.items()))
    assert best["guard"] < best["version"], "it is spared what other commands import"
    assert best["guard"] < 2.5 * best["python"]


def _cpu_seconds(command: list[str]) -> float:
    before = _children()
    subprocess.run(command, env=environment(), capture_output=True, check=True)
    return _children() - before


def _children() -> float:
    usage: Any = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(usage.ru_utime + usage.ru_stime)


def test_guards_side_by_side_all_get_through(held: int, state_dir: Path) -> None:
    with Serve(state_dir) as running:
        running.ready()
        words = ["guard", "--resource", "issue/x", "--fence", str(held)]
        folder = ["--state-dir", str(state_dir)]
        crowd = [
            subprocess.Popen([str(UNDERSTUDY), *words, *folder], stdout=subprocess.DEVNULL)
            for _ in range(12)
        ]
        eventually(lambda: all(each.poll() is not None for each in crowd))
        assert [each.returncode for each in crowd] == [0] * len(crowd)
