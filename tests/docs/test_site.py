"""The docs as a site: every page is in it, and no link of it is broken."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def _pages(nav: Any) -> set[str]:
    if isinstance(nav, str):
        return {nav}
    values = nav.values() if isinstance(nav, dict) else nav
    return {page for each in values for page in _pages(each)}


def test_every_page_is_in_the_navigation() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    there = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert _pages(settings["nav"]) == there | {"adr/index.md"}


def test_the_site_is_built_without_a_broken_link(tmp_path: Path) -> None:
    words: list[str | Path] = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    words += ["--site-dir", tmp_path / "site"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site" / "adr" / "index.html").exists()
    home = (tmp_path / "site" / "index.html").read_text("utf-8")
    assert "tutorial.html" in home
