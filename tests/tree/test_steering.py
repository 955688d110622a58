"""A tree under an operator's hand: what is cancelled is gone, and what is paused stays so."""

import time
from pathlib import Path

import pytest

from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, add, issues, job, kill, prove, schedule, statuses

pytestmark = pytest.mark.timeout(120)
LOADED_SECONDS = 10.0  # it is a second; a machine with other tests on it may take longer

# It and its descendants ignore SIGTERM, and one has left its process group and its parent.
STUBBORN = "trap '' TERM; (setsid sleep 300 & echo $! >> {0}); sleep 300 & echo $! $$ >> {0}; wait"


def gone_after(trace: Path, since: float) -> float:
    """How long it took until no process that wrote its number lives."""
    pids = trace.read_text().split()
    assert len(pids) == 3
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    return time.monotonic() - since


def test_a_cancelled_command_is_gone_with_its_descendants_and_its_completion_is_refused(
    state_dir: Path, tmp_path: Path
) -> None:
    trace, fenced = tmp_path / "trace", tmp_path / "fence"
    add(state_dir, "a")
    tell = "echo $UNDERSTUDY_ASSIGNEE $UNDERSTUDY_LEASE $UNDERSTUDY_FENCE"
    command = f"{tell} > {fenced}; {STUBBORN.format(trace)}"
    with Up(state_dir, "--exec", command, "--grace", "5", "--ttl", "60") as up:
        up.ready()
        eventually(lambda: trace.exists() and len(trace.read_text().split()) == 3)
        said = report_of(
            "cancel", "a", "--reason", "wrong", "--as", "eve", "--state-dir", state_dir
        )
        seconds = gone_after(trace, time.monotonic())
        assert seconds < LOADED_SECONDS
        print(f"gone after {seconds:.2f} s")
        assert said["issue"]["steered"] == {"byName": "eve", "reason": "wrong"}
        eventually(lambda: not up.terms())
        owner, lease_id, fence = fenced.read_text().split()
        proof = ["--assignee", owner, "--lease-id", lease_id, "--fence", fence]
        late = understudy("issue", "close", "a", *proof, "--json", "--state-dir", state_dir)
        assert b'"lease_missing"' in late.stdout
        assert issues(state_dir)["a"]["status"] == "cancelled"
        assert issues(state_dir)["a"]["attempts"] == 1, "and the tree did not take it again"
        report_of("retry", "a", "--state-dir", state_dir)
        eventually(lambda: len(trace.read_text().split()) == 6)
        late = understudy("issue", "close", "a", *proof, "--json", "--state-dir", state_dir)
        assert b'"lease_fence_stale"' in late.stdout
        up.terminate()
    prove(state_dir)


def test_a_cancelled_job_is_gone_with_its_descendants(state_dir: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    schedule(state_dir, [{"jobId": "j", "kind": "k"}])
    words = ["--job", f"k={STUBBORN.format(trace)}", "--grace", "5", "--ttl", "60"]
    with Up(state_dir, *words) as up:
        up.ready()
        eventually(lambda: trace.exists() and len(trace.read_text().split()) == 3)
        report_of("cancel", "j", "--state-dir", state_dir)
        assert gone_after(trace, time.monotonic()) < LOADED_SECONDS
        eventually(lambda: not up.job_terms())
        up.terminate()
    found = job(state_dir, "j")
    assert (found["state"], found["attempts"]) == ("cancelled", 1)
    prove(state_dir)


def test_a_pause_outlives_the_tree_and_its_sidecar_and_unpause_lets_it_go_on(
    state_dir: Path, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    add(state_dir, "a", "b")
    words = ["--exec", f"echo $UNDERSTUDY_ISSUE >> {trace}; sleep 300", "--workers", "1"]
    with Up(state_dir, *words, "--grace", "0") as up:
        up.ready()
        eventually(trace.exists)
        said = report_of("pause", "--now", "--reason", "release", "--state-dir", state_dir)
        assert said["handedBack"] == ["issue/a"]
        eventually(lambda: not up.terms())
        shown = understudy("status", "--state-dir", state_dir).stdout.decode()
        assert "paused  *" in shown
        assert "release" in shown
        assert b"paused  *" in understudy("tree", "--state-dir", state_dir).stdout
        sidecar = up.picture()["authority"]["pid"]
        kill(sidecar)
        eventually(lambda: up.picture()["authority"].get("pid") not in (None, sidecar))
        assert report_of("pause", "--list", "--state-dir", state_dir)["count"] == 1
        report_of("down", "--state-dir", state_dir)
        up.wait()
    assert statuses(state_dir) == {"a": "open", "b": "open"}
    found = issues(state_dir)["a"]
    assert (found["attempts"], found["excused"]) == (1, 1), "it was handed back in order"
    with Up(state_dir, *words, "--grace", "0") as up:
        up.ready()
        refused = understudy("issue", "claim", "b", "--assignee", "eve", "--state-dir", state_dir)
        assert refused.returncode == 75
        assert trace.read_text().split() == ["a"], "nothing was claimed meanwhile"
        report_of("unpause", "--state-dir", state_dir)
        eventually(lambda: len(trace.read_text().split()) == 2)
        up.terminate()
    prove(state_dir)


def test_a_tree_claims_what_a_person_approves(state_dir: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    report_of("issue", "add", "t", "--id", "a", "--label", "prod", "--state-dir", state_dir)
    add(state_dir, "b")
    command = f"echo $UNDERSTUDY_ISSUE >> {trace}"
    with Up(state_dir, "--exec", command, "--approve", "prod") as up:
        up.ready()
        eventually(lambda: statuses(state_dir)["b"] == "closed")
        assert trace.read_text().split() == ["b"]
        shown = understudy("status", "--state-dir", state_dir).stdout
        assert b"a  waits for a person: `understudy approve a`" in shown
        report_of("approve", "a", "--as", "eve", "--state-dir", state_dir)
        eventually(lambda: statuses(state_dir)["a"] == "closed")
        up.terminate()
    prove(state_dir)
