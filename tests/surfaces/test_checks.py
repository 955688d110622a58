"""`understudy instruction`, `required` and `policy`: checks in a repository, on real processes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.fakes.policy import envelope, policy
from tests.surfaces.conftest import Run, Said
from tests.surfaces.process import Dispatch, Serve, understudy

Document = dict[str, Any]
TEST = "import pathlib, sys; print('looking'); sys.exit(pathlib.Path('broken').exists())"


def written(path: Path, document: Document) -> Path:
    path.write_bytes(orjson.dumps(document))
    return path


def rules(**members: object) -> Document:
    """The small policy, with commands that do something."""
    command = [sys.executable, "-I", "-S", "-c", TEST]
    checks = [
        {"checkId": name, "command": command, "timeoutSeconds": 60} for name in ("lint", "tests")
    ]
    return policy(checks=checks, **members)


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=n", "-c", "user.email=e@example.org")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with a commit, and a change in its working tree."""
    folder = tmp_path / "tree"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.py").write_text("1\n")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "first")
    (folder / "a.py").write_text("2\n")
    (folder / "new.txt").write_text("3\n")
    return folder


@pytest.fixture(params=["direct", "sidecar"])
def ask(
    request: pytest.FixtureRequest, call: Run, state_dir: Path, tree: Path, tmp_path: Path
) -> Iterator[Run]:
    """Commands on a state directory with a check policy, with and without a sidecar."""
    assert call("issue", "add", "work", "--id", "w").code == 0
    path = written(tmp_path / "checks.json", rules(closeRequires="witness"))
    assert call("policy", "set", "--checks", path).code == 0
    if request.param == "direct":
        yield call
        return
    with Serve(state_dir) as running:
        running.ready()
        yield call


def instructed(tmp_path: Path, **members: object) -> Path:
    digest = rules(closeRequires="witness")["policyDigest"]
    document = envelope(policyDigest=digest, requestedChecks=["lint", "tests"], **members)
    return written(tmp_path / "i-1.json", document)


# --- policy ---------------------------------------------------------------------------------------


def test_a_policy_file_without_its_digest_gets_it(call: Run, tmp_path: Path) -> None:
    document = rules()
    digest = document.pop("policyDigest")
    said = call("policy", "set", "--checks", written(tmp_path / "p.json", document))
    assert (said.code, digest in said.out) == (0, True)
    assert call("policy", "show", "--json").json["checkPolicy"]["policyDigest"] == digest


@pytest.mark.parametrize(
    ("change", "failure"),
    [
        ({"policyDigest": "pol1_" + "0" * 64}, "instruction_policy_digest_mismatch"),
        ({"surprise": 1}, "instruction_policy_invalid_shape"),
        ({"allowedChecks": ["deploy"]}, "instruction_policy_invalid_shape"),
    ],
)
def test_a_wrong_policy_is_refused_and_says_why(
    call: Run, tmp_path: Path, change: Document, failure: str
) -> None:
    path = written(tmp_path / "p.json", {**rules(), **change})
    for said in (call("policy", "set", "--checks", path), _json(call, path)):
        assert (said.code, failure in said.out + said.err) == (2, True)
    assert "checkPolicy" not in call("policy", "show", "--json").json


def _json(call: Run, path: Path) -> Said:
    said = call("policy", "set", "--checks", path, "--json")
    assert said.json["result"] == "rejected"
    return said


# --- instructions ---------------------------------------------------------------------------------


def test_an_instruction_is_checked_run_and_witnessed(
    ask: Run, tree: Path, tmp_path: Path, state_dir: Path
) -> None:
    path = instructed(tmp_path)
    assert ask("instruction", "check", path).out.startswith("execute  instr1_")
    said = ask("instruction", "run", path, "--cwd", tree)
    assert (said.code, said.out.split()[0]) == (0, "accepted")
    assert "check tests (2 of 2): passed" in said.err
    artifact = orjson.loads((state_dir / "ciwitness/i-1.json").read_bytes())
    assert artifact["verdictClass"] == "accepted"
    assert (state_dir / "ciwitness/logs/instruction-i-1/lint.log").read_text() == "looking\n"
    (tree / "broken").touch()
    said = ask("instruction", "run", path, "--cwd", tree, "--json")
    assert (said.code, said.err) == (9, "")
    assert said.json["witness"]["failureClasses"] == ["check_failed"]
    assert orjson.loads((state_dir / "ciwitness/i-1.json").read_bytes()) == said.json["witness"]
    assert ask("replay").code == 0


def test_an_instruction_that_is_not_allowed_runs_nothing(
    ask: Run, tree: Path, tmp_path: Path, state_dir: Path
) -> None:
    refused = written(tmp_path / "i-2.json", envelope())
    said = ask("instruction", "run", refused, "--cwd", tree)
    assert (said.code, "instruction_unknown_policy" in said.err) == (4, True)
    unknown = instructed(tmp_path, instructionType="ci.other")
    said = ask("instruction", "run", unknown, "--cwd", tree)
    assert (said.code, "instruction_unknown_unroutable" in said.err) == (4, True)
    assert not (state_dir / "ciwitness").exists()


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1.5}', b"\xff"])
def test_a_file_that_is_no_envelope_is_a_usage_error(
    call: Run, tmp_path: Path, data: bytes
) -> None:
    (tmp_path / "i.json").write_bytes(data)
    assert call("instruction", "check", tmp_path / "i.json").code == 2


def test_an_agent_cannot_hand_in_results_of_its_own(ask: Run, state_dir: Path) -> None:
    forged = [{"checkId": name, "status": "passed", "exitCode": 0} for name in ("lint", "tests")]
    digest = rules(closeRequires="witness")["policyDigest"]
    document = envelope(policyDigest=digest, requestedChecks=["lint", "tests"])
    run = {"instructionId": "i-1", "envelope": document, "results": forged}
    witness = {"changedPaths": ["a.py"], "results": forged, "id": "w"}
    requests = [
        {"action": "instruction.run", "payload": run},
        {"action": "instruction.run", "payload": run, "context": {"transport": "cli"}},
        {"action": "required.witness", "payload": witness},
    ]
    with Dispatch(state_dir) as running:
        running.write(b"".join(orjson.dumps(each) + b"\n" for each in requests))
        running.finish()
        answers = [orjson.loads(line) for line in running.rest()]
    assert [each["failureClasses"] for each in answers] == [["check_results_forbidden"]] * 3
    assert ask("issue", "close", "w").code == 4


# --- required checks ------------------------------------------------------------------------------


def test_git_says_what_has_changed(ask: Run, tree: Path) -> None:
    def changed(*words: str) -> list[str]:
        paths: list[str] = ask("required", "delta", "--cwd", tree, *words, "--json").json["delta"][
            "changedPaths"
        ]
        return paths

    assert changed() == ["a.py", "new.txt"], "what is new and not added is a change too"
    git(tree, "add", "-A")
    git(tree, "mv", "a.py", "b.py")
    git(tree, "commit", "-qm", "second")
    assert changed() == []
    assert changed("--from", "HEAD~1") == ["a.py", "b.py", "new.txt"]
    assert changed("--from", "HEAD", "--to", "HEAD~1") == ["a.py", "b.py", "new.txt"]
    assert ask("required", "delta", "--cwd", tree, "--from", "no-such").code == 2
    assert ask("required", "delta", "--cwd", tree, "--from", "--output=x").code == 2
    assert ask("required", "delta", "--cwd", tree, "--from", "HEAD", "a.py").code == 2


def test_the_state_directory_is_no_change(call: Run, tree: Path, bare: Run) -> None:
    inside = tree / ".premath"
    assert bare("init", "--state-dir", inside).code == 0
    said = bare("required", "delta", "--cwd", tree, "--state-dir", inside, "--json")
    assert said.json["delta"]["changedPaths"] == ["a.py", "new.txt"]


def test_an_issue_is_closed_with_its_witness_and_not_without(
    ask: Run, tree: Path, state_dir: Path
) -> None:
    lease = ask("issue", "claim", "w", "--assignee", "ann", "--json").json["issue"]["lease"]
    held = ("--assignee", "ann", "--lease-id", lease["leaseId"], "--fence", str(lease["fence"]))
    said = ask("issue", "close", "w", *held)
    assert (said.code, "issue_close_unattested" in said.err) == (4, True)
    assert "lint  code  a.py" in ask("required", "projection", "--cwd", tree).out
    folder = state_dir / "ciwitness/required"
    (tree / "broken").touch()
    assert ask("required", "witness", "--cwd", tree, "--issue", "w", *held).code == 9
    assert ask("required", "decide", folder / "w.json").code == 9
    assert ask("issue", "close", "w", *held).code == 4
    (tree / "broken").unlink()
    assert ask("required", "witness", "--cwd", tree, "--issue", "w", *held).code == 0
    assert " recorded " in ask("required", "verify", folder / "w.json").out
    assert ask("required", "decide", folder / "w.json").out.startswith("accept  ")
    decided = (folder / "w.decision.json", folder / "w.json")
    assert ask("required", "verify-decision", *decided).out.startswith("accept  dec1_")
    assert ask("required", "verify-decision", *reversed(decided)).code == 9
    assert ask("required", "gate-ref", "lint", folder / "w.json").code == 1  # no path below a tree
    assert ask("issue", "close", "w", *held).code == 0
    assert ask("replay").code == 0


def test_checks_do_not_run_for_a_witness_that_will_be_refused(
    ask: Run, tree: Path, state_dir: Path
) -> None:
    lease = ask("issue", "claim", "w", "--assignee", "ann", "--json").json["issue"]["lease"]
    held = ("--assignee", "ann", "--lease-id", lease["leaseId"])
    for words, code in (
        (["--issue", "nowhere"], 3),
        (["--issue", "w"], 6),
        (["--issue", "w", *held, "--fence", "999"], 6),
    ):
        assert ask("required", "witness", "--cwd", tree, *words).code == code
    assert not (state_dir / "ciwitness" / "logs").exists()
    fence = ("--fence", str(lease["fence"]))
    assert ask("required", "witness", "--cwd", tree, "--issue", "w", *held, *fence).code == 0
    assert (state_dir / "ciwitness" / "logs").exists()


def test_exec_hands_back_what_is_done_without_a_witness(ask: Run, state_dir: Path) -> None:
    done = understudy("exec", "w", "--state-dir", state_dir, "--json", "--", "true")
    report = orjson.loads(done.stdout)
    assert (done.returncode, report["outcome"]) == (4, "failed")
    assert report["failureClasses"] == ["issue_close_unattested"]
    issue = ask("issue", "show", "w", "--json").json["issue"]
    assert (issue["status"], "lease" in issue) == ("open", False)


def test_exec_closes_what_its_command_has_proved(ask: Run, tree: Path, state_dir: Path) -> None:
    us = Path(sys.executable).with_name("understudy")
    words = (
        f"{us} required witness --issue w --cwd {tree}"
        f" && {us} required decide {state_dir}/ciwitness/required/w.json"
    )
    done = understudy("exec", "w", "--state-dir", state_dir, "--", "sh", "-c", words)
    assert done.returncode == 0, done.stderr
    assert ask("issue", "show", "w", "--json").json["issue"]["status"] == "closed"
