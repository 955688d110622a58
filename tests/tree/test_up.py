"""The tree at work: claims, workers, retries, escalation, and a clean end."""

import os
import signal
import sys
from contextlib import ExitStack
from pathlib import Path

import orjson
import pytest

from tests.long import few, pairs
from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, accepted, add, issues, kill, prove, statuses

pytestmark = pytest.mark.timeout(120)


def test_issues_are_worked_in_the_order_of_their_dependencies(
    state_dir: Path, tmp_path: Path
) -> None:
    done = tmp_path / "done"
    add(state_dir, "a", "b", "c", b="a", c="b")
    command = f'echo "$UNDERSTUDY_ISSUE $UNDERSTUDY_FENCE" >> {done}'
    with Up(state_dir, "--exec", command, "--workers", "3", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    lines = [line.split() for line in done.read_text().splitlines()]
    assert [name for name, _ in lines] == ["a", "b", "c"]
    assert [int(fence) for _, fence in lines] == sorted(int(fence) for _, fence in lines)
    assert set(statuses(state_dir).values()) == {"closed"}
    prove(state_dir)


def test_a_worker_gets_its_issue_as_json_and_its_lease_in_the_environment(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "a")
    seen = tmp_path / "seen"
    script = (
        "import json, os, sys; issue = json.load(sys.stdin);"
        f" open({str(seen)!r}, 'w').write(json.dumps([issue['id'], issue['lease']['fence'],"
        " os.environ['UNDERSTUDY_FENCE'], os.environ['UNDERSTUDY_LEASE'],"
        " os.environ['UNDERSTUDY_STATE_DIR'], os.environ['UNDERSTUDY_SOCKET']]))"
    )
    with Up(state_dir, "--exec", f'{sys.executable} -c "{script}"', "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    name, fence, env_fence, lease, folder, socket = orjson.loads(seen.read_bytes())
    assert (name, str(fence), Path(folder)) == ("a", env_fence, state_dir)
    assert lease.startswith("lease1_a_")
    assert Path(socket).parent == state_dir


def test_exit_75_hands_back_and_the_next_attempt_does_it(state_dir: Path, tmp_path: Path) -> None:
    add(state_dir, "a")
    mark = tmp_path / "mark"
    command = f"if [ -e {mark} ]; then exit 0; fi; touch {mark}; exit 75"
    with Up(state_dir, "--exec", command, "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert statuses(state_dir) == {"a": "closed"}
    assert accepted(state_dir, "issue.claim") == {"a": 2}
    assert accepted(state_dir, "issue.lease_release") == {"a": 1}


@pytest.mark.parametrize("end", few(["exit 3", "kill -9 $$", "kill -9 -$$"]))
def test_a_job_that_always_fails_is_tried_as_often_as_allowed_and_escalated_once(
    state_dir: Path, end: str
) -> None:
    add(state_dir, "bad", "good")
    command = f'[ "$UNDERSTUDY_ISSUE" = good ] || {{ echo "no luck"; {end}; }}'
    with Up(state_dir, "--exec", command, "--workers", "2", "--until-done") as up:
        assert up.wait() == 11, up.complaint()
    found = statuses(state_dir)
    assert (found.pop("good"), found.pop("bad")) == ("closed", "blocked")
    assert list(found.items()) == [("bad.escalation-1", "open")], "one escalation"
    assert issues(state_dir)["bad.escalation-1"]["issueType"] == "escalation"
    taken = understudy("issue", "next", "--assignee", "bob", "--json", "--state-dir", state_dir)
    assert "issue" not in orjson.loads(taken.stdout), "it waits for a person"
    assert issues(state_dir)["bad"]["attempts"] == 3
    assert accepted(state_dir, "issue.claim")["bad"] == 3
    assert accepted(state_dir, "issue.discover") == {"bad": 1}
    log = understudy("logs", "bad", "--attempt", "3", "--state-dir", state_dir)
    assert b"no luck" in log.stdout
    prove(state_dir)


def test_a_handler_in_python_works_and_its_traceback_is_kept(
    state_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "trade.py").write_text(
        "from understudy.actors.handlers import HandBack, IssueWork\n"
        "def work(job: IssueWork) -> None:\n"
        "    if job.issue_id == 'bad':\n"
        "        raise RuntimeError('spoiled')\n"
        "    print('worked on', job.issue['title'], job.fence)\n"
    )
    add(state_dir, "bad", "good")
    with Up(state_dir, "--handler", "trade:work", "--until-done", cwd=tmp_path) as up:
        assert up.wait() == 11, up.complaint()
    assert statuses(state_dir)["good"] == "closed"
    assert statuses(state_dir)["bad"] == "blocked"
    log = understudy("logs", "bad", "--state-dir", state_dir)
    assert b"RuntimeError: spoiled" in log.stdout
    assert b"worked on good" in understudy("logs", "good", "--state-dir", state_dir).stdout


def test_an_async_handler_is_run_before_its_issue_is_closed(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "a")
    (tmp_path / "trade.py").write_text(
        "import asyncio, pathlib\n"
        "async def work(task):\n"
        "    await asyncio.sleep(0)\n"
        "    pathlib.Path('ran').write_text(task.issue_id)\n"
    )
    with Up(state_dir, "--handler", "trade:work", "--until-done", cwd=tmp_path) as up:
        assert up.wait() == 0, up.complaint()
    assert statuses(state_dir) == {"a": "closed"}
    assert (tmp_path / "ran").read_text() == "a"


def test_down_hands_leases_back_and_leaves_nothing(state_dir: Path) -> None:
    add(state_dir, "a", "b", "c")
    with Up(state_dir, "--exec", "setsid sleep 300 & sleep 300", "--workers", "2") as up:
        up.ready()
        eventually(lambda: len(up.terms()) == 2)
        system = up.picture()["system"]
        assert report_of("down", "--state-dir", state_dir) == {
            "result": "accepted", "failureClasses": [], "left": [],
        }  # fmt: skip
        assert up.wait() == 0, up.complaint()
        assert up.left(system) == []
    assert set(statuses(state_dir).values()) == {"open"}
    assert sum(accepted(state_dir, "issue.lease_release").values()) == 2
    prove(state_dir)


def test_a_tree_that_is_frozen_is_ended_by_force(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "sleep 300") as up:
        up.ready()
        eventually(up.terms)
        system = up.picture()["system"]
        up.halt()
        assert report_of("down", "--force", "--state-dir", state_dir)["left"] == []
        assert up.wait() == -signal.SIGKILL
        assert up.left(system) == []


def test_ctrl_c_ends_it_as_down_does(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "sleep 300") as up:
        up.ready()
        eventually(up.terms)
        system = up.picture()["system"]
        up.signal(signal.SIGINT)
        assert up.wait() == 0, up.complaint()
        assert up.left(system) == []
    assert statuses(state_dir) == {"a": "open"}


def test_a_worker_that_ignores_sigterm_is_killed_after_its_grace(state_dir: Path) -> None:
    add(state_dir, "a")
    command = "trap '' TERM; while :; do sleep 1; done"
    with Up(state_dir, "--exec", command, "--grace", "1") as up:
        up.ready()
        eventually(up.terms)
        assert report_of("down", "--state-dir", state_dir)["left"] == []
        assert up.wait() == 0


def test_a_job_that_sleeps_for_ever_runs_into_its_timeout(state_dir: Path) -> None:
    add(state_dir, "a")
    words = ["--exec", "sleep 1000", "--job-timeout", "1", "--grace", "0", "--until-done"]
    with Up(state_dir, *words) as up:
        assert up.wait() == 11, up.complaint()
    assert statuses(state_dir)["a"] == "blocked"


def test_a_lease_that_an_operator_breaks_stops_its_worker_before_the_next_one_starts(
    state_dir: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    add(state_dir, "a")
    command = f"echo $$ >> {trace}; exec sleep 300"
    with Up(state_dir, "--exec", command, "--ttl", "30", "--grace", "0") as up:
        up.ready()
        eventually(trace.exists)
        report_of("issue", "break", "a", "--reason", "wrong one", "--state-dir", state_dir)
        eventually(lambda: len(trace.read_text().split()) == 2)
        first, second = map(int, trace.read_text().split())
        assert not Path(f"/proc/{first}").exists(), "two at once"
        assert Path(f"/proc/{second}").exists()
        up.terminate()


def test_one_tree_has_a_state_directory(state_dir: Path) -> None:
    with Up(state_dir, "--exec", "true") as up:
        up.ready()
        second = understudy("up", "--exec", "true", "--json", "--state-dir", state_dir)
        assert second.returncode == 75
        assert b"authority_busy" in second.stdout
        assert up.is_up()
        up.terminate()


def test_eight_starters_end_with_one_tree(state_dir: Path) -> None:
    add(state_dir, "a")
    with ExitStack() as started:
        trees = [started.enter_context(Up(state_dir, "--exec", "sleep 300")) for _ in range(8)]
        eventually(lambda: sum(tree.process.poll() is not None for tree in trees) == 7)
        (winner,) = [tree for tree in trees if tree.process.poll() is None]
        winner.ready()
        assert {tree.wait() for tree in trees if tree is not winner} == {75}
        eventually(winner.terms)
        assert winner.terminate() == 0, winner.complaint()
    assert accepted(state_dir, "issue.claim") == {"a": 1}


def test_down_in_the_middle_of_a_start_ends_it(state_dir: Path) -> None:
    with Up(state_dir, "--exec", "true") as up:
        eventually((state_dir / "run" / "lock").exists)
        assert up.terminate() == 0, up.complaint()
    with Up(state_dir, "--exec", "true") as up:  # and nothing stands in the way of the next
        up.ready()
        up.terminate()


@pytest.mark.parametrize(
    ("name", "number"),
    pairs(
        ["authority_client", "evidence_writer", "worker_sup"],
        [signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT],
    ),
)
def test_a_cell_that_dies_is_started_again_and_the_work_gets_done(
    state_dir: Path, name: str, number: signal.Signals
) -> None:
    add(state_dir, "a", "b")
    with Up(state_dir, "--exec", "sleep 0.5", "--until-done") as up:
        up.ready()
        eventually(up.terms)
        before = up.pid_of(name)
        kill(before, number)
        assert up.wait() == 0, up.complaint()
    assert set(statuses(state_dir).values()) == {"closed"}
    assert accepted(state_dir, "issue.close") == {"a": 1, "b": 1}
    prove(state_dir)


def test_a_dispatcher_that_dies_finds_its_workers_again(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    add(state_dir, "a")
    command = f"echo x >> {runs}; sleep 2"
    with Up(state_dir, "--exec", command, "--until-done") as up:
        up.ready()
        eventually(runs.exists)
        kill(up.pid_of("lease_dispatcher"))
        assert up.wait() == 0, up.complaint()
    assert runs.read_text() == "x\n", "the worker was not disturbed"
    assert statuses(state_dir) == {"a": "closed"}
    assert issues(state_dir)["a"]["attempts"] == 1


def test_a_sidecar_that_dies_disturbs_no_worker(state_dir: Path, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    add(state_dir, "a")
    with Up(state_dir, "--exec", f"echo x >> {runs}; sleep 2", "--until-done") as up:
        up.ready()
        eventually(runs.exists)
        kill(up.picture()["authority"]["pid"])
        assert up.wait() == 0, up.complaint()
    assert runs.read_text() == "x\n"
    assert statuses(state_dir) == {"a": "closed"}
    prove(state_dir)


@pytest.mark.parametrize("who", few(["admin", "program"]))
def test_the_death_of_the_admin_or_the_program_leaves_nothing_and_the_next_tree_goes_on(
    state_dir: Path, who: str
) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "sleep 300") as up:
        up.ready()
        eventually(up.terms)
        found = up.picture()
        kill(found["processes"]["admin"] if who == "admin" else up.pid)
        assert up.wait() == (1 if who == "admin" else -signal.SIGKILL), up.complaint()
        eventually(lambda: up.left(found["system"]) == [])
    with Up(state_dir, "--exec", "true", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert statuses(state_dir) == {"a": "closed"}
    prove(state_dir)


def test_a_folder_that_cannot_be_written_is_named(state_dir: Path) -> None:
    (state_dir / "run").write_text("in the way")
    found = understudy("up", "--exec", "true", "--state-dir", state_dir)
    assert found.returncode == 1
    assert str(state_dir / "run").encode() in found.stderr


def test_five_hundred_idle_workers_and_one_job_make_one_claim(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "true", "--workers", "500", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert accepted(state_dir, "issue.claim") == {"a": 1}


def test_what_cannot_work_is_said_before_anything_begins(state_dir: Path) -> None:
    for words in (
        [],
        ["--exec", "true", "--handler", "a:b"],
        ["--exec", "true", "--ttl", "30", "--grace", "20"],
        ["--exec", "true", "--name", "no/name"],
    ):
        found = understudy("up", *words, "--state-dir", state_dir)
        assert found.returncode == 2, words
    assert not (state_dir / "run").exists()


def test_status_tree_and_top_show_it(state_dir: Path) -> None:
    for command in ("status", "tree", "down"):
        assert understudy(command, "--state-dir", state_dir).returncode == 7
    add(state_dir, "a")
    add(state_dir, "b")
    add(state_dir, "c")
    for words in (("dep", "add", "b", "a"), ("issue", "update", "c", "--status", "blocked")):
        assert understudy(*words, "--state-dir", state_dir).returncode == 0
    with Up(state_dir, "--exec", "sleep 300") as up:
        up.ready()
        eventually(up.terms)
        shown = understudy("tree", "--state-dir", state_dir).stdout.decode()
        for word in ("authority_client", "evidence_writer", "worker_sup", "lease_dispatcher", "a "):
            assert word in shown
        ask = ("issue", "add", "Help", "--id", "e", "--type", "escalation")
        assert understudy(*ask, "--state-dir", state_dir).returncode == 0
        status = understudy("status", "--state-dir", state_dir).stdout.decode()
        assert "1 of 1 workers busy" in status
        assert "issues  0 ready, 1 held, 0 resting, 2 waiting, 1 blocked, 0 done" in status
        assert report_of("tree", "--state-dir", state_dir)["counts"]["issues"]["held"] == 1
        assert "  a  running " in status
        assert "e  waits for a person: Help" in status
        assert report_of("status", "--state-dir", state_dir)["waitsForPerson"] == ["e"]
        found = report_of("tree", "--state-dir", state_dir)
        assert [child["id"] for child in found["tree"]] == [
            "authority_client", "evidence_writer", "worker_sup", "lease_dispatcher",
        ]  # fmt: skip
        up.terminate()


def test_the_doctor_sees_a_tree_that_runs_and_one_whose_program_died(state_dir: Path) -> None:
    def said() -> dict[str, str]:
        found = orjson.loads(understudy("doctor", "--json", "--state-dir", state_dir).stdout)
        (tree,) = [each for each in found["findings"] if each["check"] == "tree"]
        return {"status": tree["status"], "detail": tree["detail"]}

    assert said()["status"] == "ok"
    with Up(state_dir, "--exec", "true") as up:
        up.ready()
        assert f"process {up.pid} runs a tree" in said()["detail"]
        system = up.picture()["system"]
        up.kill()
        eventually(lambda: up.left(system) == [])
    assert said()["status"] == "problem"


def test_a_worker_that_prints_without_end_costs_a_bounded_log(state_dir: Path) -> None:
    add(state_dir, "a")
    with Up(state_dir, "--exec", "head -c 1000000000 /dev/zero", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert statuses(state_dir) == {"a": "closed"}
    kept = sum(path.stat().st_size for path in (state_dir / "logs").rglob("*") if path.is_file())
    assert kept < 4_000_000


@pytest.mark.parametrize("name", few(["logs", "run"]))
def test_a_tree_writes_through_no_link_of_another_user(
    state_dir: Path, tmp_path: Path, name: str
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a link for another user")
    add(state_dir, "a")
    (tmp_path / "outside").mkdir()
    (state_dir / name).symlink_to(tmp_path / "outside")
    os.lchown(state_dir / name, 65_534, 65_534)
    with Up(state_dir, "--exec", "true", "--until-done") as up:
        assert up.wait() == 1
        assert "a link that user 65534 has made; remove it" in up.complaint()
    assert list((tmp_path / "outside").iterdir()) == []
    assert statuses(state_dir) == {"a": "open"}
