"""Brings the files of a checked-out branch from one commit to another, or leaves all of them alone.

C1  no file is overwritten or removed that is not, byte for byte, in the old or the new commit;
    that holds for ignored files too, which git itself would overwrite
C2  a tree that was left half way between the two, by a kill, is no dirty tree: it is finished
C3  of several trees all are brought up, or none
"""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from .git import Git, GitRefused, spelled

_NAMED_MAX: Final = 5  # paths that a text names
_GONE: Final = "000000"
_SUBMODULE: Final = "160000"
_LINK: Final = "120000"
_EXECUTABLE: Final = "100755"


class Dirty(GitRefused):
    """The branch is checked out, and the files there are not as it has them."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What a commit has at a path."""

    mode: str
    object_id: str


class Checkout:
    """One working tree, by its top folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._git = Git(folder)

    def ahead(self, old: str, new: str) -> list[bytes]:
        """Paths that are at `new` already, though not in the index; `Dirty` for foreign ones."""
        wanted = self._wanted(old, new)
        if self._git.run("rev-parse", "--quiet", "--verify", "MERGE_HEAD", allowed=(0, 1)).stdout:
            raise Dirty(
                f"{self.folder}: a merge is under way there; finish it or `git merge --abort`"
            )
        # Exit code 1 says that something differs, which is looked at below.
        words = ("update-index", "-q", "--ignore-submodules", "--refresh")
        self._git.run(*words, allowed=(0, 1), is_apart=True)
        staged = self._raw("diff-index", "--cached", old)
        foreign = [path for path, entry in staged if wanted.get(path) != entry]
        found: list[bytes] = []
        changed = [path for path, _ in self._raw("diff-files")]
        new_paths = [path for path in self._added(old, new) if path not in dict(staged)]
        for path in (*changed, *new_paths):
            entry = wanted.get(path)
            if entry is not None and self._is_at(path, entry):
                found.append(path)
            elif path in changed or self._is_in_the_way(path, wanted):
                foreign.append(path)
        if foreign:
            raise Dirty(_dirty(self.folder, sorted(set(foreign))))
        return found

    def bring_up(self, old: str, new: str, ahead: Sequence[bytes]) -> None:
        """Index and files from one commit to the other; git looks once more before it writes."""
        if ahead:
            stdin = b"".join(path + b"\0" for path in ahead)
            words = ("update-index", "--add", "--remove", "--replace", "-z", "--stdin")
            self._git.run(*words, stdin=stdin, is_apart=True)
        try:
            self._git.run("read-tree", "-m", "-u", old, new, is_apart=True)
        except GitRefused as error:
            raise Dirty(f"{self.folder}: {error}; commit or stash there first") from None

    def _wanted(self, old: str, new: str) -> dict[bytes, Entry]:
        return dict(self._raw("diff-tree", "-r", old, new))

    def _added(self, old: str, new: str) -> list[bytes]:
        return [path for path, _ in self._raw("diff-tree", "-r", "--diff-filter=A", old, new)]

    def _raw(self, *words: str) -> list[tuple[bytes, Entry]]:
        """Paths that differ, and what is there now; what is in a submodule is its owner's."""
        shape = ["--raw", "-z", "--no-renames", "--no-abbrev"]
        if words[0] != "diff-tree":
            shape.append("--ignore-submodules")
        said = self._git.run(words[0], *shape, *words[1:], "--").stdout.split(b"\0")[:-1]
        found: dict[bytes, Entry] = {}
        for about, path in zip(said[::2], said[1::2], strict=True):
            _, mode, _, object_id, status = about.decode().split(" ")
            # An unmerged path has an entry that no commit has.
            found.setdefault(path, Entry("" if status == "U" else mode, object_id))
        return list(found.items())

    def _is_at(self, path: bytes, entry: Entry) -> bool:
        """Whether the file is what the commit has, as git would store it."""
        place = self.folder / os.fsdecode(path)
        try:
            mode = place.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return entry.mode == _GONE
        if stat.S_ISLNK(mode):
            stdin = os.fsencode(place.readlink())
            said = self._git.run("hash-object", "--stdin", stdin=stdin).stdout.decode()
            return entry.mode == _LINK and said.strip() == entry.object_id
        if not stat.S_ISREG(mode) or entry.mode in (_GONE, _LINK, _SUBMODULE):
            return False
        is_executable = bool(mode & stat.S_IXUSR)
        said = self._git.text("hash-object", "--", os.fsdecode(path))
        return said == entry.object_id and is_executable == (entry.mode == _EXECUTABLE)

    def _is_in_the_way(self, path: bytes, wanted: dict[bytes, Entry]) -> bool:
        """Whether something lies where a new file belongs, that is not about to go (C1)."""
        place = self.folder / os.fsdecode(path)
        above = path
        while b"/" in above:
            above = above.rpartition(b"/")[0]
            higher = self.folder / os.fsdecode(above)
            if os.path.lexists(higher) and (higher.is_symlink() or not higher.is_dir()):
                return not _goes(above, wanted)
        if not os.path.lexists(place):
            return False
        if place.is_symlink() or not place.is_dir():
            return True
        if wanted[path].mode == _SUBMODULE:
            return False
        return not all(_goes(each, wanted) for each in _below(place, self.folder))


@contextmanager
def brought_up(trees: Sequence[Checkout], old: str, new: str) -> Iterator[None]:
    """All trees at the new commit within; back at the old one where that, or the rest, fails."""
    ahead = [tree.ahead(old, new) for tree in trees]
    done: list[Checkout] = []
    try:
        for tree, paths in zip(trees, ahead, strict=True):
            tree.bring_up(old, new, paths)
            done.append(tree)
        yield
    except Exception:
        for tree in done:
            tree.bring_up(new, old, ())
        raise


def _goes(path: bytes, wanted: dict[bytes, Entry]) -> bool:
    return path in wanted and wanted[path].mode == _GONE


def _below(place: Path, top: Path) -> Iterator[bytes]:
    for folder, _, names in os.walk(place):
        for name in names:
            yield os.fsencode(os.path.relpath(Path(folder) / name, top))


def _dirty(folder: Path, paths: Sequence[bytes]) -> str:
    named = ", ".join(map(spelled, paths[:_NAMED_MAX]))
    more = f" and {len(paths) - _NAMED_MAX} more" if len(paths) > _NAMED_MAX else ""
    return (
        f"{folder} has the branch checked out and changes of its own: {named}{more}. "
        "Nothing was moved; commit, stash or move them away there, or check out another branch"
    )
