"""Doctor: is everything in order? What `understudy doctor` says, and where things are."""

import asyncio
import platform
import time

from .... import __version__
from ...doctor import DoctorFinding, examine
from ..desk import ConsoleDesk
from ..markup import joined, tag
from ..view import Page, PageView
from .layout import plain
from .parts import facts, section, state, table

_KEPT_SECONDS = 5.0  # ten pages cost one look
_kept: dict[ConsoleDesk, tuple[float, "asyncio.Task[list[DoctorFinding]]"]] = {}


async def page(view: PageView) -> Page:
    """Every finding, the worst first."""
    findings = await _looked(view.desk)
    order = {"problem": 0, "note": 1, "ok": 2}
    rows = (
        [state(each.status), each.check, plain(each.detail), plain(each.remedy or "")]
        for each in sorted(findings, key=lambda each: order[each.status])
    )
    problems = sum(each.status == "problem" for each in findings)
    said = f"{problems} to be mended." if problems else "Everything is in order."
    main = joined(
        tag("h1", "Doctor"),
        tag("p", said),
        table(("status", "check", "what was found", "what to do"), rows, caption="Findings"),
        section(
            "Where and what",
            facts(
                [
                    ("Understudy", __version__),
                    ("Python", platform.python_version()),
                    ("machine", f"{platform.system()} {platform.machine()}"),
                    ("state directory", tag("code", str(view.desk.state_dir))),
                    ("rows", f"{view.time.head:,}"),
                    ("in the tables", f"{view.time.tables:,}"),
                    ("in the index", f"{view.time.index_low:,} to {view.time.index_high:,}"),
                ]
            ),
        ),
    )
    return Page("Doctor", main)


async def _looked(desk: ConsoleDesk) -> list[DoctorFinding]:
    """Look, unless that was done a moment ago."""
    at_s, looking = _kept.get(desk, (0.0, None))
    if looking is None or time.monotonic() > at_s + _KEPT_SECONDS:
        looking = asyncio.create_task(asyncio.to_thread(lambda: list(examine(desk.state_dir))))
        _kept[desk] = (time.monotonic(), looking)
    return await asyncio.shield(looking)
