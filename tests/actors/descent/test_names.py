"""Names of branches and refs are legal, one for each id, and can be read back."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.actors.descent import names
from understudy.actors.descent.git import GitRefused
from understudy.contracts.requests.shapes.atoms import ID_PATTERN

ODD = [
    "us-1", "a.lock", "a.", ".a", "-a", "a..b", "a...lock", "a..", "..", ".", "@", "a@{1}", "ü/..",
    "new\nline", "a~b^c:d?e*f[g\\h", 'quo"te', "%41", "%d", "a%2Eb", "A", "a", "a" + "." * 127,
    "a" + ".lock" * 25, "HEAD", "\udcff",
]  # fmt: skip


@pytest.mark.parametrize("name", ODD)
def test_git_takes_the_name_of_every_id_for_one_part_of_a_ref(name: str) -> None:
    part = names.encoded(name)
    assert "/" not in part
    for ref in (
        f"refs/heads/{names.branch(name, 7)}",
        names.aside_ref(name, 7),
        names.section_ref(name, 7),
    ):
        assert subprocess.run(["git", "check-ref-format", ref], check=False).returncode == 0
        assert names.lease_of(ref) == (name, 7)


@given(st.one_of(st.from_regex(ID_PATTERN, fullmatch=True), st.text(min_size=1, max_size=70)))
def test_an_id_is_read_back_from_its_name(name: str) -> None:
    try:
        part = names.encoded(name)
    except GitRefused:
        assert len(name) > 20, "only what is long can be too long"
        return
    assert names.decoded(part) == name
    assert ".." not in part
    assert not part.startswith((".", "-"))
    assert not part.endswith((".", ".lock"))


@pytest.mark.parametrize("length", [names.PART_BYTES_MAX, names.PART_BYTES_MAX + 1])
def test_an_id_that_is_too_long_for_a_file_name_is_refused(length: int) -> None:
    if length <= names.PART_BYTES_MAX:
        assert names.encoded("x" * length) == "x" * length
        return
    with pytest.raises(GitRefused, match="file the work under another one"):
        names.encoded("x" * length)


@pytest.mark.parametrize("ref", ["main", "understudy/x/y", "refs/heads/understudy/x/²", ""])
def test_other_refs_are_nobody_s_lease(ref: str) -> None:
    assert names.lease_of(ref) is None


def test_the_folder_of_a_worktree_is_below_the_state_directory(tmp_path: Path) -> None:
    for name in ODD:
        found = names.folder(tmp_path, name, 3)
        assert found.parent.parent == tmp_path / "worktrees"
        assert found.name == "3"
