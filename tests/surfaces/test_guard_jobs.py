"""`understudy guard` for jobs: the same ladder, whatever is held."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.surfaces.conftest import Run
from tests.surfaces.process import Serve, journal_rows, understudy
from tests.surfaces.test_guard import LONG_AGO_MS, guarded, submit
from understudy.authority.service import fence_check
from understudy.authority.service.open import open_authority
from understudy.contracts import Exit, limits


@pytest.fixture
def held(call: Run) -> int:
    """Ada holds `j`, and `p` is pending; the fence."""
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    assert call("job", "schedule", "p", "--kind", "k").code == 0
    return claimed(call, "j", "ada")


def claimed(call: Run, job: str, worker: str) -> int:
    answer = call("job", "claim", job, "--worker", worker, "--json").json
    return int(answer["job"]["lease"]["fence"])


@pytest.fixture(params=["direct", "sidecar"])
def door(request: pytest.FixtureRequest, held: int, state_dir: Path) -> Iterator[str]:
    """With and without a sidecar."""
    if request.param == "direct":
        yield "direct"
        return
    with Serve(state_dir) as running:
        running.ready()
        yield "sidecar"


# --- every rung -----------------------------------------------------------------------------------


def test_every_rung_says_no_in_its_own_words(
    call: Run, held: int, state_dir: Path, door: str
) -> None:
    yes = fence_check.glance(state_dir, "job/j", held)
    assert (yes.failure, yes.fence, yes.deadline_ms is not None) == (None, held, True)
    holder = ("--worker", "ada", "--lease-id", f"claim/j/{held}", "--fence", held)
    for resource, fence, failure in (
        ("job/z", held, "lease_not_found"),  # 1
        ("job/p", held, "lease_missing"),  # 3
        ("job/j", held + 1, "lease_fence_unknown"),  # 5
        ("job/j", limits.INTEGER_MAX, "lease_fence_unknown"),
        ("job/j", held - 1, "lease_fence_stale"),  # 6
        ("issue/j", held, "lease_not_found"),  # another thing of the same name
    ):
        found = fence_check.glance(state_dir, resource, fence)
        assert (found.failure, bool(found.diagnostic)) == (failure, True), resource
    assert call("job", "complete", "j", *holder).code == 0
    assert fence_check.glance(state_dir, "job/j", held).failure == "job_completed"  # 2


def test_a_fence_is_not_current_past_its_deadline(state_dir: Path) -> None:
    submit(state_dir, "job.schedule", {"jobId": "j", "kind": "k"}, LONG_AGO_MS)
    claim = {"jobId": "j", "worker": "ada", "leaseDurationMs": 30_000}
    fence = submit(state_dir, "job.claim", claim, LONG_AGO_MS)["job"]["lease"]["fence"]
    assert fence_check.glance(state_dir, "job/j", fence).failure == "lease_stale"  # 7
    with Serve(state_dir) as running:
        running.ready()
        assert fence_check.glance(state_dir, "job/j", fence).failure == "lease_stale"


MOVES: dict[str, tuple[Callable[[int], list[str]], bool]] = {
    "more time": (lambda fence: ["claim", "j", "--worker", "ada", "--fence", str(fence)], True),
    "yield": (lambda fence: ["yield", "j", *holder(fence)], False),
    "complete": (lambda fence: ["complete", "j", *holder(fence)], False),
    "another's claim": (lambda _: ["claim", "p", "--worker", "bob"], True),
}


def holder(fence: int) -> list[str]:
    return ["--worker", "ada", "--lease-id", f"claim/j/{fence}", "--fence", str(fence)]


@pytest.mark.parametrize("move", MOVES)
def test_the_journal_read_alone_says_what_the_whole_state_says(
    call: Run, held: int, state_dir: Path, move: str
) -> None:
    words, stays = MOVES[move]
    assert call("job", *words(held)).code == 0
    assert (fence_check.certain(str(state_dir), "job/j", held) is not None) == stays
    assert (fence_check.glance(state_dir, "job/j", held).failure is None) == stays


def test_a_second_term_ends_the_first(call: Run, held: int, state_dir: Path) -> None:
    assert call("job", "yield", "j", *holder(held)).code == 0
    second = claimed(call, "j", "ada")
    assert fence_check.glance(state_dir, "job/j", held).failure == "lease_fence_stale"
    assert fence_check.glance(state_dir, "job/j", second).failure is None


# --- as a hook runs it ----------------------------------------------------------------------------


def test_a_hook_learns_it_from_the_exit_code(
    call: Run, held: int, state_dir: Path, door: str
) -> None:
    code, out, err = guarded(state_dir, "job/j", held)
    assert (code, err, out.startswith(f"job/j: fence {held} is current, for ")) == (0, "", True)
    assert guarded(state_dir, "job/j", held + 1)[0] == Exit.LEASE_LOST
    assert call("job", "complete", "j", *holder(held)).code == 0
    assert guarded(state_dir, "job/j", held)[0] == Exit.CONFLICT


@pytest.mark.parametrize("name", ["ü/..", 'quo"te', "job/j", "'; DROP TABLE journal"])
def test_a_name_that_no_job_has_is_never_current(
    held: int, state_dir: Path, name: str, door: str
) -> None:
    assert fence_check.certain(str(state_dir), f"job/{name}", held) is None
    assert fence_check.glance(state_dir, f"job/{name}", held).failure == "lease_not_found"


def test_a_worker_s_environment_names_the_job(call: Run, held: int, state_dir: Path) -> None:
    known = {"UNDERSTUDY_JOB": "j", "UNDERSTUDY_FENCE": str(held)}
    known["UNDERSTUDY_STATE_DIR"] = str(state_dir)
    rows = len(journal_rows(state_dir))
    assert understudy("guard", env=known).returncode == 0
    assert understudy("guard", env=known | {"UNDERSTUDY_FENCE": "1"}).returncode == 6
    both = understudy("guard", env=known | {"UNDERSTUDY_ISSUE": "j"})
    assert (both.returncode, b"'issue/j', 'job/j'" in both.stderr) == (2, True)
    assert len(journal_rows(state_dir)) == rows


def test_a_worker_s_environment_names_the_holder(
    call: Run, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (
        ("JOB", "j"), ("WORKER", "ada"), ("LEASE", f"claim/j/{held}"), ("FENCE", held),
    ):  # fmt: skip
        monkeypatch.setenv(f"UNDERSTUDY_{name}", str(value))
    assert "lease_missing" in call("job", "yield", "p").err, "its fence says nothing about others"
    assert "lease_owner_mismatch" in call("job", "yield", "j", "--worker", "bob").err
    assert call("job", "yield", "j", "--reason", "later").code == 0


@pytest.mark.parametrize("resource", ["j", "job/", "jobs/j", "JOB/j", "/j", ""])
def test_what_is_spelled_wrong_is_told_how_it_is_spelled(call: Run, resource: str) -> None:
    said = call("guard", "--resource", resource, "--fence", "1")
    assert said.code == 2
    assert f"no resource `{resource}`; resources are named issue/ID or job/ID" in said.err


# --- the lease of a branch ------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["main", "release/1.0"])
def test_a_branch_is_guarded_by_the_fence_of_its_gluer(
    target: str, held: int, state_dir: Path, door: str
) -> None:
    def claim(gluer: str) -> int:
        line = {"action": "glue.claim", "payload": {"target": target, "gluer": gluer}}
        return int(asked(state_dir, line)["glue"]["lease"]["fence"])

    fence = claim("gil")
    resource = f"glue/{target}"
    assert fence_check.glance(state_dir, resource, fence).failure is None
    assert guarded(state_dir, resource, fence)[0] == 0
    lease = {"leaseId": f"{resource}/{fence}", "fence": fence, "gluer": "gil", "target": target}
    asked(state_dir, {"action": "glue.release", "payload": lease})
    assert fence_check.glance(state_dir, resource, fence).failure == "lease_missing"
    second = claim("hal")
    assert fence_check.glance(state_dir, resource, fence).failure == "lease_fence_stale"
    assert guarded(state_dir, resource, fence)[0] == Exit.LEASE_LOST
    assert guarded(state_dir, resource, second)[0] == 0


def asked(state_dir: Path, request: dict[str, Any]) -> dict[str, Any]:
    with open_authority(state_dir, "cli") as authority:
        answer: dict[str, Any] = authority.ask(request["action"], request["payload"])
    assert answer["result"] == "accepted", answer["diagnostic"]
    return answer
