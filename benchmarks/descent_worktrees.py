"""How long a worktree of 10,000 files takes: ours, `git worktree add`, and `git clone --local`.

Each is made where nothing was deleted, and once more right after one of its kind was removed, as
it is when work goes on and on. All lie in one repository's folder, and none is fetched or cached
for another. `python -m benchmarks.descent_worktrees [FOLDER]` prints medians and ratios.
"""

import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.progress import Progress
from understudy.actors.descent.repository import Repository, survey
from understudy.actors.descent.worktree import Worktree, create, remove

FILES = 10_000
OURS, ADDED, CLONED = "understudy", "git worktree add", "git clone --local"
AFTER = ", after a removal"
_FOLDERS = 100
_WHO = ("-c", "user.name=bench", "-c", "user.email=bench@localhost")


def measure(folder: Path, rounds: int, progress: Progress) -> dict[str, list[float]]:
    """Seconds for each, a figure a round."""
    progress.say(f"worktrees: a repository of {FILES} files")
    repository = _filled(folder)
    ways: dict[str, Callable[[int], Callable[[], object]]] = {
        OURS: lambda number: _make_ours(repository, number),
        ADDED: lambda number: _add(repository, number),
        CLONED: lambda number: _clone(repository, number),
    }
    found: dict[str, list[float]] = {f"{name}{more}": [] for more in ("", AFTER) for name in ways}
    removals: dict[str, list[Callable[[], object]]] = {name: [] for name in ways}
    number = 0
    for more in ("", AFTER):  # nothing is removed before all of the first kind are made
        for each in range(rounds):
            for name, way in ways.items():
                progress.say(f"worktrees{more}, round {each + 1} of {rounds}: {name}")
                if more:
                    removals[name].pop(0)()
                number += 1
                begun = time.perf_counter()
                removals[name].append(way(number))
                found[f"{name}{more}"].append(time.perf_counter() - begun)
    return found


def _make_ours(repository: Repository, number: int) -> Callable[[], object]:
    made: Worktree = create(repository, f"us-{number}", number, repository.base)
    return lambda: remove(made)


def _add(repository: Repository, number: int) -> Callable[[], object]:
    path = repository.state_dir / "added" / str(number)
    _git(repository.top, "worktree", "add", "--quiet", "-b", f"added/{number}", path)
    return lambda: _git(repository.top, "worktree", "remove", "--force", path)


def _clone(repository: Repository, number: int) -> Callable[[], object]:
    path = repository.state_dir / "cloned" / str(number)
    _git(repository.top, "clone", "--quiet", "--local", ".", path)
    return lambda: shutil.rmtree(path)


def _filled(folder: Path) -> Repository:
    top, state_dir = folder / "repository", folder / "repository" / ".premath"
    state_dir.mkdir(parents=True)
    (state_dir / ".gitignore").write_text("*\n")
    for name in range(_FOLDERS):
        (top / f"d{name}").mkdir()
        for number in range(FILES // _FOLDERS):
            (top / f"d{name}" / f"f{number}.py").write_text(f"value = {name * number}\n" * 40)
    _git(top, "init", "--quiet", "--initial-branch", "main")
    _git(top, "add", "--all")
    _git(top, *_WHO, "commit", "--quiet", "--message", "start")
    _git(top, "repack", "-a", "-d", "--quiet")
    return survey(top, state_dir)


def _git(folder: Path, *words: str | Path) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def as_rows(found: dict[str, list[float]]) -> list[list[str]]:
    """For a table: the way, its median, and how it stands to ours."""
    rows = []
    for name, each in found.items():
        ours = statistics.median(found[OURS + AFTER if name.endswith(AFTER) else OURS])
        median = statistics.median(each)
        rows.append([name, f"{1000 * median:,.0f}", f"{median / ours:.2f}"])
    return rows


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if sys.argv[1:] else "/var/tmp") as scratch:
        for row in as_rows(measure(Path(scratch), 5, Progress())):
            print("{:40}{:>8} ms {:>8} x".format(*row))
