"""The worktrees of agents: made with a claim, finished under its fence, put away when it is over.

    begin --> (the agent works there) --> finish --> section, recorded by the caller
                                             |           |
                             over: by whatever means --> put away

W1  A worktree is put away when its lease is over; what is in no section is kept by a ref first.
W2  One thing at a time is done in the worktrees of an issue.
W3  Checks that run in a worktree end when its lease is over.

Git and checks block, and so run in threads of their own; what they ask of the authority is asked in
the event loop. A gateway that is killed leaves worktrees behind: its successor puts them away when
their leases are over, or else the next holder of the issue does, or `understudy worktree prune`.
"""

import asyncio
import contextvars
import logging
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from ..descent import names
from ..descent.git import GitRefused
from ..leasing import HeldLease
from ..leasing.work_kind import for_worker

if TYPE_CHECKING:
    from ..descent.workspace import Ask, ChecksFailed, Members, Workspace
    from ..descent.worktree import Worktree

_THREADS_MAX = 32  # of work that blocks: checks of that many agents run side by side
_ISSUE = "issue/"

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
Key = tuple[str, int]  # an issue, and the fence of its lease
AsyncAsk = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
OnProgress = Callable[[int, int, dict[str, Any] | None, str], None]


@dataclass(frozen=True, slots=True)
class WorktreeWish:
    """What an agent wants to work on: `None` is the branch that is checked out, and its head."""

    into: str | None = None
    base: str | None = None


class AgentWorktrees:
    """All worktrees of the agents of one state directory, in the repository that it lies in."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self.known: set[Key] = set()  # what was begun here, and not put away
        self._over: set[Key] = set()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._errands: set[asyncio.Task[None]] = set()
        self._threads = ThreadPoolExecutor(_THREADS_MAX, "worktree")

    @property
    def are_used(self) -> bool:
        """Whether there ever was one."""
        return names.worktrees(self._state_dir).is_dir()

    def has(self, issue_id: object, fence: object) -> bool:
        """Whether there is one; git is not asked."""
        is_named = isinstance(issue_id, str) and type(fence) is int
        if not is_named or not self.are_used:
            return False
        path = names.folder(self._state_dir, str(issue_id), int(str(fence)))
        return path.with_name(f"{fence}.json").is_file()

    async def refuse_unfit(self, wish: WorktreeWish) -> None:
        """`GitRefused` where no worktree could be made."""
        await self._run(lambda: _surveyed(self._state_dir, wish))

    async def begin(
        self, held: HeldLease, wish: WorktreeWish, ask: AsyncAsk
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        """Make it, and tell of it; or the refusal where the lease is over. `GitRefused` is raised.

        What cannot be made leaves nothing behind that the next holder would not set aside.
        """
        asked = self._asking(ask)

        def work() -> tuple[dict[str, Any], dict[str, Any] | None]:
            place = _begun(self._state_dir, held, wish, asked)
            refused = place.open_instance()
            if refused is None:
                return place.described(), None
            place.put_away()
            return {}, refused

        async with self._lock(held.name):
            told, refused = await self._run(work)
        if refused is None:
            self.known.add((held.name, held.fence))
        return told, refused

    async def finish(
        self,
        held: HeldLease,
        title: str,
        ask: AsyncAsk,
        *,
        on_progress: OnProgress,
        cancelled: Callable[[], bool],
    ) -> "Members | ChecksFailed | None":
        """Commit what is in it and have it checked, as `Workspace.section` does."""
        key, asked = (held.name, held.fence), self._asking(ask)

        def ends() -> bool:
            return cancelled() or key in self._over  # W3

        def work() -> "Members | ChecksFailed | None":
            place = _found(self._state_dir, held, asked)
            with _occupied(place):
                return place.section(title, on_progress=on_progress, cancelled=ends)

        async with self._lock(held.name):
            return await self._run(work)

    async def put_away(self, issue_id: str, fence: int) -> str | None:
        """Take it away; the ref that keeps what is in no section (W1)."""
        if not self.has(issue_id, fence):
            return None
        held = HeldLease(issue_id, "", "", fence)
        async with self._lock(issue_id):
            if not self.has(issue_id, fence):
                return None
            kept = await self._run(lambda: _found(self._state_dir, held, _unasked).put_away())
        if not self.has(issue_id, fence):  # one that stays is tried again
            self.known.discard((issue_id, fence))
        return kept

    def end(self, resource: str, fence: int) -> asyncio.Task[None] | None:
        """The lease on it is over: put it away, beside what else goes on."""
        issue_id = resource.removeprefix(_ISSUE)
        if not resource.startswith(_ISSUE) or not self.has(issue_id, fence):
            return None
        task = asyncio.get_running_loop().create_task(self._end(issue_id, fence))
        self._errands.add(task)
        task.add_done_callback(self._errands.discard)
        return task

    async def settle(self) -> None:
        """Wait for what is being put away."""
        await asyncio.gather(*self._errands)

    async def _end(self, issue_id: str, fence: int) -> None:
        self._over.add((issue_id, fence))
        try:
            await self.put_away(issue_id, fence)
        except (GitRefused, OSError) as error:
            words = (issue_id, fence, error)
            _log.warning("the worktree of %s, fence %d, stays: %s", *words)
        finally:
            self._over.discard((issue_id, fence))

    def _lock(self, issue_id: str) -> asyncio.Lock:
        return self._locks.setdefault(issue_id, asyncio.Lock())  # W2

    async def _run(self, work: Callable[[], _T]) -> _T:
        """In a thread, which knows who calls."""
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        return await loop.run_in_executor(self._threads, lambda: context.run(work))

    def _asking(self, ask: AsyncAsk) -> "Ask":
        """From a thread, in the event loop."""
        loop = asyncio.get_running_loop()

        async def answer(action: str, payload: dict[str, Any]) -> dict[str, Any]:
            return await ask(action, payload)

        return lambda *asked: asyncio.run_coroutine_threadsafe(answer(*asked), loop).result()


# --- in a thread ----------------------------------------------------------------------------------
# Only what is done with a worktree needs the rooms that do it.


def _folder(state_dir: Path) -> Path:
    """Where agents work: beside the state directory, as checks do."""
    return state_dir.absolute().parent


def _surveyed(state_dir: Path, wish: WorktreeWish) -> Any:
    from ..descent.repository import survey

    return survey(_folder(state_dir), state_dir, target=wish.into, base=wish.base)


def _begun(state_dir: Path, held: HeldLease, wish: WorktreeWish, ask: "Ask") -> "Workspace":
    from ..descent.workspace import begin

    tree = begin(_surveyed(state_dir, wish), held, _log.warning)
    return _workspace(tree, held, state_dir, ask)


def _found(state_dir: Path, held: HeldLease, ask: "Ask") -> "Workspace":
    from ..descent import worktree
    from ..descent.repository import locate

    repository = locate(_folder(state_dir), state_dir)
    tree = worktree.find(repository, held.name, held.fence)
    if tree is None:
        said = f"the worktree of {held.name}, fence {held.fence}, is not of {repository.top}"
        raise GitRefused(f"{said}; `understudy worktree prune`, run where it is of, removes it")
    return _workspace(tree, held, state_dir, ask)


def _workspace(tree: "Worktree", held: HeldLease, state_dir: Path, ask: "Ask") -> "Workspace":
    from ..descent.workspace import Workspace

    env = for_worker(os.environ) | held.environment(state_dir)
    return Workspace(tree, held, env=env, ask=ask, tell=_log.warning)


@contextmanager
def _occupied(place: "Workspace") -> Iterator[None]:
    """Nobody else takes it away meanwhile."""
    from ..descent.worktree import occupied

    if not place.tree.is_whole:
        said = f"{place.tree.path} is no worktree of git any more"
        raise GitRefused(f"{said}; hand the work over, and take it again")
    with occupied(place.tree):
        yield


def _unasked(action: str, payload: dict[str, Any]) -> dict[str, Any]:
    raise AssertionError(f"{action} is not asked for: {sorted(payload)}")
