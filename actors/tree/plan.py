"""What an operator wants of a tree, checked before anything begins. Every cell gets a copy."""

import sys
from dataclasses import dataclass, field
from pathlib import Path

from ...contracts import RetryPolicy, retry_policy
from ..dispatch.kinds import Kinds
from ..dispatch.settings import GRACE_MS_DEFAULT, STOP_AFTER_DEFAULT, TTL_SECONDS_DEFAULT, Settings
from ..dispatch.worklist import Wanted

NAME_DEFAULT = "coord"
RUN_FOLDER = "run"  # in the state directory: what only a tree that runs has


@dataclass(frozen=True, slots=True)
class Plan:
    """Raises `ValueError` for what cannot work. Paths are absolute."""

    state_dir: Path
    argv: tuple[str, ...]  # what a worker runs for an issue; without it there are no workers
    slots: int = 1
    name: str = NAME_DEFAULT
    ttl_seconds: int = TTL_SECONDS_DEFAULT
    grace_ms: int = GRACE_MS_DEFAULT
    job_ms: int | None = None
    wanted: Wanted = field(default_factory=Wanted)
    cwd: Path = field(default_factory=Path.cwd)
    boundary: str | None = None  # of the sidecar; None: the best there is
    door: tuple[str, ...] = ()  # the gateway for agents, if one is wanted
    kinds: Kinds = field(default_factory=Kinds)  # what a worker runs for a job
    job_slots: int | None = None  # None: as many as for issues
    node: str | None = None  # who claims jobs; None: the coordinator's name
    job_files: Path | None = None  # jobs are made of specs, and written there
    schedules: bool = False  # what is due is made
    stop_after: int = STOP_AFTER_DEFAULT  # pieces of work that fail in one way, in a row
    policy: RetryPolicy = field(default_factory=retry_policy)
    leg: tuple[str, ...] = ()  # what `argv` runs under, where each lease has a worktree
    hooks: tuple[tuple[str, tuple[str, ...]], ...] = ()  # `escalation` or `done`, and what is run
    gluer: tuple[str, ...] = ()  # what merges the sections that legs make, if the tree does that
    json_logs: bool = False  # of the processes that the tree looks after
    tracer: tuple[str, ...] = ()  # what sends spans to a collector, if one is named

    def __post_init__(self) -> None:
        runs = self._commands or self.kinds or self.job_files or self.schedules
        if not runs or not all(words[0] for words in self._commands):
            raise ValueError("there is nothing to run")
        paths = [self.state_dir, self.cwd, *([self.job_files] if self.job_files else [])]
        if not all(each.is_absolute() for each in paths):
            raise ValueError("paths of a plan are absolute")
        self.settings("check")
        self.job_settings("check")

    @property
    def _commands(self) -> list[tuple[str, ...]]:
        return [words for words in (self.argv, self.door, self.gluer, self.tracer) if words]

    @property
    def run_dir(self) -> Path:
        return self.state_dir / RUN_FOLDER

    def settings(self, run: str) -> Settings:
        """Of a dispatcher that begins now."""
        return Settings(
            name=self.name,
            run=run,
            slots=self.slots,
            ttl_seconds=self.ttl_seconds,
            grace_ms=self.grace_ms,
            job_ms=self.job_ms,
            wanted=self.wanted,
            stop_after=self.stop_after,
        )

    def job_settings(self, run: str) -> Settings:
        """Of a job loop that begins now; its name is the node's."""
        return Settings(
            name=self.node or self.name,
            run=run,
            slots=self.job_slots or self.slots,
            ttl_seconds=self.ttl_seconds,
            grace_ms=self.grace_ms,
            job_ms=self.job_ms,
            stop_after=self.stop_after,
        )


SHELL = ("/bin/sh", "-c")
_HANDLERS = (sys.executable, "-m", "understudy.actors.handlers")


def shell_command(text: str) -> tuple[str, ...]:
    """A command line as people write it."""
    return (*SHELL, text)


def webhook_command(url: str, secret: Path | None) -> tuple[str, ...]:
    """A hook that posts what it is told, signed with the secret in a file."""
    signed = (str(secret),) if secret else ()
    return (sys.executable, "-m", "understudy.actors.run.webhook", url, *signed)


def handler_command(name: str) -> tuple[str, ...]:
    """A handler in Python, in a process of its own."""
    return (*_HANDLERS, name)


def handler_of(words: tuple[str, ...]) -> str | None:
    """The handler that a command runs; None where it is another command."""
    return words[-1] if words[:-1] == _HANDLERS else None
