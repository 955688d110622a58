"""The world-registry check: every routed operation lies in the world that it must lie in.

The documents are data from outside and may say anything. What they must say about the routes that
the authority serves is pinned in code, in `routes.py`: action, operation, family, world and
morphism row. A document that agrees only with itself is therefore not enough.

The check is pure and total; it never raises for what a document contains. Routes, operations and
members that it does not know are left alone, so that the registries of the protocol's other
implementation pass as well.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from .findings import Finding, report
from .route_families import ACTION_OF, BY_FAMILY, BY_OPERATION, PINNED_ACTIONS, ROUTES

CHECK_KIND = "premath.world_registry_check.v1"
BINDING_KIND = "premath.world_route_bindings.v1"

UNBOUND = "world_route_unbound"
UNKNOWN_WORLD = "world_route_unknown_world"
UNKNOWN_MORPHISM = "world_route_unknown_morphism"
MORPHISM_DRIFT = "world_route_morphism_drift"

UNREGISTERED = "control_plane_host_action_unregistered"
BINDING_MISMATCH = "control_plane_host_action_binding_mismatch"
DUPLICATE_BINDING = "control_plane_host_action_duplicate_binding"
CONTRACT_UNBOUND = "control_plane_host_action_contract_unbound"
HOST_ACTION_CLASSES = {
    "unregisteredHostId": UNREGISTERED,
    "bindingMismatch": BINDING_MISMATCH,
    "duplicateBinding": DUPLICATE_BINDING,
    "contractUnbound": CONTRACT_UNBOUND,
}

# What every contract must route, ours or another's; the pins hold for whatever else it has.
_OWN_FAMILIES = (
    "route.descent.lifecycle",
    "route.job.lifecycle",
    "route.spec.lifecycle",
    "route.transport.dispatch",
)
_REQUIRED_FAMILIES = tuple(route.family for route in ROUTES if route.family not in _OWN_FAMILIES)
_REQUIRED_ACTIONS = (
    "fiber.cancel", "fiber.join", "fiber.spawn", "instruction.run", "issue.claim",
    "issue.claim_next", "issue.discover", "issue.lease_release", "issue.lease_renew",
    "required.witness_decide", "required.witness_verify",
)  # fmt: skip

_ACTION_NAME = re.compile(r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+")
_ROWS_PATH = "worldRouteBindings.rows"
_CONTRACT_PATH = "controlPlaneContract"
_ACTIONS_PATH = f"{_CONTRACT_PATH}.hostActionSurface.requiredActions"


def world_registry_check(
    site_input: object,
    operations: object,
    contract: object = None,
    required_families: Sequence[str] = (),
    required_bindings: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Judge the documents. Without a contract only what the caller requires is required."""
    table, findings = _registered(operations)
    rows, malformed = _binding_rows(site_input)
    findings += malformed
    findings += _row_findings(rows, table)
    findings += _unrouted_findings(rows, table)

    families = list(dict.fromkeys(required_families))
    bindings = list(dict.fromkeys(required_bindings))
    if contract is not None:
        findings += _contract_findings(contract, table)
        actions = _actions(contract)
        families = list(dict.fromkeys([*families, *_families_of(actions)]))
        bindings = list(dict.fromkeys([*bindings, *_bindings_of(actions)]))
    findings += _required_findings(rows, families, bindings)
    return report(
        CHECK_KIND,
        findings,
        requiredRouteFamilies=sorted(families),
        requiredRouteBindings=_grouped(bindings),
        worldRouteBindings=[_projected(row, findings) for row in rows],
    )


def pinned_row_findings(site_input: object) -> list[Finding]:
    """What our own rows lack besides: every pinned family, whole, with its very morphisms."""
    rows = {row.family: row for row in _binding_rows(site_input)[0]}
    findings: list[Finding] = []
    for route in ROUTES:
        row = rows.get(route.family)
        if row is None:
            findings.append(Finding(UNBOUND, _ROWS_PATH, f"{route.family} is not bound"))
            continue
        if set(row.operations) != route.operations.keys():
            odd = ", ".join(sorted(set(row.operations) ^ route.operations.keys()))
            message = f"{route.family} must bind its pinned operations, and differs in {odd}"
            findings.append(Finding(UNBOUND, f"{row.path}.operationIds", message))
        if set(row.morphisms) != route.morphisms:
            odd = ", ".join(sorted(set(row.morphisms) ^ route.morphisms))
            message = f"{route.family} must require its pinned morphisms, and differs in {odd}"
            findings.append(Finding(MORPHISM_DRIFT, f"{row.path}.requiredMorphisms", message))
    return findings


# --- the rows of the site -----------------------------------------------------------------------


class _Row(Struct, frozen=True):
    path: str
    family: str
    world: str
    morphism_row: str
    operations: tuple[str, ...]
    morphisms: tuple[str, ...]


def _binding_rows(site_input: object) -> tuple[list[_Row], list[Finding]]:
    block = site_input.get("worldRouteBindings") if isinstance(site_input, dict) else None
    if not isinstance(block, dict):
        return [], [Finding(UNBOUND, "worldRouteBindings", "the block is missing")]
    findings: list[Finding] = []
    if type(block.get("schema")) is not int or block["schema"] != 1:
        findings.append(Finding(UNBOUND, "worldRouteBindings.schema", "the schema is not 1"))
    if block.get("bindingKind") != BINDING_KIND:
        path = "worldRouteBindings.bindingKind"
        findings.append(Finding(UNBOUND, path, f"the kind is not {BINDING_KIND}"))
    items = block.get("rows")
    if not isinstance(items, list) or not items:
        return [], [*findings, Finding(UNBOUND, _ROWS_PATH, "there are no rows")]
    rows = []
    for index, item in enumerate(items):
        path = f"{_ROWS_PATH}[{index}]"
        members = item if isinstance(item, dict) else {}
        rows.append(_parsed(path, members))
        findings += _member_findings(path, members)
    return rows, findings


def _parsed(path: str, members: Mapping[str, Any]) -> _Row:
    return _Row(
        path,
        _text(members.get("routeFamilyId")),
        _text(members.get("worldId")),
        _text(members.get("morphismRowId")),
        _texts(members.get("operationIds")),
        _texts(members.get("requiredMorphisms")),
    )


def _member_findings(path: str, members: Mapping[str, Any]) -> Iterator[Finding]:
    for name in ("routeFamilyId", "worldId", "morphismRowId"):
        if not _text(members.get(name)):
            yield Finding(UNBOUND, f"{path}.{name}", "the member is missing or blank")
    for name in ("operationIds", "requiredMorphisms"):
        value = members.get(name)
        if not isinstance(value, list) or not value or len(_texts(value)) != len(value):
            yield Finding(UNBOUND, f"{path}.{name}", "the member is not a list of names")
    if members.get("failureClassUnbound") != UNBOUND:
        yield Finding(UNBOUND, f"{path}.failureClassUnbound", f"the class is not {UNBOUND}")


def _row_findings(rows: list[_Row], table: Mapping[str, Mapping[str, Any]]) -> list[Finding]:
    findings: list[Finding] = []
    families: set[str] = set()
    bound: dict[str, str] = {}
    meanings: dict[str, tuple[str, frozenset[str]]] = {}
    for row in rows:
        if row.family and row.family in families:
            message = f"{row.family} is declared twice"
            findings.append(Finding(UNBOUND, f"{row.path}.routeFamilyId", message))
        families.add(row.family)
        meaning = (row.world, frozenset(row.morphisms))
        if meanings.setdefault(row.morphism_row, meaning) != meaning:
            message = f"{row.morphism_row} stands for two worlds or two sets of morphisms"
            findings.append(Finding(UNBOUND, f"{row.path}.morphismRowId", message))
        findings += _pin_findings(row)
        for operation in row.operations:
            findings += _operation_findings(row, operation, table.get(operation))
            if operation in bound:
                message = f"{operation} is bound twice, under {bound[operation]} and {row.family}"
                findings.append(Finding(UNBOUND, f"{row.path}.operationIds", message))
            bound.setdefault(operation, row.family)
    return findings


def _pin_findings(row: _Row) -> Iterator[Finding]:
    """Hold a row against the pin of its family and of every operation that it binds."""
    pins = {row.family: BY_FAMILY[row.family]} if row.family in BY_FAMILY else {}
    for operation in row.operations:
        pin = BY_OPERATION.get(operation)
        if pin is None:
            continue
        pins[pin.family] = pin
        if row.family != pin.family:
            message = f"{operation} belongs under {pin.family}, not {row.family}"
            yield Finding(UNBOUND, f"{row.path}.operationIds", message)
    for pin in pins.values():
        if row.world != pin.world:
            message = f"{pin.family} lies in {pin.world}, not {row.world}"
            yield Finding(UNKNOWN_WORLD, f"{row.path}.worldId", message)
        if row.morphism_row != pin.morphism_row:
            message = (
                f"{pin.family} has the morphism row {pin.morphism_row}, not {row.morphism_row}"
            )
            yield Finding(UNKNOWN_MORPHISM, f"{row.path}.morphismRowId", message)


def _operation_findings(
    row: _Row, operation: str, registered: Mapping[str, Any] | None
) -> Iterator[Finding]:
    path = f"{row.path}.operationIds"
    if registered is None:
        yield Finding(UNBOUND, path, f"{operation} is not in the operation registry")
        return
    missing = sorted(set(row.morphisms) - set(_texts(registered.get("morphisms"))))
    if missing:
        yield Finding(MORPHISM_DRIFT, path, f"{operation} lacks {', '.join(missing)}")
    if registered.get("operationClass", "route_bound") != "route_bound":
        yield Finding(UNBOUND, path, f"{operation} is routed, and is not route_bound")
    eligibility = registered.get("routeEligibility")
    family = eligibility.get("routeFamilyId") if isinstance(eligibility, dict) else None
    if family is not None and family != row.family:
        yield Finding(UNBOUND, path, f"{operation} is registered under another family")


def _unrouted_findings(
    rows: list[_Row], table: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    """Operations that need a world and have none."""
    routed = {operation for row in rows for operation in row.operations}
    for operation, registered in table.items():
        eligibility = registered.get("routeEligibility")
        required = isinstance(eligibility, dict) and eligibility.get("worldRouteRequired") is True
        if required and operation not in routed:
            yield Finding(UNBOUND, f"operations.{operation}", "the operation has no world route")


# --- the operation registry ---------------------------------------------------------------------


def _registered(operations: object) -> tuple[dict[str, Mapping[str, Any]], list[Finding]]:
    items = operations.get("operations") if isinstance(operations, dict) else operations
    if not isinstance(items, list):
        return {}, [Finding(UNBOUND, "operations", "there is no list of operations")]
    table: dict[str, Mapping[str, Any]] = {}
    findings: list[Finding] = []
    for index, item in enumerate(items):
        operation = _text(item.get("id")) if isinstance(item, dict) else ""
        if not operation:
            findings.append(Finding(UNBOUND, f"operations[{index}]", "the operation has no id"))
        elif operation in table:
            message = f"{operation} is registered twice"
            findings.append(Finding(UNBOUND, f"operations[{index}].id", message))
        else:
            table[operation] = item
    return table, findings


# --- the contract -------------------------------------------------------------------------------


def _contract_findings(
    contract: object, table: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    surface = contract.get("hostActionSurface") if isinstance(contract, dict) else None
    actions = _actions(contract)
    if not isinstance(surface, dict) or not actions:
        yield Finding(UNBOUND, _ACTIONS_PATH, "the contract registers no host actions")
        return
    for action in _REQUIRED_ACTIONS:
        if action not in actions:
            yield Finding(UNBOUND, f"{_ACTIONS_PATH}.{action}", "the action is not registered")
    for action, row in actions.items():
        yield from _action_findings(action, row, table)
    yield from _duplicate_findings(actions)
    yield from _mcp_only_findings(surface.get("mcpOnlyHostActions", []), actions)
    yield from _class_findings(surface.get("failureClasses", {}))


def _action_findings(
    action: str, row: object, table: Mapping[str, Mapping[str, Any]]
) -> Iterator[Finding]:
    path = f"{_ACTIONS_PATH}.{action}"
    if not _ACTION_NAME.fullmatch(action):
        yield Finding(UNREGISTERED, path, "the name is not <family>.<action>")
    operation = _operation_of(row)
    if not operation or not isinstance(row, dict):
        yield Finding(CONTRACT_UNBOUND, path, "the action names no operation")
        return
    if operation not in table:
        message = f"{operation} is not in the operation registry"
        yield Finding(CONTRACT_UNBOUND, f"{path}.operationId", message)
    pinned = PINNED_ACTIONS.get(action)
    if pinned is not None and operation != pinned:
        message = f"the action is pinned to {pinned}, not {operation}"
        yield Finding(UNBOUND, f"{path}.operationId", message)
    owner = ACTION_OF.get(operation)
    if owner is not None and owner != action:
        message = f"{operation} is pinned to the action {owner}"
        yield Finding(BINDING_MISMATCH, f"{path}.operationId", message)
    tool = row.get("mcpTool")
    if tool is not None and (not _text(tool) or operation != f"op/mcp.{tool}"):
        message = f"the MCP tool does not go with {operation}"
        yield Finding(BINDING_MISMATCH, f"{path}.mcpTool", message)


def _duplicate_findings(actions: Mapping[str, Any]) -> Iterator[Finding]:
    seen: dict[tuple[str, str], str] = {}
    for action, row in actions.items():
        members = row if isinstance(row, dict) else {}
        for name in ("operationId", "canonicalCli", "mcpTool"):
            value = members.get(name)
            # Another implementation writes its command line as a list of words.
            text = " ".join(_texts(value)) if isinstance(value, list) else _text(value)
            first = seen.setdefault((name, text), action) if text else action
            if first != action:
                message = f"{text} is already bound to {first}"
                yield Finding(DUPLICATE_BINDING, f"{_ACTIONS_PATH}.{action}.{name}", message)


def _mcp_only_findings(names: object, actions: Mapping[str, Any]) -> Iterator[Finding]:
    path = f"{_CONTRACT_PATH}.hostActionSurface.mcpOnlyHostActions"
    if not isinstance(names, list) or len(_texts(names)) != len(names):
        yield Finding(CONTRACT_UNBOUND, path, "the member is not a list of actions")
        return
    for name in names:
        if name not in actions:
            yield Finding(UNREGISTERED, path, f"{name} is not a registered action")
    for action, row in actions.items():
        members = row if isinstance(row, dict) else {}
        local = {"cli", "local-repl"} & set(_texts(members.get("transports")))
        where = f"{_ACTIONS_PATH}.{action}"
        if action in names:
            if members.get("canonicalCli") is not None or not _text(members.get("mcpTool")):
                message = "an MCP-only action has an MCP tool and no command line"
                yield Finding(BINDING_MISMATCH, where, message)
            if local:
                message = f"an MCP-only action is bound to {', '.join(sorted(local))}"
                yield Finding(BINDING_MISMATCH, f"{where}.transports", message)
        elif "transports" in members and not local:
            message = "the action has no local transport, and is not listed as MCP-only"
            yield Finding(BINDING_MISMATCH, f"{where}.transports", message)


def _class_findings(classes: object) -> Iterator[Finding]:
    path = f"{_CONTRACT_PATH}.hostActionSurface.failureClasses"
    if not isinstance(classes, dict):
        yield Finding(CONTRACT_UNBOUND, path, "the member is not an object")
        return
    for name, wire in HOST_ACTION_CLASSES.items():
        if classes.get(name, wire) != wire:
            yield Finding(CONTRACT_UNBOUND, f"{path}.{name}", f"the class is not {wire}")


def _actions(contract: object) -> dict[str, Any]:
    surface = contract.get("hostActionSurface") if isinstance(contract, dict) else None
    actions = surface.get("requiredActions") if isinstance(surface, dict) else None
    return actions if isinstance(actions, dict) else {}


# --- what is required ---------------------------------------------------------------------------


def _families_of(actions: Mapping[str, Any]) -> list[str]:
    pinned = (PINNED_ACTIONS[action] for action in actions if action in PINNED_ACTIONS)
    return [*_REQUIRED_FAMILIES, *(BY_OPERATION[operation].family for operation in pinned)]


def _bindings_of(actions: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every routed action needs its operation bound, in the family that it is pinned to."""
    return [
        (BY_OPERATION[PINNED_ACTIONS[action]].family, operation)
        for action, row in actions.items()
        if action in PINNED_ACTIONS and (operation := _operation_of(row))
    ]


def _required_findings(
    rows: list[_Row], families: list[str], bindings: list[tuple[str, str]]
) -> Iterator[Finding]:
    bound: dict[str, set[str]] = {}
    for row in rows:
        bound.setdefault(row.family, set()).update(row.operations)
    for family in families:
        if family not in bound:
            yield Finding(UNBOUND, "requiredRouteFamilies", f"{family} is required and not bound")
    for family, operation in bindings:
        if operation not in bound.get(family, ()):
            message = f"{operation} is required under {family} and not bound there"
            yield Finding(UNBOUND, "requiredRouteBindings", message)


# --- the report ---------------------------------------------------------------------------------


def _grouped(bindings: list[tuple[str, str]]) -> list[dict[str, Any]]:
    groups: dict[str, list[str]] = {}
    for family, operation in sorted(bindings):
        groups.setdefault(family, []).append(operation)
    return [
        {"routeFamilyId": family, "operationIds": operations}
        for family, operations in groups.items()
    ]


def _projected(row: _Row, findings: list[Finding]) -> dict[str, Any]:
    # The dot keeps row 1 apart from row 10; every finding about a row names a member of it.
    failed = any(finding.path.startswith(f"{row.path}.") for finding in findings)
    return {
        "routeFamilyId": row.family,
        "operationIds": list(row.operations),
        "worldId": row.world,
        "morphismRowId": row.morphism_row,
        "requiredMorphisms": list(row.morphisms),
        "status": "failed" if failed else "ok",
    }


def _operation_of(row: object) -> str:
    return _text(row.get("operationId")) if isinstance(row, dict) else ""


def _texts(value: object) -> tuple[str, ...]:
    items = value if isinstance(value, list) else []
    return tuple(text for item in items if (text := _text(item)))


def _text(value: object) -> str:
    """The text itself: one with spaces around it is another name, and fails where names matter."""
    return value if isinstance(value, str) and value.strip() else ""
