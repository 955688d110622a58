"""The join check is total, and its verdict does not hang on the order of anything."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.long import tried
from understudy.contracts.checks.join import (
    Joined,
    JoinSection,
    Unreadable,
    join_check,
    overlapping,
)
from understudy.contracts.reason import Reason

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
MEMBERS = st.dictionaries(
    st.sampled_from(
        [
            "evidence",
            "governanceProfile",
            "protocolConstraints",
            "handoffConstraints",
            "sections",
            "truncationConstraints",
            "decompositionConstraints",
            "other",
        ]
    ),
    ANYTHING,
)
PATHS = st.lists(st.sampled_from(["a", "b/", "b/c", "b/c/", "b/c/d", "bc"]), max_size=4)


@given(MEMBERS | ANYTHING)
def test_whatever_is_shown_there_is_a_verdict(document: Any) -> None:
    assert isinstance(join_check(document), Joined | Unreadable)


@tried(200)
@given(st.lists(PATHS, max_size=4), st.randoms())
def test_an_overlap_is_found_from_both_sides(paths: list[list[str]], dice: Any) -> None:
    sections = [
        JoinSection(ref=f"w{number}", changed_paths=tuple(each))
        for number, each in enumerate(paths)
    ]
    found = list(overlapping(sections))
    shuffled = [
        JoinSection(
            ref=each.ref,
            changed_paths=tuple(dice.sample(each.changed_paths, len(each.changed_paths))),
        )
        for each in dice.sample(sections, len(sections))
    ]
    assert list(overlapping(shuffled)) == found
    for each in found:
        assert each.left < each.right


def test_a_worker_does_not_stand_in_its_own_way() -> None:
    twice = [JoinSection(ref="a", changed_paths=("x",)), JoinSection(ref="a", changed_paths=("x",))]
    assert list(overlapping(twice)) == []


def test_nothing_to_judge_is_closed() -> None:
    joined = join_check({})
    assert isinstance(joined, Joined)
    assert joined.report["joinClosed"]


def test_an_obstruction_names_who_and_where() -> None:
    sections = [
        {"ref": "bob", "changedPaths": ["src/a.py"]},
        {"ref": "ada", "changedPaths": ["src/"]},
    ]
    joined = join_check({"sections": sections})
    assert isinstance(joined, Joined)
    assert joined.reasons == (Reason.JOIN_OVERLAP,)
    assert joined.report["overlaps"] == [{"left": "ada", "right": "bob", "path": "src/a.py"}]
