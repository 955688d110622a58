"""Every limit of the contracts has a test that stands on both sides of it, wherever it lies."""

import ast
from collections.abc import Iterator
from pathlib import Path

from understudy.contracts import limits

TESTS = Path(__file__).parents[1]


def stood_on(source: str) -> Iterator[str]:
    """The names in `@stands_on("A", "B")` of tests; written out, so that they can be found."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "stands_on":
                assert node.name.startswith("test_")
                yield from (ast.literal_eval(each) for each in mark.args)


def test_every_limit_has_a_test_that_stands_on_both_sides_of_it() -> None:
    sources = [path.read_text("utf-8") for path in TESTS.rglob("test_*.py")]
    found = {name for source in sources if "@stands_on" in source for name in stood_on(source)}
    assert {name for name in vars(limits) if name.isupper()} == found
