"""One leg of the work: a command in a worktree of its own, and what it made, as a section.

    worktree --> setup --> command --0--> commit --> checks --> section, kept by its ref
                   |          \\--else--> set aside
                   \\--else--> a fault of the tree

It runs in the process group of the command's worker, under the lease that its environment names,
and ends as the command does. It records nothing: what it leaves in the file of `section_file` is
recorded by whoever holds the lease.

I1  A worktree is taken away when all that is in it is kept by a ref, and not before. A leg that is
    killed leaves its worktree to the next one, or to `understudy worktree prune`.
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
from ...contracts import Exit, Reason, canonical, ends_lease, limits
from ..leasing.work_kind import WORK, HeldLease
from ..run import checks
from ..run.section_file import VARIABLE, write_report
from . import names, worktree
from .commit import Commit, commit_all
from .git import GitRefused
from .repository import Repository, survey
from .worktree import Worktree

FAULT: Final = int(Exit.CONFIG)  # what it ends with where the tree is at fault
_READS = frozenset({"issue.show", "descent.show", "required.projection"})
_LONG_PATH = 900  # characters of a path that is too long to be named whole

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]


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
            repository, tree = self._begin()
            self._set_up(tree)
        except GitRefused as error:
            self._tell(str(error))
            write_report(self._report, fault=str(error))
            return FAULT
        if self._open_instance(tree):
            code = self._work(tree, command, shown["issue"])
        else:
            code = int(Exit.LEASE_LOST)
        if code != 0:
            self._put_away(tree)
            return code
        return self._made(repository, tree, shown["issue"])

    # --- before -----------------------------------------------------------------------------------

    def _begin(self) -> tuple[Repository, Worktree]:
        """A worktree of our own; what dead holders left in theirs is set aside."""
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
                worktree.remove(left)
        made = worktree.create(
            repository, held.name, held.fence, repository.base, sparse=wanted.sparse
        )
        self._tell(f"worktree {made.path}, on {made.branch} from {made.base[:12]}")
        return repository, made

    def _set_up(self, tree: Worktree) -> None:
        if self._settings.setup is None:
            return
        words = ["/bin/sh", "-c", self._settings.setup]
        code = self._child(words, tree, stdin=b"")
        if code:
            self._put_away(tree)
            said = f"--setup ended with {code}: {self._settings.setup}"
            raise GitRefused(f"{said}; try it in a clean clone, and mend it")

    def _open_instance(self, tree: Worktree) -> bool:
        """Bind the worktree to the lease; False where there is no lease any more."""
        payload = WORK["issue"].proof(self._held) | {
            "instanceId": f"worktree-{tree.fence}",
            "worktreeRef": str(tree.path),
            "runtimeRef": f"git:{tree.branch}@{tree.base}",
        }
        answer = self._ask("instance.open", payload)
        failures = answer["failureClasses"]
        if not failures or Reason.INSTANCE_EXISTS.wire in failures:
            return True
        self._tell(answer["diagnostic"])
        return not ends_lease(failures[0])

    # --- the command ------------------------------------------------------------------------------

    def _work(self, tree: Worktree, command: Sequence[str], issue: Mapping[str, Any]) -> int:
        if not self._settings.record_on_stdin:
            return self._child(command, tree, stdin=None)
        return self._child(command, tree, stdin=orjson.dumps(self._told(tree, issue)) + b"\n")

    def _told(self, tree: Worktree, issue: Mapping[str, Any]) -> dict[str, Any]:
        """The issue as the worker was given it, and what earlier holders left."""
        told: dict[str, Any] = dict(issue)
        with suppress(orjson.JSONDecodeError):
            told = {**issue, **orjson.loads(sys.stdin.buffer.read())}
        told["worktree"] = {"path": str(tree.path), "branch": tree.branch, "base": tree.base}
        left = worktree.asides(tree.repository, self._held.name)
        told["asides"] = [{"ref": each.ref, "commit": each.commit} for each in left]
        shown = self._ask("descent.show", {"target": self._settings.target})
        ours = f"{self._held.name}/"
        found = [each for each in shown.get("obstructions", ()) if each["section"].startswith(ours)]
        return told | ({"obstruction": found[0]} if found else {})

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

    def _made(self, repository: Repository, tree: Worktree, issue: Mapping[str, Any]) -> int:
        """The section, if there is one, and it passes its checks."""
        held = self._held
        try:
            named = (held.name, str(issue["title"]), held.fence, held.lease_id)
            made = commit_all(tree, *named, author=held.owner)
        except GitRefused as error:
            self._tell(str(error))
            self._put_away(tree)
            return int(Exit.FAILED)
        if made is None:
            self._tell("nothing was changed, so there is no section")
            self._put_away(tree)
            return 0
        passed, witness = self._checked(tree, made)
        if not passed:
            self._put_away(tree)
            return int(Exit.CHECK_FAILED)
        ref = names.section_ref(held.name, held.fence)
        repository.git.run("update-ref", "-m", "section", ref, made.commit)
        section = self._section(made) | ({"witness": witness} if witness else {})
        write_report(self._report, section=section)
        self._put_away(tree)
        self._tell(f"section {held.name}/{held.fence}: {len(made.paths)} paths, kept by {ref}")
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
        """Run what the change requires, and have it decided; without a policy there is nothing."""
        # More paths than one request takes require what no paths at all require: the default.
        paths = list(made.paths) if len(made.paths) <= limits.CHANGED_PATHS_MAX else []
        asked = self._ask("required.projection", {"changedPaths": paths})
        if asked["result"] != "accepted":
            is_none = Reason.REQUIRED_POLICY_MISSING.wire in asked["failureClasses"]
            self._tell("" if is_none else asked["diagnostic"])
            return is_none, ""
        logs = checks.log_folder(self._state_dir, "required", self._held.name)
        results = checks.run_checks(asked["checks"], tree.path, logs=logs, on_progress=self._passed)
        delta: dict[str, Any] = {"changedPaths": paths, "deltaSource": "git", "fromRef": made.base}
        delta |= {"toRef": made.commit, "results": results}
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

    def _passed(self, _: int, __: int, result: Mapping[str, Any] | None, check_id: str) -> None:
        if result is not None:
            self._tell(f"check {check_id}: {result['status']}")

    def _put_away(self, tree: Worktree) -> None:
        """Take the worktree away; whatever is in it and not in a section is kept (I1)."""
        try:
            kept = worktree.remove(tree)
        except GitRefused as error:
            self._tell(f"the worktree stays: {error}")
            return
        if kept is not None:
            self._tell(f"what was left is kept under {kept}")


def _short(path: str) -> str:
    """A path as a request can name it; a very long one by its beginning and a digest."""
    if len(path) <= limits.REF_LENGTH_MAX:
        return path
    return f"{path[:_LONG_PATH]}~{canonical.digest('path1', path.encode())}"


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
