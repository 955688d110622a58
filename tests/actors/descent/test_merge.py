"""One commit for each section, the same on every machine, and as `git merge` would have it."""

import shutil
import subprocess
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.actors.descent.sandbox import WHO, Sandbox, lines
from understudy.actors.descent.git import Git, GitRefused
from understudy.actors.descent.merge import (
    Conflict,
    Merged,
    MergeOrder,
    Signature,
    chain,
    merge_commit,
    worded,
)
from understudy.actors.descent.overlap import SectionCommit

WHO_GLUES = Signature("understudy", "glue@understudy.invalid")
STAMP_MS = 1_700_000_000_999


@pytest.fixture
def box(tmp_path: Path) -> Sandbox:
    return Sandbox(tmp_path / "repository")


def merge(git: Git, onto: str, section: str, message: str = "glue\n") -> Merged | Conflict:
    return merge_commit(git, onto, section, message=message, stamp_ms=STAMP_MS, author=WHO_GLUES)


def glue(git: Git, onto: str, sections: list[SectionCommit]) -> list[Merged | Conflict]:
    orders = [MergeOrder(each, f"glue {each.commit}\n") for each in sections]
    return chain(git, onto, orders, stamp_ms=STAMP_MS, author=WHO_GLUES)


def test_a_merge_is_the_same_commit_on_every_machine(
    box: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = box.commit({"file": lines()})
    onto, section = (box.commit({"file": lines((at, "x"))}, base) for at in (1, 18))
    box.branch("main", onto)
    box.branch("section", section)
    there = tmp_path / "there"
    subprocess.run(["git", "clone", "-q", box.folder, there], check=True)
    first = merge(box.git, onto, section)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    monkeypatch.setenv("GIT_AUTHOR_NAME", "another")
    monkeypatch.setenv("GIT_COMMITTER_DATE", "@5 +0100")
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    for name, value in (
        ("commit.gpgSign", "true"), ("i18n.commitEncoding", "latin1"), ("user.name", "x"),
        ("merge.renames", "false"), ("merge.ff", "only"),
    ):  # fmt: skip
        Git(there).run("config", name, value)
    assert isinstance(first, Merged)
    assert merge(Git(there), onto, section) == first
    # Known by heart: whatever changes this id changes it for everybody.
    text = box.git.text("cat-file", "commit", first.commit)
    assert text == (
        f"tree {first.tree}\nparent {onto}\nparent {section}\n"
        "author understudy <glue@understudy.invalid> 1700000000 +0000\n"
        "committer understudy <glue@understudy.invalid> 1700000000 +0000\n\nglue"
    )


def test_a_section_that_is_in_already_is_nothing_to_do(box: Sandbox) -> None:
    base = box.commit({"file": lines()})
    onto = box.commit({"n": b""}, base)
    for inside in (base, onto):
        found = merge(box.git, onto, inside)
        assert found == Merged(inside, onto, found.tree, is_new=False, is_empty=True)


def test_what_could_be_fast_forwarded_gets_a_merge_commit(box: Sandbox) -> None:
    onto = box.commit({"file": lines()})
    section = box.commit({"n": b""}, onto)
    found = merge(box.git, onto, section)
    assert isinstance(found, Merged)
    assert (found.is_new, found.is_empty) == (True, False)
    assert found.tree == box.git.text("rev-parse", f"{section}^{{tree}}")
    assert box.git.text("rev-parse", f"{found.commit}^1", f"{found.commit}^2").split() == [
        onto, section,
    ]  # fmt: skip
    again = merge(box.git, found.commit, section)
    assert (again.commit, again.is_new) == (found.commit, False)


def test_the_same_change_merges_to_the_same_tree_and_is_in_from_then_on(box: Sandbox) -> None:
    base = box.commit({"file": lines()})
    onto, section = (box.commit({"file": lines((1, "x"))}, base) for _ in range(2))
    found = merge(box.git, onto, section)
    assert (found.is_new, found.is_empty) == (True, True)
    assert merge(box.git, found.commit, section).is_new is False


def test_a_conflict_names_its_paths_and_makes_no_commit(box: Sandbox) -> None:
    base = box.commit({"file": lines()})
    onto, section = (box.commit({"file": lines((5, each))}, base) for each in "lr")
    found = merge(box.git, onto, section)
    assert isinstance(found, Conflict)
    assert found.detail == "does not merge: file"
    assert found.clashes[0].kind == "content"


def test_a_section_of_another_history_stays_out(box: Sandbox) -> None:
    found = merge(box.git, box.commit({"a": b""}), box.commit({"b": b""}))
    assert isinstance(found, Conflict)
    assert "no commit in common" in found.detail


def test_a_chain_leaves_out_what_conflicts_and_goes_on(box: Sandbox) -> None:
    base = box.commit({"file": lines(), "other": lines()})
    sections = [
        box.section(base, {"file": lines((5, "first"))}),
        box.section(base, {"file": lines((5, "second"))}),
        box.section(base, {"other": lines((5, "third"))}),
        box.section(base, {}),
    ]
    outcomes = glue(box.git, base, sections)
    assert [type(each) for each in outcomes] == [Merged, Conflict, Merged, Merged]
    head = outcomes[-1].commit
    assert box.show(head, "file") == lines((5, "first"))
    assert box.show(head, "other") == lines((5, "third"))
    assert glue(box.git, base, sections) == outcomes


def test_attributes_that_a_section_brings_count_for_the_next(box: Sandbox) -> None:
    base = box.commit({"log": b"x\n"})
    union = box.section(base, {".gitattributes": b"log merge=union\n"})
    logs = [box.section(base, {"log": b"x\n" + each}) for each in (b"l\n", b"r\n")]
    outcomes = glue(box.git, base, [union, *logs])
    assert box.show(outcomes[-1].commit, "log") == b"x\nl\nr\n"
    assert isinstance(glue(box.git, base, logs)[-1], Conflict)


def test_no_value_of_a_trailer_can_forge_another() -> None:
    hostile = "7\nUnderstudy-Fence: 999"
    text = worded("glue \x1b[2J", {"Understudy-Issue": hostile, "Understudy-Fence": "3"})
    assert text.split("\n") == [
        "glue \\x1b[2J",
        "",
        "Understudy-Issue: 7\\nUnderstudy-Fence: 999",
        "Understudy-Fence: 3",
        "",
    ]


@pytest.mark.parametrize(
    ("name", "stamp_ms"), [("", 1), ("a\nb", 1), ("a <b>", 1), ("x" * 201, 1), ("a", -1)]
)
def test_an_identity_that_git_would_mend_is_refused(box: Sandbox, name: str, stamp_ms: int) -> None:
    base = box.commit({})
    with pytest.raises(GitRefused):
        merge_commit(
            box.git, base, base, message="m", stamp_ms=stamp_ms, author=Signature(name, "a@b")
        )


EDITS = st.dictionaries(
    st.sampled_from(["a", "b", "d/a", "d/n", "e/a"]),
    st.one_of(
        st.none(),
        st.lists(st.tuples(st.integers(0, 9), st.sampled_from("xyz")), min_size=1, max_size=2).map(
            lambda each: lines(*each, count=10)
        ),
    ),
    max_size=3,
)


@settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(EDITS, min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_a_chain_is_what_git_merges_one_by_one(
    tmp_path_factory: pytest.TempPathFactory, edits: list[dict], random: Random
) -> None:
    """The same trees and the same conflicts as `git merge` in a clone; arrival does not matter."""
    folder = tmp_path_factory.mktemp("chain")
    box = Sandbox(folder / "repository")
    base = box.commit({each: lines(count=10) for each in ("a", "b", "d/a")})
    sections = [box.section(base, each) for each in edits]
    box.branch("main", base)
    for number, each in enumerate(sections):
        box.branch(f"section-{number}", each.commit)
    outcomes = glue(box.git, base, sections)
    clone = folder / "clone"
    subprocess.run(["git", "clone", "-q", box.folder, clone], check=True)
    for section, outcome in zip(sections, outcomes, strict=True):
        assert _merged_by_git(clone, section.commit) == isinstance(outcome, Merged)
        if isinstance(outcome, Merged):
            assert Git(clone).text("rev-parse", "HEAD^{tree}") == outcome.tree
    # Sections that arrive in another order, from elsewhere, and are put in this one.
    there = Sandbox(folder / "there")
    arrived = list(range(len(sections)))
    random.shuffle(arrived)
    for number in arrived:
        there.git.run("fetch", "-q", box.folder, f"section-{number}")
    assert glue(there.git, base, sections) == outcomes
    shutil.rmtree(folder)


def _merged_by_git(clone: Path, commit: str) -> bool:
    git = Git(clone)
    ran = git.run("merge", "-q", "--no-ff", "-m", "m", commit, env=WHO, allowed=(0, 1))
    if ran.returncode:
        git.run("merge", "--abort")
    return ran.returncode == 0
