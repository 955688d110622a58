"""What a leg leaves beside its exit code: the section that completes an issue, or a fault.

A leg works in a worktree of its own (`actors/descent/leg.py`). It finds the file's name in
UNDERSTUDY_SECTION_FILE and writes one JSON object, whole or not at all: `{"section": {...}}`, as
`descent.section` takes it, or `{"fault": "..."}` where the tree is at fault, and not the work. No
file says that nothing was changed.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority.journal import private
from ...contracts import limits, regular_file

VARIABLE: Final = "UNDERSTUDY_SECTION_FILE"


@dataclass(frozen=True, slots=True)
class LegReport:
    section: Mapping[str, Any] | None = None
    fault: str = ""
    unsound: str = ""  # what is wrong with the file


def read_report(path: Path) -> LegReport:
    """What a leg left; nothing where it left nothing."""
    try:
        found = orjson.loads(regular_file.read(path, limits.REQUEST_BYTES_MAX))
    except FileNotFoundError:
        return LegReport()
    except (OSError, orjson.JSONDecodeError) as error:
        return LegReport(unsound=f"the file of {VARIABLE}: {error}")
    if not isinstance(found, dict) or not isinstance(found.get("section"), dict | None):
        return LegReport(unsound=f"the file of {VARIABLE}: it has no section")
    return LegReport(found.get("section"), str(found.get("fault") or ""))


def write_report(path: Path, **members: Any) -> None:
    """Leave a section or a fault."""
    fresh = path.with_name(f"{path.name}.new")
    private.write(fresh, orjson.dumps(members, option=orjson.OPT_SORT_KEYS))
    fresh.replace(path)
