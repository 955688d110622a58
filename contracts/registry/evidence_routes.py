"""Evidence factorization: every row of evidence has exactly one way into the family `Ev`.

A row without a way, with two, or with a way that is bound to nothing is refused with the class of
its own, here on the rows themselves and in `check.py` on the table of routes.
"""

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from msgspec import Struct

from ..reason import Reason
from . import documents
from .findings import Finding
from .worlds import UNREGISTERED

NORMALIZER_REF = "normalizerId"
POLICY_REF = "policyDigest"


class EvidenceRoute(Struct, frozen=True):
    """One way into `Ev`. The references name the members of an effect that bind it."""

    route_id: str
    normalizer_ref: str
    policy_ref: str


Routes = Mapping[str, tuple[EvidenceRoute, ...]]  # by the action that they take


def factor(row: Mapping[str, Any], routes: Routes) -> str | Reason:
    """The id of the one route that the row takes, or the reason why there is no such route."""
    effect = row.get("effect")
    effect = effect if isinstance(effect, dict) else {}
    action = effect.get("action")
    ways = routes.get(action, ()) if isinstance(action, str) else ()
    if not ways:
        return Reason.EVIDENCE_ROUTE_MISSING
    # A row that names another route than its action takes would have two.
    if len(ways) > 1 or row.get("route", ways[0].route_id) != ways[0].route_id:
        return Reason.EVIDENCE_ROUTE_AMBIGUOUS
    if not (_bound(effect, ways[0].normalizer_ref) and _bound(effect, ways[0].policy_ref)):
        return Reason.EVIDENCE_ROUTE_UNBOUND
    return ways[0].route_id


@cache
def evidence_routes() -> Routes:
    """The published routes. Read at the first call."""
    return parse_routes(documents.load(documents.EVIDENCE_ROUTES))


def parse_routes(document: object) -> Routes:
    """The routes by action. What is malformed gives no route, so that its rows are refused."""
    table: dict[str, tuple[EvidenceRoute, ...]] = {}
    for row in _rows(document):
        binding = row.get("binding")
        binding = binding if isinstance(binding, dict) else {}
        route = EvidenceRoute(
            _text(row.get("routeId")),
            _text(binding.get("normalizerIdRef")),
            _text(binding.get("policyDigestRef")),
        )
        for action in _texts(row.get("actions")):
            table[action] = (*table.get(action, ()), route)
    return {action: ways for action, ways in table.items() if all(way.route_id for way in ways)}


def route_findings(document: object, actions: Iterable[str]) -> list[Finding]:
    """What is wrong with a table of routes for these registered actions."""
    table = parse_routes(document)
    known = set(actions)
    findings = [
        Finding(Reason.EVIDENCE_ROUTE_MISSING.wire, action, "no evidence route takes this action")
        for action in sorted(known - table.keys())
    ]
    findings += [
        Finding(UNREGISTERED, action, "an evidence route takes an action that is not registered")
        for action in sorted(table.keys() - known)
    ]
    for action, ways in sorted(table.items()):
        if len(ways) > 1:
            taken = ", ".join(way.route_id for way in ways)
            findings.append(Finding(Reason.EVIDENCE_ROUTE_AMBIGUOUS.wire, action, f"takes {taken}"))
    return findings + _row_findings(_rows(document))


def _row_findings(rows: list[dict[str, Any]]) -> list[Finding]:
    findings: list[Finding] = []
    seen: set[str] = set()
    for index, row in enumerate(rows):
        path = f"routes[{index}]"
        route_id = _text(row.get("routeId"))
        if route_id in seen:
            message = f"the route {route_id} is declared twice"
            findings.append(Finding(Reason.EVIDENCE_ROUTE_AMBIGUOUS.wire, path, message))
        seen.add(route_id)
        if row.get("target") != "Ev":
            message = "the route does not lead to Ev"
            findings.append(Finding(Reason.EVIDENCE_ROUTE_MISSING.wire, path, message))
        if row.get("binding") != {"normalizerIdRef": NORMALIZER_REF, "policyDigestRef": POLICY_REF}:
            message = f"the binding does not name {NORMALIZER_REF} and {POLICY_REF}"
            findings.append(Finding(Reason.EVIDENCE_ROUTE_UNBOUND.wire, path, message))
    return findings


def _bound(effect: Mapping[str, Any], member: str) -> bool:
    return bool(member and _text(effect.get(member)))


def _rows(document: object) -> list[dict[str, Any]]:
    rows = document.get("routes") if isinstance(document, dict) else None
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []


def _texts(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""
