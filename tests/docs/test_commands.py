"""What pages show on a console is what the commands print.

A block behind `<!-- run -->` is run, command by command, and compared; one of Python is just run.
The blocks of a page share a folder: `<!-- run: anew -->` begins in an empty one, `<!-- run: in NAME
-->` goes on in a folder below, and a block behind `<!-- file: NAME -->` is written there. A block
of Python behind `<!-- run: beside COMMAND -->` is run while that command of ours serves. In what a
page shows, `...` stands for any text, and alone on a line for any lines. Moments, digests, seconds
and names with a random part count as equal.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.patience import eventually
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.session import run

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_BLOCK = re.compile(r"<!-- (run|file)(?:: ([^>]+))? -->\n```(\w*)\n(.*?)```\n", re.DOTALL)
_ALIKE = {
    r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00": "MOMENT",
    r"\b(row1|st1|he1|pol1|instr1|wit1|dec1|proj1|delta1)_[0-9a-f.]+": "DIGEST",
    r"\bexec-[0-9a-f]{8}": "exec-NAME",
    r"\bfor \d+ s\b": "for SECONDS",
}
# What needs a process of its own: shells, and commands that start processes or read standard input.
_OUTSIDE = re.compile(r"[|<>&;$]|^(?!understudy )|^understudy (exec|up|down|dispatch|sql$)")


@dataclass(frozen=True, slots=True)
class Step:
    """A command as the page has it, and what it shows below."""

    command: str
    shown: str


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a page: a file to write, or commands to run."""

    what: str
    where: str
    language: str
    text: str

    def steps(self) -> Iterator[Step]:
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            words = re.match(r"(?:.*\\\n)*.*\n", part)
            assert words is not None
            command = re.sub(r"\s+#\s.*", "", words[0].replace("\\\n", " ")).strip()
            yield Step(command, part[words.end() :])


def blocks(page: Path) -> list[Block]:
    return [Block(*found) for found in _BLOCK.findall(page.read_text())]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name
)
def test_a_page_shows_what_its_commands_print(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in [name for name in os.environ if name.startswith("UNDERSTUDY_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "ada")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "ada@example.org")
    monkeypatch.setenv("THINK_SECONDS", "0")  # of the agent of the tutorial
    folders = (tmp_path / str(number) for number in range(100))
    _enter(next(folders), monkeypatch)
    for block in blocks(page):
        if block.what == "file":
            Path(block.where).write_text(block.text)
            continue
        if block.where.startswith("beside "):
            with _served(block.where.split()[1:]):
                exec(compile(block.text, page.name, "exec"), {})
            continue
        if block.where:
            below = block.where.removeprefix("in ")
            _enter(next(folders) if block.where == "anew" else Path(below), monkeypatch)
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), {})
            continue
        for step in block.steps():
            said = _said(step.command, capfd)
            assert _matches(said, step.shown), f"{page.name}: $ {step.command}\n{said}"


def test_what_is_shown_stands_for_what_differs_from_run_to_run() -> None:
    assert _matches("held by exec-00000000, fence 4\n", "held by exec-5b1f0c9e, fence 4\n")
    assert _matches(
        "until 2027-01-01T00:00:00+00:00 (row1_ab)\n",
        "until 2026-11-16T12:10:00.000+00:00 (row1_...)\n",
    )
    assert _matches("a\nb\nc\nd\n", "a\n...\nd\n")
    assert _matches("error: it is blocked; wait\n", "error: it is ...\n")
    assert not _matches("fence 5\n", "fence 4\n")
    assert not _matches("a\nb\n", "a\n")


@contextmanager
def _served(words: list[str]) -> Iterator[None]:
    """While a sidecar answers, and no longer."""
    with subprocess.Popen(["understudy", *words], stderr=subprocess.DEVNULL) as process:
        try:
            eventually(lambda: run(cli, ["authority", "status", *words[2:]]) == 0)
            yield
        finally:
            process.terminate()


def _enter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)


def _said(command: str, capfd: pytest.CaptureFixture[str]) -> str:
    """Standard output and standard error, in the order in which they came where a shell runs it."""
    if _OUTSIDE.search(command):
        done = subprocess.run(
            ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=60, check=False,
        )  # fmt: skip
        return done.stdout
    capfd.readouterr()
    run(cli, shlex.split(command)[1:])
    return "".join(capfd.readouterr())


def _matches(said: str, shown: str) -> bool:
    wanted = re.sub(r"^\.\.\.\n", "\1", _plain(shown), flags=re.MULTILINE).replace("...", "\0")
    pattern = re.escape(wanted).replace("\1", r"(?:.*\n)*").replace("\0", ".*")
    return re.fullmatch(pattern, _plain(said)) is not None


def _plain(text: str) -> str:
    for pattern, name in _ALIKE.items():
        text = re.sub(pattern, name, text)
    return text
