"""How a command fails: an exit code, one message that helps, and never a traceback."""

import fcntl
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import apsw
import orjson
import pytest

from tests.surfaces.conftest import Run, Said, Scene
from tests.surfaces.process import understudy
from understudy.contracts import limits
from understudy.contracts.reason import BY_WIRE, FAILURES

Provoke = Callable[[Scene, Path, pytest.MonkeyPatch], list[str]]


def _bad_file(_: Scene, state_dir: Path, __: pytest.MonkeyPatch) -> list[str]:
    (state_dir / "bad.jsonl").write_bytes(b'{"id":"x"}\n')
    return ["import", str(state_dir / "bad.jsonl")]


def _bad_id(_: Scene, __: Path, ___: pytest.MonkeyPatch) -> list[str]:
    return ["issue", "show", "no such id"]


def _unknown(_: Scene, __: Path, ___: pytest.MonkeyPatch) -> list[str]:
    return ["issue", "show", "nobody"]


def _without_evidence(scene: Scene, _: Path, __: pytest.MonkeyPatch) -> list[str]:
    scene.run("policy", "set", "--mutation", "instruction-linked")
    return ["issue", "add", "x"]


def _contended(_: Scene, __: Path, ___: pytest.MonkeyPatch) -> list[str]:
    return ["issue", "claim", "w", "--assignee", "bob"]


def _stale(scene: Scene, _: Path, __: pytest.MonkeyPatch) -> list[str]:
    scene.run("issue", "release", "w", *scene.holder)
    scene.run("issue", "claim", "w", "--assignee", "bob")
    return ["issue", "close", "w", *scene.holder]


def _edited(_: Scene, state_dir: Path, __: pytest.MonkeyPatch) -> list[str]:
    db = apsw.Connection(str(state_dir / "journal.db"))
    db.execute("DELETE FROM journal WHERE seq = 2")
    db.close()
    return ["issue", "list"]


def _busy(_: Scene, state_dir: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    handle = os.open(state_dir / "lock", os.O_RDWR)
    fcntl.flock(handle, fcntl.LOCK_EX)  # no other test needs this one again
    monkeypatch.setattr(limits, "LOCK_WAIT_MS", 20)
    return ["issue", "add", "x"]


def _nowhere(_: Scene, state_dir: Path, __: pytest.MonkeyPatch) -> list[str]:
    for path in state_dir.iterdir():
        path.unlink()
    return ["issue", "list"]


FAILING: dict[str, tuple[Provoke, int, str]] = {
    "failed": (_bad_file, 1, "issue_import_line_invalid"),
    "usage": (_bad_id, 2, "issue_invalid_payload"),
    "not found": (_unknown, 3, "issue_not_found"),
    "denied": (_without_evidence, 4, "mutation.use_evidence_missing"),
    "conflict": (_contended, 5, "lease_contention_active"),
    "lease lost": (_stale, 6, "lease_fence_stale"),
    "check failed": (_edited, 9, "journal_corrupt"),
    "try later": (_busy, 75, "authority_busy"),
    "config": (_nowhere, 78, "state_dir_missing"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_failure_tells_people_what_why_and_what_next(
    scene: Scene, state_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    provoke, code, wire = FAILING[kind]
    said = scene.run(*provoke(scene, state_dir, monkeypatch))
    failure = FAILURES[BY_WIRE[wire]]
    assert (said.code, said.out) == (code, "")
    assert wire in said.err
    assert failure.remedy in said.err
    assert failure.meaning in said.err or kind == "failed", "the line says what is wrong with it"
    assert said.err.splitlines()[-1].startswith("error: ")


@pytest.mark.parametrize("kind", FAILING)
def test_a_failure_tells_programs_one_object_on_stdout(
    scene: Scene, state_dir: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    provoke, code, wire = FAILING[kind]
    said = scene.run(*provoke(scene, state_dir, monkeypatch), "--json")
    assert (said.code, said.err) == (code, "")
    assert said.json["result"] == "rejected"
    assert said.json["failureClasses"] == [wire]


def test_the_exit_code_of_a_process_is_the_one_that_is_documented(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    codes = [
        understudy(*words, "--state-dir", folder).returncode
        for words in (
            ["issue", "list"],
            ["init"],
            ["issue", "add", "x", "--id", "a"],
            ["issue", "show", "b"],
            ["issue", "add", "x", "--id", "a"],
            ["issue", "close", "a", "--fence", "1", "--assignee", "x", "--lease-id", "y"],
            ["issue", "lst"],
            ["import", "nowhere.jsonl"],
        )
    ]
    assert codes == [78, 0, 0, 3, 5, 6, 2, 1]


def test_a_refused_change_is_still_recorded(scene: Scene) -> None:
    before = scene.run("issue", "list", "--json").json["seq"]
    assert scene.run("issue", "claim", "w", "--assignee", "bob").code == 5
    assert scene.run("issue", "list", "--json").json["seq"] == before + 1


# --- usage --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (["issu", "list"], "issue"),
        (["dispatchh"], "dispatch"),
        (["repaly"], "replay"),
        (["issue", "lst"], "list"),
        (["issue", "clam", "a"], "claim"),
        (["dep", "ad", "a", "b"], "add"),
        (["issue", "list", "--jsn"], "--json"),
        (["issue", "add", "a", "--asignee", "x"], "--assignee"),
        (["--state-dri", "x", "issue", "list"], "--state-dir"),
    ],
    ids=str,
)
def test_a_typo_gets_a_suggestion(bare: Run, words: list[str], meant: str) -> None:
    said = bare(*words)
    assert (said.code, said.out) == (2, "")
    assert f"'{meant}'" in said.err.partition("Did you mean")[2]


@pytest.mark.parametrize(
    "words",
    [
        ["issue", "claim", "a"],
        ["issue", "claim"],
        ["issue", "break", "a"],
        ["issue", "claim", "a", "--assignee", "x", "--fence", "many"],
        ["issue", "list", "--type", "story"],
        ["dep", "add", "a", "b", "--type", "likes"],
        ["issue", "list", "extra"],
        ["issue", "list", "--boundary", "quantum"],
        ["check", "--required-route-binding", "nothing"],
        ["policy", "set", "--mutation", "anything"],
        [],
        ["issue"],
    ],
    ids=" ".join,
)
def test_a_wrong_call_names_the_help_and_changes_nothing(
    call: Run, bare: Run, words: list[str]
) -> None:
    said = call(*words) if len(words) > 1 else bare(*words)
    assert said.code == 2
    assert "help" in said.err
    assert "Traceback" not in said.err


@pytest.mark.parametrize("option", ["--fence", "--ttl"])
def test_a_number_beyond_all_bounds_is_called_a_number(scene: Scene, option: str) -> None:
    said = scene.run("issue", "claim", "a", "--assignee", "x", option, str(10**30))
    assert said.code == 2
    assert "UTF-8" not in said.err


# --- bytes that are no text ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ["issue", "add", b"\xe9t\xe9"],
        ["issue", "show", b"\xff"],
        ["issue", "list", b"\xff"],
        ["issue", b"\xff"],
        [b"\xff"],
        ["issue", "list", b"--\xff"],
        ["issue", "claim", "a", "--assignee", b"\xff"],
        ["issue", "list", "--status", b"\xff"],
        ["issue", "list", "--boundary", b"\xff"],
        ["check", "--required-route-family", b"\xff"],
        ["check", "--required-route-binding", b"\xff=x"],
    ],
    ids=repr,
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_an_argument_that_is_no_text_is_refused(
    state_dir: Path, words: list[str | bytes], form: list[str]
) -> None:
    done = understudy(*words, *form, env={"UNDERSTUDY_STATE_DIR": str(state_dir)})
    _assert_calm(done)
    assert done.returncode in (2, 9)


@pytest.mark.parametrize(
    "words",
    [
        ["init", "--state-dir", b"state\xff"],
        ["issue", "list", "--state-dir", b"nowhere\xff"],
        ["import", b"nowhere\xff.jsonl"],
        ["export", b"out\xff.jsonl"],
        ["check", "--site-input", b"nowhere\xff.json"],
    ],
    ids=repr,
)
@pytest.mark.parametrize("form", [[], ["--json"]], ids=["text", "json"])
def test_a_path_that_is_no_text_is_no_reason_for_a_traceback(
    state_dir: Path, tmp_path: Path, words: list[str | bytes], form: list[str]
) -> None:
    done = understudy(*words, *form, cwd=tmp_path, env={"UNDERSTUDY_STATE_DIR": str(state_dir)})
    _assert_calm(done)
    if form and done.stdout:
        orjson.loads(done.stdout)


def test_an_environment_that_is_no_text_is_refused(state_dir: Path) -> None:
    env = {"UNDERSTUDY_STATE_DIR": str(state_dir), "UNDERSTUDY_ASSIGNEE": "\udcff"}
    done = understudy("issue", "next", env=env)
    _assert_calm(done)
    assert done.returncode == 2


@pytest.mark.parametrize(("locale", "encoding"), [("C", "ascii"), ("C.UTF-8", "utf-8")])
def test_a_poor_terminal_still_gets_its_text(state_dir: Path, locale: str, encoding: str) -> None:
    env = {
        "UNDERSTUDY_STATE_DIR": str(state_dir),
        "LC_ALL": locale,
        "PYTHONIOENCODING": encoding,
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    title = "naïve café ☃ " + "x" * 80
    assert understudy("issue", "add", title, "--state-dir", state_dir).returncode == 0
    for words in (["issue", "list"], ["issue", "show", "us-1"], ["issue", "list", "--json"]):
        done = understudy(*words, env=env)
        _assert_calm(done)
        assert done.returncode == 0


# --- the outside --------------------------------------------------------------------------------


def test_a_state_directory_that_is_a_file_is_a_matter_of_configuration(
    bare: Run, tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"")
    for words in (["init"], ["issue", "list"], ["dispatch"], ["replay"]):
        assert bare(*words, "--state-dir", path).code == 78
        assert bare(*words, "--state-dir", path / "deeper").code == 78


def test_an_import_of_a_file_that_is_not_there_says_so(call: Run, tmp_path: Path) -> None:
    said = call("import", tmp_path / "nowhere.jsonl")
    assert (said.code, said.out) == (1, "")
    assert "nowhere.jsonl" in said.err
    as_json = call("import", tmp_path / "nowhere.jsonl", "--json")
    assert (as_json.code, as_json.json["result"]) == (1, "rejected")


def test_an_export_to_a_folder_that_is_not_there_says_so(call: Run, tmp_path: Path) -> None:
    _assert_os_error(call("export", tmp_path / "nowhere" / "out.jsonl"))
    _assert_os_error(call("export", tmp_path))


def _assert_os_error(said: Said) -> None:
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: ")
    assert said.err.count("\n") == 1


def _assert_calm(done: subprocess.CompletedProcess[bytes]) -> None:
    assert b"Traceback" not in done.stderr, done.stderr.decode(errors="replace")
    assert done.returncode >= 0


@pytest.mark.parametrize("words", [("--json", "issue", "list"), ("issue", "--json", "list")])
def test_json_before_the_command_is_told_its_place(bare: Run, words: tuple[str, ...]) -> None:
    said = bare(*words)
    assert (said.code, said.err) == (2, "")
    assert "behind the command" in said.json["diagnostic"]
    assert "--version" not in said.json["diagnostic"]
