"""A troupe with hands: what tests say to it, in few words."""

import json
from pathlib import Path

from tests.actors.otp.carriers.process.cast import Fragile, Puppet
from tests.patience import eventually
from understudy.actors.otp import Exited, Ref, Start, Target
from understudy.actors.otp.carriers.process import Troupe

TIMEOUT_MS = 20_000


class Stage:
    def __init__(self, run_dir: Path, **options: object) -> None:
        self.troupe = Troupe(run_dir, **options)  # type: ignore[arg-type]  # members by name

    def puppet(self, *, traps: bool = True) -> Ref:
        return self.troupe.spawn(Start(puppet, (traps,), "puppet"))

    def tell(self, target: Target, *request: object, timeout_ms: int = TIMEOUT_MS) -> object:
        return self.troupe.call(target, request, timeout_ms)

    def child(self, parent: Ref, start: Start | None = None) -> Ref:
        """A child of a puppet, once that has heard that it is up."""
        (ref,) = self.refs(parent, "spawn", start or Start(puppet, (True,), "child"))
        eventually(lambda: ref in self.started(parent))
        return ref

    def fragile(self, parent: Ref, path: Path) -> Ref:
        return self.child(parent, Start(Fragile, (str(path),), "fragile"))

    def refs(self, target: Target, *request: object) -> list[Ref]:
        found = self.tell(target, *request)
        assert isinstance(found, list)
        return found

    def heard(self, target: Target, kind: type | None = None) -> list[object]:
        found = self.tell(target, "heard")
        assert isinstance(found, list)
        return [each for each in found if kind is None or isinstance(each, kind)]

    def started(self, parent: Ref) -> list[object]:
        return [getattr(each, "ref", None) for each in self.heard(parent)]

    def exited(self, parent: Ref, ref: Ref) -> Exited:
        """The one notice that a puppet gets of the end of another cell."""
        eventually(lambda: self._exits(parent, ref))
        # A second one would be here by now: the cell was asked twice, and each question is a turn.
        (exited,) = self._exits(parent, ref)
        return exited

    def _exits(self, parent: Ref, ref: Ref) -> list[Exited]:
        exits = self.heard(parent, Exited)
        return [each for each in exits if isinstance(each, Exited) and each.ref == ref]

    def reports(self) -> list[dict[str, object]]:
        if not self.troupe.reports.exists():
            return []
        return [json.loads(line) for line in self.troupe.reports.read_text().splitlines()]


def puppet(traps: bool) -> Puppet:
    return Puppet(traps=traps)
