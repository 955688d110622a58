"""Pages name files that exist, words that the code has, and a run of the demo as it is printed."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]

_PATH = re.compile(
    r"`((?:actors|authority|benchmarks|contracts|docs|native|src|surfaces|tests)/[\w./-]*)`"
)
_MOMENT = r"[ \d]{2}\d\.\d s  "
_DEMO = re.compile(
    rf"{_MOMENT}(?:"
    r"tree     up: an authority, an evidence writer, a dispatcher, 4 workers|"
    r"[a-z ]{8} claimed by coord/[0-9a-f]{8}/\d+, fence \d+(?:, attempt 2)?|"
    r"[a-z ]{8} is done|"
    r"types    its worker is frozen \(SIGSTOP\)|"
    r"(?:parser  |footer  ) its worker is killed \(SIGKILL\)|"
    r"types    the frozen one writes with fence \d+|"
    r"tree     up again: 4 workers with a worktree each, and a gluer for `main`|"
    r"footer   who had it before says with fence \d+ that it is done|"
    r"(?:heading |title   ) does not fit: page\.md, with (?:heading|title)/\d+|"
    r"[a-z ]{8} is in main|"
    r"sleeper  a gluer that slept moves main with fence \d+|"
    r"kept     refs/understudy/aside/footer/\d+, refs/understudy/aside/(?:heading|title)/\d+|"
    r"replay   \d+ decisions, the same bytes again|"
    r"verify   \d+ rows of evidence, chained to row1_[0-9a-f]{64})"
    r"| {18}(?:"
    r"REFUSED lease_fence_stale: issue (?:types|footer): fence \d+, current \d+ of .*|"
    r"REFUSED by git: main: fence \d+ is over, \d+ is registered; nothing was moved.*|"
    r"goes back to a worker, which is told of it|"
    r"\*  an empty page|"
    r"\|\\ [a-z]+/\d+ +agrees(?:, after a merge within a file)?|"
    r"\|x [a-z]+/\d+ +conflict in page\.md, with [a-z]+/\d+)|"
)


def _script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_file_that_a_page_names_exists(page: Path) -> None:
    missing = [path for path in _PATH.findall(page.read_text()) if not (ROOT / path).exists()]
    assert not missing


def test_where_is_answers_37_questions_with_files() -> None:
    rows = (DOCS / "README.md").read_text().partition("| where is | file |\n")[2].splitlines()[1:]
    assert len(rows) == 37
    for row in rows:
        assert _PATH.search(row), row


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_are_no_wider_than_120_columns(page: Path) -> None:
    """Rows of tables cannot be broken; whatever else is long can."""
    lines = page.read_text().splitlines()
    assert not [line for line in lines if len(line) > 120 and not line.startswith("|")]


def test_every_word_of_the_glossary_occurs_where_it_is_said_to() -> None:
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in (DOCS / "glossary.md").read_text().splitlines()
        if line.startswith("|")
    ][2:]
    words = [word for word, _, _ in rows]
    assert words == sorted(set(words), key=str.lower)
    for word, _, where in rows:
        path = ROOT / where.strip("`")
        parts = re.split(r"[ -]", re.sub(r" \(.*", "", word))  # `(...)` tells two of a name apart
        pattern = re.compile(r"[\s_-]*".join(parts), re.IGNORECASE)
        assert pattern.search(path.name + "\n" + path.read_text()), f"{word} is not in {where}"


def test_the_picture_is_that_of_the_stored_run() -> None:
    script = _script("draw_demo")
    assert script.draw(script.RUN.read_text()) == script.PICTURE.read_text()


def test_the_stored_run_has_the_form_of_what_the_demo_prints() -> None:
    lines = (DOCS / "demo.txt").read_text().splitlines()
    assert not [line for line in lines if not _DEMO.fullmatch(line)]
    counts = {
        "SIGSTOP": 1,
        "SIGKILL": 2,
        "REFUSED": 3,
        "release  is done": 1,
        "is in main": 6,
        "conflict in": 1,
        "agrees": 6,
        "replay": 2,
        "verify": 2,
    }
    assert {said: sum(said in line for line in lines) for said in counts} == counts
