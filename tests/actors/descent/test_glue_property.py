"""Whatever was edited, glue is what merging one after the other gives, in any order of arrival.

The other opinion is `git merge` in a clone, with a working tree, as a person would do it.
"""

import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.actors.descent.glue_world import WHO, GlueWorld
from tests.long import SCALED, tried
from understudy.actors.descent.git import Git

MEMORY = Path("/dev/shm")
LINES = 6
START = {name: "".join(f"{name} {line}\n" for line in range(LINES)) for name in ("x", "y")}
Edits = dict[str, str | None]  # what a section leaves in files; None: they are gone


@dataclass(frozen=True, slots=True)
class Ended:
    """What came of it: the tree of the branch, and of the sections that did not fit, the paths."""

    tree: str
    glued: tuple[str, ...]
    paths: dict[str, tuple[str, ...]]


def edits() -> st.SearchStrategy[Edits]:
    """One or two changes: a line, the end of a file, a new file, a name, or no file any more."""
    name = st.sampled_from(sorted(START))
    line = st.builds(_line, name, st.integers(0, LINES - 1), st.sampled_from("pq"))
    tail = st.builds(
        lambda name, text: {name: f"{START[name]}{text}\n"}, name, st.sampled_from("pq")
    )
    fresh = st.builds(lambda text: {"new": f"{text}\n"}, st.sampled_from("pq"))
    named = st.builds(lambda name: {name: None, f"{name}-moved": START[name]}, name)
    gone = st.builds(lambda name: {name: None}, name)
    change: st.SearchStrategy[Edits] = st.one_of(line, line, tail, fresh, named, gone)
    return st.lists(change, min_size=1, max_size=2).map(_together)


def _line(name: str, number: int, text: str) -> Edits:
    lines = START[name].splitlines(keepends=True)
    lines[number] = f"{text}\n"
    return {name: "".join(lines)}


def _together(changes: Sequence[Edits]) -> Edits:
    return {name: text for each in changes for name, text in each.items()}


@dataclass(frozen=True, slots=True)
class Story:
    """Sections in the order of a cover; places in it as they arrive; after which a pass runs."""

    sections: tuple[Edits, ...]
    arrival: tuple[int, ...]
    passes: frozenset[int]


@st.composite
def stories(draw: st.DrawFn) -> Story:
    sections = draw(st.lists(edits(), min_size=3, max_size=5))
    places = range(len(sections))
    arrival = draw(st.permutations(places))
    return Story(tuple(sections), tuple(arrival), draw(st.frozensets(st.sampled_from(places))))


_SAME_LINE = tuple(_line("x", 0, text) for text in "pqp")
_numbers = count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In memory where there is a place for that: else most of it would be waiting for disks."""
    place = MEMORY if MEMORY.is_dir() else tmp_path_factory.mktemp("glue")
    with tempfile.TemporaryDirectory(prefix="understudy-glue-", dir=place) as name:
        yield Path(name)


@SCALED
@tried(16)
@example(Story(_SAME_LINE, (2, 1, 0), frozenset({1})))
@example(Story((*_SAME_LINE[:2], {"x": None, "moved": START["x"]}), (1, 2, 0), frozenset()))
@given(stories())
def test_glue_is_what_sequential_merges_give_whatever_arrives_first(
    folder: Path, story: Story
) -> None:
    plain = Story(story.sections, tuple(range(len(story.sections))), frozenset())
    here = folder / str(next(_numbers))
    world = _glued(here / "plain", plain)
    other = _glued(here / "other", story)
    assert _ended(world) == _merged(world, here / "clone")
    assert _ended(other) == _ended(world)
    assert _identities(other) == _identities(world)


def _glued(folder: Path, story: Story) -> GlueWorld:
    folder.mkdir(parents=True)
    world = GlueWorld(folder)
    world.base = world.commit({"a.txt": None, "b.txt": None, **START}, world.base)
    world.git.run("update-ref", "refs/heads/main", world.base)
    names = [f"i{place}" for place in range(len(story.sections))]
    world.add(*names)
    world.accepted(
        "descent.cover",
        coverId="all",
        target="main",
        base=world.base,
        issues=names,
        order="journal",
    )
    for number, place in enumerate(story.arrival):
        world.section(names[place], story.sections[place], world.base)
        if number in story.passes:
            world.glue(on_obstruction="stop")
    world.glue(on_obstruction="stop")
    return world


def _ended(world: GlueWorld) -> Ended:
    found = world.shown()["obstructions"]
    return Ended(
        world.git.text("rev-parse", "main^{tree}"),
        tuple(name for name in _names(world) if world.status(name) == "closed"),
        {each["section"].partition("/")[0]: tuple(sorted(each["paths"])) for each in found},
    )


def _identities(world: GlueWorld) -> set[str]:
    return {each["obstructionId"] for each in world.shown()["obstructions"]}


def _names(world: GlueWorld) -> list[str]:
    (cover,) = world.shown()["covers"]
    return [each["issueId"] for each in cover["members"]]


def _merged(world: GlueWorld, folder: Path) -> Ended:
    """The same by hand: the next section is merged if it can be, and left out if it cannot."""
    kept = "+refs/understudy/*:refs/understudy/*"
    words = ["git", "clone", "-q", "--no-checkout", str(world.folder), str(folder)]
    subprocess.run(words, check=True, capture_output=True)
    git = Git(folder)
    git.run("fetch", "-q", "origin", kept)
    git.run("checkout", "-q", "--detach", world.base)
    glued: list[str] = []
    paths: dict[str, tuple[str, ...]] = {}
    for name in _names(world):
        commit = git.text(
            "for-each-ref", "--format=%(objectname)", f"refs/understudy/section/{name}/"
        )
        if git.run("merge", "-q", "--no-edit", commit, env=WHO, allowed=(0, 1)).returncode:
            unmerged = git.text("diff", "--name-only", "--diff-filter=U").splitlines()
            paths[name] = tuple(sorted(set(unmerged)))
            git.run("merge", "--abort")
        else:
            glued.append(name)
    return Ended(git.text("rev-parse", "HEAD^{tree}"), tuple(glued), paths)
