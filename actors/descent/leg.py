"""One leg of the work: a command in a worktree of its own, and what it made, as a section.

    worktree --> setup --> command --0--> commit --> checks --> section, kept by its ref
                   |          \\--else--> set aside
                   \\--else--> a fault of the tree

It runs in the process group of the command's worker, under the lease that its environment names,
and ends as the command does. It records nothing: what it leaves in the file of `section_file` is
recorded by the holder of the lease.

I1  Nothing of the command runs any more when what it changed is committed.

A leg that is killed leaves its worktree to the next one, or to `understudy worktree prune`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority import Unavailable, open_authority
from ...contracts import Exit
from ..leasing.work_kind import HeldLease
from ..process.guard import descendants
from ..run.section_file import VARIABLE, write_report
from . import worktree
from .git import GitRefused, spelled
from .repository import survey
from .workspace import Ask, ChecksFailed, Tell, Workspace, begin

FAULT: Final = int(Exit.CONFIG)  # what it ends with where the tree is at fault
_READS = frozenset({"issue.show", "descent.show", "required.projection"})
_DIRTY_SHOWN_MAX = 3
_LOOK_SECONDS = 0.02
_LEFTOVER_SECONDS = 2.0  # from SIGTERM to SIGKILL, for what a command leaves running
_AWAY_SECONDS = 20.0  # how long an authority that is away is asked again
_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class LegSettings:
    """How worktrees are made; the same for all legs of a tree."""

    folder: str  # somewhere in the repository
    target: str
    base: str | None = None  # where work starts; None: at the target's head, as it is then
    setup: str | None = None  # a shell command, before the work begins
    sparse: tuple[str, ...] = ()
    submodules: bool = False
    record_on_stdin: bool = True  # what is read there is the issue; the command gets more

    def words(self) -> tuple[str, ...]:
        """What a command is run under."""
        said = json.dumps(asdict(self))  # a path may be no UTF-8
        return (sys.executable, "-m", "understudy.actors.descent.leg", said, "--")


class Leg:
    """`ask` goes to the authority; `tell` says a line to people; `is_stopped`, whether it has been
    told to end."""

    def __init__(
        self,
        settings: LegSettings,
        held: HeldLease,
        state_dir: Path,
        *,
        ask: Ask,
        tell: Tell,
        is_stopped: Callable[[], bool],
    ) -> None:
        self._settings, self._held, self._state_dir = settings, held, state_dir
        self._ask, self._tell, self._is_stopped = ask, tell, is_stopped
        self._report = Path(os.environ[VARIABLE])

    def run(self, command: Sequence[str]) -> int:
        """The code to end with; less than 0, the signal."""
        shown = self._ask("issue.show", {"id": self._held.name})
        if shown["result"] != "accepted":
            self._tell(shown["diagnostic"])
            return int(Exit.LEASE_LOST)
        issue = shown["issue"]
        try:
            place = self._begin()
        except GitRefused as error:
            return self._blame(str(error))
        try:
            with worktree.occupied(place.tree) as door:
                problem = self._set_up(place, door)
                code = FAULT if problem else self._work(place, command, issue, door)
                if not code:
                    code = self._made(place, issue)
        except GitRefused as error:
            self._tell(str(error))
            code, problem = int(Exit.FAILED), ""
        place.put_away()
        return self._blame(problem) if problem else code

    def _blame(self, problem: str) -> int:
        """It is the tree that is at fault, and not the work."""
        self._tell(problem)
        write_report(self._report, fault=problem)
        return FAULT

    # --- before -----------------------------------------------------------------------------------

    def _begin(self) -> Workspace:
        wanted = self._settings
        repository = survey(
            Path(wanted.folder),
            self._state_dir,
            target=wanted.target,
            base=wanted.base,
            submodules=wanted.submodules,
        )
        tree = begin(repository, self._held, self._tell, sparse=wanted.sparse)
        self._tell(f"worktree on {tree.branch}, from {tree.base[:12]}")
        env = {name: value for name, value in os.environ.items() if name != VARIABLE}  # it is ours
        return Workspace(tree, self._held, env=env, ask=self._ask, tell=self._tell)

    def _set_up(self, place: Workspace, door: int) -> str:
        """Why no work can begin; nothing where it can."""
        setup = self._settings.setup
        if setup is None:
            return ""
        code = self._child(("/bin/sh", "-c", setup), place, b"", door)
        if code:
            return f"--setup ended with {code}: {setup}; run it in a clean clone, and mend it"
        dirty = [spelled(path) for _, path in worktree.status(place.tree)]
        if not dirty:
            return ""
        named = ", ".join(dirty[:_DIRTY_SHOWN_MAX]) + ", ..." * (len(dirty) > _DIRTY_SHOWN_MAX)
        said = f"--setup left {len(dirty)} changes that would be part of every section: {named}"
        return f"{said}; have them ignored (.gitignore), or committed"

    # --- the command ------------------------------------------------------------------------------

    def _work(
        self, place: Workspace, command: Sequence[str], issue: Mapping[str, Any], door: int
    ) -> int:
        if place.open_instance() is not None:
            return int(Exit.LEASE_LOST)
        told = self._told(place, issue) if self._settings.record_on_stdin else None
        return self._child(command, place, told, door)

    def _told(self, place: Workspace, issue: Mapping[str, Any]) -> bytes:
        """The issue as the worker was given it, and what earlier holders left."""
        told = dict(issue)
        with suppress(orjson.JSONDecodeError):
            told |= orjson.loads(sys.stdin.buffer.read())
        return orjson.dumps(told | place.described()) + b"\n"

    def _child(
        self, command: Sequence[str], place: Workspace, stdin: bytes | None, door: int
    ) -> int:
        """Run in the worktree, to the end of all that it starts (I1). What ends our group ends it,
        and leaves us time to put away."""
        if self._is_stopped():
            return -signal.SIGTERM  # it came before the command did
        with subprocess.Popen(  # noqa: S603 - what the operator says is run
            command,
            cwd=place.tree.path,
            env=place.environment,
            stdin=None if stdin is None else subprocess.PIPE,
            pass_fds=(door,),  # no other leg takes the worktree from under it, if we are killed
        ) as child:
            if stdin is not None:
                with suppress(BrokenPipeError):
                    child.communicate(stdin)
        _end_leftovers()
        return child.returncode

    # --- after ------------------------------------------------------------------------------------

    def _made(self, place: Workspace, issue: Mapping[str, Any]) -> int:
        """Leave the section, if there is one, and it passes its checks."""
        section = place.section(
            str(issue["title"]), on_progress=self._tell_check, cancelled=self._is_stopped
        )
        if isinstance(section, ChecksFailed):
            self._tell(section.diagnostic)
            return int(Exit.CHECK_FAILED)
        if section is None:
            self._tell("nothing was changed, so there is no section")
        else:
            write_report(self._report, section=section)
        return 0

    def _tell_check(self, _: int, __: int, result: Mapping[str, Any] | None, check_id: str) -> None:
        if result is not None:
            self._tell(f"check {check_id}: {result['status']}")


def _end_leftovers() -> None:
    """End what a command left running: it would go on writing while we commit. Orphans are ours."""
    told: set[int] = set()
    kill_at = time.monotonic() + _LEFTOVER_SECONDS
    while not descendants.reap()[1] and (now := time.monotonic()) < kill_at + _LEFTOVER_SECONDS:
        for pid in descendants.children():
            if now >= kill_at:
                descendants.send(pid, signal.SIGKILL)
            elif pid not in told:
                told.add(pid)
                descendants.send(pid, signal.SIGTERM)
        time.sleep(_LOOK_SECONDS)


def _asking(state_dir: Path, name: str) -> Ask:
    """Opened for each question: where there is no sidecar, others wait while we have it."""
    asked = 0

    def ask(action: str, payload: dict[str, Any]) -> dict[str, Any]:
        nonlocal asked
        asked += 1
        is_read = action in _READS
        payload = payload if is_read else payload | {"requestId": f"{name}-{asked}"}
        give_up = time.monotonic() + _AWAY_SECONDS
        while True:
            try:
                with open_authority(state_dir, "cli", writable=not is_read) as authority:
                    return authority.ask(action, payload)
            except (Unavailable, OSError):
                if time.monotonic() > give_up:
                    raise
            time.sleep(_RETRY_SECONDS)

    return ask


def main(arguments: Sequence[str]) -> int:
    said, _, *command = arguments
    members = json.loads(said)
    settings = LegSettings(**members | {"sparse": tuple(members["sparse"])})
    env, heard = os.environ, list[int]()
    held = HeldLease(
        env["UNDERSTUDY_ISSUE"],
        env["UNDERSTUDY_ASSIGNEE"],
        env["UNDERSTUDY_LEASE"],
        int(env["UNDERSTUDY_FENCE"]),
    )
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # The command gets it too, and ends; then so do we.
        signal.signal(each, lambda number, _: heard.append(number))
    descendants.adopt_orphans()
    state_dir = Path(env["UNDERSTUDY_STATE_DIR"])
    ask = _asking(state_dir, f"leg-{held.fence}-{os.getpid()}")
    leg = Leg(settings, held, state_dir, ask=ask, tell=_tell, is_stopped=lambda: bool(heard))
    try:
        code = leg.run(command)
    except (Unavailable, OSError) as error:
        _tell(str(error))
        return int(Exit.TRY_LATER)
    if code < 0:
        with suppress(OSError):  # the system lets nobody touch SIGKILL
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _tell(words: str) -> None:
    if words:
        print(f"understudy: {words}", file=sys.stderr, flush=True)  # noqa: T201 - into the log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
