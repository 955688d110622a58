"""One leg of the work: a command in a worktree of its own, and what it made, as a section.

    worktree --> setup --> command --0--> commit --> checks --> section, kept by its ref
                   |          \\--else--> set aside
                   \\--else--> a fault of the tree

It runs in the process group of the command's worker, under the lease that its environment names,
and ends as the command does. It records nothing: what it leaves in the file of `section_file` is
recorded by whoever holds the lease.

A leg that is killed leaves its worktree to the next one, or to `understudy worktree prune`.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority import Unavailable
from ...authority.service.open import open_authority
from ...contracts import Exit
from ..leasing.work_kind import HeldLease
from ..run.section_file import VARIABLE, write_report
from .git import GitRefused
from .repository import survey
from .workspace import Ask, ChecksFailed, Workspace, begin
from .worktree import Worktree

FAULT: Final = int(Exit.CONFIG)  # what it ends with where the tree is at fault
_READS = frozenset({"issue.show", "descent.show", "required.projection"})


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
        said = orjson.dumps(asdict(self)).decode()
        return (sys.executable, "-m", "understudy.actors.descent.leg", said, "--")


class Leg:
    """`ask` goes to the authority; `tell` says a line to people."""

    def __init__(
        self,
        settings: LegSettings,
        held: HeldLease,
        state_dir: Path,
        ask: Ask,
        tell: Callable[[str], None],
    ) -> None:
        self._settings, self._held, self._state_dir = settings, held, state_dir
        self._ask, self._tell = ask, tell
        self._report = Path(os.environ[VARIABLE])

    def run(self, command: Sequence[str]) -> int:
        """The code to end with; less than 0, the signal."""
        shown = self._ask("issue.show", {"id": self._held.name})
        if shown["result"] != "accepted":
            self._tell(shown["diagnostic"])
            return int(Exit.LEASE_LOST)
        try:
            place = self._begin()
            self._set_up(place)
        except GitRefused as error:
            self._tell(str(error))
            write_report(self._report, fault=str(error))
            return FAULT
        if place.open_instance() is None:
            code = self._work(place, command, shown["issue"])
        else:
            code = int(Exit.LEASE_LOST)
        if code == 0:
            code = self._made(place, shown["issue"])
        self._put_away(place)
        return code

    # --- before -----------------------------------------------------------------------------------

    def _begin(self) -> Workspace:
        wanted, held = self._settings, self._held
        repository = survey(
            Path(wanted.folder),
            self._state_dir,
            target=wanted.target,
            base=wanted.base,
            submodules=wanted.submodules,
        )
        made = begin(repository, held, sparse=wanted.sparse)
        self._tell(f"worktree {made.path}, on {made.branch} from {made.base[:12]}")
        return Workspace(made, held, self._ask, self._tell)

    def _set_up(self, place: Workspace) -> None:
        if self._settings.setup is None:
            return
        words = ["/bin/sh", "-c", self._settings.setup]
        code = self._child(words, place.tree, stdin=b"")
        if code:
            self._put_away(place)
            said = f"--setup ended with {code}: {self._settings.setup}"
            raise GitRefused(f"{said}; try it in a clean clone, and mend it")

    # --- the command ------------------------------------------------------------------------------

    def _work(self, place: Workspace, command: Sequence[str], issue: Mapping[str, Any]) -> int:
        if not self._settings.record_on_stdin:
            return self._child(command, place.tree, stdin=None)
        told: dict[str, Any] = dict(issue)  # as the worker was given it, and what others left
        with suppress(orjson.JSONDecodeError):
            told = {**issue, **orjson.loads(sys.stdin.buffer.read())}
        said = orjson.dumps(told | place.described()) + b"\n"
        return self._child(command, place.tree, stdin=said)

    def _child(self, command: Sequence[str], tree: Worktree, stdin: bytes | None) -> int:
        """Run in the worktree, in our group; what ends the group leaves us time to put away."""
        named = {"WORKTREE": str(tree.path), "BRANCH": tree.branch, "BASE": tree.base}
        env = {**os.environ, **{f"UNDERSTUDY_{name}": value for name, value in named.items()}}
        del env[VARIABLE]  # ours
        with subprocess.Popen(  # noqa: S603 - what the operator says is run
            command, cwd=tree.path, env=env, stdin=None if stdin is None else subprocess.PIPE
        ) as child:
            if stdin is not None:
                with suppress(BrokenPipeError):
                    child.communicate(stdin)
        return child.returncode

    # --- after ------------------------------------------------------------------------------------

    def _made(self, place: Workspace, issue: Mapping[str, Any]) -> int:
        """Leave the section, if there is one, and it passes its checks."""
        try:
            section = place.section(str(issue["title"]), on_progress=self._passed)
        except GitRefused as error:
            self._tell(str(error))
            return int(Exit.FAILED)
        if isinstance(section, ChecksFailed):
            self._tell(section.diagnostic)
            return int(Exit.CHECK_FAILED)
        if section is None:
            self._tell("nothing was changed, so there is no section")
        else:
            write_report(self._report, section=section)
        return 0

    def _passed(self, _: int, __: int, result: Mapping[str, Any] | None, check_id: str) -> None:
        if result is not None:
            self._tell(f"check {check_id}: {result['status']}")

    def _put_away(self, place: Workspace) -> None:
        try:
            place.put_away()
        except GitRefused as error:
            self._tell(f"the worktree stays: {error}")


def _asking(state_dir: Path) -> Ask:
    """Opened for each question: where there is no sidecar, others wait while we have it."""

    def ask(action: str, payload: dict[str, Any]) -> dict[str, Any]:
        with open_authority(state_dir, "cli", writable=action not in _READS) as authority:
            return authority.ask(action, payload)

    return ask


def main(arguments: Sequence[str]) -> int:
    said, _, *command = arguments
    members = orjson.loads(said)
    settings = LegSettings(**members | {"sparse": tuple(members["sparse"])})
    env = os.environ
    held = HeldLease(
        env["UNDERSTUDY_ISSUE"],
        env["UNDERSTUDY_ASSIGNEE"],
        env["UNDERSTUDY_LEASE"],
        int(env["UNDERSTUDY_FENCE"]),
    )
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)  # the command gets it too, and ends; then we do
    state_dir = Path(env["UNDERSTUDY_STATE_DIR"])
    try:
        code = Leg(settings, held, state_dir, _asking(state_dir), _tell).run(command)
    except (Unavailable, OSError) as error:
        _tell(str(error))
        return int(Exit.TRY_LATER)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    return code


def _tell(words: str) -> None:
    if words:
        print(f"understudy: {words}", file=sys.stderr, flush=True)  # noqa: T201 - into the log


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
