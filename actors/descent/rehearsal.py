"""Runs the required checks on merges that no branch has yet, each in a worktree of its own.

    prefix 1  --checks-->  passed  \\
    prefix 2  --checks-->  passed   > side by side; what comes after a failure is called off
    prefix 3  --checks-->  failed  /

The worktrees lie in `<state directory>/worktrees/.glue/<branch>/<fence>`, are detached, and go when
the checks have ended. What a gluer left that was killed goes when the next one begins.
"""

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from ...contracts import Reason, limits
from ..leasing.work_kind import for_worker
from ..process.transcript import Transcript
from ..run import checks
from .git import Git, GitRefused, spelled
from .glue_desk import GlueDesk, GlueRefused, GlueStopped

FOLDER: Final = ".glue"  # below the worktrees of the state directory; no id of an issue
TAIL_BYTES_MAX: Final = 1_500  # of a failed check's output
_LEASE: Final = ("UNDERSTUDY_LEASE", "UNDERSTUDY_FENCE")  # what a check has no business with
_SETUP: Final = "setup"
_SETUP_SECONDS: Final = 3_600
_NO_POLICY: Final = Reason.REQUIRED_POLICY_MISSING.wire


@dataclass(frozen=True, slots=True)
class MergePrefix:
    """A commit to check, and the one that its branch is at."""

    name: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """The first check that did not pass, how it ended, and the last of what it printed."""

    check_id: str
    status: str
    exit_code: int | None
    tail: str


@dataclass(frozen=True, slots=True)
class Rehearsed:
    """What the checks gave; `witness` is the authority's record of it, if any were required."""

    is_run: bool = True  # else it was called off
    failed: FailedCheck | None = None
    witness: str = ""


@dataclass(frozen=True, slots=True)
class _PathsPart:
    """Some changed paths, and the ids of the checks that they require."""

    paths: tuple[str, ...]
    check_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Required:
    """What a prefix requires: the checks to run, and which part of its paths asks for which."""

    checks: tuple[Mapping[str, Any], ...] = ()
    parts: tuple[_PathsPart, ...] = ()


class CheckStage:
    """Where the checks of one gluer run."""

    def __init__(self, desk: GlueDesk, git: Git, state_dir: Path, setup: str = "") -> None:
        self._desk, self._git, self._state_dir, self._setup = desk, git, state_dir, setup
        branch = quote(desk.target, safe="")
        self._above = state_dir.resolve() / "worktrees" / FOLDER / branch
        self._folder = self._above / str(desk.held.fence)
        self._logs: dict[MergePrefix, Path] = {}
        self._one_by_one = threading.Lock()  # git's list of worktrees, and the folder of logs

    def has_policy(self) -> bool:
        """Whether a check policy is in force; without one nothing is required."""
        answer = self._desk.read("required.projection", changedPaths=["any"])
        return _NO_POLICY not in answer["failureClasses"]

    def clear(self) -> None:
        """Remove what gluers before us left."""
        for each in sorted(self._above.iterdir()) if self._above.is_dir() else ():
            if each.name.isdecimal() and int(each.name) <= self._desk.held.fence:
                for tree in each.iterdir():
                    self._remove(tree)
                shutil.rmtree(each, ignore_errors=True)
        self._git.run("worktree", "prune")

    def rehearse(
        self, prefixes: Sequence[MergePrefix], tell: Callable[[str], None]
    ) -> list[Rehearsed]:
        """Each prefix, side by side. Those behind the first failure are called off."""
        wanted = [self._required(each) for each in prefixes]
        ended: dict[int, list[dict[str, Any]]] = {}

        def run(place: int) -> list[dict[str, Any]]:
            def is_called_off() -> bool:
                return any(_first_bad(ended.get(each, ())) for each in range(place))

            results = self._run(prefixes[place], wanted[place], is_called_off)
            ended[place] = results
            return results

        with ThreadPoolExecutor(max(1, len(prefixes))) as crew:
            running = [crew.submit(run, place) for place in range(len(prefixes))]
            found = [each.result() for each in running]
        judged: list[Rehearsed] = []
        for prefix, required, results in zip(prefixes, wanted, found, strict=True):
            if judged and (judged[-1].failed or not judged[-1].is_run):
                judged.append(Rehearsed(is_run=False))
                continue
            judged.append(self._judged(prefix, required, results))
            if required.checks:
                last = judged[-1].failed
                said = f"{last.check_id} {last.status}" if last else "passed"
                tell(f"{prefix.name}: {len(results)} checks on {prefix.new[:12]}: {said}")
        return judged

    def fails_at(self, prefix: MergePrefix, check_id: str) -> FailedCheck | None:
        """How one check of a prefix ends on the branch as it is, without the prefix."""
        required = self._required(prefix)
        only = tuple(each for each in required.checks if each["checkId"] == check_id)
        before = MergePrefix(f"{prefix.name}-before", prefix.old, prefix.old)
        bad = _first_bad(self._run(before, _Required(only), lambda: False))
        return self._failed(before, bad) if bad else None

    # --- what is required -----------------------------------------------------------------------

    def _required(self, prefix: MergePrefix) -> _Required:
        words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames")
        said = self._git.run(*words, prefix.old, prefix.new).stdout
        paths = sorted(spelled(each) for each in said.split(b"\0") if each)
        found: dict[str, Mapping[str, Any]] = {}
        parts: list[_PathsPart] = []
        for at in range(0, len(paths), limits.CHANGED_PATHS_MAX):
            some = tuple(paths[at : at + limits.CHANGED_PATHS_MAX])
            answer = self._desk.read("required.projection", changedPaths=list(some))
            if _NO_POLICY in answer["failureClasses"]:
                return _Required()
            if answer["result"] != "accepted":
                raise GlueRefused(answer["failureClasses"][0], answer["diagnostic"])
            parts.append(_PathsPart(some, tuple(each["checkId"] for each in answer["checks"])))
            found |= {each["checkId"]: each for each in answer["checks"]}
        return _Required(tuple(found.values()), tuple(parts))

    # --- running --------------------------------------------------------------------------------

    def _run(
        self, prefix: MergePrefix, required: _Required, is_called_off: Callable[[], bool]
    ) -> list[dict[str, Any]]:
        if not required.checks or is_called_off():
            return []
        folder = self._folder / prefix.name.replace("/", "@")
        env = {name: value for name, value in for_worker(os.environ).items() if name not in _LEASE}
        try:
            with self._one_by_one:
                name = f"{self._desk.held.fence}-{len(self._logs)}-{folder.name}"
                logs = checks.log_folder(self._state_dir, "glue", name)
                self._logs[prefix] = logs
                self._add(folder, prefix.new)
            if self._setup:
                self._set_up(folder, logs, env)
            return checks.run_checks(
                required.checks, folder, logs=logs, env=env, cancelled=is_called_off
            )
        finally:
            with self._one_by_one:
                self._remove(folder)

    def _set_up(self, folder: Path, logs: Path, env: Mapping[str, str]) -> None:
        """What the checks need and git does not have; where that fails, no section is at fault."""
        command = ["/bin/sh", "-c", self._setup]
        step = {"checkId": _SETUP, "command": command, "timeoutSeconds": _SETUP_SECONDS}
        (ended,) = checks.run_checks([step], folder, logs=logs, env=env)
        if ended["status"] != "passed":
            said = _tail(logs / f"{_SETUP}.log")
            raise GlueStopped(
                f"the setup of a worktree for checks ended with {ended['status']}. Nothing was "
                f"moved; mend it, then glue again. The last of its output:\n{said}"
            )

    def _add(self, folder: Path, commit: str) -> None:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._remove(folder)
        self._git.run("worktree", "add", "--quiet", "--detach", "--force", folder, commit)

    def _remove(self, folder: Path) -> None:
        if not folder.exists():
            return
        with suppress(GitRefused):
            self._git.run("worktree", "remove", "--force", "--force", folder)
        shutil.rmtree(folder, ignore_errors=True)  # what git would not take away

    # --- what came of it ------------------------------------------------------------------------

    def _judged(
        self, prefix: MergePrefix, required: _Required, results: Sequence[dict[str, Any]]
    ) -> Rehearsed:
        by_id = {each["checkId"]: each for each in results}
        witness = ""
        for part in required.parts:
            if part.check_ids:
                answer = self._desk.record(
                    "required.witness",
                    changedPaths=list(part.paths),
                    results=[by_id[each] for each in part.check_ids],
                    deltaSource="git",
                    fromRef=prefix.old,
                    toRef=prefix.new,
                )
                witness = answer["witnessRef"]
        bad = _first_bad(results)
        return Rehearsed(failed=self._failed(prefix, bad) if bad else None, witness=witness)

    def _failed(self, prefix: MergePrefix, result: Mapping[str, Any]) -> FailedCheck:
        tail = _tail(self._logs[prefix] / f"{result['checkId']}.log")
        return FailedCheck(result["checkId"], result["status"], result["exitCode"], tail)


def _first_bad(results: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    return next((each for each in results if each["status"] != "passed"), None)


def _tail(log: Path) -> str:
    """The last of what a check printed."""
    kept = b""
    with suppress(OSError):
        for part in Transcript(log).read():
            if isinstance(part, bytes):
                kept = (kept + part)[-TAIL_BYTES_MAX:]
    return kept.decode(errors="replace").strip()
