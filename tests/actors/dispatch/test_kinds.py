"""Handlers by kind: who is asked for what, and which kinds are left alone."""

import pytest

from understudy.actors.dispatch.kinds import KINDS_MAX, Kinds
from understudy.contracts import limits


def kinds(*names: str) -> Kinds:
    return Kinds.of([(name, (name,)) for name in names])


@pytest.mark.parametrize(
    ("kind", "who"),
    [
        ("ci.build", "ci.build"),
        ("ci.build.x", "ci."),
        ("ci.test.unit", "ci.test.*"),
        ("ci.test", "ci."),
        ("ci", None),
        ("cix", None),
    ],
)
def test_the_exact_kind_goes_first_and_then_the_longest_prefix(kind: str, who: str | None) -> None:
    found = kinds("ci.", "ci.test.*", "ci.build").command_of(kind)
    assert found == (None if who is None else (who,))


def test_all_kinds_come_last_of_all() -> None:
    assert kinds("*", "ci.").command_of("ci.x") == ("ci.",)
    assert kinds("*", "ci.").command_of("x") == ("*",)


def test_nothing_is_asked_for_twice() -> None:
    assert list(kinds("ci.test.", "ci.", "ci.build", "x").asked()) == ["ci.", "x"]
    assert list(kinds("*", "ci.").asked()) == [None]
    assert list(Kinds().asked()) == []


@pytest.mark.parametrize("name", ["", " ", ".", ".*", "a*", "a*b", "**", "k" * 257])
def test_what_is_no_kind_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is no kind"):
        kinds(name)


@pytest.mark.parametrize("names", [("a", "a"), ("a.", "a.*"), ("*", " * ")])
def test_a_kind_has_one_handler(names: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="one handler"):
        kinds(*names)


def test_there_are_as_many_as_there_may_be_and_no_more() -> None:
    names = [f"k{number}" for number in range(KINDS_MAX)]
    assert kinds(*names)
    assert kinds("k" * limits.NAME_LENGTH_MAX)
    with pytest.raises(ValueError, match="there can be"):
        kinds(*names, "one.more")
    with pytest.raises(ValueError, match="nothing to run"):
        Kinds.of([("k", ("",))])
