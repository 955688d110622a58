"""The host actions as the running system needs them: read once, frozen, looked up by name.

This file trusts the documents; `check.py` and `worlds.py` are the ones that doubt them.
"""

import hashlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from .. import canonical
from ..registry import documents

PROFILE_ID = "transport.issue_lease.v1"
DISPATCH_KIND = "premath.transport_dispatch.v1"

# What operators do; an agent is refused it, unless an operator has granted it.
OPERATORS_ACTIONS = frozenset(
    {"approval.give", "budget.clear", "budget.set", "coordinator.designate", "descent.abort"}
    | {"descent.cover", "issue.cancel"}
    | {"issue.import", "issue.lease_break", "issue.prioritize", "issue.retry", "job.admit"}
    | {"job.cancel", "job.retry", "limit.clear", "limit.set", "node.register", "node.unregister"}
    | {"pause.clear", "pause.set", "policy.set", "route.set", "schedule.clear", "schedule.set"}
)


class HostAction(Struct, frozen=True):
    """One thing that can be asked of the authority, and what it is bound to."""

    action: str
    action_id: str
    operation_id: str
    transports: frozenset[str]
    operation_class: str
    mutates: bool
    route_family: str | None
    world_id: str | None
    morphism_row_id: str | None
    capability: str | None
    mcp_tool: str | None
    canonical_cli: str | None
    semantic_digest: str
    resolver_ref: str | None  # None where no world route is needed
    is_operators: bool


@cache
def host_actions() -> Mapping[str, HostAction]:
    """Every registered action by its name. Read and built at the first call."""
    site_input = documents.load(documents.SITE_INPUT)
    site_id = site_input["site"]["siteId"]
    routes = {
        operation_id: row
        for row in site_input["worldRouteBindings"]["rows"]
        for operation_id in row["operationIds"]
    }
    operations = {row["id"]: row for row in documents.load(documents.OPERATIONS)["operations"]}
    actions = contract()["hostActionSurface"]["requiredActions"]
    return MappingProxyType(
        {
            action: _host_action(
                action,
                row,
                operations[row["operationId"]],
                routes.get(row["operationId"], {}),
                site_id,
            )
            for action, row in actions.items()
        }
    )


@cache
def contract() -> Mapping[str, Any]:
    """The control-plane contract as published. Read it, never write to it."""
    return MappingProxyType(documents.load(documents.CONTRACT))


@cache
def contract_digest() -> str:
    """The digest of the contract in force: the `policyDigest` that evidence is bound to."""
    return canonical.digest("pol1", canonical.encode(dict(contract())))


def action_id(action: str) -> str:
    """The id of an action on the transport."""
    return "transport.action." + action.replace(".", "_")


def semantic_digest(action: str, action_id: str) -> str:
    """What a dispatch of this action means. It is the same for every dispatch of the action."""
    parts = (PROFILE_ID, DISPATCH_KIND, action, action_id)
    return canonical.digest("ts1", "".join(part + "\0" for part in parts).encode())


def resolver_ref(site_id: str, operation_id: str, family: str, world: str, row: str) -> str:
    """The reference to the witness that the site resolves this operation to this world."""
    parts = (site_id, operation_id, family, world, row, "accepted")
    witness = "sr1_" + hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return f"resolver://site-resolve/{operation_id.replace('/', '_')}/{witness}"


def _host_action(
    action: str,
    row: Mapping[str, Any],
    operation: Mapping[str, Any],
    route: Mapping[str, Any],
    site_id: str,
) -> HostAction:
    family, world = route.get("routeFamilyId"), route.get("worldId")
    morphism_row = route.get("morphismRowId")
    resolver = None
    if family and world and morphism_row:
        resolver = resolver_ref(site_id, row["operationId"], family, world, morphism_row)
    return HostAction(
        action=action,
        action_id=action_id(action),
        operation_id=row["operationId"],
        transports=frozenset(row["transports"]),
        operation_class=operation["operationClass"],
        mutates=row["mutates"],
        route_family=family,
        world_id=world,
        morphism_row_id=morphism_row,
        capability=row["capability"],
        mcp_tool=row["mcpTool"],
        canonical_cli=row["canonicalCli"],
        semantic_digest=semantic_digest(action, action_id(action)),
        resolver_ref=resolver,
        is_operators=action in OPERATORS_ACTIONS,
    )
