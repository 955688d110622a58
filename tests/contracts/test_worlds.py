"""The world-registry check: what is pinned cannot drift, and no document can make it raise."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.contracts import documents
from understudy.contracts.registry.route_families import PINNED_ACTIONS, ROUTES
from understudy.contracts.registry.worlds import pinned_row_findings, world_registry_check

UNBOUND = "world_route_unbound"
UNKNOWN_WORLD = "world_route_unknown_world"
UNKNOWN_MORPHISM = "world_route_unknown_morphism"
MORPHISM_DRIFT = "world_route_morphism_drift"
UNREGISTERED = "control_plane_host_action_unregistered"
BINDING_MISMATCH = "control_plane_host_action_binding_mismatch"
DUPLICATE_BINDING = "control_plane_host_action_duplicate_binding"
CONTRACT_UNBOUND = "control_plane_host_action_contract_unbound"

FAMILIES = [route.family for route in ROUTES]
OPERATIONS = [operation for route in ROUTES for operation in route.operations]

# The tables of the protocol, repeated here so that the pins cannot drift with the data.
SPECIFIED = {
    "issue.claim": "op/mcp.issue_claim",
    "issue.lease_renew": "op/mcp.issue_lease_renew",
    "issue.lease_release": "op/mcp.issue_lease_release",
    "issue.discover": "op/mcp.issue_discover",
    "fiber.spawn": "op/transport.fiber_spawn",
    "fiber.join": "op/transport.fiber_join",
    "fiber.cancel": "op/transport.fiber_cancel",
}
WORLDS = {
    "route.issue_claim_lease": ("world.lease.v1", "wm.control.lease.mutation"),
    "route.fiber.lifecycle": ("world.fiber.v1", "wm.control.fiber.lifecycle"),
    "route.job.lifecycle": ("world.job.v1", "wm.control.job.lifecycle"),
    "route.spec.lifecycle": ("world.spec.v1", "wm.control.spec.lifecycle"),
    "route.descent.lifecycle": ("world.descent.v1", "wm.control.descent.lifecycle"),
    "route.transport.dispatch": ("world.transport.v1", "wm.control.transport.dispatch"),
    "route.instruction_execution": ("world.instruction.v1", "wm.control.instruction.execution"),
    "route.required_decision_attestation": ("world.ci_witness.v1", "wm.control.ci_witness.attest"),
    "route.session_projection": ("world.control_plane.bundle.v0", "wm.control.bundle.projection"),
    "route.gate_execution": ("world.kernel.semantic.v1", "wm.kernel.semantic.runtime_gate"),
}


Document = dict[str, Any]


class Documents:
    """Our own documents, to be spoilt one at a time."""

    def __init__(self) -> None:
        self.site: Any = documents.load(documents.SITE_INPUT)
        self.operations: Any = documents.load(documents.OPERATIONS)
        self.contract: Any = documents.load(documents.CONTRACT)

    @property
    def block(self) -> Document:
        block: Document = self.site["worldRouteBindings"]
        return block

    @property
    def actions(self) -> Document:
        actions: Document = self.contract["hostActionSurface"]["requiredActions"]
        return actions

    def row(self, family: str) -> Document:
        return next(row for row in self.block["rows"] if row["routeFamilyId"] == family)

    def operation(self, operation: str) -> Document:
        return next(row for row in self.operations["operations"] if row["id"] == operation)

    def check(self) -> dict[str, Any]:
        return world_registry_check(self.site, self.operations, self.contract)

    def classes(self) -> list[str]:
        report = self.check()
        assert (report["result"] == "rejected") == bool(report["failureClasses"])
        return [str(name) for name in report["failureClasses"]]


@pytest.fixture
def docs() -> Documents:
    return Documents()


def test_the_published_documents_are_accepted(docs: Documents) -> None:
    report = docs.check()
    assert report["schema"] == 1
    assert report["checkKind"] == "premath.world_registry_check.v1"
    assert report["result"] == "accepted"
    assert report["failureClasses"] == []
    assert report["issues"] == []
    assert report["requiredRouteFamilies"] == sorted(FAMILIES)
    assert [row["status"] for row in report["worldRouteBindings"]] == ["ok"] * 10


def test_the_pins_are_the_tables_of_the_protocol() -> None:
    assert {route.family: (route.world, route.morphism_row) for route in ROUTES} == WORLDS
    assert PINNED_ACTIONS.items() >= SPECIFIED.items()
    lease = {*ROUTES[0].operations}
    assert {operation for name, operation in SPECIFIED.items() if name[0] == "i"} <= lease


def test_the_check_of_the_protocol_text_is_accepted(docs: Documents) -> None:
    family = "route.issue_claim_lease"
    names = ("issue_claim", "issue_lease_renew", "issue_lease_release", "issue_discover")
    bindings = [(family, f"op/mcp.{name}") for name in names]
    report = world_registry_check(docs.site, docs.operations, None, [family], bindings)
    assert report["result"] == "accepted"
    assert report["requiredRouteFamilies"] == [family]
    assert report["requiredRouteBindings"] == [
        {"routeFamilyId": family, "operationIds": sorted(f"op/mcp.{name}" for name in names)}
    ]


# --- every world, row, family, operation and morphism, spoilt one at a time ----------------------


@together("family", FAMILIES)
@together("world", ["world.nonsense", "world.fiber.v2", " world.lease.v1 "], docs=Documents)
def test_a_family_in_a_strange_world_is_refused(docs: Documents, family: str, world: str) -> None:
    docs.row(family)["worldId"] = world
    assert docs.classes() == [UNKNOWN_WORLD]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_in_the_world_of_another_is_refused(docs: Documents, family: str) -> None:
    other = FAMILIES[FAMILIES.index(family) - 1]
    docs.row(family)["worldId"] = docs.row(other)["worldId"]
    assert docs.classes() == [UNKNOWN_WORLD]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_with_a_strange_morphism_row_is_refused(docs: Documents, family: str) -> None:
    docs.row(family)["morphismRowId"] = "wm.nonsense"
    assert docs.classes() == [UNKNOWN_MORPHISM]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_with_the_morphism_row_of_another_is_refused(docs: Documents, family: str) -> None:
    other = FAMILIES[FAMILIES.index(family) - 1]
    docs.row(family)["morphismRowId"] = docs.row(other)["morphismRowId"]
    assert docs.classes() == [UNBOUND, UNKNOWN_MORPHISM]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_renamed_family_is_refused(docs: Documents, family: str) -> None:
    docs.row(family)["routeFamilyId"] = "route.renamed"
    assert docs.classes() == [UNBOUND]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_missing_family_is_refused(docs: Documents, family: str) -> None:
    docs.block["rows"].remove(docs.row(family))
    assert docs.classes() == [UNBOUND]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_declared_twice_is_refused(docs: Documents, family: str) -> None:
    docs.block["rows"].append(copy.deepcopy(docs.row(family)))
    assert docs.classes() == [UNBOUND]


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_that_is_not_bound_is_refused(docs: Documents, operation: str) -> None:
    row = next(row for row in docs.block["rows"] if operation in row["operationIds"])
    row["operationIds"].remove(operation)
    assert docs.classes() == [UNBOUND]


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_bound_in_two_families_is_refused(docs: Documents, operation: str) -> None:
    for row in docs.block["rows"]:
        if operation not in row["operationIds"]:
            row["operationIds"].append(operation)
            break
    assert UNBOUND in docs.classes()


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_moved_to_another_family_is_refused(docs: Documents, operation: str) -> None:
    home = next(row for row in docs.block["rows"] if operation in row["operationIds"])
    away = next(row for row in docs.block["rows"] if operation not in row["operationIds"])
    home["operationIds"].remove(operation)
    away["operationIds"].append(operation)
    assert {UNBOUND, UNKNOWN_WORLD, UNKNOWN_MORPHISM} <= {*docs.classes()}


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_bound_twice_in_one_family_is_refused(docs: Documents, operation: str) -> None:
    row = next(row for row in docs.block["rows"] if operation in row["operationIds"])
    row["operationIds"].append(operation)
    assert docs.classes() == [UNBOUND]


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_that_left_the_registry_is_refused(docs: Documents, operation: str) -> None:
    docs.operations["operations"].remove(docs.operation(operation))
    assert UNBOUND in docs.classes()
    assert {*docs.classes()} <= {UNBOUND, CONTRACT_UNBOUND}


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_registered_twice_is_refused(docs: Documents, operation: str) -> None:
    docs.operations["operations"].append(docs.operation(operation))
    assert docs.classes() == [UNBOUND]


@together(
    ("operation", "morphism"),
    [
        (name, morphism)
        for route in ROUTES
        for name in route.operations
        for morphism in sorted(route.morphisms)
    ],
    docs=Documents,
)
def test_an_operation_that_lost_a_morphism_is_refused(
    docs: Documents, operation: str, morphism: str
) -> None:
    docs.operation(operation)["morphisms"].remove(morphism)
    assert docs.classes() == [MORPHISM_DRIFT]


@together("operation", OPERATIONS, docs=Documents)
def test_a_routed_operation_that_calls_itself_a_read_is_refused(
    docs: Documents, operation: str
) -> None:
    docs.operation(operation)["operationClass"] = "read_only_projection"
    assert docs.classes() == [UNBOUND]


@together("operation", OPERATIONS, docs=Documents)
def test_an_operation_registered_under_another_family_is_refused(
    docs: Documents, operation: str
) -> None:
    docs.operation(operation)["routeEligibility"]["routeFamilyId"] = "route.other"
    assert docs.classes() == [UNBOUND]


def test_an_operation_that_needs_a_world_and_has_none_is_refused(docs: Documents) -> None:
    docs.operations["operations"].append(
        {"id": "op/mcp.stray", "routeEligibility": {"worldRouteRequired": True}}
    )
    assert docs.classes() == [UNBOUND]


def test_one_morphism_row_cannot_mean_two_things(docs: Documents) -> None:
    docs.operations["operations"].append({"id": "op/x.new", "morphisms": ["dm.identity"]})
    docs.block["rows"].append(
        {
            "routeFamilyId": "route.new",
            "operationIds": ["op/x.new"],
            "worldId": "world.new",
            "morphismRowId": "wm.control.lease.mutation",
            "requiredMorphisms": ["dm.identity"],
            "failureClassUnbound": UNBOUND,
        }
    )
    assert docs.classes() == [UNBOUND]


MEMBERS = [
    "routeFamilyId", "operationIds", "worldId", "morphismRowId", "requiredMorphisms",
    "failureClassUnbound",
]  # fmt: skip


@together("family", FAMILIES)
@together("member", MEMBERS)
@together("value", [None, "", "  ", 7, [], {}, [""], True], docs=Documents)
def test_a_row_with_a_blank_or_odd_member_is_refused(
    docs: Documents, family: str, member: str, value: object
) -> None:
    docs.row(family)[member] = value
    assert UNBOUND in docs.classes()


@pytest.mark.parametrize("member", MEMBERS)
def test_a_row_without_a_member_is_refused(docs: Documents, member: str) -> None:
    del docs.block["rows"][0][member]
    assert UNBOUND in docs.classes()


@together(
    ("member", "value"),
    [
        ("schema", 2), ("schema", True), ("schema", "1"), ("schema", None),
        ("bindingKind", "premath.world_route_bindings.v2"), ("bindingKind", None),
        ("rows", []), ("rows", None), ("rows", {}), ("rows", [None]), ("rows", [[]]),
    ],
    docs=Documents,
)  # fmt: skip
def test_a_block_of_another_kind_is_refused(docs: Documents, member: str, value: object) -> None:
    docs.block[member] = value
    assert docs.classes() == [UNBOUND]


def test_only_the_row_that_failed_is_marked(docs: Documents) -> None:
    docs.row("route.fiber.lifecycle")["worldId"] = "world.nonsense"
    marks = {row["routeFamilyId"]: row["status"] for row in docs.check()["worldRouteBindings"]}
    assert marks.pop("route.fiber.lifecycle") == "failed"
    assert set(marks.values()) == {"ok"}


def test_row_one_is_not_blamed_for_row_ten(docs: Documents) -> None:
    for number in range(5):
        docs.operations["operations"].append({"id": f"op/x.{number}", "morphisms": ["dm.identity"]})
        row = copy.deepcopy(docs.block["rows"][0])
        row.update(
            routeFamilyId=f"route.x{number}",
            operationIds=[f"op/x.{number}"],
            morphismRowId=f"wm.x{number}",
            requiredMorphisms=["dm.identity"],
        )
        docs.block["rows"].append(row)
    docs.block["rows"][11]["worldId"] = ""
    status = [row["status"] for row in docs.check()["worldRouteBindings"]]
    assert status == ["ok"] * 11 + ["failed", "ok", "ok", "ok"]


# --- the contract --------------------------------------------------------------------------------


@together("action", sorted(PINNED_ACTIONS), docs=Documents)
def test_a_pinned_action_with_another_operation_is_refused(docs: Documents, action: str) -> None:
    docs.actions[action]["operationId"] = "op/mcp.issue_list"
    docs.actions[action]["mcpTool"] = None
    del docs.actions["issue.list"]
    assert UNBOUND in docs.classes()


@together(
    "action",
    ["issue.claim", "issue.claim_next", "issue.lease_renew", "issue.lease_release",
     "issue.discover", "fiber.spawn", "fiber.join", "fiber.cancel", "instruction.run",
     "required.witness_verify",
     "required.witness_decide"],
    docs=Documents,
)  # fmt: skip
def test_a_contract_without_a_required_action_is_refused(docs: Documents, action: str) -> None:
    del docs.actions[action]
    assert UNBOUND in docs.classes()


def test_two_actions_that_change_operations_are_refused(docs: Documents) -> None:
    for name, other in (("issue.claim", "issue.discover"), ("issue.discover", "issue.claim")):
        docs.actions[name]["operationId"] = PINNED_ACTIONS[other]
        docs.actions[name]["mcpTool"] = PINNED_ACTIONS[other].removeprefix("op/mcp.")
    assert docs.classes() == [BINDING_MISMATCH, UNBOUND]


@together(
    ("action", "member", "value", "expected"),
    [
        ("issue.list", "operationId", None, CONTRACT_UNBOUND),
        ("issue.list", "operationId", "", CONTRACT_UNBOUND),
        ("issue.list", "operationId", ["op"], CONTRACT_UNBOUND),
        ("coherence.check", "operationId", "op/ci.nowhere", CONTRACT_UNBOUND),
        ("issue.list", "mcpTool", "issue_lists", BINDING_MISMATCH),
        ("issue.list", "mcpTool", "", BINDING_MISMATCH),
        ("issue.list", "mcpTool", 7, BINDING_MISMATCH),
        ("issue.list", "mcpTool", [[]], BINDING_MISMATCH),
        ("fiber.spawn", "mcpTool", "fiber_spawn", BINDING_MISMATCH),
        ("issue.list", "canonicalCli", "understudy issue claim", DUPLICATE_BINDING),
        ("coherence.check", "operationId", "op/ci.required_delta", DUPLICATE_BINDING),
        ("issue.lease_renew", "canonicalCli", "understudy issue renew", BINDING_MISMATCH),
        ("issue.lease_release", "mcpTool", None, BINDING_MISMATCH),
        ("issue.lease_renew", "transports", ["cli", "mcp"], BINDING_MISMATCH),
        ("issue.lease_renew", "transports", ["local-repl", "mcp"], BINDING_MISMATCH),
        ("issue.claim", "transports", ["coordinator", "mcp"], BINDING_MISMATCH),
        ("issue.claim", "transports", "mcp", BINDING_MISMATCH),
    ],
    docs=Documents,
)
def test_a_host_action_with_a_bad_binding_is_refused(
    docs: Documents, action: str, member: str, value: object, expected: str
) -> None:
    docs.actions[action][member] = value
    assert docs.classes() == [expected]


def test_two_commands_are_the_same_when_one_is_written_as_words(docs: Documents) -> None:
    docs.actions["issue.list"]["canonicalCli"] = ["understudy", "issue", "claim"]
    assert docs.classes() == [DUPLICATE_BINDING]


@pytest.mark.parametrize("name", ["claim", "", "Issue.claim", "issue.", ".claim", "issue..claim"])
def test_an_action_without_a_family_is_refused(docs: Documents, name: str) -> None:
    docs.actions[name] = {"operationId": "op/ci.run_gate"}
    assert docs.classes() == [UNREGISTERED]


@pytest.mark.parametrize("row", [None, 7, [], "op/mcp.issue_list", {}])
def test_an_action_without_a_row_is_refused(docs: Documents, row: object) -> None:
    docs.actions["issue.list"] = row
    assert docs.classes() == [CONTRACT_UNBOUND]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["issue.lease_release", "issue.lease_renew", "issue.steal"], UNREGISTERED),
        ("issue.lease_renew", CONTRACT_UNBOUND),
        ([None], CONTRACT_UNBOUND),
        (["issue.lease_renew"], BINDING_MISMATCH),
        (["issue.lease_release", "issue.lease_renew", "issue.claim"], BINDING_MISMATCH),
    ],
)
def test_a_bad_list_of_mcp_only_actions_is_refused(
    docs: Documents, value: object, expected: str
) -> None:
    docs.contract["hostActionSurface"]["mcpOnlyHostActions"] = value
    assert docs.classes() == [expected]


@pytest.mark.parametrize(
    "name", ["unregisteredHostId", "bindingMismatch", "duplicateBinding", "contractUnbound"]
)
def test_a_renamed_failure_class_is_refused(docs: Documents, name: str) -> None:
    docs.contract["hostActionSurface"]["failureClasses"][name] = UNREGISTERED + "_x"
    assert docs.classes() == [CONTRACT_UNBOUND]


def test_failure_classes_that_are_no_object_are_refused(docs: Documents) -> None:
    docs.contract["hostActionSurface"]["failureClasses"] = []
    assert docs.classes() == [CONTRACT_UNBOUND]


@pytest.mark.parametrize("contract", [{}, [], 7, {"hostActionSurface": None},
                                      {"hostActionSurface": {"requiredActions": {}}}])  # fmt: skip
def test_a_contract_without_host_actions_is_refused(docs: Documents, contract: object) -> None:
    docs.contract = contract
    assert docs.classes() == [UNBOUND]


# --- what the caller requires, and what is none of our business ----------------------------------


def test_what_the_caller_requires_must_be_bound(docs: Documents) -> None:
    report = world_registry_check(docs.site, docs.operations, None, ["route.none"])
    assert report["failureClasses"] == [UNBOUND]
    binding = ("route.fiber.lifecycle", "op/mcp.issue_claim")
    report = world_registry_check(docs.site, docs.operations, None, [], [binding])
    assert report["failureClasses"] == [UNBOUND]


def test_a_contract_of_another_implementation_may_be_smaller(docs: Documents) -> None:
    ours = {"issue.lease_reconcile", "issue.lease_break"}
    for action in [*docs.actions]:
        family = action.split(".")[0]
        if action in ours or family in {"sublease", "instance", "policy", "world"}:
            del docs.actions[action]
        else:
            docs.actions[action] = {
                name: docs.actions[action][name]
                for name in ("operationId", "canonicalCli", "mcpTool")
            }
    docs.contract = {"hostActionSurface": docs.contract["hostActionSurface"], "lanes": {}}
    report = docs.check()
    assert report["issues"] == []
    assert "route.transport.dispatch" not in report["requiredRouteFamilies"]


def test_rows_and_members_that_are_not_ours_are_left_alone(docs: Documents) -> None:
    docs.site["site"]["nodes"] = [{"id": "raw/PREMATH-CI"}]
    docs.operations["baseCoverParts"] = ["raw/CI-TOPOS"]
    docs.operations["operations"].append({"id": "op/conformance.stub", "morphisms": ["dm.x"]})
    docs.block["rows"].append(
        {
            "routeFamilyId": "route.conformance",
            "operationIds": ["op/conformance.stub"],
            "worldId": "world.conformance.v1",
            "morphismRowId": "wm.conformance",
            "requiredMorphisms": ["dm.x"],
            "failureClassUnbound": UNBOUND,
            "note": "somebody else's",
        }
    )
    assert docs.classes() == []


def test_a_registry_may_be_a_bare_list(docs: Documents) -> None:
    docs.operations = docs.operations["operations"]
    assert docs.classes() == []


def test_our_own_rows_must_hold_every_pin_whole(docs: Documents) -> None:
    assert pinned_row_findings(docs.site) == []
    docs.row("route.issue_claim_lease")["requiredMorphisms"].remove("dm.identity")
    docs.row("route.fiber.lifecycle")["operationIds"].pop()
    docs.block["rows"].remove(docs.row("route.gate_execution"))
    assert [finding.failure_class for finding in pinned_row_findings(docs.site)] == [
        MORPHISM_DRIFT, UNBOUND, UNBOUND,
    ]  # fmt: skip


# --- totality ------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, JSON, JSON)
def test_no_document_makes_the_check_raise(
    site: object, operations: object, contract: object
) -> None:
    report = world_registry_check(site, operations, contract)
    assert report["result"] == "rejected"


@given(st.data())
def test_any_value_anywhere_in_the_documents_gives_a_verdict(data: st.DataObject) -> None:
    docs = Documents()
    target = data.draw(st.sampled_from([docs.site, docs.operations, docs.contract]))
    for _ in range(data.draw(st.integers(0, 5))):
        keys = [*target] if isinstance(target, dict) else [*range(len(target))]
        key = data.draw(st.sampled_from(keys))
        if not isinstance(target[key], dict | list) or not target[key]:
            break
        target = target[key]
    keys = [*target] if isinstance(target, dict) else [*range(len(target))]
    target[data.draw(st.sampled_from(keys))] = data.draw(JSON)
    report = docs.check()
    assert report["result"] in {"accepted", "rejected"}
    assert report == docs.check()


def test_a_document_nested_very_deep_gives_a_verdict(docs: Documents) -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    docs.actions["issue.list"]["canonicalCli"] = deep
    docs.actions["issue.list"]["mcpTool"] = deep
    docs.operation("op/mcp.issue_claim")["routeEligibility"]["routeFamilyId"] = deep
    assert docs.classes() == [BINDING_MISMATCH, UNBOUND]
