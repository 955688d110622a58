"""`understudy exec job/ID`: one command under the lease of a job."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.actors.litter import TROUBLE, Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.patience import eventually
from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, Program, Serve, understudy
from understudy.contracts import SNAPSHOT_TYPE, Exit


@pytest.fixture(params=["direct", "sidecar"])
def folder(request: pytest.FixtureRequest, state_dir: Path, call: Run) -> Iterator[Path]:
    """A state directory with a job `j`, with and without a sidecar."""
    schedule = ("job", "schedule", "j", "--kind", "ci.build", "--payload", '{"ref": "main"}')
    assert call(*schedule).code == 0
    if request.param == "direct":
        yield state_dir
        return
    with Serve(state_dir) as running:
        running.ready()
        yield state_dir


def executed(
    folder: Path,
    *words: str | Path,
    options: tuple[str, ...] = (),
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    return understudy("exec", "job/j", "--state-dir", folder, *options, "--", *words, env=env)


def shown(call: Run) -> dict[str, Any]:
    job: dict[str, Any] = call("job", "show", "j", "--json").json["job"]
    return job


# --- how it ends ----------------------------------------------------------------------------------


def test_a_command_that_succeeds_completes_its_job(folder: Path, call: Run) -> None:
    line = orjson.dumps({"artifactId": "sha256:1", "artifactType": "ci.wheel"}).decode()
    snapshot = {"artifactType": SNAPSHOT_TYPE, "modelId": "m", "promptDigest": "p"}
    more = orjson.dumps(snapshot | {"outputDigest": "o"}).decode()
    script = f"""echo out; printf '%s\\n' '{line}' '{more}' > "$UNDERSTUDY_ARTIFACTS" """
    done = executed(folder, "sh", "-c", script, options=("--worker", "ada"))
    assert (done.returncode, done.stdout) == (0, b"out\n"), done.stderr
    assert b"understudy: job/j: completed\n" in done.stderr
    job = shown(call)
    assert (job["state"], job["completedBy"]) == ("completed", "ada")
    assert [each["artifactType"] for each in job["artifacts"]] == ["ci.wheel", SNAPSHOT_TYPE]
    assert call("logs", "job/j").out == "out\n"


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        ("exit 75", 75, "handed_back: exit 75"),
        ("exit 3", 3, "failed: exit 3"),
        ("kill -9 $$", 137, "failed: signal 9"),
    ],
)
def test_any_other_end_yields_the_job_and_says_why(
    state_dir: Path, call: Run, words: str, code: int, reason: str
) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    done = executed(state_dir, "sh", "-c", words)
    assert done.returncode == code
    job = shown(call)
    assert (job["state"], job["reason"], "lease" in job) == ("pending", reason, False)


def test_what_it_cannot_read_is_no_result(folder: Path, call: Run) -> None:
    script = """echo '{"artifactId": "a"}' > "$UNDERSTUDY_ARTIFACTS" """
    done = executed(folder, "sh", "-c", script, options=("--json",))
    report = orjson.loads(done.stdout)
    assert (done.returncode, report["outcome"]) == (Exit.CONFLICT, "failed")
    assert report["failureClasses"] == ["job_artifact_invalid"]
    assert (report["jobId"], report["command"]["code"], "issueId" in report) == ("j", 0, False)
    job = shown(call)
    assert job["state"] == "pending"
    assert job["reason"].startswith("line 1 of UNDERSTUDY_ARTIFACTS: ")
    assert "artifactType" in job["reason"]


def test_a_completion_that_is_refused_is_yielded_with_the_refusal(
    state_dir: Path, call: Run
) -> None:
    assert call("route", "set", "k", "--audited").code == 0
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    done = executed(state_dir, "true", options=("--json",))
    report = orjson.loads(done.stdout)
    assert (report["outcome"], report["failureClasses"]) == ("failed", ["job_snapshot_missing"])
    job = shown(call)
    assert (job["state"], "lease" in job) == ("pending", False)
    assert "snapshot" in job["reason"]


# --- what the command knows -----------------------------------------------------------------------


def test_a_command_learns_what_it_works_on(folder: Path) -> None:
    outer = {"UNDERSTUDY_ISSUE": "x", "UNDERSTUDY_ASSIGNEE": "bob", "UNDERSTUDY_KIND": "other"}
    done = executed(folder, "env", options=("--worker", "ada", "-q"), env=outer)
    known = dict(line.split("=", 1) for line in done.stdout.decode().splitlines() if "=" in line)
    ours = {name: value for name, value in known.items() if name.startswith("UNDERSTUDY_")}
    for left in ("ARTIFACTS", "SPEND_FILE"):
        assert not Path(ours.pop(f"UNDERSTUDY_{left}")).parent.exists(), "it is gone by now"
    assert ours == {
        "UNDERSTUDY_JOB": "j",
        "UNDERSTUDY_KIND": "ci.build",
        "UNDERSTUDY_WORKER": "ada",
        "UNDERSTUDY_LEASE": "claim/j/2",
        "UNDERSTUDY_FENCE": "2",
        "UNDERSTUDY_SOCKET": str(folder / "authority.sock"),
        "UNDERSTUDY_STATE_DIR": str(folder),
    }


def test_a_command_can_speak_for_its_lease(folder: Path, call: Run) -> None:
    script = '"$0" guard && cat && "$0" job complete j && ! "$0" guard'
    words = ("sh", "-c", script, str(UNDERSTUDY))
    done = executed(folder, *words, options=("--job-on-stdin", "--worker", "ada"))
    assert done.returncode == 0, done.stderr
    job = orjson.loads(done.stdout.split(b"\n")[1])
    assert (job["jobId"], job["payload"]) == ("j", {"ref": "main"})
    assert shown(call)["completedBy"] == "ada"


# --- the lease ------------------------------------------------------------------------------------


class Exec(Program):
    """`understudy exec job/j` in the background, with a command that leaves daemons."""

    def __init__(self, mark: Mark, folder: Path) -> None:
        command = (sys.executable, "-I", "-S", TROUBLE, "daemons")
        options = ("--worker", "ada", "--grace", "1", "--state-dir", folder)
        env = {"UNDERSTUDY_TEST_MARK": mark.word}
        super().__init__([UNDERSTUDY, "exec", "job/j", *options, "--", *command], env=env)
        log = folder / "logs" / "job%2Fj" / "1.log"
        eventually(lambda: log.exists() and b"up" in log.read_bytes())


def test_a_lease_that_is_lost_stops_the_command(mark: Mark, state_dir: Path, call: Run) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    with Exec(mark, state_dir) as running:
        lease = shown(call)["lease"]
        proof = ("--worker", "ada", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
        assert call("job", "yield", "j", *proof).code == 0
        assert call("job", "claim", "j", "--worker", "bob").code == 0
        assert running.wait() == Exit.LEASE_LOST
        assert "the lease is lost, and the command was stopped" in running.complaint()
        mark.gone()
    assert shown(call)["lease"]["owner"] == "bob"


def test_a_signal_yields_the_job(mark: Mark, state_dir: Path, call: Run) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    with Exec(mark, state_dir) as running:
        os.kill(running.pid, signal.SIGTERM)
        assert running.wait() == 128 + signal.SIGTERM
    assert shown(call)["reason"] == "interrupted: signal 15 to its runner"


def test_a_lease_is_gone_on_with_and_never_shared(state_dir: Path, call: Run) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    lease = call("job", "claim", "j", "--worker", "ada", "--json").json["job"]["lease"]
    again = executed(state_dir, "true", options=("--worker", "ada"))
    assert again.returncode == Exit.LEASE_LOST
    assert b"lease_fence_missing" in again.stderr
    proof = ("--worker", "ada", "--lease-id", lease["leaseId"], "--fence", str(lease["fence"]))
    assert executed(state_dir, "true", options=proof).returncode == 0
    assert shown(call)["completedBy"] == "ada"


def test_a_lease_that_ended_is_not_gone_on_with(state_dir: Path, call: Run) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    lease = call("job", "claim", "j", "--worker", "ada", "--json").json["job"]["lease"]
    proof = ("--worker", "ada", "--lease-id", lease["leaseId"], "--fence", str(lease["fence"]))
    assert call("job", "yield", "j", *proof).code == 0
    refused = executed(state_dir, "true", options=proof)
    assert refused.returncode == Exit.LEASE_LOST
    assert b"lease_missing" in refused.stderr
    job = shown(call)
    assert (job["state"], job["attempts"]) == ("pending", 1)


@pytest.mark.parametrize("work", ["jobs/j", "job/", "/j"])
def test_what_is_spelled_wrong_is_told_how_it_is_spelled(call: Run, work: str) -> None:
    said = call("exec", work, "--", "true")
    assert said.code == 2
    assert f"no work `{work}`; say the id of an issue, issue/ID or job/ID" in said.err


def test_output_that_is_not_there_is_said_so(call: Run) -> None:
    said = call("logs", "job/j", "--json")
    assert said.json["failureClasses"] == ["job_not_found"]
    assert said.json["diagnostic"] == "job j: no output is kept"
