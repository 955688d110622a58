"""Where one lease works: its worktree, from its making to its end, and the section made in it.

    begin --> (work) --> section --kept by its ref--> put_away
                ^           |
                '--checks---'

I1  A worktree is taken away when all that is in it is kept by a ref, and not before. One that is
    left behind, by whatever, is set aside by `begin` of the next holder of its issue.
I2  Nothing is recorded here: the section goes to whoever holds the lease.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...contracts import Reason, canonical, ends_lease, limits
from ..leasing.work_kind import WORK, HeldLease
from ..run import checks
from . import names, worktree
from .commit import Commit, commit_all
from .repository import Repository
from .worktree import Worktree

Ask = Callable[[str, dict[str, Any]], dict[str, Any]]
Members = dict[str, Any]  # of `descent.section`, beside the proof

_LONG_PATH = 900  # characters of a path that is too long to be named whole


@dataclass(frozen=True, slots=True)
class ChecksFailed:
    """What the required checks said of a change; without results, why they were not decided."""

    diagnostic: str
    results: tuple[Mapping[str, Any], ...] = ()
    logs: Path | None = None  # a file for each check


def begin(repository: Repository, held: HeldLease, *, sparse: Sequence[str] = ()) -> Worktree:
    """A worktree from the repository's base; what dead holders left in theirs is set aside."""
    for left in worktree.list_worktrees(repository, held.name):
        if left.fence < held.fence:
            worktree.remove(left)
    return worktree.create(repository, held.name, held.fence, repository.base, sparse=sparse)


class Workspace:
    """A worktree under its lease. `ask` goes to the authority; `tell` says a line to people."""

    def __init__(
        self, tree: Worktree, held: HeldLease, ask: Ask, tell: Callable[[str], None]
    ) -> None:
        self.tree = tree
        self._held, self._ask, self._tell = held, ask, tell
        self._ref = names.section_ref(held.name, held.fence)

    @property
    def _target(self) -> str:
        return self.tree.repository.target

    def open_instance(self) -> dict[str, Any] | None:
        """Bind the worktree to the lease; the refusal where there is no lease any more."""
        payload = WORK["issue"].proof(self._held) | {
            "instanceId": f"worktree-{self.tree.fence}",
            "worktreeRef": str(self.tree.path),
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
        tree = self.tree
        place = {"path": str(tree.path), "branch": tree.branch, "base": tree.base}
        left = worktree.asides(tree.repository, self._held.name)
        asides = [{"ref": each.ref, "commit": each.commit} for each in left]
        shown = self._ask("descent.show", {"target": self._target})
        ours = f"{self._held.name}/"
        found = [each for each in shown.get("obstructions", ()) if each["section"].startswith(ours)]
        told = {"worktree": place | {"target": self._target}, "asides": asides}
        return told | ({"obstruction": found[0]} if found else {})

    def section(
        self,
        title: str,
        *,
        on_progress: checks.OnProgress = lambda *_: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> Members | ChecksFailed | None:
        """Commit what changed, have it checked, and keep it by its ref; None if nothing changed.

        `GitRefused` is raised where it cannot be committed.
        """
        held = self._held
        named = (held.name, title, held.fence, held.lease_id)
        made = commit_all(self.tree, *named, author=held.owner)
        if made is None:
            return None
        witness = self._witness(made, on_progress, cancelled)
        if isinstance(witness, ChecksFailed):
            return witness
        git = self.tree.repository.git
        git.run("update-ref", "-m", "section", self._ref, made.commit)
        self._tell(f"section {held.name}/{held.fence}: {len(made.paths)} paths, by {self._ref}")
        return self._members(made) | ({"witness": witness} if witness else {})

    def withdraw(self) -> None:
        """The section was refused: what is in it counts as left again."""
        self.tree.repository.git.run("update-ref", "-d", self._ref)

    def put_away(self) -> str | None:
        """Take the worktree away; the ref that keeps what is in no section (I1)."""
        kept = worktree.remove(self.tree)
        if kept is not None:
            self._tell(f"what was left is kept under {kept}")
        return kept

    def _members(self, made: Commit) -> Members:
        paths = sorted(map(_short, made.paths))
        return {
            "target": self._target,
            "base": made.base,
            "commit": made.commit,
            "tree": made.tree,
            "paths": paths[: limits.SECTION_PATHS_MAX],
            "pathCount": len(paths),
            "pathsDigest": canonical.digest("paths1", canonical.encode(list(made.paths))),
        }

    def _witness(
        self, made: Commit, on_progress: checks.OnProgress, cancelled: Callable[[], bool]
    ) -> str | ChecksFailed:
        """Run what the change requires, and have it decided; without a policy there is nothing."""
        # More paths than one request takes require what no paths at all require: the default.
        paths = list(made.paths) if len(made.paths) <= limits.CHANGED_PATHS_MAX else []
        asked = self._ask("required.projection", {"changedPaths": paths})
        if asked["result"] != "accepted":
            is_none = Reason.REQUIRED_POLICY_MISSING.wire in asked["failureClasses"]
            return "" if is_none else ChecksFailed(asked["diagnostic"])
        state_dir = self.tree.repository.state_dir
        logs = checks.log_folder(state_dir, "required", self._held.name)
        results = checks.run_checks(
            asked["checks"], self.tree.path, logs=logs, on_progress=on_progress, cancelled=cancelled
        )
        delta: dict[str, Any] = {"changedPaths": paths, "deltaSource": "git", "fromRef": made.base}
        delta |= {"toRef": made.commit, "results": results}
        witnessed = self._ask("required.witness", WORK["issue"].proof(self._held) | delta)
        if witnessed["result"] != "accepted":
            return ChecksFailed(witnessed["diagnostic"])
        folder = state_dir / checks.FOLDER / "required"
        checks.write_artifact(folder / f"{self._held.name}.json", witnessed["witness"])
        decided = self._ask("required.witness_decide", {"witness": witnessed["witness"]})
        if decided["result"] != "accepted":
            return ChecksFailed(decided["diagnostic"])
        if decided["decision"]["decision"] == "accept":
            return str(witnessed["witnessRef"])
        failed = [each["checkId"] for each in results if each["status"] != "passed"]
        said = f"required checks did not pass: {', '.join(failed)}"
        return ChecksFailed(said, tuple(results), logs)


def _short(path: str) -> str:
    """A path as a request can name it; a very long one by its beginning and a digest."""
    if len(path) <= limits.REF_LENGTH_MAX:
        return path
    return f"{path[:_LONG_PATH]}~{canonical.digest('path1', path.encode())}"
