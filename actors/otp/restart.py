"""What a supervisor does about the end of a child: a table, and three pure questions to it.

    end of a child --VERDICTS--> restart --Window--> the group of the strategy, or give up
                             \\-> keep, drop --auto_shutdown--> go on, or give up

`clean` is an end with `normal` or `shutdown`, everything else is a `fault`. *Keep* leaves the spec
behind, for `restart_child`; *drop* forgets the child.

I1  A restart that is exactly `period_ms` old still counts.
I2  Children are stopped in the reverse of the order in which they are started.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal, assert_never

from .cell import ExitReason
from .spec import AutoShutdown, ChildSpec, Flags, Restart, Strategy

End = Literal["clean", "fault"]
Verdict = Literal["restart", "keep", "drop"]

VERDICTS: Final[dict[tuple[Restart, End], Verdict]] = {
    ("permanent", "clean"): "restart",
    ("permanent", "fault"): "restart",
    ("transient", "clean"): "keep",
    ("transient", "fault"): "restart",
    ("temporary", "clean"): "drop",
    ("temporary", "fault"): "drop",
}

# Which children end and start again with the one that ended, by their place relative to it.
AFFECTED: Final[dict[Strategy, tuple[str, ...]]] = {
    "one_for_one": ("itself",),
    "rest_for_one": ("itself", "later"),
    "one_for_all": ("earlier", "itself", "later"),
}


def verdict(restart: Restart, reason: ExitReason) -> Verdict:
    """What becomes of a child that ended by itself."""
    return VERDICTS[restart, "clean" if reason.is_clean else "fault"]


@dataclass(frozen=True, slots=True)
class Group:
    """Which children are stopped, in this order, and which are then started, in this order."""

    stop: tuple[str, ...]
    start: tuple[str, ...]


def group(strategy: Strategy, children: Sequence[ChildSpec], failed: str) -> Group:
    """Whom the end of a child takes with it. Temporary ones are stopped, and stay so."""
    place = next(at for at, child in enumerate(children) if child.id == failed)
    near = AFFECTED[strategy]
    first = 0 if "earlier" in near else place
    last = len(children) if "later" in near else place + 1
    affected = children[first:last]
    return Group(
        stop=tuple(child.id for child in reversed(affected) if child.id != failed),
        start=tuple(child.id for child in affected if child.restart != "temporary"),
    )


@dataclass(frozen=True, slots=True)
class Window:
    """When children were started again, newest first, as far as it still counts."""

    at_ms: tuple[int, ...] = ()

    def add(self, now_ms: int, period_ms: int) -> "Window":
        kept = (then for then in self.at_ms if now_ms - then <= period_ms)  # I1
        return Window((now_ms, *kept))

    def exceeds(self, intensity: int) -> bool:
        return len(self.at_ms) > intensity


def gives_up(
    mode: AutoShutdown, ended: ChildSpec, others: Iterable[tuple[ChildSpec, bool]]
) -> bool:
    """Whether a supervisor ends with a child that is not started again.

    `others` are the children left, each with whether it runs or is about to.
    """
    if not ended.significant:
        return False
    match mode:
        case "never":
            return False
        case "any_significant":
            return True
        case "all_significant":
            return not any(spec.significant and runs for spec, runs in others)
    assert_never(mode)


def plan(
    flags: Flags, children: Sequence[ChildSpec], failed: str, reason: ExitReason
) -> Group | None:
    """What the end of a child would set in motion, were it to happen now; None: nothing."""
    spec = next(child for child in children if child.id == failed)
    if verdict(spec.restart, reason) != "restart":
        return None
    return group(flags.strategy, children, failed)
