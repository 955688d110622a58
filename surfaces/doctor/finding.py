"""What a check has to say."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Status = Literal["ok", "note", "problem"]


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One check's word. A note is worth knowing; a problem has to be mended."""

    check: str
    status: Status
    detail: str
    remedy: str | None = None
    failure: str | None = None  # its class, where the registry has one
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {
            "check": self.check,
            "status": self.status,
            "detail": self.detail,
            "remedy": self.remedy,
            "failureClass": self.failure,
            "facts": dict(self.facts),
        }


def looked(check: str, look: Callable[[], Iterable[DoctorFinding]]) -> Iterator[DoctorFinding]:
    """What a check finds; one that cannot look is a finding, and the next one still looks."""
    try:
        yield from look()
    except Exception as error:  # noqa: BLE001 - whatever is broken, that is what we are here for
        remedy = "this should not happen: please report it"
        yield DoctorFinding(check, "problem", f"it cannot be looked at: {error!r}", remedy)
