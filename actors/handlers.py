"""Handlers in Python: a function that works on one issue, in a process of its own.

    from understudy.actors.handlers import HandBack, Job, handler

    @handler("build")                      # or an entry point in the group `understudy.handlers`
    def build(job: Job) -> None:
        print(job.issue["title"], job.fence)

A handler that returns has done the work; `HandBack` gives it back, any other exception is a failed
attempt, with its traceback in the attempt's log. `python -m understudy.actors.handlers NAME` runs
one; NAME is `module:function`, or a name that was registered.
"""

import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

GROUP: Final = "understudy.handlers"
HAND_BACK: Final = 75


@dataclass(frozen=True, slots=True)
class Job:
    """What to work on, and under which lease."""

    issue: dict[str, Any]
    issue_id: str
    assignee: str
    lease_id: str
    fence: int
    state_dir: Path


class HandBack(Exception):
    """Not me, or not now: the issue is handed back, and that is no failure."""


Handler = Callable[[Job], object]
_registered: dict[str, Handler] = {}


def handler(name: str) -> Callable[[Handler], Handler]:
    """Register a function under a name."""

    def register(function: Handler) -> Handler:
        if name in _registered:
            raise ValueError(f"the handler {name} is registered twice")
        _registered[name] = function
        return function

    return register


def find(name: str) -> Handler:
    """Raises `LookupError` with what was looked for."""
    module, _, attribute = name.partition(":")
    if attribute:
        sys.path.insert(0, str(Path.cwd()))
        found: object = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if found is None and attribute in _registered:
            return _registered[attribute]
    else:
        from importlib import metadata  # noqa: PLC0415 - takes as long as all the rest

        entries = [each for each in metadata.entry_points(group=GROUP) if each.name == name]
        found = entries[0].load() if entries else _registered.get(name)
    if not callable(found):
        raise LookupError(  # noqa: TRY004 - nothing of that name was found
            f"no handler {name}: give `module:function`, or an entry point of {GROUP}"
        )
    result: Handler = found
    return result


def job_from_environment() -> Job:
    """As a worker was told."""
    issue: dict[str, Any] = json.load(sys.stdin)
    return Job(
        issue=issue,
        issue_id=os.environ["UNDERSTUDY_ISSUE"],
        assignee=os.environ["UNDERSTUDY_ASSIGNEE"],
        lease_id=os.environ["UNDERSTUDY_LEASE"],
        fence=int(os.environ["UNDERSTUDY_FENCE"]),
        state_dir=Path(os.environ["UNDERSTUDY_STATE_DIR"]),
    )


def main(name: str) -> int:
    try:
        find(name)(job_from_environment())
    except HandBack as error:
        print(f"handed back: {error}", file=sys.stderr)  # noqa: T201 - it goes to the attempt's log
        return HAND_BACK
    except Exception:  # noqa: BLE001 - whatever it is, the attempt failed
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    # The module that handlers import is another one than this program.
    from understudy.actors import handlers

    sys.exit(handlers.main(sys.argv[1]))
