"""What the console sends to browsers besides its pages: small, our own, legible in both themes."""

import re
import subprocess
from itertools import product
from pathlib import Path

import pytest

from tests.mcp.outside.node import node
from tests.services.server import Missing

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "surfaces" / "web" / "static"
TESTS = Path(__file__).parent / "static"
BYTES_MAX = 100_000
CONTRAST_TEXT, CONTRAST_EDGE = 4.5, 3.0  # WCAG 2.2 AA: 1.4.3 and 1.4.11
_TONES = ("good", "busy", "bad", "wait", "plain")
_GROUNDS = ("bg", "panel", "head", "hover")

# Ways in which text becomes markup or code. `DOMParser` is the one that is used, in refresh.js, for
# the fragment of our own server: a document that it makes runs no script.
_SINKS = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|setHTMLUnsafe"
    r"|\beval\(|new Function|setTimeout\(\s*[\"'`]|srcdoc|\.on\w+\s*=\s*[\"'`]|style\s*="
)


def _scripts() -> dict[str, str]:
    return {path.name: path.read_text("utf-8") for path in STATIC.glob("*.js")}


def test_there_is_one_flat_folder_of_known_kinds() -> None:
    assert all(path.is_file() for path in STATIC.iterdir())
    assert {path.suffix for path in STATIC.iterdir()} == {".css", ".js", ".svg"}


def test_everything_together_is_small() -> None:
    assert sum(path.stat().st_size for path in STATIC.iterdir()) < BYTES_MAX


def test_nothing_is_fetched_from_elsewhere() -> None:
    for path in STATIC.iterdir():
        text = path.read_text("utf-8").replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"(https?:)?//[\w.-]+\.\w", text.replace("// ", "")), path.name
        assert "@import" not in text
        assert not re.search(r"url\((?!#)", text), path.name


def test_every_module_is_reached_from_the_first() -> None:
    scripts, seen, ahead = _scripts(), set[str](), ["console.js"]
    while ahead:
        name = ahead.pop()
        if name not in seen:
            seen.add(name)
            ahead += re.findall(r'from "\./([\w.]+)"', scripts[name])
    assert seen == set(scripts)


def test_no_text_becomes_markup() -> None:
    found = {name: hits for name, text in _scripts().items() if (hits := _SINKS.findall(text))}
    assert found == {}
    parsing = [name for name, text in _scripts().items() if "DOMParser" in text]
    assert parsing == ["refresh.js"]


def test_sinks_are_noticed() -> None:
    for line in ("box.innerHTML = text", "eval(text)", 'a.onclick = "x"', "setTimeout('x()', 1)"):
        assert _SINKS.search(line)


# --- the two themes -------------------------------------------------------------------------------


def _themes() -> dict[str, dict[str, str]]:
    text = (STATIC / "console.css").read_text("utf-8")
    found = {}
    starts = {"light": ":root {", "dark": ":root:not(.light) {", "own": ":root.dark {"}
    for name, start in starts.items():
        block = text.split(start, 1)[1].split("}", 1)[0]
        found[name] = dict(re.findall(r"--([\w-]+):\s*([^;]+);", block))
    return found


def test_both_themes_say_the_same_things() -> None:
    themes = _themes()
    assert set(themes["light"]) == set(themes["dark"])
    assert themes["dark"] == themes["own"]  # chosen by the system, or by the person
    used = set(re.findall(r"var\(--([\w-]+)", (STATIC / "console.css").read_text("utf-8")))
    used |= {each for text in _scripts().values() for each in re.findall(r'"--([\w-]+)"', text)}
    assert used <= set(themes["light"])


def _pairs() -> list[tuple[str, str, float]]:
    """What is written or drawn, on what, and how much it must stand out."""
    words = product(("text", "dim", "link"), _GROUNDS)
    texts = [(text, ground, CONTRAST_TEXT) for text, ground in words]
    tones = [(tone, f"{tone}-bg", CONTRAST_TEXT) for tone in _TONES]
    on_grounds = product(_TONES, ("panel", "hover"))
    on_panel = [(tone, ground, CONTRAST_TEXT) for tone, ground in on_grounds]
    lines = product(("strong", "accent"), _GROUNDS)
    edges = [(line, ground, CONTRAST_EDGE) for line, ground in lines]
    more = [("on-accent", "accent", CONTRAST_TEXT), ("text", "mark-bg", CONTRAST_TEXT)]
    return texts + tones + on_panel + edges + more


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_everything_can_be_read(theme: str) -> None:
    colours = _themes()[theme]
    faint = {
        f"{front} on {back}": round(ratio, 2)
        for front, back, wanted in _pairs()
        if (ratio := _contrast(colours[front], colours[back])) < wanted
    }
    assert faint == {}


def _contrast(one: str, other: str) -> float:
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


# --- what runs under Node -------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(TESTS.glob("*.test.mjs")), ids=lambda path: path.stem)
def test_scripts_keep_their_promises(path: Path) -> None:
    try:
        command: list[str | Path] = [node(), "--no-warnings", "--test", path]
    except Missing as missing:
        pytest.skip(str(missing))
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert said.returncode == 0, said.stdout + said.stderr
    assert re.search(r"pass [1-9]", said.stdout)
