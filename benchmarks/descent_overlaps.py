"""The overlaps of 100 sections, pair by pair: ours beside one `git merge-tree` for each pair.

That is the faster of the naive ways; a `git merge` in a working tree also writes its files. It runs
on a sample of the pairs and is scaled to all 4,950, for it would take longer than all the rest.
Ours is measured where some sections meet, and where every section meets every other.
"""

import itertools
import random
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.progress import Progress
from understudy.actors.descent.git import Git
from understudy.actors.descent.overlap import SectionCommit, overlaps

NAIVE = "one git for each pair"
CROWDS = {"some meet": 40, "all meet": 1}  # files of which each section changes one
_SECTIONS = 100
_FILES = 2_000
_LINES = 60


def measure(folder: Path, rounds: int, sample: int, progress: Progress) -> dict[str, list[float]]:
    """Seconds for all pairs, a figure a round."""
    found: dict[str, list[float]] = {name: [] for name in (NAIVE, *CROWDS)}
    for number in range(rounds):
        for name, crowd in CROWDS.items():
            progress.say(f"overlaps, round {number + 1} of {rounds}: {name}")
            git, sections = _made(folder, crowd)
            begun = time.perf_counter()
            overlaps(git, sections)
            found[name].append(time.perf_counter() - begun)
        progress.say(f"overlaps, round {number + 1} of {rounds}: {NAIVE}")
        found[NAIVE].append(_naive_s(git, sections, sample))
    shutil.rmtree(folder)
    return found


def _naive_s(git: Git, sections: list[SectionCommit], sample: int) -> float:
    pairs = list(itertools.combinations(sections, 2))
    tried = pairs[:: len(pairs) // sample]
    begun = time.perf_counter()
    for left, right in tried:
        git.run("merge-tree", "--write-tree", left.commit, right.commit, allowed=(0, 1))
    return (time.perf_counter() - begun) * len(pairs) / len(tried)


def _made(folder: Path, crowd: int) -> tuple[Git, list[SectionCommit]]:
    """A new repository: nothing that was merged before may be found again."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    git = Git(folder)
    git.run("init", "-q", "-b", "main")
    git.run("fast-import", "--quiet", stdin=b"".join(_stream(crowd)))
    base = git.text("rev-parse", "main")
    names = [f"section-{number}" for number in range(_SECTIONS)]
    commits = git.text("rev-parse", *names).split()
    return git, [SectionCommit(*each) for each in zip(names, itertools.repeat(base), commits)]


def _stream(crowd: int) -> Iterator[bytes]:
    """Each section changes a line in five files, and one in a file that others change too."""
    chance = random.Random(crowd)
    paths = [f"folder-{number // 40}/file-{number % 40}" for number in range(_FILES)]
    yield b"commit refs/heads/main\nmark :1\ncommitter a <a> 0 +0000\ndata 0\n"
    for path in paths:
        yield _file(path, [f"line {number} of {path}" for number in range(_LINES)])
    for number in range(_SECTIONS):
        yield f"commit refs/heads/section-{number}\ncommitter a <a> 0 +0000\n".encode()
        yield b"data 0\nfrom :1\n"
        for path in sorted({*chance.sample(paths, 5), chance.choice(paths[:crowd])}):
            rows = [f"line {each} of {path}" for each in range(_LINES)]
            rows[chance.randrange(_LINES)] = f"changed by {number}"
            yield _file(path, rows)


def _file(path: str, rows: list[str]) -> bytes:
    body = "\n".join(rows).encode()
    return f"M 100644 inline {path}\ndata {len(body)}\n".encode() + body + b"\n"
