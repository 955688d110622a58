"""Merges commits without a working tree and without an index, many pairs in one process of git.

The same commits give the same result on every machine: the user's settings of merges do not count,
and attributes are read from one commit, never from the files that happen to be checked out.
A merge driver that the repository's own configuration names is run, as `git merge` would run it.

What is written is either kept in the repository, or lies in a scratch folder and goes with it: to
look at a thousand pairs must not leave a thousand trees behind.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from shutil import disk_usage, rmtree
from typing import Final, Self

from .git import Git, GitRefused

ATTRIBUTES_BYTES_MAX: Final = 1 << 20  # of one `.gitattributes`
_PREFIX: Final = "understudy-merge-"
_SHARED: Final = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
_SHARED_BYTES_MIN: Final = 1 << 28
_ATTRIBUTES: Final = b".gitattributes"
_FILES: Final = (b"100644", b"100755")
# What a user may have set otherwise, spelled out as git has it by default.
_SETTINGS: Final = {
    "merge.renames": "true",
    "merge.directoryRenames": "conflict",
    "merge.renameLimit": "7000",
    "merge.conflictStyle": "merge",
    "merge.renormalize": "false",
    "core.attributesFile": os.devnull,
    "i18n.commitEncoding": "UTF-8",
}
# What is soon forgotten need not be small, nor safe from a power cut.
_FORGOTTEN: Final = {"core.looseCompression": "0", "core.fsync": "none"}


@dataclass(frozen=True, slots=True)
class Stage:
    """What one side has at a path that did not merge: 1 is the base, 2 the left, 3 the right."""

    number: int
    mode: str
    object_id: str


@dataclass(frozen=True, slots=True)
class Note:
    """What git says of some paths: a stable word for it, and a text."""

    paths: tuple[bytes, ...]
    word: str
    text: str


@dataclass(frozen=True, slots=True)
class TreeMerge:
    """Two commits merged: the tree, and what did not merge in it."""

    tree: str
    is_clean: bool
    stages: dict[bytes, tuple[Stage, ...]] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


class Scratch:
    """A place to merge in; made by `scratch`. Objects go to the first folder that takes them."""

    def __init__(self, folder: Path, env: dict[str, str], objects: Sequence[Path] = ()) -> None:
        self._git = Git(folder)
        self._env = env
        self._objects = list(objects)
        self._use_first()

    def forget(self) -> None:
        """Whatever was merged so far; what is kept stays."""
        for each in self._objects[:1]:
            rmtree(each)
            each.mkdir()

    def _use_first(self) -> None:
        for each in self._objects[:1]:
            self._env["GIT_OBJECT_DIRECTORY"] = str(each)

    def merge(self, pairs: Sequence[tuple[str, str]]) -> list[TreeMerge]:
        """Each pair of commit ids merged, in order. Without a common history the base is empty."""
        if not pairs:
            return []
        lines = "".join(f"{left} {right}\n" for left, right in pairs).encode()
        # `--messages` is said aloud: left out, git 2.39 lets the first pair decide for all others.
        words = ("merge-tree", "--write-tree", "--stdin", "-z", "--messages")
        try:
            said = self.run(*words, "--allow-unrelated-histories", stdin=lines)
        except GitRefused:
            if len(self._objects) < 2:
                raise
            self._objects.pop(0)  # the memory may have been too small for it
            self._use_first()
            return self.merge(pairs)
        found = list(_parsed(said))
        if len(found) != len(pairs):
            raise GitRefused(f"git merge-tree: {len(pairs)} pairs in, {len(found)} merges out")
        return found

    def run(self, *words: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> bytes:
        """What git prints here, where it sees what `merge` wrote."""
        return self._git.run(*words, stdin=stdin, env={**self._env, **(env or {})}).stdout

    def commit_tree(
        self, tree: str, parents: Sequence[str], message: bytes, who: Mapping[str, str]
    ) -> str:
        """A commit whose id depends on these words alone; nothing is signed."""
        words = [word for parent in parents for word in ("-p", parent)]
        return (
            self.run("commit-tree", "--no-gpg-sign", tree, *words, stdin=message, env=who)
            .decode()
            .strip()
        )

    def read(self, names: Sequence[bytes], bytes_max: int) -> list[bytes | None]:
        """The blobs of those names (`<tree>:<path>`); nothing where it is none, or is too large."""
        if not names:
            return []
        asked = b"".join(name + b"\0" for name in names)
        sizes = self.run("cat-file", "--batch-check=%(objecttype) %(objectsize)", "-z", stdin=asked)
        fits = [_is_blob_within(row, bytes_max) for row in _rows(sizes, names)]
        wanted = b"".join(name + b"\0" for name, fit in zip(names, fits, strict=True) if fit)
        bodies = _bodies(self.run("cat-file", "--batch=%(objectsize)", "-z", stdin=wanted))
        return [next(bodies) if fit else None for fit in fits]


@contextmanager
def scratch(git: Git, attributes: str, *, is_kept: bool) -> Iterator[Scratch]:
    """A place to merge in, with the attributes of one commit; its objects are kept or forgotten."""
    common = Path(git.text("rev-parse", "--path-format=absolute", "--git-common-dir"))
    with ExitStack() as opened:
        made = [
            Path(opened.enter_context(tempfile.TemporaryDirectory(prefix=_PREFIX, dir=each)))
            for each in (None, *(() if is_kept else _memory()))
        ]
        tree = made[0] / "tree"
        tree.mkdir()
        env = {
            "GIT_DIR": str(common),
            "GIT_WORK_TREE": str(tree),
            "GIT_INDEX_FILE": str(made[0] / "index"),
            "GIT_ATTR_NOSYSTEM": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
        }
        settings = _SETTINGS if is_kept else _SETTINGS | _FORGOTTEN
        env["GIT_CONFIG_COUNT"] = str(len(settings))
        for number, (name, value) in enumerate(settings.items()):
            env |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
        objects = [] if is_kept else [each / "objects" for each in reversed(made)]
        for each in objects:
            each.mkdir()
            others = (common / "objects", *objects)
            env["GIT_ALTERNATE_OBJECT_DIRECTORIES"] = os.pathsep.join(map(_listed, others))
        place = Scratch(tree, env, objects)
        _lay_attributes(place, tree, attributes)
        yield place


def _memory() -> Iterator[Path]:
    """A folder in memory, if there is one with room: a merge mostly makes small files."""
    with suppress(OSError):
        if os.access(_SHARED, os.W_OK) and disk_usage(_SHARED).free >= _SHARED_BYTES_MIN:
            yield _SHARED


def _listed(path: Path) -> str:
    """A folder in a list that knows quotes and parts at colons."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lay_attributes(place: Scratch, tree: Path, commit: str) -> None:
    """Git reads attributes from files; so the commit's own are laid where it looks."""
    found: dict[bytes, bytes] = {}
    for row in place.run("ls-tree", "-r", "-z", commit).split(b"\0")[:-1]:
        about, path = row.split(b"\t", 1)
        mode, _, blob = about.split(b" ")
        if path.rpartition(b"/")[2] == _ATTRIBUTES and mode in _FILES:
            found[path] = blob
    bodies = place.read(list(found.values()), ATTRIBUTES_BYTES_MAX)
    for path, body in zip(found, bodies, strict=True):
        below = PurePosixPath(os.fsdecode(path))
        if body is None or below.is_absolute() or ".." in below.parts:
            continue
        (tree / below).parent.mkdir(parents=True, exist_ok=True)
        (tree / below).write_bytes(body)


class _Fields:
    """Reads what git parts by NUL, one after the other."""

    def __init__(self, said: bytes) -> None:
        self._left = iter(said.split(b"\0")[:-1])

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> bytes:
        return next(self._left)

    def until_empty(self) -> Iterator[bytes]:
        """Up to the empty one that ends a list."""
        for each in self._left:
            if not each:
                return
            yield each


def _parsed(said: bytes) -> Iterator[TreeMerge]:
    """The output of `merge-tree --stdin -z --messages`, merge by merge."""
    fields = _Fields(said)
    for status in fields:
        tree = next(fields).decode()
        stages: dict[bytes, list[Stage]] = {}
        for row in fields.until_empty():
            about, path = row.split(b"\t", 1)
            mode, object_id, number = about.decode().split(" ")
            stages.setdefault(path, []).append(Stage(int(number), mode, object_id))
        # Git 2.39 puts plain advice on submodules before the NUL that ends the merge.
        counts = takewhile(bytes.isdigit, fields)
        notes = [_note(count, fields) for count in counts]
        frozen = {path: tuple(each) for path, each in stages.items()}
        yield TreeMerge(tree, status == b"1", frozen, tuple(notes))


def _note(count: bytes, fields: _Fields) -> Note:
    paths = tuple(next(fields) for _ in range(int(count)))
    word, text = next(fields), next(fields)
    return Note(paths, word.decode(), text.decode(errors="backslashreplace").strip())


def _rows(said: bytes, names: Sequence[bytes]) -> Iterator[bytes]:
    """A row for each name; where git knows none it repeats the name, which may have newlines."""
    rest = said
    for name in names:
        missing = name + b" missing\n"
        row, rest = (b"", rest[len(missing) :]) if rest.startswith(missing) else _halves(rest)
        yield row


def _halves(said: bytes) -> tuple[bytes, bytes]:
    row, _, rest = said.partition(b"\n")
    return row, rest


def _is_blob_within(row: bytes, bytes_max: int) -> bool:
    kind, _, size = row.partition(b" ")
    return kind == b"blob" and int(size) <= bytes_max


def _bodies(said: bytes) -> Iterator[bytes]:
    while said:
        size, said = _halves(said)
        yield said[: int(size)]
        said = said[int(size) + 1 :]
