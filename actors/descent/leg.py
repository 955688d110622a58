"""One leg of the work: a command in a worktree of its own, and what it made, as a section.

    worktree --> setup --> command --0--> commit --> checks --> section, kept by its ref
                   |          \\--else--> set aside
                   \\--else--> a fault of the tree

It runs in the process group of the command's worker, under the lease that its environment names,
and ends as the command does. It records nothing: what it leaves in the file of `section_file` is
recorded by the holder of the lease.

I1  A worktree is taken away when all that is in it is kept by a ref, and not before. A leg that is
    killed leaves its worktree to the next one, or to `understudy worktree prune`.
I2  Nothing of the command runs any more when what it changed is committed.
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
from ...contracts import Exit, Reason, canonical, ends_lease, limits
from ..leasing.work_kind import WORK, HeldLease
from ..process.guard import descendants
from ..run import checks
from ..run.section_file import VARIABLE, write_report
from . import names, worktree
from .commit import Commit, commit_all
from .git import ELSEWHERE, GitRefused, spelled
from .repository import Repository, survey
from .worktree import Worktree

FAULT: Final = int(Exit.CONFIG)  # what it ends with where the tree is at fault
_READS = frozenset({"issue.show", "descent.show", "required.projection"})
_PATH_BYTES_MAX = 400  # of a path that is named whole, so that all of them fit into a request
_ASIDES_MAX = 16  # that a command is told of, the newest last
_DIRTY_SHOWN_MAX = 3
_LOOK_SECONDS = 0.02
_LEFTOVER_SECONDS = 2.0  # from SIGTERM to SIGKILL, for what a command leaves running
_AWAY_SECONDS = 20.0  # how long an authority that is away is asked again
_RETRY_SECONDS = 0.5

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Tell = Callable[[str], None]


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
            tree = self._begin()
        except GitRefused as error:
            return self._blame(str(error))
        try:
            with worktree.occupied(tree) as door:
                problem = self._set_up(tree, door)
                code = FAULT if problem else self._work(tree, command, issue, door)
                if not code:
                    code = self._made(tree, issue)
        except GitRefused as error:
            self._tell(str(error))
            code, problem = int(Exit.FAILED), ""
        self._put_away(tree)
        return self._blame(problem) if problem else code

    def _blame(self, problem: str) -> int:
        """It is the tree that is at fault, and not the work."""
        self._tell(problem)
        write_report(self._report, fault=problem)
        return FAULT

    # --- before -----------------------------------------------------------------------------------

    def _begin(self) -> Worktree:
        """A worktree of our own; what earlier holders left is set aside."""
        wanted, held = self._settings, self._held
        repository = survey(
            Path(wanted.folder),
            self._state_dir,
            target=wanted.target,
            base=wanted.base,
            submodules=wanted.submodules,
        )
        for left in worktree.list_worktrees(repository, held.name):
            if left.fence < held.fence:
                self._put_away(left)
        self._keep_unglued(repository)
        made = worktree.create(
            repository, held.name, held.fence, repository.base, sparse=wanted.sparse
        )
        self._tell(f"worktree on {made.branch}, from {made.base[:12]}")
        return made

    def _keep_unglued(self, repository: Repository) -> None:
        """A section that was refused, or is in the way of another, is what its holder left."""
        git, held = repository.git, self._held
        below = f"{names.SECTIONS}/{names.encoded(held.name)}/"
        words = (
            "for-each-ref",
            "--format=%(objectname) %(refname)",
            f"--no-merged={repository.base}",
        )
        for line in git.text(*words, below).splitlines():
            commit, ref = line.split(" ", 1)
            _, fence = names.lease_of(ref) or ("", 0)
            aside = names.aside_ref(held.name, fence)
            if 0 < fence < held.fence and git.commit(aside) is None:
                git.run("update-ref", "-m", "not glued", aside, commit)

    def _set_up(self, tree: Worktree, door: int) -> str:
        """Why no work can begin; nothing where it can."""
        setup = self._settings.setup
        if setup is None:
            return ""
        code = self._child(("/bin/sh", "-c", setup), tree, b"", door)
        if code:
            return f"--setup ended with {code}: {setup}; run it in a clean clone, and mend it"
        dirty = [spelled(path) for _, path in worktree.status(tree)]
        if not dirty:
            return ""
        named = ", ".join(dirty[:_DIRTY_SHOWN_MAX]) + ", ..." * (len(dirty) > _DIRTY_SHOWN_MAX)
        said = f"--setup left {len(dirty)} changes that would be part of every section: {named}"
        return f"{said}; have them ignored (.gitignore), or committed"

    # --- the command ------------------------------------------------------------------------------

    def _work(
        self, tree: Worktree, command: Sequence[str], issue: Mapping[str, Any], door: int
    ) -> int:
        if not self._open_instance(tree):
            return int(Exit.LEASE_LOST)
        told = self._told(tree, issue) if self._settings.record_on_stdin else None
        return self._child(command, tree, told, door)

    def _open_instance(self, tree: Worktree) -> bool:
        """Bind the worktree to the lease; False where there is no lease any more."""
        payload = WORK["issue"].proof(self._held) | {
            "instanceId": f"worktree-{tree.fence}",
            "worktreeRef": _spelled(tree),
            "runtimeRef": f"git:{tree.branch}@{tree.base}",
        }
        answer = self._ask("instance.open", payload)
        failures = answer["failureClasses"]
        if not failures or Reason.INSTANCE_EXISTS.wire in failures:
            return True
        self._tell(answer["diagnostic"])
        return not ends_lease(failures[0])

    def _told(self, tree: Worktree, issue: Mapping[str, Any]) -> bytes:
        """The issue as the worker was given it, and what earlier holders left."""
        told = dict(issue)
        with suppress(orjson.JSONDecodeError):
            told |= orjson.loads(sys.stdin.buffer.read())
        told["worktree"] = {"path": _spelled(tree), "branch": tree.branch, "base": tree.base}
        left = worktree.asides(tree.repository, self._held.name)[-_ASIDES_MAX:]
        told["asides"] = [
            {"ref": each.ref, "commit": each.commit, "fence": each.fence} for each in left
        ]
        shown = self._ask("descent.show", {"target": self._settings.target})
        ours = f"{self._held.name}/"  # the newest comes first
        found = [each for each in shown.get("obstructions", ()) if each["section"].startswith(ours)]
        told |= {"obstruction": found[0]} if found else {}
        return orjson.dumps(told) + b"\n"

    def _child(self, command: Sequence[str], tree: Worktree, stdin: bytes | None, door: int) -> int:
        """Run in the worktree, to the end of all that it starts (I2). What ends our group ends it,
        and leaves us time to put away."""
        if self._is_stopped():
            return -signal.SIGTERM  # it came before the command did
        with subprocess.Popen(  # noqa: S603 - what the operator says is run
            command,
            cwd=tree.path,
            env=_environment(tree),
            stdin=None if stdin is None else subprocess.PIPE,
            pass_fds=(door,),  # no other leg takes the worktree from under it, if we are killed
        ) as child:
            if stdin is not None:
                with suppress(BrokenPipeError):
                    child.communicate(stdin)
        _end_leftovers()
        return child.returncode

    # --- after ------------------------------------------------------------------------------------

    def _made(self, tree: Worktree, issue: Mapping[str, Any]) -> int:
        """Leave the section, if there is one, and it passes its checks."""
        held = self._held
        named = (held.name, str(issue["title"]), held.fence, held.lease_id)
        made = commit_all(tree, *named, author=held.owner)
        if made is None:
            self._tell("nothing was changed, so there is no section")
            return 0
        passed, witness = self._checked(tree, made)
        if not passed:
            return int(Exit.CHECK_FAILED)
        ref = names.section_ref(held.name, held.fence)
        tree.repository.git.run("update-ref", "-m", "section", ref, made.commit)
        section = self._section(made) | ({"witness": witness} if witness else {})
        write_report(self._report, section=section)
        count = f"{len(made.paths)} path{'s' * (len(made.paths) != 1)}"
        self._tell(f"section {held.name}/{held.fence}: {count}, kept by {ref}")
        return 0

    def _section(self, made: Commit) -> dict[str, Any]:
        paths = sorted(map(_short, made.paths))
        return {
            "target": self._settings.target,
            "base": made.base,
            "commit": made.commit,
            "tree": made.tree,
            "paths": paths[: limits.SECTION_PATHS_MAX],
            "pathCount": len(paths),
            "pathsDigest": canonical.digest("paths1", canonical.encode(list(made.paths))),
        }

    def _checked(self, tree: Worktree, made: Commit) -> tuple[bool, str]:
        """Whether what the change requires has passed, and the witness of that."""
        paths = [_short(path) for path in made.paths]
        most = limits.CHANGED_PATHS_MAX
        asked = self._ask("required.projection", {"changedPaths": paths[:most]})
        if asked["result"] != "accepted":
            is_none = Reason.REQUIRED_POLICY_MISSING.wire in asked["failureClasses"]
            self._tell("" if is_none else asked["diagnostic"])
            return is_none, ""
        if len(paths) > most:
            said = f"{len(paths)} paths were changed, and checks take {most} at most"
            self._tell(f"{said}; divide the issue")
            return False, ""
        results = checks.run_checks(
            asked["checks"],
            tree.path,
            logs=checks.log_folder(self._state_dir, "required", self._held.name),
            env=_environment(tree),
            on_progress=self._tell_check,
            cancelled=self._is_stopped,
        )
        delta: dict[str, Any] = {"changedPaths": paths, "deltaSource": "git", "fromRef": made.base}
        return self._decided(delta | {"toRef": made.commit, "results": results})

    def _decided(self, delta: dict[str, Any]) -> tuple[bool, str]:
        """Record what the checks gave, and what follows from it."""
        witnessed = self._ask("required.witness", WORK["issue"].proof(self._held) | delta)
        if witnessed["result"] != "accepted":
            self._tell(witnessed["diagnostic"])
            return False, ""
        folder = self._state_dir / checks.FOLDER / "required"
        checks.write_artifact(folder / f"{self._held.name}.json", witnessed["witness"])
        decided = self._ask("required.witness_decide", {"witness": witnessed["witness"]})
        if decided["result"] != "accepted":
            self._tell(decided["diagnostic"])
            return False, ""
        return decided["decision"]["decision"] == "accept", witnessed["witnessRef"]

    def _tell_check(self, _: int, __: int, result: Mapping[str, Any] | None, check_id: str) -> None:
        if result is not None:
            self._tell(f"check {check_id}: {result['status']}")

    def _put_away(self, tree: Worktree) -> None:
        """Take a worktree away; what is in it and not in a section is kept (I1)."""
        try:
            kept = worktree.remove(tree)
        except GitRefused as error:
            self._tell(f"worktree {tree.path} stays: {error}")
            return
        if kept is not None:
            self._tell(f"what was left is kept by {kept}")


def _spelled(tree: Worktree) -> str:
    return spelled(os.fsencode(tree.path))


def _environment(tree: Worktree) -> dict[str, str]:
    """Ours, without what is for us alone or names another repository."""
    plain = {
        name: value for name, value in os.environ.items() if name not in (VARIABLE, *ELSEWHERE)
    }
    named = {"WORKTREE": str(tree.path), "BRANCH": tree.branch, "BASE": tree.base}
    ours = {f"UNDERSTUDY_{name}": value for name, value in named.items()}
    return plain | {"PWD": str(tree.path)} | ours


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


def _short(path: str) -> str:
    """A path as a request can name it; a very long one by its beginning and a digest."""
    data = path.encode()
    if len(data) <= _PATH_BYTES_MAX:
        return path
    return f"{data[:_PATH_BYTES_MAX].decode(errors='ignore')}~{canonical.digest('path1', data)}"


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
