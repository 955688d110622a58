"""What a supervisor is told: how each child is started and stopped, and when it gives up."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from .cell import OtpError, Start

Restart = Literal["permanent", "transient", "temporary"]
ChildType = Literal["worker", "supervisor"]
Shutdown = int | Literal["infinity", "brutal_kill"]
Strategy = Literal["one_for_one", "one_for_all", "rest_for_one"]
AutoShutdown = Literal["never", "any_significant", "all_significant"]

ID_LENGTH_MAX: Final = 256
WORKER_SHUTDOWN_MS: Final = 5_000


class SpecInvalid(OtpError, ValueError):
    """A child or a supervisor is described in a way that cannot work."""


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """One child. `shutdown` is 5 s for a worker and without end for a supervisor, if not given."""

    id: str
    start: Start
    restart: Restart = "permanent"
    shutdown: Shutdown | None = None
    type: ChildType = "worker"
    significant: bool = False
    start_timeout_ms: int | None = None  # to get ready; None: as long as it takes

    def __post_init__(self) -> None:
        if self.shutdown is None:
            default: Shutdown = "infinity" if self.type == "supervisor" else WORKER_SHUTDOWN_MS
            object.__setattr__(self, "shutdown", default)
        check_child(self)


@dataclass(frozen=True, slots=True)
class Flags:
    """How children hang together. More than `intensity` restarts within `period_ms`: give up."""

    strategy: Strategy = "one_for_one"
    intensity: int = 1
    period_ms: int = 5_000
    auto_shutdown: AutoShutdown = "never"

    def __post_init__(self) -> None:
        _one_of("strategy", self.strategy, Strategy)
        _one_of("auto_shutdown", self.auto_shutdown, AutoShutdown)
        _whole("intensity", self.intensity, least=0)
        _whole("period_ms", self.period_ms, least=1)


def check_child(spec: ChildSpec) -> None:
    """Raise `SpecInvalid` with the first thing that is wrong with a child by itself."""
    if not isinstance(spec.id, str) or not spec.id or len(spec.id) > ID_LENGTH_MAX:
        raise SpecInvalid(f"id: {spec.id!r:.80} is no text of 1 to {ID_LENGTH_MAX} characters")
    where = f"child {spec.id}: "
    if not isinstance(spec.start, Start) or not callable(spec.start.make):
        raise SpecInvalid(f"{where}start: {spec.start!r:.80} makes no behaviour")
    _one_of(f"{where}restart", spec.restart, Restart)
    _one_of(f"{where}type", spec.type, ChildType)
    if spec.shutdown not in ("infinity", "brutal_kill"):
        _whole(f"{where}shutdown", spec.shutdown, least=1)
    if not isinstance(spec.significant, bool):
        raise SpecInvalid(f"{where}significant: {spec.significant!r:.80} is not true or false")
    if spec.start_timeout_ms is not None:
        _whole(f"{where}start_timeout_ms", spec.start_timeout_ms, least=1)
    if spec.significant and spec.restart == "permanent":
        raise SpecInvalid(f"{where}a permanent child ends for no good, so it is not significant")


def check_fit(flags: Flags, spec: ChildSpec) -> None:
    """Raise `SpecInvalid` where a child does not go with the flags of its supervisor."""
    if spec.significant and flags.auto_shutdown == "never":
        raise SpecInvalid(f"child {spec.id}: significant, but auto_shutdown is never")


def check_children(flags: Flags, specs: Iterable[ChildSpec]) -> None:
    """Raise `SpecInvalid` where children do not go with the flags, or with each other."""
    seen: set[str] = set()
    for spec in specs:
        if not isinstance(spec, ChildSpec):
            raise SpecInvalid(f"{spec!r:.80} is no child")
        check_fit(flags, spec)
        if spec.id in seen:
            raise SpecInvalid(f"child {spec.id}: listed twice")
        seen.add(spec.id)


def _one_of(name: str, value: object, allowed: object) -> None:
    words = get_args(allowed)
    if value not in words:
        raise SpecInvalid(f"{name}: {value!r:.80} is none of {', '.join(words)}")


def _whole(name: str, value: object, least: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise SpecInvalid(f"{name}: {value!r:.80} is no whole number from {least}")
