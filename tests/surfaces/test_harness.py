"""Hand-overs, ledgers and joins from the command line, with their exit codes."""

from pathlib import Path

import orjson

from .conftest import Run, Scene

SECTIONS = {"sections": [{"ref": "a", "changedPaths": ["x"]}, {"ref": "b", "changedPaths": ["x"]}]}


def test_a_worker_that_takes_over_reads_what_was_left(scene: Scene) -> None:
    said = scene.run(
        "issue", "handover", "w", *scene.holder, "--summary", "half", "--done", "lexer",
        "--next", "parser", "--artifact", "branch:x", "--notes", "mind the gap",
    )  # fmt: skip
    assert said.code == 0
    assert scene.run("issue", "release", "w", *scene.holder).code == 0
    told = scene.run("resume", "w").out
    for text in ("half", "done:\n  - lexer", "next:\n  - parser", "  - branch:x", "mind the gap"):
        assert text in told
    assert "no holder left anything" in scene.run("resume", "a").out
    late = scene.run("issue", "handover", "w", *scene.holder, "--summary", "mine")
    assert (late.code, "lease_missing" in late.err) == (6, True)


def test_a_ledger_that_breaks_laws_ends_with_nine_and_names_them(scene: Scene) -> None:
    scene.run("harness", "feature", "write", "g", "--worker", "tim", "--status", "in_progress")
    said = scene.run("harness", "feature", "check", "--worker", "tim", "--require-closure")
    assert said.code == 9
    assert "in_progress.non_contractible" in said.err
    assert "closure_incomplete" in said.err


def test_the_worker_of_a_lease_need_not_name_itself(scene: Scene, monkeypatch: object) -> None:
    monkeypatch.setenv("UNDERSTUDY_ASSIGNEE", "tim")  # type: ignore[attr-defined]  # a fixture typed as object
    assert scene.run("harness", "session", "read").code == 0


def test_a_join_needs_no_state_directory(bare: Run, tmp_path: Path) -> None:
    file = tmp_path / "join.json"
    file.write_bytes(orjson.dumps(SECTIONS))
    said = bare("harness", "join-check", file)
    assert (said.code, said.out) == (9, "join: rejected\n")
    assert "a and b changed x" in said.err
    told = bare("harness", "join-check", file, "--json")
    assert told.code == 9
    assert told.json["failureClasses"] == ["coordination.changed_path_overlap"]
    file.write_bytes(b"{}")
    assert bare("harness", "join-check", file).out == "join: accepted\n"


def test_what_is_no_input_of_a_join_ends_with_two(bare: Run, tmp_path: Path) -> None:
    file = tmp_path / "join.json"
    for data in (b"{", b'{"mood": "good"}'):
        file.write_bytes(data)
        assert bare("harness", "join-check", file).code == 2
    assert bare("harness", "join-check").code == 2


def test_hand_overs_of_two_issues_on_one_path_do_not_join(scene: Scene) -> None:
    for issue, holder in (("w", scene.holder), ("t", scene.torn_holder)):
        left = ("--summary", "s", "--artifact", "path:src/a.py")
        assert scene.run("issue", "handover", issue, *holder, *left).code == 0
    said = scene.run("harness", "join-check", "--issue", "w", "--issue", "t")
    assert (said.code, "coordination.changed_path_overlap" in said.err) == (9, True)
