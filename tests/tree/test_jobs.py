"""The tree at work on jobs: in their order, by kind, under leases that are given back."""

from pathlib import Path

import orjson
import pytest

from tests.patience import eventually
from tests.surfaces.process import report_of, understudy
from tests.tree.house import Up, add, job, kill, prove, schedule, statuses

pytestmark = pytest.mark.timeout(120)

HANDLERS = """
from understudy.actors.handlers import HandBack, Work, handler

def infer(work: Work) -> None:
    print("asked", work.payload["prompt"], work.job["attempts"])
    if work.job["attempts"] == 1:
        raise HandBack("the model is away")
    work.artifact("sha256:1", "report")
    work.snapshot("m-1", work.payload["prompt"], "an answer")

def build(work: Work):
    return [{"artifactId": work.kind, "artifactType": "wheel"}]
"""


def test_jobs_are_done_in_order_by_kind_and_with_what_they_leave(
    state_dir: Path, tmp_path: Path
) -> None:
    done, mark = tmp_path / "done", tmp_path / "mark"
    (tmp_path / "trade.py").write_text(HANDLERS)
    chain = [("a", "ci.fetch", []), ("b", "ci.test", ["a"]), ("c", "ci.test.unit", ["b"])]
    chain += [("d", "llm.ask", ["c"]), ("e", "ci.build", ["b"]), ("x", "cook.soup", [])]
    schedule(
        state_dir,
        [
            {"jobId": name, "kind": kind, "causalDeps": [f"complete/{each}" for each in after]}
            | ({"payload": {"prompt": "why"}} if name == "d" else {})
            for name, kind, after in chain
        ],
    )
    report_of("route", "set", "llm.", "--audited", "--to", "gpu", "--state-dir", state_dir)
    note = f'echo "$UNDERSTUDY_JOB $UNDERSTUDY_KIND $UNDERSTUDY_FENCE" >> {done}'
    rubbish = f"[ -e {mark} ] || {{ touch {mark}; echo '[]' > $UNDERSTUDY_ARTIFACTS; }}"
    words = ["--job", f"ci.={note}", "--job", f"ci.test={note}; {rubbish}", "--node", "gpu"]
    words += ["--job-handler", "llm.*=trade:infer", "--job-handler", "ci.build=trade:build"]
    with Up(state_dir, *words, "--workers", "3", "--until-done", cwd=tmp_path) as up:
        assert up.wait() == 0, up.complaint()
        said = up.complaint()
    lines = [line.split()[:2] for line in done.read_text().splitlines()]
    assert lines == [["a", "ci.fetch"], ["b", "ci.test"], ["b", "ci.test"], ["c", "ci.test.unit"]]
    found = {name: job(state_dir, name) for name, _, _ in chain}
    assert {name: each["state"] for name, each in found.items()} == {
        "a": "completed", "b": "completed", "c": "completed", "d": "completed", "e": "completed",
        "x": "pending",
    }  # fmt: skip
    assert {each.get("completedBy") for name, each in found.items() if name != "x"} == {"gpu"}
    assert found["x"]["attempts"] == 0, "it has no handler"
    assert found["b"]["attempts"] == 2
    assert "job/b: attempt 1 of 16: job_artifact_invalid, line 1 of UNDERSTUDY_ARTIFACTS" in said
    assert [each["artifactType"] for each in found["d"]["artifacts"]] == [
        "report", "likewise.inference.snapshot",
    ]  # fmt: skip
    assert found["e"]["artifacts"] == [{"artifactId": "ci.build", "artifactType": "wheel"}]
    log = understudy("logs", "job/d", "--attempt", "1", "--state-dir", state_dir)
    assert log.stdout == b"asked why 1\nhanded back: the model is away\n"
    report = report_of("logs", "job/b", "--state-dir", state_dir)
    assert report["jobId"] == "b"
    assert [each["record"]["exitCode"] for each in report["attempts"]] == [0, 0]
    assert understudy("logs", "job/x", "--state-dir", state_dir).returncode != 0
    prove(state_dir)


def test_whatever_dies_a_job_is_gone_on_with_and_down_gives_it_back(
    state_dir: Path, tmp_path: Path
) -> None:
    add(state_dir, "an-issue")
    schedule(state_dir, [{"jobId": "j", "kind": "k"}])
    seen = tmp_path / "seen"
    words = ["--exec", "sleep 300", "--job", f"k=cat >> {seen}; sleep 300", "--node", "n1"]
    with Up(state_dir, *words, "--ttl", "30", "--grace", "1") as up:
        up.ready()
        eventually(lambda: up.terms() and up.job_terms() and up.job_terms()[0]["pid"])
        (first,) = up.job_terms()
        assert (first["job"], first["attempt"], first["phase"]) == ("j", 1, "running")
        said = understudy("status", "--state-dir", state_dir).stdout.decode()
        assert "1 of 1 workers busy with jobs" in said
        assert "job/j  running " in said
        assert f"s, attempt 1, fence {first['fence']}, {first['worker']}: k\n" in said
        assert b"job_loop" in understudy("tree", "--state-dir", state_dir).stdout

        kill(up.pid_of("job_loop"))
        eventually(lambda: up.job_terms() and up.job_terms()[0].get("attempt"))
        assert up.job_terms()[0]["pid"] == first["pid"], "its worker went on"
        assert up.job_terms()[0]["fence"] == first["fence"]

        sidecar = up.picture()["authority"]["pid"]
        kill(sidecar)
        eventually(lambda: up.picture()["authority"].get("pid") not in (None, sidecar))
        assert up.job_terms()[0]["fence"] == first["fence"], "and so did its lease"

        sup = next(each for each in up.picture()["tree"] if each["id"] == "job_sup")
        kill(sup["children"][0]["pid"])
        eventually(lambda: [each["fence"] for each in up.job_terms()] != [first["fence"]])
        eventually(lambda: up.job_terms() and up.job_terms()[0]["pid"] not in (None, first["pid"]))
        assert up.job_terms()[0]["attempt"] == 2
        assert len(up.terms()) == 1, "issues have workers of their own"

        system = up.picture()["system"]
        assert report_of("down", "--state-dir", state_dir)["left"] == []
        assert up.wait() == 0, up.complaint()
        assert up.left(system) == []
    found = job(state_dir, "j")
    assert (found["state"], found["attempts"]) == ("pending", 2)
    assert found["reason"] == "the dispatcher stops"
    assert statuses(state_dir) == {"an-issue": "open"}
    given = orjson.loads(seen.read_text().splitlines()[0])
    assert (given["jobId"], given["lease"]["owner"]) == ("j", "n1")
    prove(state_dir)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--job", "k"], "KIND=WHAT TO RUN"),
        (["--job", "=true"], "KIND=WHAT TO RUN"),
        (["--job", "a*b=true"], "is no kind"),
        (["--job", "k.=true", "--job", "k.*=true"], "one handler for a kind"),
        (["--job", "k=true", "--node", "a/b"], "is no name"),
        ([], "--job"),
    ],
)
def test_what_cannot_work_is_said_at_once(state_dir: Path, words: list[str], said: str) -> None:
    done = understudy("up", "--state-dir", state_dir, *words)
    assert done.returncode == 2
    assert said in done.stderr.decode()
