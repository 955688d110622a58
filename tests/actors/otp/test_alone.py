"""The layer can be taken out and used without the rest of the project."""

import ast
import re
import sys
from pathlib import Path

import understudy.actors.otp as front
from tests.together import together

FOLDER = Path(__file__).parents[3] / "actors" / "otp"
OUTSIDE = {"thespian"}  # what the other carrier is made of


@together("path", sorted(FOLDER.rglob("*.py")), ids=lambda path: path.stem)
def test_a_module_imports_its_neighbours_and_the_standard_library(path: Path) -> None:
    depth = len(path.relative_to(FOLDER).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            assert node.level <= depth, f"line {node.lineno} leaves the folder"
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names | OUTSIDE, name


def test_the_front_shows_what_it_says() -> None:
    assert sorted(front.__all__) == sorted(set(front.__all__))
    for name in front.__all__:
        assert hasattr(front, name)


def test_the_example_of_the_page_runs() -> None:
    page = (FOLDER.parents[1] / "docs" / "otp.md").read_text()
    example = re.search(r"```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    exec(compile(example[1], "otp.md", "exec"), {"__name__": "example"})
