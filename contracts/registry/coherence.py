"""Whether everything that binds this authority fits together, obligation by obligation."""

from functools import cache
from pathlib import Path
from typing import Any

from ..reason import Reason
from . import documents
from .check import check_all

COHERENCE_KIND = "understudy.coherence_check.v1"

# Which failure classes break which obligation; what none of the others claims is the contract's.
_OBLIGATIONS = (
    ("world_routes", ("world_",)),
    ("evidence_factorization", ("unification.",)),
    ("policy_digests", ("retry_policy_",)),
    ("contract", ("",)),
)


@cache
def coherence_report(root: Path = documents.ROOT) -> dict[str, Any]:
    """Judge the published documents once: those that were read at the start are in force."""
    found = check_all(root)
    broken: dict[str, list[str]] = {name: [] for name, _ in _OBLIGATIONS}
    for failure_class in found["failureClasses"]:
        name = next(name for name, heads in _OBLIGATIONS if failure_class.startswith(heads))
        broken[name].append(failure_class)
    rejected = [Reason.COHERENCE_REJECTED.wire] if found["issues"] else []
    return {
        "checkKind": COHERENCE_KIND,
        "result": found["result"],
        "failureClasses": sorted([*found["failureClasses"], *rejected]),
        "issues": found["issues"],
        "obligations": [
            {"obligation": name, "result": "rejected" if classes else "accepted"}
            for name, classes in broken.items()
        ],
    }
