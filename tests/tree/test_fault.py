"""Faults of the tree itself, what its end says, and what counts as an attempt."""

import sys
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, accepted, add, issues, job, prove, schedule, statuses

pytestmark = pytest.mark.timeout(120)
CONFIG, BLOCKED, FAILING = 78, 11, 12


# --- before anything is claimed -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--exec", "./agnt.sh"), "./agnt.sh: no such file"),
        (("--exec", "no-such-agent --task 1"), "no-such-agent: no such command"),
        (("--exec", "./plain.txt | cat"), "not executable"),
        (("--handler", "nope:handle"), "No module named 'nope'"),
        (("--handler", "trade:lines"), "async generator"),
        (("--job", "ci.=./agnt.sh"), "./agnt.sh: no such file"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_claimed(
    state_dir: Path, tmp_path: Path, words: tuple[str, str], said: str
) -> None:
    add(state_dir, "a", "b")
    (tmp_path / "plain.txt").write_text("nothing")
    (tmp_path / "trade.py").write_text("async def lines(work):\n    yield 1\n")
    with Up(state_dir, *words, "--until-done", cwd=tmp_path) as up:
        assert up.wait() == CONFIG
        assert said in up.complaint()
        assert "nothing was claimed" in up.complaint()
    assert {each["attempts"] for each in issues(state_dir).values()} == {0}


@pytest.mark.parametrize(
    "command",
    [
        "cd . && true",
        'RUN=true; "$RUN"',
        "RUN=1 true",
        "f() { true; }; f",
        "[ -d / ]",
        "{ true; }",
        "! false",
        "if true; then :; fi",
        ": # nothing",
        "true|cat",
        "~/no/such || true",
    ],
)
def test_no_sound_command_of_a_shell_is_refused(tmp_path: Path, command: str) -> None:
    from understudy.actors.tree import Plan, problem, shell_command

    assert problem(Plan(tmp_path, shell_command(command), cwd=tmp_path)) is None


# --- when it works --------------------------------------------------------------------------------


def test_a_command_that_goes_missing_stops_the_tree_and_burns_nothing(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, *"abcde")
    with Up(state_dir, "--exec", "true && ./agnt.sh", "--until-done", cwd=tmp_path) as up:
        assert up.wait() == CONFIG, up.complaint()
        assert "cannot be run: a: exit code 127" in up.complaint()
        assert "agnt.sh" in up.complaint()
    found = issues(state_dir)
    assert {each["status"] for each in found.values()} == {"open"}
    assert (found["a"]["attempts"], found["a"]["excused"]) == (1, 1)
    assert sum(each["attempts"] for each in found.values()) == 1
    prove(state_dir)


def test_issues_that_fail_in_one_way_stop_the_tree_before_any_is_blocked(state_dir: Path) -> None:
    add(state_dir, *"abcde")
    words = ("--exec", "echo no key; exit 4", "--stop-after", "3", "--until-done")
    with Up(state_dir, *words) as up:
        assert up.wait() == FAILING, up.complaint()
        assert "3 failed in the same way" in up.complaint()
        assert "no key" in up.complaint()
    found = issues(state_dir)
    assert {each["status"] for each in found.values()} == {"open"}
    assert sum(each["attempts"] - each.get("excused", 0) for each in found.values()) == 2


def test_a_job_handler_that_breaks_on_import_stops_the_tree(
    state_dir: Path, tmp_path: Path
) -> None:
    schedule(state_dir, [{"jobId": "a", "kind": "k"}])
    (tmp_path / "trade.py").write_text(
        "import os\nif 'UNDERSTUDY_JOB' in os.environ: import nowhere\ndef work(task): ...\n"
    )
    with Up(state_dir, "--job-handler", "k=trade:work", cwd=tmp_path) as up:
        assert up.wait() == CONFIG, up.complaint()
    found = job(state_dir, "a")
    assert (found["state"], found["attempts"], found["excused"]) == ("pending", 1, 1)


# --- what the end says ----------------------------------------------------------------------------


def ended(state_dir: Path, command: str) -> tuple[int, dict[str, Any], str]:
    words = ("--exec", command, "--until-done", "--attempts", "1", "--json")
    found = understudy("up", "--state-dir", state_dir, *words)
    return found.returncode, orjson.loads(found.stdout), found.stderr.decode()


def test_the_end_says_what_came_of_the_work(state_dir: Path) -> None:
    add(state_dir, "bad", "good")
    code, answer, _ = ended(state_dir, '[ "$UNDERSTUDY_ISSUE" = good ]')
    tally = answer["tally"]
    assert (code, answer["failureClasses"], answer["ended"]) == (BLOCKED, ["work_blocked"], "done")
    assert (tally["done"], tally["blocked"], tally["escalated"], tally["attempts"]) == (1, 1, 1, 2)
    report_of("issue", "update", "bad", "--status", "open", "--state-dir", state_dir)
    code, answer, _ = ended(state_dir, "true")
    assert (code, answer["result"], answer["tally"]["done"]) == (0, "accepted", 1)


def test_without_a_terminal_there_is_a_line_for_every_issue_that_is_done(state_dir: Path) -> None:
    add(state_dir, *"abc")
    with Up(state_dir, "--exec", "true", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
        said = up.complaint()
    for name in "abc":
        assert f"done  {name}: attempt 1" in said
    assert "3 done, 0 blocked, 0 escalated, 3 attempts" in said


# --- attempts -------------------------------------------------------------------------------------


def test_a_hand_back_is_no_attempt(state_dir: Path, tmp_path: Path) -> None:
    add(state_dir, "a")
    for _ in range(3):
        with Up(state_dir, "--exec", "sleep 60").ready() as up:
            eventually(up.terms)
            assert understudy("down", "--state-dir", state_dir).returncode == 0
            up.wait()
    found = issues(state_dir)["a"]
    assert (found["status"], found["attempts"], found["excused"]) == ("open", 3, 3)
    mark = tmp_path / "mark"
    command = f"if [ -e {mark} ]; then exit 0; fi; touch {mark}; exit 3"
    with Up(state_dir, "--exec", command, "--until-done", "--backoff", "10ms") as up:
        assert up.wait() == 0, up.complaint()
        assert "attempt 1 of 3" in up.complaint(), "the first that failed"
    assert accepted(state_dir, "issue.claim") == {"a": 5}
    prove(state_dir)


def test_a_tree_has_attempts_and_pauses_of_its_own(state_dir: Path, tmp_path: Path) -> None:
    add(state_dir, "a")
    words = ("--exec", "exit 3", "--until-done", "--attempts", "2", "--backoff", "1ms..2ms")
    with Up(state_dir, *words) as up:
        assert up.wait() == BLOCKED, up.complaint()
    assert issues(state_dir)["a"]["attempts"] == 2
    broken = tmp_path / "policy.json"
    broken.write_text("{}")
    with Up(state_dir, "--exec", "true", "--retry-policy", broken) as up:
        assert up.wait() == 2
        assert "retry_policy_invalid_shape" in up.complaint()


def test_a_rest_is_shown_and_a_person_ends_it(state_dir: Path, tmp_path: Path) -> None:
    add(state_dir, "a")
    mark = tmp_path / "mark"
    command = f"if [ -e {mark} ]; then exit 0; fi; touch {mark}; exit 3"
    with Up(state_dir, "--exec", command, "--backoff", "1h").ready() as up:
        eventually(lambda: up.picture()["dispatcher"]["rests"])
        (rest,) = up.picture()["dispatcher"]["rests"]
        assert (rest["issue"], rest["why"]) == ("a", "retry pause")
        for command in ("status", "tree"):
            said = understudy(command, "--state-dir", state_dir).stdout.decode()
            assert "a rests " in said
            assert ": retry pause" in said
        report_of("issue", "update", "a", "--status", "open", "--state-dir", state_dir)
        eventually(lambda: statuses(state_dir)["a"] == "closed")


# --- the environment ------------------------------------------------------------------------------


def test_a_worker_has_the_keys_of_its_user_and_no_secret_of_ours(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "a")
    seen = tmp_path / "seen"
    script = f"import json, os; json.dump(dict(os.environ), open({str(seen)!r}, 'w'))"
    env = {"UNDERSTUDY_HTTP_TOKEN": "t" * 32, "AGENT_KEY": "k"}
    with Up(state_dir, "--exec", f'{sys.executable} -c "{script}"', "--until-done", env=env) as up:
        assert up.wait() == 0, up.complaint()
    found = orjson.loads(seen.read_bytes())
    assert found["AGENT_KEY"] == "k"
    assert not [name for name, value in found.items() if value == "t" * 32]
