"""Evidence factorization: one way into `Ev` for every row, and a class for every other case."""

from typing import Any

import pytest

from tests.together import together
from understudy.contracts import documents
from understudy.contracts.reason import Reason
from understudy.contracts.registry.evidence_routes import (
    evidence_routes,
    factor,
    parse_routes,
    route_findings,
)
from understudy.contracts.requests.host_actions import host_actions

MISSING = Reason.EVIDENCE_ROUTE_MISSING
AMBIGUOUS = Reason.EVIDENCE_ROUTE_AMBIGUOUS
UNBOUND = Reason.EVIDENCE_ROUTE_UNBOUND


def published() -> dict[str, Any]:
    return dict(documents.load(documents.EVIDENCE_ROUTES))


def row(action: object = "issue.claim", **effect: object) -> dict[str, Any]:
    bound = {"normalizerId": "normalizer.v1", "policyDigest": "pol1_" + "0" * 64}
    return {"effect": {"action": action, **bound, **effect}}


def classes(document: object) -> list[str]:
    found = route_findings(document, host_actions())
    return sorted({finding.failure_class for finding in found})


@together(
    ("action", "route"),
    [
        ("issue.claim", "eta.lease_to_ev"),
        ("issue.lease_renew", "eta.lease_to_ev"),
        ("sublease.grant", "eta.lease_to_ev"),
        ("instance.close", "eta.lease_to_ev"),
        ("issue.update", "eta.work_to_ev"),
        ("dep.replace", "eta.dependency_to_ev"),
        ("issue.lease_break", "eta.operator_to_ev"),
        ("policy.set", "eta.operator_to_ev"),
        ("issue.import", "eta.operator_to_ev"),
        ("fiber.join", "eta.fiber_to_ev"),
        ("instruction.run", "eta.instruction_to_ev"),
        ("required.witness", "eta.required_to_ev"),
        ("harness.session.write", "eta.session_to_ev"),
        ("issue.ready", "eta.read_to_ev"),
    ],
)
def test_a_row_takes_the_route_of_its_action(action: str, route: str) -> None:
    assert factor(row(action), evidence_routes()) == route


@together("action", sorted(host_actions()))
def test_every_registered_action_takes_exactly_one_route(action: str) -> None:
    taken = [route for route in published()["routes"] if action in route["actions"]]
    assert len(taken) == 1
    assert factor(row(action), evidence_routes()) == taken[0]["routeId"]


@together(
    "broken",
    [
        {}, {"effect": None}, {"effect": []}, {"effect": {}}, row("issue.steal"), row(None),
        row(7), row(["issue.claim"]), row(""), row("issue.claim "), {"action": "issue.claim"},
    ],
)  # fmt: skip
def test_a_row_whose_action_no_route_takes_is_missing(broken: dict[str, Any]) -> None:
    assert factor(broken, evidence_routes()) is MISSING


def test_no_routes_at_all_are_missing_for_every_row() -> None:
    assert factor(row(), {}) is MISSING


def test_an_action_in_two_routes_is_ambiguous() -> None:
    document = published()
    document["routes"][0]["actions"].append("issue.claim")
    assert factor(row(), parse_routes(document)) is AMBIGUOUS


def test_a_row_that_names_another_route_than_it_takes_is_ambiguous() -> None:
    assert factor({**row(), "route": "eta.read_to_ev"}, evidence_routes()) is AMBIGUOUS
    assert factor({**row(), "route": None}, evidence_routes()) is AMBIGUOUS
    assert factor({**row(), "route": "eta.lease_to_ev"}, evidence_routes()) == "eta.lease_to_ev"


@together("member", ["normalizerId", "policyDigest"])
@together("value", [None, "", "  ", 7, [], {"a": 1}])
def test_a_row_without_a_normalizer_or_a_policy_is_unbound(member: str, value: object) -> None:
    assert factor(row(**{member: value}), evidence_routes()) is UNBOUND
    broken = row()
    del broken["effect"][member]
    assert factor(broken, evidence_routes()) is UNBOUND


def test_a_route_bound_to_other_members_asks_for_those() -> None:
    document = published()
    for route in document["routes"]:
        route["binding"] = {"normalizerIdRef": "normal", "policyDigestRef": "policyDigest"}
    assert factor(row(), parse_routes(document)) is UNBOUND
    assert factor(row(normal="n"), parse_routes(document)) == "eta.lease_to_ev"


@pytest.mark.parametrize("binding", [None, {}, [], {"normalizerIdRef": "normalizerId"}])
def test_a_route_without_a_binding_binds_no_row(binding: object) -> None:
    document = published()
    for route in document["routes"]:
        route["binding"] = binding
    assert factor(row(), parse_routes(document)) is UNBOUND


def test_absence_is_judged_before_ambiguity_and_ambiguity_before_binding() -> None:
    document = published()
    document["routes"][0]["actions"].append("issue.claim")
    routes = parse_routes(document)
    assert factor(row("issue.steal", policyDigest=""), routes) is MISSING
    assert factor(row("issue.claim", policyDigest=""), routes) is AMBIGUOUS


@together(
    "document",
    [None, 7, [], {}, {"routes": None}, {"routes": {}}, {"routes": [None, 7, []]},
     {"routes": [{"routeId": "eta.x"}]}, {"routes": [{"routeId": "", "actions": ["issue.claim"]}]},
     {"routes": [{"routeId": "eta.x", "actions": [7, None]}]}],
)  # fmt: skip
def test_a_malformed_table_gives_no_route(document: object) -> None:
    assert factor(row(), parse_routes(document)) is MISSING
    assert MISSING.wire in classes(document)


# --- the table itself ----------------------------------------------------------------------------


def test_the_published_table_has_nothing_against_it() -> None:
    assert classes(published()) == []


@together("action", sorted(host_actions()))
def test_a_table_that_forgot_an_action_is_refused(action: str) -> None:
    document = published()
    for route in document["routes"]:
        route["actions"] = [name for name in route["actions"] if name != action]
    assert classes(document) == [MISSING.wire]


@together("action", sorted(host_actions()))
def test_a_table_that_names_an_action_twice_is_refused(action: str) -> None:
    document = published()
    target = next(route for route in document["routes"] if action not in route["actions"])
    target["actions"].append(action)
    assert classes(document) == [AMBIGUOUS.wire]


def test_a_table_that_names_a_route_twice_is_refused() -> None:
    document = published()
    document["routes"][1]["routeId"] = document["routes"][0]["routeId"]
    assert classes(document) == [AMBIGUOUS.wire]


def test_a_table_that_routes_an_unregistered_action_is_refused() -> None:
    document = published()
    document["routes"][0]["actions"].append("issue.steal")
    assert classes(document) == ["control_plane_host_action_unregistered"]


@pytest.mark.parametrize("target", [None, "", "ev", "Ev2"])
def test_a_route_that_leads_elsewhere_is_refused(target: object) -> None:
    document = published()
    document["routes"][0]["target"] = target
    assert classes(document) == [MISSING.wire]


@pytest.mark.parametrize(
    "binding",
    [
        None, {}, {"normalizerIdRef": "normalizerId"},
        {"normalizerIdRef": "policyDigest", "policyDigestRef": "normalizerId"},
        {"normalizerIdRef": "normalizerId", "policyDigestRef": ""},
    ],
)  # fmt: skip
def test_a_route_with_other_binding_names_is_refused(binding: object) -> None:
    document = published()
    document["routes"][0]["binding"] = binding
    assert classes(document) == [UNBOUND.wire]
