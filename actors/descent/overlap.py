"""Says whether two sections agree where they meet: at once, after a merge, or not.

Sections that touch no common path agree, and are not merged to learn it. Two more ways to meet have
no path in common, and are looked for: a file where the other side has a folder, and a new file in
a folder that the other side has moved away. All that meet are merged by one process of git, in a
scratch folder; no working tree, no index and no object of the repository is touched.

A section on a later base carries what its target had by then, so a conflict with it may be one with
the target; whoever asks for the overlap of section and target sees that as well.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from .git import Git, GitRefused, spelled
from .merge_tree import Note, Scratch, Stage, TreeMerge, scratch

HUNKS_LENGTH_MAX: Final = 4_096  # characters of one path's hunks
HUNKS_PATHS_MAX: Final = 32  # paths of one overlap whose hunks are shown
HUNKS_BYTES_MAX: Final = 1 << 18  # a larger file is not searched for hunks
_MERGED_MAX: Final = 512  # pairs whose objects lie in the scratch folder at once
_READ_MAX: Final = 128  # files that are read at once
_GONE: Final = b"000000"
_CONFLICT: Final = "CONFLICT ("
_NOBODY: Final = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "understudy"), ("EMAIL", "understudy"), ("DATE", "@0 +0000"))
}


class Agreement(StrEnum):
    """How two sides stand to each other."""

    AGREE = "agree"  # nothing in common, or the same change
    MERGE = "merge"  # git merges what they have in common
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class SectionCommit:
    """One section: its name for people, the commit it began at and the one it ended with."""

    name: str
    base: str
    commit: str


@dataclass(frozen=True, slots=True)
class Clash:
    """A path that does not merge: what git calls it, what each side has, and which lines."""

    path: str
    kind: str
    stages: tuple[Stage, ...]
    note: str
    hunks: str


@dataclass(frozen=True, slots=True)
class MergeOverlap:
    """Two commits where they meet. There is no tree where none had to be made."""

    left: str
    right: str
    verdict: Agreement
    paths: tuple[str, ...]  # that both sides touched
    tree: str | None
    clashes: tuple[Clash, ...] = ()

    @property
    def digest(self) -> str:
        """Of what does not depend on git's texts: equal for equal commits, on every machine."""
        parts = [[each.path, each.kind, *map(_stage_text, each.stages)] for each in self.clashes]
        whole = [self.left, self.right, self.verdict, list(self.paths), parts]
        return hashlib.sha256(json.dumps(whole, ensure_ascii=True).encode()).hexdigest()


def overlap(git: Git, left: str, right: str, base: str | None = None) -> MergeOverlap:
    """Two commits on their common base, or on the one that is named; the tree is not kept."""
    left, right = _known(git, left), _known(git, right)
    begin = _known(git, base) if base is not None else _common(git, left, right)
    with scratch(git, begin or left, is_kept=False) as place:
        sides = (left, right)
        if base is not None:
            sides = (_rooted(place, left, begin), _rooted(place, right, begin))
        merged = place.merge([sides])[0]
        touched = _touched(place, [(begin, left), (begin, right)])
        labels = ((sides[0], left), (sides[1], right))
        return _judged(place, [(merged, labels, touched[0].meets(touched[1]))])[0]


def overlaps(git: Git, sections: Sequence[SectionCommit]) -> list[MergeOverlap]:
    """Every pair that meets, in the order of the sections. Pairs that are left out agree."""
    if not sections:
        return []
    known = _all_known(git, [name for each in sections for name in (each.base, each.commit)])
    ends = [(known[each.base], known[each.commit]) for each in sections]
    with ExitStack() as opened:
        place = opened.enter_context(scratch(git, ends[0][0], is_kept=False))
        places = {ends[0][0]: place}
        touched = _touched(place, ends)
        found: dict[tuple[int, int], MergeOverlap] = {}
        asked: dict[str, list[tuple[int, int]]] = {}
        for pair in sorted(_meetings(touched)):
            (base, left), (_, right) = (ends[each] for each in pair)
            meets = touched[pair[0]].meets(touched[pair[1]])
            if meets.is_plainly_same:
                paths = tuple(map(spelled, meets.paths))
                found[pair] = MergeOverlap(left, right, Agreement.AGREE, paths, None)
            else:
                asked.setdefault(base, []).append(pair)
        for base, pairs in asked.items():
            if base not in places:
                places[base] = opened.enter_context(scratch(git, base, is_kept=False))
            for at in range(0, len(pairs), _MERGED_MAX):
                some = pairs[at : at + _MERGED_MAX]
                merged = _merged(places[base], [(ends[one][1], ends[two][1]) for one, two in some])
                cases = [
                    (each, labels, touched[one].meets(touched[two]))
                    for (each, labels), (one, two) in zip(merged, some, strict=True)
                ]
                found.update(zip(some, _judged(places[base], cases), strict=True))
                places[base].forget()
        return [found[pair] for pair in sorted(found)]


def _merged(
    place: Scratch, commits: Sequence[tuple[str, str]]
) -> Iterator[tuple[TreeMerge, "tuple[Label, Label]"]]:
    for each, (left, right) in zip(place.merge(commits), commits, strict=True):
        yield each, ((left, left), (right, right))


@dataclass(frozen=True, slots=True)
class _Meets:
    """Paths that both touched, and whether both did the same to all of them."""

    paths: tuple[bytes, ...]
    is_same: bool
    is_plainly_same: bool  # and no rename can be behind it: there is no need to ask git


@dataclass(frozen=True, slots=True)
class _Touched:
    """What a section did: mode and object of each path after it, and what is new or gone."""

    after: Mapping[bytes, tuple[bytes, bytes]]
    added: frozenset[bytes]
    gone: frozenset[bytes]
    gone_folders: frozenset[bytes] = field(default=frozenset())

    def meets(self, other: "_Touched") -> _Meets:
        paths = tuple(sorted(self.after.keys() & other.after.keys()))
        is_same = all(self.after[path] == other.after[path] for path in paths)
        is_plain = bool(paths) and not (self.gone or other.gone)
        is_plain = is_plain and not (_is_inside(self, other) or _is_inside(other, self))
        return _Meets(paths, is_same, is_same and is_plain)


def _is_inside(one: _Touched, other: _Touched) -> bool:
    return any(above in other.after for path in one.added for above in _above(path))


def _meetings(sections: Sequence[_Touched]) -> set[tuple[int, int]]:
    """The pairs that may not agree, by an index of paths; in no order."""
    touching: dict[bytes, list[int]] = {}
    moving: dict[bytes, list[int]] = {}
    for number, each in enumerate(sections):
        for path in each.after:
            touching.setdefault(path, []).append(number)
        for folder in each.gone_folders:
            moving.setdefault(folder, []).append(number)
    found: set[tuple[int, int]] = set()
    for numbers in touching.values():
        found.update((one, two) for at, one in enumerate(numbers) for two in numbers[at + 1 :])
    for number, each in enumerate(sections):
        for folder in {above for path in each.added for above in _above(path)}:
            for other in (*touching.get(folder, ()), *moving.get(folder, ())):
                if other != number:
                    found.add((min(number, other), max(number, other)))
    return found


def _above(path: bytes) -> Iterator[bytes]:
    """Every folder that a path lies in."""
    while b"/" in path:
        path = path.rpartition(b"/")[0]
        yield path


def _touched(place: Scratch, ends: Sequence[tuple[str | None, str]]) -> list[_Touched]:
    """What lies between each two commits, by two processes for all of them."""
    found: list[_Touched] = []
    for changes in _changes(place, _trees(place, ends)):
        after, added, gone = {}, set(), set()
        for about, path in changes:
            before_mode, mode, _, object_id, _ = about.removeprefix(b":").split(b" ")
            after[path] = (mode, object_id)
            if mode == _GONE:
                gone.add(path)
            elif before_mode == _GONE:
                added.add(path)
        found.append(_Touched(after, frozenset(added), frozenset(gone)))
    return _with_gone_folders(place, found, [commit for _, commit in ends])


def _trees(place: Scratch, ends: Sequence[tuple[str | None, str]]) -> list[bytes]:
    """A line of two trees for each; commits without a common base begin at the empty tree."""
    empty = place.run("hash-object", "-w", "-t", "tree", "--stdin").strip()
    asked = "".join(f"{each}^{{tree}}\n" for pair in ends for each in pair if each is not None)
    trees = iter(place.run("cat-file", "--batch-check=%(objectname)", stdin=asked.encode()).split())
    return [(empty if base is None else next(trees)) + b" " + next(trees) for base, _ in ends]


def _changes(place: Scratch, lines: Sequence[bytes]) -> Iterator[list[tuple[bytes, bytes]]]:
    """The raw changes of each line of two trees: what is said of a path, and the path."""
    words = ("diff-tree", "--stdin", "-r", "-z", "--raw", "--no-renames", "--no-abbrev")
    said = place.run(*words, stdin=b"".join(line + b"\n" for line in lines))
    for line in lines:
        if not said.startswith(line + b"\n"):
            raise GitRefused("git diff-tree: the answer does not follow the question")
        said = said[len(line) + 1 :]
        changes: list[tuple[bytes, bytes]] = []
        while said.startswith(b":"):
            about, path, said = said.split(b"\0", 2)
            changes.append((about, path))
        yield changes


def _with_gone_folders(
    place: Scratch, found: Sequence[_Touched], commits: Sequence[str]
) -> list[_Touched]:
    """With the folders that a section emptied and may have moved: only then it added files."""
    asked = [
        (number, folder)
        for number, each in enumerate(found)
        if each.added
        for folder in sorted({above for path in each.gone for above in _above(path)})
    ]
    names = [commits[number].encode() + b":" + folder for number, folder in asked]
    gone: dict[int, set[bytes]] = {}
    for (number, folder), is_there in zip(asked, _are_there(place, names), strict=True):
        if not is_there:
            gone.setdefault(number, set()).add(folder)
    return [
        _Touched(each.after, each.added, each.gone, frozenset(gone.get(number, ())))
        for number, each in enumerate(found)
    ]


def _are_there(place: Scratch, names: Sequence[bytes]) -> Iterator[bool]:
    if not names:
        return
    asked = b"".join(name + b"\0" for name in names)
    said = place.run("cat-file", "--batch-check=found", "-z", stdin=asked)
    for name in names:
        missing = name + b" missing\n"
        is_missing = said.startswith(missing)
        said = said[len(missing if is_missing else b"found\n") :]
        yield not is_missing


Label = tuple[str, str]  # a side as git was told, and as it is shown
Case = tuple[TreeMerge, tuple[Label, Label], _Meets]


def _judged(place: Scratch, cases: Sequence[Case]) -> list[MergeOverlap]:
    """What git's merges say; the files with conflicts are read by few processes for all of them."""
    names = [
        merged.tree.encode() + b":" + path
        for merged, _, _ in cases
        if not merged.is_clean
        for path in _unmerged(merged)[:HUNKS_PATHS_MAX]
    ]
    bodies: Iterator[bytes | None] = (
        body
        for at in range(0, len(names), _READ_MAX)
        for body in place.read(names[at : at + _READ_MAX], HUNKS_BYTES_MAX)
    )
    return [_verdict(*case, bodies) for case in cases]


def _verdict(
    merged: TreeMerge,
    labels: tuple[Label, Label],
    meets: _Meets,
    bodies: Iterator[bytes | None],
) -> MergeOverlap:
    (_, left), (_, right) = labels
    paths = tuple(map(spelled, meets.paths))
    if merged.is_clean:
        verdict = Agreement.AGREE if meets.is_same else Agreement.MERGE
        return MergeOverlap(left, right, verdict, paths, merged.tree)
    clashes = tuple(
        _clash(merged, path, labels, next(bodies) if number < HUNKS_PATHS_MAX else None)
        for number, path in enumerate(_unmerged(merged))
    )
    return MergeOverlap(left, right, Agreement.CONFLICT, paths, merged.tree, clashes)


def _unmerged(merged: TreeMerge) -> list[bytes]:
    """Every path that did not merge; where git lists none, the ones that it complains of."""
    listed = merged.stages or {
        note.paths[0] for note in merged.notes if note.paths and note.word.startswith(_CONFLICT)
    }
    return sorted(listed)


def _clash(
    merged: TreeMerge, path: bytes, labels: tuple[Label, Label], body: bytes | None
) -> Clash:
    notes = [
        note for note in merged.notes if note.word.startswith(_CONFLICT) and path in note.paths
    ]
    stages = merged.stages.get(path, ())
    text = "\n".join(note.text for note in notes)
    for told, true in labels:
        text = text.replace(told, true)
    return Clash(
        _shown(path, labels),
        _kind(notes, stages),
        stages,
        text[:HUNKS_LENGTH_MAX],
        _hunks(body or b"", *labels),
    )


def _shown(path: bytes, labels: Iterable[Label]) -> str:
    """Git puts a file aside under its path and the name of a side."""
    for told, true in labels:
        path = path.replace(b"~" + told.encode(), b"~" + true.encode())
    return spelled(path)


def _kind(notes: Sequence[Note], stages: Sequence[Stage]) -> str:
    """As git calls it, the most exact word first; git has one word for two kinds of content."""
    words = [each.word.removeprefix(_CONFLICT).rstrip(")") for each in notes]
    exact = [word for word in words if word != "contents"]
    if exact:
        return exact[0]
    return "content" if any(each.number == 1 for each in stages) or not stages else "add/add"


def _hunks(body: bytes, left: Label, right: Label) -> str:
    """The lines between git's markers, with the markers, as text and no more than a page."""
    begin, end = b"<<<<<<< " + left[0].encode(), b">>>>>>> " + right[0].encode()
    kept: list[bytes] = []
    is_inside = False
    for number, line in enumerate(body.split(b"\n"), 1):
        if line.startswith(begin):
            is_inside = True
            kept += [b"@@ line %d" % number, b"<<<<<<< " + left[1].encode() + line[len(begin) :]]
        elif is_inside and line.startswith(end):
            is_inside = False
            kept.append(b">>>>>>> " + right[1].encode() + line[len(end) :])
        elif is_inside:
            kept.append(line)
    text = b"\n".join(kept).decode(errors="backslashreplace")
    cut = "\n(cut here)"
    return text if len(text) <= HUNKS_LENGTH_MAX else text[: HUNKS_LENGTH_MAX - len(cut)] + cut


def _stage_text(stage: Stage) -> str:
    return f"{stage.number} {stage.mode} {stage.object_id}"


def _known(git: Git, name: str) -> str:
    found = git.commit(name)
    if found is None:
        raise GitRefused(f"{name}: git knows no such commit; `git log --all` shows what there is")
    return found


def _all_known(git: Git, names: Iterable[str]) -> dict[str, str]:
    """The commit that each name stands for, by one process."""
    asked = sorted(set(names))
    stdin = b"".join(f"{each}^{{commit}}\0".encode() for each in asked)
    said = git.run("cat-file", "--batch-check=%(objectname)", "-z", stdin=stdin).stdout.decode()
    rows = said.split("\n")[:-1]
    for name, row in zip(asked, rows, strict=False):
        if " " in row or len(rows) != len(asked):
            raise GitRefused(f"{name}: git knows no such commit; was it pruned?")
    return dict(zip(asked, rows, strict=True))


def _common(git: Git, left: str, right: str) -> str | None:
    """The (first) common base; none where the histories have nothing in common."""
    said = git.run("merge-base", left, right, allowed=(0, 1)).stdout.decode()
    return said.split("\n")[0] or None


def _rooted(place: Scratch, commit: str, base: str | None) -> str:
    """A commit's tree right upon another base: git 2.39 cannot be told a base, only shown one."""
    tree = place.run("rev-parse", f"{commit}^{{tree}}").decode().strip()
    return place.commit_tree(tree, [base] if base is not None else [], b"", _NOBODY)
