"""Where `understudy` begins: commands that must be fast are tried before anything is imported.

`understudy guard` stands in git hooks and loops, and `understudy mcp` is waited for by every agent
that starts; click alone would double what they cost. What is not plain here (an unknown option, a
missing one, `--help`) is left to the command itself.
"""

from __future__ import annotations

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...authority.service import fence_check

_OPTIONS = ("--resource", "--fence", "--state-dir")
_HELLO_OPTIONS = {"--as": "name", "--name": "name", "--tools": "tools"}
_MCP_OPTIONS = (*_HELLO_OPTIONS, "--state-dir")
_DIGITS_MAX = 16  # of the greatest fence


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words[:1] == ["guard"] and _say_current(words[1:]):
        sys.exit(0)
    if words[:1] == ["mcp"] and (given := _plain(words[1:], _MCP_OPTIONS)) is not None:
        from ..mcp import pump  # where an agent launches it

        hello = {name: given[word] for word, name in _HELLO_OPTIONS.items() if word in given}
        sys.exit(pump.run(_folder(given), hello))
    from .main import main as run  # click, for everything else

    run(words)


def _say_current(words: list[str]) -> bool:
    """Whether `guard` has said a plain yes. Anything else is said, at leisure, by the command."""
    as_json = "--json" in words
    given = _plain([word for word in words if word != "--json"], _OPTIONS)
    if given is None:
        return False
    from ...authority.service import fence_check

    resource, fence = given.get("--resource", ""), given.get("--fence", "")
    if not given.keys() & {"--resource", "--fence"}:
        resource, *more = fence_check.own_resources() or [""]
        is_clear = not more and fence_check.is_at_home(_folder(given))
        fence = os.environ.get("UNDERSTUDY_FENCE", "") if is_clear else ""
    plain = fence.isascii() and fence.isdecimal() and len(fence) <= _DIGITS_MAX
    if not plain or not fence_check.is_resource(resource):
        return False
    standing = fence_check.certain(_folder(given), resource, int(fence))
    if standing is None:
        return False
    if sys.stdout is not None:
        try:
            os.write(1, yes(standing, as_json=as_json))
        except OSError:
            return True  # it is not read; the exit code says the same
    return True


def _plain(words: list[str], known: Sequence[str]) -> dict[str, str] | None:
    """Options and their values; None where a word is none of them."""
    given: dict[str, str] = {}
    while words:
        name, equals, value = words.pop(0).partition("=")
        if name not in known or (not equals and not words):
            return None
        given[name] = value if equals else words.pop(0)
    return given


def _folder(given: dict[str, str]) -> str:
    from . import state_place

    return state_place.chosen(given.get("--state-dir")).path


def yes(standing: fence_check.FenceStanding, *, as_json: bool) -> bytes:
    """What `guard` says of a fence that is current."""
    if not as_json:
        left_ms = max(0, (standing.deadline_ms or 0) - time.time_ns() // 1_000_000)
        text = f"{standing.resource}: fence {standing.fence} is current, for {left_ms // 1000} s"
        return text.encode(errors="replace") + b"\n"
    import json

    report = {
        "result": "accepted",
        "failureClasses": [],
        "resource": standing.resource,
        "fence": standing.fence,
        "current": standing.fence,
        "deadlineMs": standing.deadline_ms,
    }
    line = json.dumps(report, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return line.encode(errors="replace") + b"\n"
