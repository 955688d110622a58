"""Import, export, rebuild, replay, verify and check: what goes in, comes out and can be proved."""

import shutil
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

from tests.surfaces.conftest import Run, Scene
from tests.surfaces.process import understudy
from understudy.contracts import documents

FAMILY = "route.issue_claim_lease"
BINDINGS = tuple(
    f"{FAMILY}=op/mcp.{name}"
    for name in ("issue_claim", "issue_lease_renew", "issue_lease_release", "issue_discover")
)


# --- issues.jsonl -------------------------------------------------------------------------------


def test_what_was_imported_comes_out_again_with_members_that_are_unknown(
    call: Run, tmp_path: Path
) -> None:
    source, target = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_bytes(
        b"# kept\n"
        b'{"id":"b","title":"later","x-future":{"deep":[1,2]},"metadata":{"k":1}}\n'
        b'\n{"id":"a","title":"\xc3\xa9t\xc3\xa9","dependencies":[{"depends_on_id":"b"}]}\n'
    )
    report = call("import", source, "--json").json
    assert (report["imported"], report["problems"]) == (2, [])
    assert call("export", target).code == 0
    lines = target.read_bytes().splitlines()
    assert orjson.loads(lines[0])["title"] == "été"
    assert lines[1] == b"# kept"
    later = orjson.loads(lines[2])
    assert (later["x-future"], later["metadata"]) == ({"deep": [1, 2]}, {"k": 1})


def test_an_export_repeats_byte_for_byte_and_survives_an_import(
    scene: Scene, bare: Run, tmp_path: Path
) -> None:
    first, second, third = (tmp_path / f"{number}.jsonl" for number in range(3))
    ref = scene.run("export", first, "--json").json["ref"]
    assert scene.run("export", second, "--json").json["ref"] == ref
    assert first.read_bytes() == second.read_bytes()
    assert scene.run("export", "-").out.encode() == first.read_bytes()
    other = tmp_path / "other"
    assert bare("init", "--state-dir", other).code == 0
    assert bare("import", first, "--state-dir", other).code == 0
    assert bare("export", third, "--state-dir", other).code == 0
    assert third.read_bytes() == first.read_bytes()


def test_without_a_name_the_file_is_the_one_in_the_state_directory(
    scene: Scene, state_dir: Path
) -> None:
    assert scene.run("export").code == 0
    assert (state_dir / "issues.jsonl").exists()
    said = scene.run("import", "--json")
    assert (said.code, said.json["failureClasses"]) == (5, ["issue_id_exists"])
    again = scene.run("import", "--skip-existing", "--json").json
    assert (again["imported"], again["skipped"]) == (0, 4)


@pytest.mark.parametrize(
    ("data", "line", "failure"),
    [
        (b'{"id":"a","title":"x"}\nnonsense\n', 2, "issue_import_line_invalid"),
        (b'{"id":"a","title":"x"}\n{"id":"b","ti', 2, "issue_import_line_torn"),
        (b'{"id":"a","title":"x"}\n\n{"id":"a","title":"y"}\n', 3, "issue_import_id_duplicate"),
        (b"\n\n\xff\n", 3, "issue_import_line_invalid"),
        (b'{"id":"a b","title":"x"}\n', 1, "issue_import_line_invalid"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_imported_unless_bad_lines_are_skipped(
    call: Run, tmp_path: Path, data: bytes, line: int, failure: str
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(data)
    said = call("import", path)
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith(f"line {line}: ")
    refused = call("import", path, "--json")
    assert refused.code == 1
    assert [(one["line"], one["failureClass"]) for one in refused.json["problems"]] == [
        (line, failure)
    ]
    assert call("issue", "list", "--json").json["issues"] == []
    assert call("import", path, "--skip-bad").code == 0


def test_an_import_under_a_strict_policy_is_denied_and_not_a_traceback(
    call: Run, tmp_path: Path
) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b'{"id":"a","title":"x"}\n')
    assert call("policy", "set", "--mutation", "instruction-linked").code == 0
    said = call("import", path, "--json")
    assert (said.code, said.json["failureClasses"]) == (4, ["mutation.use_evidence_missing"])


def test_a_big_file_is_imported_whole(call: Run, tmp_path: Path) -> None:
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(b'{"id":"i%d","title":"x"}\n' % number for number in range(1000)))
    assert call("import", path, "--json").json["imported"] == 1000
    assert call("issue", "list", "--json").json["count"] == 1000
    assert call("replay").code == call("verify").code == 0


def test_an_export_replaces_the_file_whole_and_leaves_nothing_beside_it(
    scene: Scene, tmp_path: Path
) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "issues.jsonl").write_bytes(b"old" * 100_000)
    assert scene.run("export", folder / "issues.jsonl").code == 0
    assert [path.name for path in folder.iterdir()] == ["issues.jsonl"]
    assert b"old" not in (folder / "issues.jsonl").read_bytes()


# --- the journal's proof ------------------------------------------------------------------------


def test_replay_and_verify_agree_on_the_head(scene: Scene) -> None:
    replayed, verified = (scene.run(name, "--json").json for name in ("replay", "verify"))
    assert replayed["head"] == verified["head"]
    assert replayed["rows"] == verified["rows"] > 5


def test_an_empty_journal_proves_itself(call: Run) -> None:
    for name in ("replay", "verify", "rebuild"):
        assert call(name, "--json").json["rows"] == 0


def test_replay_names_the_first_row_that_differs(scene: Scene, state_dir: Path) -> None:
    db = apsw.Connection(str(state_dir / "journal.db"))
    worse = "CAST(replace(CAST(response AS TEXT), 'accepted', 'excepted') AS BLOB)"
    db.execute(f"UPDATE journal SET response = {worse} WHERE seq >= 2")
    db.close()
    said = scene.run("replay", "--json")
    assert (said.code, said.json["failureClasses"]) == (9, ["replay_mismatch"])
    assert said.json["mismatch"].startswith("row 2: ")
    human = scene.run("replay")
    assert (human.code, human.out) == (9, "")
    assert human.err.startswith("error: row 2: ")


def test_verify_names_the_first_line_that_differs_and_rebuild_mends_it(
    scene: Scene, state_dir: Path
) -> None:
    path = state_dir / "harness_trajectory.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"fence":6', b'"fence":7'))
    said = scene.run("verify", "--json")
    assert (said.code, said.json["failureClasses"]) == (9, ["trajectory_mismatch"])
    assert said.json["mismatch"].startswith("row 6: ")
    assert scene.run("rebuild").code == 0
    assert path.read_bytes() == whole
    assert scene.run("verify").code == 0


def test_rebuild_makes_tables_and_trajectory_from_nothing(scene: Scene, state_dir: Path) -> None:
    trajectory = (state_dir / "harness_trajectory.jsonl").read_bytes()
    tables = _tables(state_dir)
    for path in state_dir.iterdir():
        if not path.name.startswith("journal.db"):
            path.unlink()
    assert scene.run("rebuild").code == 0
    assert (state_dir / "harness_trajectory.jsonl").read_bytes() == trajectory
    assert _tables(state_dir) == tables


def test_the_tables_show_what_the_answers_said(scene: Scene, state_dir: Path) -> None:
    tables = _tables(state_dir)
    assert [row[0] for row in tables["issue"]] == ["a", "b", "t", "w"]
    assert [(row[0], row[3]) for row in tables["lease"]] == [
        ("issue/t", 1),
        ("issue/w", scene.fence),
        ("job/j", 16),
    ]
    assert [row[:3] for row in tables["dependency"]] == [("b", "a", "blocks")]
    assert [row[1] for row in tables["sublease"]] == ["s1"]
    assert [row[1] for row in tables["instance"]] == ["tree1"]
    assert tables["watermark"] == [(1, scene.run("issue", "list", "--json").json["seq"])]


def _tables(state_dir: Path) -> dict[str, list[tuple[Any, ...]]]:
    db = apsw.Connection(str(state_dir / "tables.db"))
    try:
        names = ("issue", "lease", "dependency", "sublease", "instance", "watermark")
        return {name: sorted(db.execute(f"SELECT * FROM {name}").fetchall()) for name in names}
    finally:
        db.close()


# --- the contract's proof -----------------------------------------------------------------------


@pytest.fixture
def shipped(tmp_path: Path) -> dict[str, Path]:
    """Copies of the documents that the world check reads, by the option that names them."""
    sources = {
        "--site-input": documents.SITE_INPUT,
        "--operations": documents.OPERATIONS,
        "--control-plane-contract": documents.CONTRACT,
    }
    return {
        option: Path(shutil.copy(documents.ROOT / name, tmp_path / Path(name).name))
        for option, name in sources.items()
    }


def _flags(paths: dict[str, Path]) -> list[str]:
    flags = [str(word) for pair in paths.items() for word in pair]
    flags += ["--required-route-family", FAMILY]
    for binding in BINDINGS:
        flags += ["--required-route-binding", binding]
    return flags


@pytest.mark.parametrize("name", ["check", "world-registry-check"])
def test_the_shipped_documents_pass_the_world_check(
    bare: Run, shipped: dict[str, Path], name: str
) -> None:
    said = bare(name, *_flags(shipped), "--json")
    assert (said.code, said.json["result"], said.json["issues"]) == (0, "accepted", [])
    assert bare(name, *_flags(shipped)).out == "contract: accepted\n"


def test_the_world_check_runs_as_the_coordinator_runs_it(shipped: dict[str, Path]) -> None:
    done = understudy("world-registry-check", *_flags(shipped), "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    assert orjson.loads(done.stdout)["result"] == "accepted"


@pytest.mark.parametrize(
    ("option", "before", "after"),
    [
        ("--site-input", "world.lease.v1", "world.lease.v2"),
        ("--site-input", "wm.control.lease.mutation", "wm.control.lease.other"),
        ("--site-input", FAMILY, "route.other"),
        ("--operations", "op/mcp.issue_claim", "op/mcp.issue_grab"),
        ("--operations", "dm.commitment.attest", "dm.commitment.detest"),
        ("--control-plane-contract", "op/mcp.issue_lease_renew", "op/mcp.issue_claim"),
    ],
)
def test_a_mutated_document_fails_the_world_check(
    bare: Run, shipped: dict[str, Path], option: str, before: str, after: str
) -> None:
    path = shipped[option]
    text = path.read_text("utf-8")
    assert f'"{before}"' in text
    path.write_text(text.replace(f'"{before}"', f'"{after}"'), "utf-8")
    said = bare("world-registry-check", *_flags(shipped), "--json")
    assert (said.code, said.json["result"]) == (9, "rejected")
    assert said.json["issues"]
    human = bare("check", *_flags(shipped))
    assert (human.code, human.out) == (9, "contract: rejected\n")
    assert human.err.count("\n") == len(said.json["issues"])


def test_a_binding_that_does_not_exist_fails_the_world_check(bare: Run) -> None:
    for option, value in (
        ("--required-route-family", "route.nowhere"),
        ("--required-route-binding", f"{FAMILY}=op/mcp.nothing"),
        ("--required-route-binding", "route.fiber.lifecycle=op/mcp.issue_claim"),
    ):
        assert bare("check", option, value).code == 9


@pytest.mark.parametrize("option", ["--site-input", "--operations", "--control-plane-contract"])
@pytest.mark.parametrize("damage", [None, "a folder", b"{", b"", b'"\xff"'])
def test_a_document_that_cannot_be_read_is_a_wrong_call(
    bare: Run, shipped: dict[str, Path], option: str, damage: str | bytes | None
) -> None:
    path = shipped[option]
    path.unlink()
    if isinstance(damage, bytes):
        path.write_bytes(damage)
    elif damage == "a folder":
        path.mkdir()
    for form in ([], ["--json"]):
        said = bare("world-registry-check", *_flags(shipped), *form)
        assert said.code == 2
        assert path.name in said.err + said.out
        assert "Traceback" not in said.err


@pytest.mark.parametrize("value", [b"[]", b"null", b"7", b'"x"', b"{}"])
@pytest.mark.parametrize("option", ["--site-input", "--operations", "--control-plane-contract"])
def test_a_document_of_another_shape_fails_the_world_check(
    bare: Run, shipped: dict[str, Path], option: str, value: bytes
) -> None:
    shipped[option].write_bytes(value)
    assert bare("check", *_flags(shipped), "--json").code == 9


def test_everything_that_is_shipped_passes_its_own_check(bare: Run) -> None:
    report = bare("check", "--json").json
    assert (report["result"], report["issues"], report["failureClasses"]) == ("accepted", [], [])


def test_an_import_says_what_became_of_types_that_are_not_ours(call: Run, tmp_path: Path) -> None:
    words = ("bug", "bug", "chore", "task")
    rows = [{"id": f"x-{at}", "title": "t", "issue_type": word} for at, word in enumerate(words)]
    (tmp_path / "b.jsonl").write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in rows))
    said = call("import", tmp_path / "b.jsonl")
    assert said.out.splitlines() == [
        "imported 4, skipped 0",
        "2 of type bug: a task with the label bug",
        "1 of type chore: a task with the label chore",
    ]
    assert len(call("issue", "list", "--label", "bug", "--json").json["issues"]) == 2
    again = call("import", tmp_path / "b.jsonl", "--skip-existing", "--json").json
    assert (again["skipped"], again["retyped"]) == (4, {})
