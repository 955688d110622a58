"""Where one lease works: its worktree, from its making to its end, and the section made in it.

    begin --> (work) --> section --kept by its ref--> put_away
                ^           |
                '--checks---'

I1  A worktree is taken away when all that is in it is kept by a ref, and not before. One that is
    left behind, by whatever, is set aside by `begin` of the next holder of its issue.
I2  Nothing is recorded here: the section goes to whoever holds the lease.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...contracts import Reason, canonical, ends_lease, limits
from ..leasing.work_kind import WORK, HeldLease
from ..run import checks
from . import names, worktree
from .commit import Commit, commit_all
from .git import ELSEWHERE, GitRefused, spelled
from .repository import Repository
from .worktree import Worktree

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Tell = Callable[[str], None]
Members = dict[str, Any]  # of `descent.section`, beside the proof

_PATH_BYTES_MAX = 400  # of a path that is named whole, so that all of them fit into a request
_ASIDES_MAX = 16  # that a holder is told of, the newest last


@dataclass(frozen=True, slots=True)
class ChecksFailed:
    """What the required checks said of a change; without results, why they were not decided."""

    diagnostic: str
    results: tuple[Mapping[str, Any], ...] = ()
    logs: Path | None = None  # a file for each check


def begin(
    repository: Repository, held: HeldLease, tell: Tell, *, sparse: Sequence[str] = ()
) -> Worktree:
    """A worktree from the repository's base; what earlier holders left is set aside."""
    for left in worktree.list_worktrees(repository, held.name):
        if left.fence < held.fence:
            _put_away(left, tell)
    _keep_unglued(repository, held)
    return worktree.create(repository, held.name, held.fence, repository.base, sparse=sparse)


def _keep_unglued(repository: Repository, held: HeldLease) -> None:
    """A section that was refused, or is in the way of another, is what its holder left."""
    git = repository.git
    below = f"{names.SECTIONS}/{names.encoded(held.name)}/"
    words = ("for-each-ref", "--format=%(objectname) %(refname)", f"--no-merged={repository.base}")
    for line in git.text(*words, below).splitlines():
        commit, ref = line.split(" ", 1)
        _, fence = names.lease_of(ref) or ("", 0)
        aside = names.aside_ref(held.name, fence)
        if 0 < fence < held.fence and git.commit(aside) is None:
            git.run("update-ref", "-m", "not glued", aside, commit)


def _put_away(tree: Worktree, tell: Tell) -> str | None:
    try:
        kept = worktree.remove(tree)
    except GitRefused as error:
        tell(f"worktree {tree.path} stays: {error}")
        return None
    if kept is not None:
        tell(f"what was left is kept by {kept}")
    return kept


class Workspace:
    """A worktree under its lease. `ask` goes to the authority; `tell` says a line to people."""

    def __init__(
        self, tree: Worktree, held: HeldLease, *, env: Mapping[str, str], ask: Ask, tell: Tell
    ) -> None:
        self.tree = tree
        self._held, self._env, self._ask, self._tell = held, env, ask, tell

    @property
    def environment(self) -> dict[str, str]:
        """Of what runs in there: it names the worktree, and no other repository."""
        tree = self.tree
        plain = {name: value for name, value in self._env.items() if name not in ELSEWHERE}
        named = {"WORKTREE": str(tree.path), "BRANCH": tree.branch, "BASE": tree.base}
        ours = {f"UNDERSTUDY_{name}": value for name, value in named.items()}
        return plain | {"PWD": str(tree.path)} | ours

    def open_instance(self) -> dict[str, Any] | None:
        """Bind the worktree to the lease; the refusal where there is no lease any more."""
        payload = WORK["issue"].proof(self._held) | {
            "instanceId": f"worktree-{self.tree.fence}",
            "worktreeRef": self._path,
            "runtimeRef": f"git:{self.tree.branch}@{self.tree.base}",
        }
        answer = self._ask("instance.open", payload)
        failures = answer["failureClasses"]
        if not failures or Reason.INSTANCE_EXISTS.wire in failures:
            return None
        self._tell(answer["diagnostic"])
        return answer if ends_lease(failures[0]) else None

    def described(self) -> dict[str, Any]:
        """The worktree, what earlier holders left, and what was last in the way of the issue."""
        tree, target = self.tree, self.tree.repository.target
        place = {"path": self._path, "branch": tree.branch, "base": tree.base, "target": target}
        left = worktree.asides(tree.repository, self._held.name)[-_ASIDES_MAX:]
        asides = [{"ref": each.ref, "commit": each.commit, "fence": each.fence} for each in left]
        shown = self._ask("descent.show", {"target": target})
        ours = f"{self._held.name}/"  # the newest comes first
        found = [each for each in shown.get("obstructions", ()) if each["section"].startswith(ours)]
        told = {"worktree": place, "asides": asides}
        return told | ({"obstruction": found[0]} if found else {})

    def section(
        self, title: str, *, on_progress: checks.OnProgress, cancelled: Callable[[], bool]
    ) -> Members | ChecksFailed | None:
        """Commit what changed, have it checked, and keep it by its ref; None if nothing changed.

        `GitRefused` is raised where it cannot be committed.
        """
        held = self._held
        made = commit_all(self.tree, held.name, title, held.fence, held.lease_id, author=held.owner)
        if made is None:
            return None
        witness = self._checked(made, on_progress, cancelled)
        if isinstance(witness, ChecksFailed):
            return witness
        ref = names.section_ref(held.name, held.fence)
        self.tree.repository.git.run("update-ref", "-m", "section", ref, made.commit)
        count = f"{len(made.paths)} path{'s' * (len(made.paths) != 1)}"
        self._tell(f"section {held.name}/{held.fence}: {count}, kept by {ref}")
        return self._members(made) | ({"witness": witness} if witness else {})

    def put_away(self) -> str | None:
        """Take the worktree away; the ref that keeps what is in no section (I1).

        One that cannot be taken away stays, and people are told why.
        """
        return _put_away(self.tree, self._tell)

    @property
    def _path(self) -> str:
        return spelled(os.fsencode(self.tree.path))

    def _members(self, made: Commit) -> Members:
        paths = sorted(map(_short, made.paths))
        return {
            "target": self.tree.repository.target,
            "base": made.base,
            "commit": made.commit,
            "tree": made.tree,
            "paths": paths[: limits.SECTION_PATHS_MAX],
            "pathCount": len(paths),
            "pathsDigest": canonical.digest("paths1", canonical.encode(list(made.paths))),
        }

    def _checked(
        self, made: Commit, on_progress: checks.OnProgress, cancelled: Callable[[], bool]
    ) -> str | ChecksFailed:
        """The witness that what the change requires has passed; empty where nothing is required."""
        paths = [_short(path) for path in made.paths]
        most = limits.CHANGED_PATHS_MAX
        asked = self._ask("required.projection", {"changedPaths": paths[:most]})
        if asked["result"] != "accepted":
            is_none = Reason.REQUIRED_POLICY_MISSING.wire in asked["failureClasses"]
            return "" if is_none else ChecksFailed(asked["diagnostic"])
        if len(paths) > most:
            said = f"{len(paths)} paths were changed, and checks take {most} at most"
            return ChecksFailed(f"{said}; divide the issue")
        logs = checks.log_folder(self.tree.repository.state_dir, "required", self._held.name)
        results = checks.run_checks(
            asked["checks"],
            self.tree.path,
            logs=logs,
            env=self.environment,
            on_progress=on_progress,
            cancelled=cancelled,
        )
        delta: dict[str, Any] = {"changedPaths": paths, "deltaSource": "git", "fromRef": made.base}
        witness = self._decided(delta | {"toRef": made.commit, "results": results})
        if witness is None:
            failed = [each["checkId"] for each in results if each["status"] != "passed"]
            said = f"required checks did not pass: {', '.join(failed)}"
            return ChecksFailed(said, tuple(results), logs)
        return witness

    def _decided(self, delta: dict[str, Any]) -> str | ChecksFailed | None:
        """Record what the checks gave; the witness if it is accepted, None if it is not."""
        witnessed = self._ask("required.witness", WORK["issue"].proof(self._held) | delta)
        if witnessed["result"] != "accepted":
            return ChecksFailed(witnessed["diagnostic"])
        folder = self.tree.repository.state_dir / checks.FOLDER / "required"
        checks.write_artifact(folder / f"{self._held.name}.json", witnessed["witness"])
        decided = self._ask("required.witness_decide", {"witness": witnessed["witness"]})
        if decided["result"] != "accepted":
            return ChecksFailed(decided["diagnostic"])
        is_accepted = decided["decision"]["decision"] == "accept"
        return str(witnessed["witnessRef"]) if is_accepted else None


def _short(path: str) -> str:
    """A path as a request can name it; a very long one by its beginning and a digest."""
    data = path.encode()
    if len(data) <= _PATH_BYTES_MAX:
        return path
    return f"{data[:_PATH_BYTES_MAX].decode(errors='ignore')}~{canonical.digest('path1', data)}"
