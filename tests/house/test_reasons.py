"""Where a tool is told to look away, its code says from what, and a reason says why."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("actors", "authority", "benchmarks", "contracts", "docs", "native", "surfaces", "tests")
SILENCED = re.compile(r"#\s*(noqa|type:\s*ignore)\b")
REASONED = re.compile(
    r"# noqa: [A-Z]+\d+(, [A-Z]+\d+)* - \S.*|# type: ignore\[[a-z-]+(, ?[a-z-]+)*\]  # \S.*"
)


def _unreasoned(text: str) -> list[str]:
    """The comments of a program that silence a tool without a code and a reason."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    comments = [token.string for token in tokens if token.type == tokenize.COMMENT]
    return [each for each in comments if SILENCED.search(each) and not REASONED.fullmatch(each)]


@pytest.mark.parametrize(
    "comment",
    ["# noqa", "# noqa: S603", "# noqa: S603 our own", "# type: ignore", "# type: ignore[misc]"],
)
def test_a_comment_without_a_code_or_a_reason_is_found(comment: str) -> None:
    assert _unreasoned(f"x = 1  {comment}\n") == [comment]


def test_whatever_silences_a_tool_has_a_code_and_a_reason() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    found = {str(path): _unreasoned(path.read_text()) for path in [*paths, ROOT / "setup.py"]}
    assert {path: comments for path, comments in found.items() if comments} == {}
