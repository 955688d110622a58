"""Two sections where they meet: each kind of conflict by its name, and nothing left behind."""

import itertools
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.actors.descent.sandbox import Body, Sandbox, lines
from tests.together import together
from understudy.actors.descent import merge_tree
from understudy.actors.descent.git import GitRefused, spelled
from understudy.actors.descent.overlap import (
    HUNKS_LENGTH_MAX,
    HUNKS_PATHS_MAX,
    Agreement,
    SectionCommit,
    overlap,
    overlaps,
)

Changes = dict[bytes | str, Body]
ONE, TWO = "1" * 40, "2" * 40
BASE: Changes = {
    "file": lines(),
    "other": lines((0, "other")),
    "folder/inner": lines((0, "inner")),
    "image": b"\0\1\2",
    "module": ("160000", b"0" * 39 + b"1"),
    b"new\nline": lines((0, "newline")),
    b"\xe9t\xe9": lines((0, "latin")),
}
CASES: dict[str, tuple[Changes, Changes, Agreement, dict[str, str]]] = {
    "nothing in common": (
        {"file": lines((1, "l"))}, {"other": b"r"}, Agreement.AGREE, {},
    ),
    "the same change": (
        {"file": lines((1, "x"))}, {"file": lines((1, "x"))}, Agreement.AGREE, {},
    ),
    "the same new file": ({"n": b"x"}, {"n": b"x"}, Agreement.AGREE, {}),
    "the same deletion": ({"file": None}, {"file": None}, Agreement.AGREE, {}),
    "lines far apart": (
        {"file": lines((1, "l"))}, {"file": lines((18, "r"))}, Agreement.MERGE, {},
    ),
    "one line": (
        {"file": lines((5, "l"))}, {"file": lines((5, "r"))},
        Agreement.CONFLICT, {"file": "content"},
    ),
    "binary": (
        {"image": b"\0l"}, {"image": b"\0r"}, Agreement.CONFLICT, {"image": "binary"},
    ),
    "add/add": ({"n": b"l\n"}, {"n": b"r\n"}, Agreement.CONFLICT, {"n": "add/add"}),
    "modify/delete": (
        {"file": lines((5, "l"))}, {"file": None},
        Agreement.CONFLICT, {"file": "modify/delete"},
    ),
    "a rename on both sides": (
        {"file": None, "l": lines()}, {"file": None, "r": lines()},
        Agreement.CONFLICT, dict.fromkeys(("file", "l", "r"), "rename/rename"),
    ),
    "a rename, and a deletion": (
        {"file": None, "l": lines()}, {"file": None},
        Agreement.CONFLICT, {"l": "rename/delete"},
    ),
    "a rename, and a change": (
        {"file": None, "l": lines()}, {"file": lines((5, "r"))}, Agreement.MERGE, {},
    ),
    "a mode, and a change": (
        {"file": ("100755", lines())}, {"file": lines((5, "r"))}, Agreement.MERGE, {},
    ),
    "new with two modes": (
        {"n": ("100755", b"x")}, {"n": b"x"}, Agreement.CONFLICT, {"n": "add/add"},
    ),
    "a link against a file": (
        {"n": ("120000", b"file")}, {"n": b"text\n"},
        Agreement.CONFLICT, {"n": "distinct modes", "n~RIGHT": "distinct modes"},
    ),
    "a folder against a file": (
        {"n": b"text\n"}, {"n/inner": b"text\n"},
        Agreement.CONFLICT, {"n~LEFT": "file/directory"},
    ),
    "a new file in a folder that moved": (
        {"folder/inner": None, "moved/inner": lines((0, "inner"))}, {"folder/n": b"r"},
        Agreement.CONFLICT, {"moved/n": "directory rename suggested"},
    ),
    "a submodule on two commits": (
        {"module": ("160000", ONE.encode())}, {"module": ("160000", TWO.encode())},
        Agreement.CONFLICT, {"module": "submodule not initialized"},
    ),
    "a name with a newline": (
        {b"new\nline": b"l"}, {b"new\nline": b"r"},
        Agreement.CONFLICT, {'"new\\012line"': "content"},
    ),
    "a name in another encoding": (
        {b"\xe9t\xe9": b"l"}, {b"\xe9t\xe9": b"r"},
        Agreement.CONFLICT, {'"\\351t\\351"': "content"},
    ),
    "an empty section": ({}, {"file": b"r"}, Agreement.AGREE, {}),
}  # fmt: skip


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "repository")


@together("name", CASES)
def test_each_way_to_meet_has_its_verdict_and_its_name(tmp_path: Path, name: str) -> None:
    left, right, verdict, kinds = CASES[name]
    box = Sandbox(tmp_path / "repository")
    base = box.commit(BASE)
    sections = [box.section(base, each) for each in (left, right)]
    one, two = (each.commit for each in sections)
    found = overlap(box.git, one, two)
    assert found.verdict == verdict
    named = {path.replace("RIGHT", two).replace("LEFT", one): kind for path, kind in kinds.items()}
    assert {each.path: each.kind for each in found.clashes} == named
    common = sorted(spelled(_bytes(each)) for each in left if each in right)
    assert sorted(found.paths) == common
    # On a base that is named, and together with others, it is the same.
    assert overlap(box.git, one, two, base).digest == found.digest
    assert [each.verdict for each in overlaps(box.git, sections)] in ([verdict], [])
    assert overlaps(box.git, sections) or verdict is Agreement.AGREE
    assert [each.digest for each in overlaps(box.git, sections)] in ([found.digest], [])


def test_the_hunks_of_a_conflict_are_shown_with_their_place(box: Sandbox) -> None:
    base = box.commit(BASE)
    one, two = (box.commit({"file": lines((5, each))}, base) for each in ("left", "right"))
    (clash,) = overlap(box.git, one, two).clashes
    shown = f"@@ line 6\n<<<<<<< {one}\nleft\n=======\nright\n>>>>>>> {two}"
    assert clash.hunks == shown
    assert [each.number for each in clash.stages] == [1, 2, 3]
    assert "Merge conflict in file" in clash.note
    assert overlap(box.git, one, two, base).clashes == (clash,)


def test_markers_that_a_file_has_of_its_own_are_no_hunk(box: Sandbox) -> None:
    own = b"<<<<<<< ours\nx\n=======\ny\n>>>>>>> theirs\n"
    base = box.commit({"file": own + lines()})
    one, two = (box.commit({"file": own + lines((9, each))}, base) for each in ("l", "r"))
    (clash,) = overlap(box.git, one, two).clashes
    assert "ours" not in clash.hunks
    assert clash.hunks.count("@@") == 1


def test_hunks_are_bounded_and_say_so(box: Sandbox) -> None:
    count = HUNKS_PATHS_MAX + 1
    base = box.commit({f"{each:03}": b"x\n" for each in range(count)})
    one, two = (
        box.commit({f"{each:03}": word * 9_000 + b"\n" for each in range(count)}, base)
        for word in (b"l", b"r")
    )
    clashes = overlap(box.git, one, two).clashes
    assert len(clashes) == count
    assert all(len(each.hunks) == HUNKS_LENGTH_MAX for each in clashes[:-1])
    assert clashes[0].hunks.endswith("(cut here)")
    assert clashes[-1].hunks == ""


def test_a_criss_cross_has_a_base_made_of_both(box: Sandbox) -> None:
    base = box.commit({"file": lines()})
    a = box.commit({"file": lines((1, "a"))}, base)
    b = box.commit({"file": lines((18, "b"))}, base)
    both = {"file": lines((1, "a"), (18, "b"))}
    ab, ba = box.commit(both, a, b), box.commit(both, b, a)
    one = box.commit({"file": lines((1, "a"), (9, "l"), (18, "b"))}, ab)
    two = box.commit({"file": lines((1, "z"), (18, "b"))}, ba)
    found = overlap(box.git, one, two)
    assert (found.verdict, found.clashes) == (Agreement.MERGE, ())
    three = box.commit({"file": lines((1, "a"), (9, "r"), (18, "b"))}, ba)
    assert overlap(box.git, one, three).verdict == Agreement.CONFLICT


def test_histories_without_a_common_commit_are_compared_all_the_same(box: Sandbox) -> None:
    one, two = box.commit({"file": b"l\n"}), box.commit({"file": b"r\n"})
    (clash,) = overlap(box.git, one, two).clashes
    assert clash.kind == "add/add"
    assert overlap(box.git, one, box.commit({"n": b""})).verdict == Agreement.AGREE


def test_sections_on_several_bases_meet_in_their_order(box: Sandbox) -> None:
    first = box.commit(BASE)
    later = box.commit({"other": b"moved on"}, first)
    sections = [
        box.section(later, {"file": lines((5, "a"))}),
        box.section(first, {"file": lines((5, "b"))}),
        box.section(later, {"file": lines((18, "c"))}),
        box.section(first, {"n": b""}),
    ]
    a, b, c, _ = (each.commit for each in sections)
    found = [(each.left, each.right, each.verdict) for each in overlaps(box.git, sections)]
    assert found == [
        (a, b, Agreement.CONFLICT), (a, c, Agreement.MERGE), (b, c, Agreement.MERGE),
    ]  # fmt: skip


def test_a_look_leaves_nothing_behind(box: Sandbox) -> None:
    base = box.commit(BASE)
    box.branch("main", base)
    sections = [box.section(base, {"file": lines((5, str(each)))}) for each in range(4)]
    before = sorted(box.folder.rglob("*"))
    assert len(overlaps(box.git, sections)) == 6
    overlap(box.git, sections[0].commit, sections[1].commit, base)
    assert sorted(box.folder.rglob("*")) == before


def test_settings_and_files_of_the_user_change_no_verdict(box: Sandbox, tmp_path: Path) -> None:
    base = box.commit(BASE)
    box.branch("main", base)
    left, right, *_ = CASES["a rename, and a change"]
    one, two = (box.commit(each, base) for each in (left, right))
    l5, r5 = (box.commit({"file": lines((5, each))}, base) for each in "lr")
    before = [overlap(box.git, one, two), overlap(box.git, l5, r5)]
    box.git.run("config", "merge.renames", "false")
    box.git.run("config", "merge.conflictStyle", "diff3")
    (tmp_path / "attributes").write_text("* merge=union\n")
    box.git.run("config", "core.attributesFile", str(tmp_path / "attributes"))
    (box.folder / ".gitattributes").write_text("* merge=union\n")
    assert [overlap(box.git, one, two), overlap(box.git, l5, r5)] == before


def test_attributes_that_are_committed_count(box: Sandbox) -> None:
    attributes: Changes = {".gitattributes": b"log merge=union\n", "in/.gitattributes": b"* -merge"}
    base = box.commit({"log": b"x\n", "in/text": lines(), **attributes})
    logs = [box.commit({"log": b"x\n" + each}, base) for each in (b"l\n", b"r\n")]
    assert overlap(box.git, *logs).verdict == Agreement.MERGE
    texts = [box.commit({"in/text": lines((each, "x"))}, base) for each in (1, 18)]
    assert overlap(box.git, *texts).clashes[0].kind in {"binary", "content"}
    assert overlap(box.git, *texts).verdict == Agreement.CONFLICT


def test_where_memory_is_too_small_the_disk_is_taken(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = box.commit(BASE)
    sections = [box.section(base, {"file": lines((5, each))}) for each in "lr"]
    usual = overlaps(box.git, sections)
    with merge_tree.scratch(box.git, base, is_kept=False) as place:
        place._objects.insert(0, tmp_path / "no" / "such" / "folder")
        place._use_first()
        pair = (sections[0].commit, sections[1].commit)
        assert place.merge([pair])[0].tree == usual[0].tree
    monkeypatch.setattr(merge_tree, "_SHARED", tmp_path / "none")
    assert overlaps(box.git, sections) == usual


def test_a_commit_that_is_not_there_is_refused_by_name(box: Sandbox) -> None:
    base = box.commit(BASE)
    with pytest.raises(GitRefused, match="no-such: git knows no such commit"):
        overlap(box.git, base, "no-such")
    lost = SectionCommit("lost", base, ONE)
    with pytest.raises(GitRefused, match="no such commit; was it pruned"):
        overlaps(box.git, [lost])
    assert overlaps(box.git, []) == []


EDITS = st.dictionaries(
    st.sampled_from(["a", "b", "d", "d/a", "d/b", "e/a", "e/n", "d/n"]),
    st.one_of(
        st.none(),
        st.tuples(st.integers(0, 9), st.sampled_from("xy")).map(lambda at: lines(at, count=10)),
        st.sampled_from([b"", b"\0bin", lines(count=10)]),
    ),
    max_size=3,
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(EDITS, min_size=2, max_size=5))
def test_a_pair_that_is_not_looked_at_merges_cleanly(
    tmp_path_factory: pytest.TempPathFactory, edits: list[dict[str, bytes | None]]
) -> None:
    """The index of paths leaves no conflict out, and batches say what single merges say."""
    box = Sandbox(tmp_path_factory.mktemp("pairs") / "repository")
    base = box.commit({each: lines(count=10) for each in ("a", "b", "d/a", "d/b")})
    sections = [_possible(box, base, each) for each in edits]
    found = {(each.left, each.right): each for each in overlaps(box.git, sections)}
    for left, right in itertools.combinations(sections, 2):
        ran = subprocess.run(
            ["git", "merge-tree", "--write-tree", left.commit, right.commit],
            cwd=box.folder, capture_output=True, check=False,
        )  # fmt: skip
        met = found.get((left.commit, right.commit))
        is_conflict = met is not None and met.verdict == Agreement.CONFLICT
        assert is_conflict == (ran.returncode == 1)
        if met is not None and met.tree is not None and not is_conflict:
            assert met.tree == ran.stdout.decode().strip()


def _possible(box: Sandbox, base: str, edits: dict[str, bytes | None]) -> SectionCommit:
    """A file and a folder of one name do not go together; git's index drops the older."""
    return box.section(base, dict(sorted(edits.items())))


def _bytes(path: bytes | str) -> bytes:
    return path if isinstance(path, bytes) else path.encode()
