"""Draw `docs/demo.svg`, the picture of a real run, from what `understudy demo` printed.

`python docs/draw_demo.py` draws the stored run, `docs/demo.txt`; with `--record` it runs the demo
first and stores what that printed. A test fails while the picture is not that of the stored run.
"""

import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from html import escape
from pathlib import Path

RUN = Path(__file__).with_name("demo.txt")
PICTURE = Path(__file__).with_name("demo.svg")

_COLUMNS = 100
_INDENT = 18  # where the third column of the demo begins
_X, _Y = 16, 52
_CHARACTER, _LINE = 7.4, 16
# What stands out, as on a terminal: a pattern, and the class that the style sheet has a colour for.
_MARKS = re.compile(
    r"(?P<who>(?<= s  )\w+)|(?P<bad>its worker is killed \(SIGKILL\)|REFUSED \w+)"
    r"|(?P<cold>its worker is frozen \(SIGSTOP\)|does not fit|conflict in \S+, with \S+)"
    r"|(?P<good>the same bytes again)"
)
# What is drawn, and its colour on a light and on a dark screen.
_COLOURS = {
    "rect": ("#ffffff", "#0d1117"),
    "circle": ("#d0d7de", "#30363d"),
    "text": ("#1f2328", "#e6edf3"),
    ".dim": ("#6e7781", "#8b949e"),
    ".who": ("#116329", "#7ee787"),
    ".bad": ("#cf222e", "#ff7b72"),
    ".cold": ("#0550ae", "#79c0ff"),
    ".good": ("#116329", "#7ee787"),
}
_FONT = """\
rect { stroke: #8b949e; }
text { font: 12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; white-space: pre; }
.bad { font-weight: bold; }"""


def draw(run: str) -> str:
    """The lines of a run as a terminal in SVG, which is light or dark as its reader's screen is."""
    lines = [line for said in run.splitlines() for line in _wrapped(said)]
    width, height = round(2 * _X + _COLUMNS * _CHARACTER), _Y + _LINE * len(lines)
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        "<title>A run of `understudy demo`</title>",
        f"<style>\n{_style()}\n</style>",
        f'<rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>',
        *(f'<circle cx="{_X + 4 + 18 * dot}" cy="17" r="5"/>' for dot in range(3)),
        f'<text x="{_X + 62}" y="21" class="dim">$ make demo</text>',
    ]
    for number, line in enumerate(lines):
        words = "".join(_coloured(line))
        parts.append(
            f'<text x="{_X}" y="{_Y + _LINE * number}" xml:space="preserve">{words}</text>'
        )
    return "\n".join([*parts, "</svg>", ""])


def _style() -> str:
    light, dark = (
        "\n".join(f"{what} {{ fill: {colours[which]}; }}" for what, colours in _COLOURS.items())
        for which in (0, 1)
    )
    return f"{_FONT}\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"


def _wrapped(line: str) -> list[str]:
    """A line that is longer than the picture goes on below, under its third column."""
    wrapped = textwrap.wrap(
        line,
        _COLUMNS,
        subsequent_indent=" " * _INDENT,
        drop_whitespace=True,
        break_on_hyphens=False,
    )
    return wrapped or [""]


def _coloured(line: str) -> Iterator[str]:
    after = 0
    for mark in _MARKS.finditer(line):
        yield escape(line[after : mark.start()], quote=False)
        yield f'<tspan class="{mark.lastgroup}">{escape(mark[0], quote=False)}</tspan>'
        after = mark.end()
    yield escape(line[after:], quote=False)


def record() -> str:
    """What the demo prints, run here and now."""
    command = [sys.executable, "-m", "understudy", "demo"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - this very program


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        RUN.write_text(record())
    PICTURE.write_text(draw(RUN.read_text()))
    sys.stdout.write(f"drew {PICTURE.name}\n")
