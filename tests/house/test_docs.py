"""The documentation says what the code says."""

import importlib.util
import re
from pathlib import Path

import pytest

from tests.together import together

ROOT = Path(__file__).parents[2]


def _generator() -> object:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    "name", ["jobs.md", "mcp.md", "otp.md", "protocol.md", "specs.md", "sql.md"]
)
def test_a_page_is_generated_from_the_tables(name: str) -> None:
    page = (ROOT / "docs" / name).read_text()
    assert page == _generator().generated(page), "run `make docs`"  # type: ignore[attr-defined]  # loaded by its path


@together("page", sorted(ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md")))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_readme_example_for_embedding_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    example = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    names: dict[str, object] = {}
    exec(compile(example[1], "README.md", "exec"), names)
    assert names["fence"] == 2
