"""`understudy exec`: one command under one lease, on real processes and with real faults."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.actors.litter import TROUBLE, Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.long import pairs
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.conftest import Run
from tests.surfaces.process import (
    UNDERSTUDY,
    Program,
    Serve,
    commanded,
    journal_rows,
    understudy,
)

KINDS = ("sleep", "deaf", "daemons", "tree", "runner")
ROADS = ("direct", "sidecar")


@pytest.fixture(params=ROADS)
def folder(request: pytest.FixtureRequest, state_dir: Path, bare: Run) -> Iterator[Path]:
    """A state directory with an issue `x`, with and without a sidecar."""
    assert bare("issue", "add", "work", "--id", "x", "--state-dir", state_dir).code == 0
    if request.param == "direct":
        yield state_dir
        return
    with Serve(state_dir) as running:
        running.ready()
        yield state_dir


def executed(
    folder: Path, *words: str | Path, options: tuple[str, ...] = (), stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    return understudy("exec", "x", "--state-dir", folder, *options, "--", *words, stdin=stdin)


def told(folder: Path, *words: str) -> dict[str, Any]:
    done = commanded(*words, "--state-dir", folder, "--json")
    said: dict[str, Any] = orjson.loads(done.stdout)
    return said


def shown(folder: Path) -> tuple[str, bool]:
    """The issue's status, and whether anybody holds it."""
    issue = told(folder, "issue", "show", "x")["issue"]
    return issue["status"], "lease" in issue


class Exec(Program):
    """`understudy exec x` in the background."""

    def __init__(
        self, mark: Mark, folder: Path, *words: str | Path, options: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        super().__init__(
            [UNDERSTUDY, "exec", "x", "--state-dir", folder, *options, "--", *words],
            env={"UNDERSTUDY_TEST_MARK": mark.word},
        )

    @property
    def log(self) -> Path:
        return self.folder / "logs" / "x" / "1.log"

    def up(self) -> "Exec":
        """Its command has begun."""
        eventually(lambda: self.log.exists() and b"up" in self.log.read_bytes())
        return self


def troubled(mark: Mark, folder: Path, kind: str, *options: str) -> Exec:
    words = (sys.executable, "-I", "-S", TROUBLE, kind)
    return Exec(mark, folder, *words, options=("--grace", "1", *options))


# --- how it ends ----------------------------------------------------------------------------------


def test_a_command_that_succeeds_completes_its_issue(folder: Path) -> None:
    done = executed(folder, "sh", "-c", "echo out; echo err >&2")
    assert (done.returncode, done.stdout) == (0, b"out\n")
    assert b"err\n" in done.stderr
    assert b"understudy: x: completed\n" in done.stderr
    assert shown(folder) == ("closed", False)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("exit 75", 75, b"handed back, as the command asked"),
        ("exit 3", 3, b"handed back after a failed attempt"),
        ("exit 6", 6, b"handed back after a failed attempt"),
        ("kill -9 $$", 137, b"handed back after a failed attempt"),
    ],
)
def test_any_other_end_hands_the_issue_back(
    folder: Path, words: str, code: int, said: bytes
) -> None:
    done = executed(folder, "sh", "-c", words)
    assert done.returncode == code
    assert said in done.stderr
    assert shown(folder) == ("open", False)


def test_the_last_word_can_be_read_by_programs(folder: Path) -> None:
    done = executed(folder, "sh", "-c", "echo out; echo err >&2; exit 4", options=("--json",))
    report = orjson.loads(done.stdout)
    assert done.stderr == b"out\nerr\n", "all output, in its order"
    assert report["result"] == "rejected"
    assert (report["outcome"], report["exitCode"], done.returncode) == ("failed", 4, 4)
    command = {"began": True, "bytes": 8, "bytesDropped": 0, "code": 4, "kind": "exit"}
    assert report["command"] == command
    assert (report["issueId"], report["attempt"], report["fence"]) == ("x", 1, 2)
    assert Path(report["log"]).read_text() == "out\nerr\n"


def test_a_command_learns_what_it_works_on(folder: Path) -> None:
    done = executed(folder, "env", options=("--assignee", "ada", "-q"))
    known = dict(line.split("=", 1) for line in done.stdout.decode().splitlines() if "=" in line)
    ours = {name: value for name, value in known.items() if name.startswith("UNDERSTUDY_")}
    assert not Path(ours.pop("UNDERSTUDY_SPEND_FILE")).parent.exists(), "it is gone by now"
    assert ours == {
        "UNDERSTUDY_ISSUE": "x",
        "UNDERSTUDY_ASSIGNEE": "ada",
        "UNDERSTUDY_LEASE": "lease1_x_ada_2",
        "UNDERSTUDY_FENCE": "2",
        "UNDERSTUDY_SOCKET": str(folder / "authority.sock"),
        "UNDERSTUDY_STATE_DIR": str(folder),
    }
    assert done.stderr == b""


def test_a_command_gets_no_secret_of_ours(folder: Path) -> None:
    secrets = {"UNDERSTUDY_HTTP_TOKEN": "t" * 32}
    done = understudy("exec", "x", "--state-dir", folder, "-q", "--", "env", env=secrets)
    assert done.returncode == 0
    assert b"t" * 32 not in done.stdout


def test_a_command_can_speak_for_its_lease(folder: Path) -> None:
    script = '"$0" guard && "$0" issue update x --notes half && "$0" issue renew x'
    done = executed(folder, "sh", "-c", script, str(UNDERSTUDY))
    assert done.returncode == 0, done.stderr
    assert told(folder, "issue", "show", "x")["issue"]["notes"] == "half"


def test_a_command_reads_our_input_or_the_issue(folder: Path) -> None:
    done = executed(folder, "sh", "-c", "cat; exit 75", options=("-q",), stdin=b"hello\n")
    assert done.stdout == b"hello\n"
    done = executed(folder, "cat", options=("-q", "--issue-on-stdin"), stdin=b"hello\n")
    issue = orjson.loads(done.stdout)
    assert (issue["id"], issue["title"], issue["attempts"]) == ("x", "work", 2)
    assert issue["lease"]["fence"] == 4


@pytest.mark.parametrize(("word", "code"), [("no-such-command", 127), ("/etc/passwd", 126)])
def test_a_typo_claims_nothing(folder: Path, word: str, code: int) -> None:
    done = executed(folder, word, "--flag")
    assert done.returncode == code
    assert word.encode() in done.stderr
    assert b"nothing was claimed" in done.stderr
    assert told(folder, "issue", "show", "x")["issue"]["attempts"] == 0
    said = orjson.loads(executed(folder, word, options=("--json",)).stdout)
    assert (said["outcome"], said["exitCode"]) == ("not_started", code)


def test_a_command_that_cannot_begin_after_all_is_handed_back(folder: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/no/such/interpreter\n")
    broken.chmod(0o700)
    done = executed(folder, broken)
    assert done.returncode == 127
    assert b"could not be started" in done.stderr
    assert shown(folder) == ("open", False)


# --- who may ------------------------------------------------------------------------------------


def test_where_output_would_leave_by_a_link_of_another_user_nothing_is_claimed(
    folder: Path, tmp_path: Path
) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a link for another user")
    (tmp_path / "outside").mkdir()
    (folder / "logs").symlink_to(tmp_path / "outside")
    os.lchown(folder / "logs", 65_534, 65_534)
    done = executed(folder, "true")
    assert done.returncode == 1
    assert b"a link that user 65534 has made; remove it" in done.stderr
    assert shown(folder) == ("open", False)
    assert list((tmp_path / "outside").iterdir()) == []


def test_what_cannot_be_claimed_is_not_run(folder: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    told(folder, "issue", "claim", "x", "--assignee", "bob")
    done = executed(folder, "touch", str(ran))
    assert (done.returncode, ran.exists()) == (5, False)
    assert b"lease_contention_active" in done.stderr
    said = orjson.loads(executed(folder, "touch", str(ran), options=("--json",)).stdout)
    assert (said["outcome"], said["failureClasses"]) == ("refused", ["lease_contention_active"])
    done = understudy("exec", "nope", "--state-dir", folder, "--", "touch", str(ran))
    assert (done.returncode, ran.exists()) == (3, False)


def test_a_name_that_is_at_work_already_does_not_begin_a_second_time(
    folder: Path, tmp_path: Path
) -> None:
    """A claim by the live holder's own name is granted; it is no licence to run it twice."""
    ran = tmp_path / "ran"
    told(folder, "issue", "claim", "x", "--assignee", "ada")
    done = executed(folder, "touch", str(ran), options=("--assignee", "ada"))
    assert (done.returncode, ran.exists()) == (5, False)
    assert b"another process may be at work" in done.stderr
    assert shown(folder) == ("in_progress", True)


def test_a_lease_can_be_gone_on_with(folder: Path) -> None:
    lease = told(folder, "issue", "claim", "x", "--assignee", "ada")["issue"]["lease"]
    named = ("--assignee", "ada", "--lease-id", lease["leaseId"], "--fence", str(lease["fence"]))
    wrong = executed(folder, "true", options=(*named[:-1], "1"))
    assert (wrong.returncode, b"lease_fence_stale" in wrong.stderr) == (6, True)
    half = executed(folder, "true", options=named[:-2])
    assert half.returncode == 2
    assert executed(folder, "true", options=named).returncode == 0
    assert shown(folder) == ("closed", False)


def test_the_evidence_names_the_doors(folder: Path) -> None:
    assert executed(folder, "sh", "-c", "exit 75").returncode == 75
    assert executed(folder, "true").returncode == 0
    doors = [
        (row["effect"]["action"], row["effect"]["transport"], row["effect"].get("escalatedFrom"))
        for row in (orjson.loads(response) for *_, response in journal_rows(folder))
    ]
    assert doors == [
        ("issue.add", "cli", None),
        ("issue.claim", "cli", None),
        ("issue.lease_release", "mcp", "cli"),
        ("issue.claim", "cli", None),
        ("issue.close", "cli", None),
    ]
    assert told(folder, "replay")["result"] == "accepted"


def test_a_strict_policy_gets_its_evidence(folder: Path) -> None:
    told(folder, "policy", "set", "--mutation", "instruction-linked")
    assert executed(folder, "true").returncode == 4
    digest = told(folder, "check")["contractDigest"]
    options = ("--policy-digest", digest, "--instruction", "instruction://1")
    claims = ("--capability", "capabilities.change_morphisms.all")
    assert executed(folder, "true", options=(*options, *claims)).returncode == 0


# --- a lease that is lost -------------------------------------------------------------------------


@pytest.mark.parametrize(("folder", "kind"), pairs(ROADS, KINDS), indirect=["folder"])
def test_a_broken_lease_stops_the_command_with_all_its_descendants(
    mark: Mark, folder: Path, kind: str
) -> None:
    with troubled(mark, folder, kind) as running:
        running.up()
        assert told(folder, "issue", "break", "x", "--reason", "stop it")["result"] == "accepted"
        assert running.wait() == 6
        assert mark.alive() == []
        assert "the lease is lost" in running.complaint()
    assert shown(folder) == ("open", False), "it is the next one's"


@pytest.mark.parametrize(
    ("words", "said"),
    [(["cancel", "x"], "cancelled it; `understudy retry ID`"), (["pause", "--now"], "paused it")],
)
def test_what_an_operator_takes_is_gone_long_before_its_grace_is_over(
    mark: Mark, folder: Path, words: list[str], said: str
) -> None:
    with troubled(mark, folder, "deaf", "--grace", "300", "--ttl", "1000") as running:
        running.up()
        assert told(folder, *words)["result"] == "accepted"
        begun = time.monotonic()
        assert running.wait() == 6
        print(f"gone after {time.monotonic() - begun:.2f} s")
        assert mark.alive() == []
        assert said in running.complaint()


def test_a_newer_holder_is_left_alone(mark: Mark, folder: Path) -> None:
    with troubled(mark, folder, "sleep") as running:
        running.up()
        told(folder, "issue", "break", "x", "--reason", "r")
        told(folder, "issue", "claim", "x", "--assignee", "bob")
        assert running.wait() == 6
    issue = told(folder, "issue", "show", "x")["issue"]
    assert (issue["status"], issue["lease"]["owner"]) == ("in_progress", "bob")


def test_a_success_that_comes_too_late_is_a_lost_lease(folder: Path) -> None:
    script = '"$0" issue break x --reason r > /dev/null'
    done = executed(folder, "sh", "-c", script, str(UNDERSTUDY))
    assert done.returncode == 6
    assert shown(folder) == ("open", False)


def test_a_command_may_close_its_own_issue(mark: Mark, folder: Path, tmp_path: Path) -> None:
    """It is not stopped for that, and says itself how it ends."""
    after = tmp_path / "after"
    script = f'"$0" issue close x > /dev/null; sleep 2.5; touch {after}; exit 9'
    with Exec(mark, folder, "sh", "-c", script, str(UNDERSTUDY)) as running:
        assert running.wait() == 9
        assert "x: completed" in running.complaint()
    assert after.exists()
    assert shown(folder) == ("closed", False)


# --- signals and deaths ---------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_passed_on_and_the_issue_handed_back(
    mark: Mark, folder: Path, number: signal.Signals
) -> None:
    name = number.name.removeprefix("SIG")
    script = f"trap 'echo heard {name}; exit 0' {name}; echo up; while :; do sleep 0.01; done"
    with Exec(mark, folder, "sh", "-c", script) as running:
        running.up()
        running.signal(number)
        assert running.wait() == 128 + number
        assert f"heard {name}" in running.log.read_text()
    assert shown(folder) == ("open", False), "an interrupted success is none"
    assert mark.alive() == []


def test_who_insists_is_heard(mark: Mark, folder: Path) -> None:
    with Exec(mark, folder, sys.executable, "-I", "-S", TROUBLE, "deaf",
              options=("--grace", "600", "--ttl", "86400")) as running:  # fmt: skip
        running.up()
        running.signal(signal.SIGINT)
        running.signal(signal.SIGTERM)
        assert running.wait() in {130, 143}  # whichever was heard first
    assert mark.alive() == []


@pytest.mark.parametrize(("folder", "kind"), pairs(ROADS, KINDS), indirect=["folder"])
def test_nothing_survives_a_killed_exec(mark: Mark, folder: Path, kind: str) -> None:
    with troubled(mark, folder, kind) as running:
        running.up()
        running.kill()
        mark.gone()
    assert shown(folder) == ("in_progress", True), "the lease lapses by itself"


def test_a_killed_helper_is_a_failed_attempt(mark: Mark, folder: Path) -> None:
    with troubled(mark, folder, "daemons") as running:
        running.up()
        wardens = [pid for pid in mark.alive() if name_of(pid) == "us-warden"]
        assert len(wardens) == 1
        os.kill(wardens[0], signal.SIGKILL)
        assert running.wait() == 137
    assert mark.alive() == []
    assert shown(folder) == ("open", False)


def name_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_a_frozen_exec_wakes_up_to_a_lost_lease(mark: Mark, folder: Path) -> None:
    with troubled(mark, folder, "daemons") as running:
        running.up()
        running.halt()
        told(folder, "issue", "break", "x", "--reason", "it is frozen")
        told(folder, "issue", "claim", "x", "--assignee", "bob")
        running.wake()
        assert running.wait() == 6
        assert mark.alive() == []


# --- authorities that are away --------------------------------------------------------------------


def test_a_sidecar_may_be_restarted_meanwhile(mark: Mark, state_dir: Path, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    commanded("issue", "add", "work", "--id", "x", "--state-dir", state_dir)
    with Exec(mark, state_dir, "sh", "-c", f"echo up; read word < {gate}") as running:
        running.up()
        with Serve(state_dir) as first:
            first.ready()
            first.kill()
        with Serve(state_dir) as second:
            second.ready()
            gate.write_text("go\n")
            assert running.wait() == 0, running.complaint()
    assert shown(state_dir) == ("closed", False)


def test_without_a_state_directory_nothing_is_run(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    done = understudy("exec", "x", "--", "touch", ran, cwd=tmp_path)
    assert (done.returncode, ran.exists()) == (78, False)
    assert list(tmp_path.iterdir()) == []


# --- output ---------------------------------------------------------------------------------------


def test_much_output_costs_little(folder: Path) -> None:
    """50 MB, which only the log reads."""
    words = ("head", "-c", "50000000", "/dev/zero")
    with Path(os.devnull).open("wb") as nowhere:
        done = subprocess.run(
            [UNDERSTUDY, "exec", "x", "--state-dir", folder, "-q", "--", *words],
            stdout=nowhere,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 0
    kept = sum(each.stat().st_size for each in (folder / "logs" / "x").iterdir())
    assert kept < 3_000_000
    (row,) = told(folder, "logs", "x")["attempts"]
    assert row["bytes"] == 50_000_000
    assert row["record"]["command"]["bytesDropped"] == row["bytesDropped"] > 47_000_000


def test_output_need_not_be_kept(folder: Path) -> None:
    done = executed(folder, "sh", "-c", "echo out; echo err >&2", options=("-q", "--no-log"))
    assert (done.stdout, done.stderr) == (b"out\n", b"err\n")
    assert not (folder / "logs").exists()


def test_a_reader_that_leaves_does_not_end_the_work(folder: Path) -> None:
    with subprocess.Popen(
        [UNDERSTUDY, "exec", "x", "--state-dir", folder, "-q", "--", "seq", "200000"],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(PATIENCE_SECONDS) == 0
    assert shown(folder) == ("closed", False)


def test_streams_that_are_closed_are_no_trouble(folder: Path) -> None:
    script = f'exec "{UNDERSTUDY}" exec x --state-dir "{folder}" -- sh -c "echo hello" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", script], check=False).returncode == 0
    assert (folder / "logs" / "x" / "1.log").read_text() == "hello\n"


# --- in a worktree --------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "repository"
    top.mkdir()
    (top / "one").write_text("1\n")
    who = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), (*who, "commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=top, check=True)
    return top


def in_worktree(
    folder: Path, top: Path, script: str, *options: str, stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    words = ("exec", "x", "--worktree", *options, "--state-dir")
    return understudy(*words, folder, "--", "sh", "-c", script, cwd=top, stdin=stdin)


def test_a_command_in_a_worktree_leaves_a_section(folder: Path, repository: Path) -> None:
    done = in_worktree(folder, repository, "cat > one; pwd", stdin=b"from outside\n")
    assert (done.returncode, shown(folder)) == (0, ("gluing", False)), done.stderr
    assert done.stdout.strip().decode().startswith(str(folder / "worktrees"))
    assert (repository / "one").read_text() == "1\n"
    (section,) = told(folder, "descent", "status")["sections"]
    words = ["git", "show", f"{section['commit']}:one"]
    kept = subprocess.run(words, cwd=repository, check=True, capture_output=True)
    assert kept.stdout == b"from outside\n"


def test_a_command_in_a_worktree_gets_the_issue_on_stdin(folder: Path, repository: Path) -> None:
    done = in_worktree(folder, repository, "cat", "--issue-on-stdin")
    record = orjson.loads(done.stdout)
    assert (record["id"], record["asides"]) == ("x", [])
    assert record["worktree"]["branch"].startswith("understudy/x/")


def test_what_a_signal_ends_in_a_worktree_is_kept(
    folder: Path, repository: Path, mark: Mark
) -> None:
    script = "echo half > one; echo up; sleep 600"
    words = ("x", "--worktree", "--state-dir", folder, "--", "sh", "-c", script)
    env = {"UNDERSTUDY_TEST_MARK": mark.word}
    with Program([UNDERSTUDY, "exec", *words], cwd=repository, env=env) as running:
        log = folder / "logs" / "x" / "1.log"
        eventually(lambda: log.exists() and b"up\n" in log.read_bytes())
        assert running.terminate() == 143
    assert shown(folder) == ("open", False)
    git = ["git", "for-each-ref", "--format=%(refname)", "refs/understudy/aside/x/"]
    (ref,) = subprocess.run(git, cwd=repository, check=True, capture_output=True).stdout.split()
    git = ["git", "show", f"{ref.decode()}:one"]
    kept = subprocess.run(git, cwd=repository, check=True, capture_output=True)
    assert kept.stdout == b"half\n"


def test_a_setup_that_fails_is_no_attempt(folder: Path, repository: Path) -> None:
    done = in_worktree(folder, repository, "true", "--setup", "exit 3")
    assert (done.returncode, shown(folder)) == (78, ("open", False))
    assert b"--setup ended with 3" in done.stderr
    assert told(folder, "issue", "show", "x")["issue"]["excused"] == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("job/j", "--worktree"), b"--worktree is for issues"),
        (("x", "--setup", "true"), b"--setup is for work in worktrees"),
    ],
)
def test_a_worktree_is_for_issues_and_its_options_for_it(
    state_dir: Path, options: tuple[str, ...], words: bytes
) -> None:
    done = commanded("exec", *options, "--state-dir", state_dir, "--", "true")
    assert done.returncode == 2
    assert words in done.stderr
