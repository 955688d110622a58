"""The check of everything published: pins, schemas, digests, evidence routes, worlds, bindings.

`startup_check` is what the authority asks before it serves and before it takes a reload: it reads
bytes and compares, and costs milliseconds. What it has judged once it knows by its bytes.
`check_all` is what `understudy check` runs.
"""

from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from .. import canonical, limits
from ..reason import FAILURES, Reason
from ..records.transitions import LeaseState
from ..retry import ESCALATIONS, POLICY_INVALID_DIGEST, PolicyRefused, load_policy
from . import documents
from .evidence_routes import NORMALIZER_REF, POLICY_REF, route_findings
from .findings import Finding, report
from .pins import pin_findings
from .route_families import PINNED_ACTIONS
from .worlds import UNBOUND, UNREGISTERED, pinned_row_findings, world_registry_check

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

CHECK_KIND = "understudy.contract_check.v1"
STARTUP_KIND = "understudy.contract_startup_check.v1"

DOCUMENT_UNREADABLE = "contract_document_unreadable"
SCHEMA_INVALID = "contract_schema_invalid"
ROUTE_UNBOUND = "worker_lane_route_unbound"
MODE_DRIFT = "worker_lane_mutation_mode_drift"
COMMAND_UNBOUND = "control_plane_command_surface_unbound"
WRAPPER_UNBOUND = "control_plane_pipeline_wrapper_unbound"
WRAPPER_DRIFT = "control_plane_pipeline_wrapper_parity_drift"

CAPABILITY_PREFIX = "capabilities.change_morphisms."
_SCHEMA_BASE = "https://understudy.dev/schemas/"
_BINDING = {"normalizerIdRef": NORMALIZER_REF, "policyDigestRef": POLICY_REF}
_EVIDENCE_REASONS = {
    "missing": Reason.EVIDENCE_ROUTE_MISSING,
    "ambiguous": Reason.EVIDENCE_ROUTE_AMBIGUOUS,
    "unbound": Reason.EVIDENCE_ROUTE_UNBOUND,
}


def check_all(root: Path = documents.ROOT) -> dict[str, Any]:
    """Judge every published document below a room, against its schema and against the others."""
    found, loaded = _loaded(root)
    found += pin_findings(root)
    found += _schema_findings(loaded, root)
    worlds = _worlds(loaded)
    contract = _object(loaded.get(documents.CONTRACT))
    found += pinned_row_findings(loaded.get(documents.SITE_INPUT))
    found += _action_findings(contract)
    found += _lane_findings(contract)
    found += _command_findings(contract)
    found += _lease_findings(_object(contract.get("leaseContract")))
    found += _retry_findings(_object(contract.get("harnessRetry")), root)
    found += _evidence_findings(contract, loaded.get(documents.EVIDENCE_ROUTES))
    return report(
        CHECK_KIND,
        [*found, *_found(worlds)],
        contractDigest=canonical.digest("pol1", canonical.encode(contract)),
        documents=[*documents.SCHEMAS],
        worldRegistryCheck=worlds,
    )


def startup_check(root: Path = documents.ROOT) -> dict[str, Any]:
    """The fast form: the bytes are those that were published, and the worlds are the right ones."""
    unreadable, misrouted = _judged(tuple(_bytes(root / name) for name in documents.SCHEMAS))
    return report(STARTUP_KIND, [*unreadable, *pin_findings(root), *misrouted])


def document_findings(schema: str, document: object, path: str = "") -> list[Finding]:
    """What a schema has against a document. The first twenty errors are enough for anybody."""
    errors = validator(schema).iter_errors(document)
    return [
        Finding(SCHEMA_INVALID, _where(path, error.json_path), error.message[:500])
        for _, error in zip(range(20), errors, strict=False)
    ]


@cache
def validator(schema: str) -> "Draft202012Validator":
    """The validator of one published schema, by the name of its file. References resolve here."""
    # Imported here: jsonschema costs more than a whole simple command may take.
    from jsonschema import Draft202012Validator
    from referencing import Registry, Resource

    paths = sorted((documents.ROOT / "schemas").glob("*.schema.json"))
    schemas = [orjson.loads(path.read_bytes()) for path in paths]
    registry: Registry[Any] = Registry().with_resources(
        (document["$id"], Resource.from_contents(document)) for document in schemas
    )
    content = registry.contents(f"{_SCHEMA_BASE}{schema}.json")
    Draft202012Validator.check_schema(content)
    return Draft202012Validator(content, registry=registry)


# --- documents ----------------------------------------------------------------------------------


def _loaded(root: Path) -> tuple[list[Finding], dict[str, Any]]:
    return _decoded(tuple(_bytes(root / name) for name in documents.SCHEMAS))


def _bytes(path: Path) -> bytes | str:
    """What a file holds, or why that is unknown."""
    try:
        return path.read_bytes()
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _decoded(contents: tuple[bytes | str, ...]) -> tuple[list[Finding], dict[str, Any]]:
    found: list[Finding] = []
    loaded: dict[str, Any] = {}
    for name, content in zip(documents.SCHEMAS, contents, strict=True):
        if isinstance(content, str):
            found.append(Finding(DOCUMENT_UNREADABLE, name, content))
            continue
        try:
            loaded[name] = canonical.decode(content)
        except canonical.NotCanonical as error:
            found.append(Finding(DOCUMENT_UNREADABLE, name, str(error)))
    return found, loaded


@lru_cache(maxsize=2)
def _judged(contents: tuple[bytes | str, ...]) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """What cannot be read, and what is routed wrongly. The same bytes are not judged again."""
    unreadable, loaded = _decoded(contents)
    return tuple(unreadable), tuple(_found(_worlds(loaded)))


def _schema_findings(loaded: Mapping[str, Any], root: Path) -> Iterator[Finding]:
    """Schemas are taken from the package, so that a changed folder cannot bring its own judge."""
    for name, document in loaded.items():
        yield from document_findings(documents.SCHEMAS[name], document, name)
    for path in sorted((root / "schemas").glob("*.schema.json")):
        name = path.name.removesuffix(".schema.json")
        try:
            schema_id = _object(orjson.loads(path.read_bytes())).get("$id")
        except (OSError, orjson.JSONDecodeError):
            schema_id = None
        if schema_id != f"{_SCHEMA_BASE}{name}.json":
            message = f"the $id of the schema is not {_SCHEMA_BASE}{name}.json"
            yield Finding(SCHEMA_INVALID, f"schemas/{path.name}", message)


def _worlds(loaded: Mapping[str, Any]) -> dict[str, Any]:
    return world_registry_check(
        loaded.get(documents.SITE_INPUT),
        loaded.get(documents.OPERATIONS),
        loaded.get(documents.CONTRACT, {}),
    )


def _found(worlds: Mapping[str, Any]) -> list[Finding]:
    return [
        Finding(issue["failureClass"], issue["path"], issue["message"])
        for issue in worlds["issues"]
    ]


# --- what the contract says about others ---------------------------------------------------------


def _action_findings(contract: Mapping[str, Any]) -> Iterator[Finding]:
    """Ours routes every pinned action, not only those that every contract must have."""
    actions = _actions(contract)
    for action in sorted(PINNED_ACTIONS.keys() - actions.keys()):
        path = f"hostActionSurface.requiredActions.{action}"
        yield Finding(UNBOUND, path, "the action is pinned to a route and is not registered")


def _lane_findings(contract: Mapping[str, Any]) -> Iterator[Finding]:
    """Every mutating action has one capability, and both places that name it agree."""
    lane = _object(contract.get("workerLaneAuthority"))
    routes = _object(lane.get("mutationRoutes"))
    actions = _actions(contract)
    for action, row in actions.items():
        members = _object(row)
        mutates = members.get("mutates") is True
        expected = CAPABILITY_PREFIX + action.replace(".", "_") if mutates else None
        if members.get("capability") != expected or routes.get(action) != expected:
            path = f"workerLaneAuthority.mutationRoutes.{action}"
            yield Finding(ROUTE_UNBOUND, path, f"the capability is not {expected}")
    for action in sorted(routes.keys() - actions.keys()):
        path = f"workerLaneAuthority.mutationRoutes.{action}"
        yield Finding(UNREGISTERED, path, "the action is not registered")
    policy = _object(lane.get("mutationPolicy"))
    modes = policy.get("allowedModes")
    if not isinstance(modes, list) or policy.get("defaultMode") not in modes:
        path = "workerLaneAuthority.mutationPolicy"
        yield Finding(MODE_DRIFT, path, "the default mode is not one of the allowed modes")


def _command_findings(contract: Mapping[str, Any]) -> Iterator[Finding]:
    """Commands have words, and a pipeline runs only what the command surface has."""
    commands = _object(_object(contract.get("commandSurface")).get("commands"))
    if not commands:
        yield Finding(COMMAND_UNBOUND, "commandSurface.commands", "there are no commands")
    entrypoints = []
    for name, command in commands.items():
        entrypoint = _object(command).get("canonicalEntrypoint")
        entrypoints.append(entrypoint)
        if not _is_command(entrypoint):
            path = f"commandSurface.commands.{name}"
            yield Finding(COMMAND_UNBOUND, path, "the entry point is not a list of words")
    wrapper = _object(contract.get("pipelineWrapperSurface"))
    for block in ("entrypoints", "gates"):
        rows = _object(wrapper.get(block))
        path = f"pipelineWrapperSurface.{block}"
        if not rows or not all(_is_command(words) for words in rows.values()):
            yield Finding(WRAPPER_UNBOUND, path, "there are no commands, or one without words")
    for name, words in _object(wrapper.get("gates")).items():
        if words not in entrypoints:
            path = f"pipelineWrapperSurface.gates.{name}"
            yield Finding(WRAPPER_DRIFT, path, "the gate runs no command of the command surface")


def _lease_findings(lease: Mapping[str, Any]) -> Iterator[Finding]:
    """The contract repeats what the code does; it must not say anything else."""
    ttl_seconds = {
        "min": limits.TTL_SECONDS_MIN,
        "max": limits.TTL_SECONDS_MAX,
        "default": limits.TTL_SECONDS_DEFAULT,
    }
    drift = Reason.CONTRACT_DRIFT.wire
    if lease.get("ttlSeconds") != ttl_seconds:
        message = "the bounds are not those of the code"
        yield Finding(drift, "leaseContract.ttlSeconds", message)
    if lease.get("states") != [state.value for state in LeaseState]:
        message = "the states are not those of the transition table"
        yield Finding(drift, "leaseContract.states", message)
    if _object(lease.get("fence")).get("max") != limits.INTEGER_MAX:
        message = "the greatest fence is not that of the code"
        yield Finding(drift, "leaseContract.fence.max", message)
    guards = lease.get("guards")
    listed = guards if isinstance(guards, list) else []
    numbers = [_object(guard).get("number") for guard in listed]
    if numbers != [*range(1, len(numbers) + 1)]:
        message = "the guards are not numbered in order from 1"
        yield Finding(drift, "leaseContract.guards", message)
    for failure in FAILURES.values():
        if failure.guard is None:
            continue
        guard = _object(listed[failure.guard - 1]) if failure.guard <= len(listed) else {}
        classes = guard.get("failureClasses")
        if not isinstance(classes, list) or failure.wire not in classes:
            message = f"guard {failure.guard} does not refuse with {failure.wire}"
            yield Finding(drift, "leaseContract.guards", message)


def _retry_findings(block: Mapping[str, Any], root: Path) -> Iterator[Finding]:
    policy = load_policy(root / documents.RETRY_POLICY)
    if isinstance(policy, PolicyRefused):
        yield Finding(policy.failure_class, documents.RETRY_POLICY, policy.message)
    elif block.get("policyDigest") != policy.policy_digest:
        message = f"the contract binds another policy than {policy.policy_digest}"
        yield Finding(POLICY_INVALID_DIGEST, "harnessRetry.policyDigest", message)
    if block.get("policyPath") != documents.RETRY_POLICY:
        message = f"the policy in force is {documents.RETRY_POLICY}"
        yield Finding(Reason.CONTRACT_DRIFT.wire, "harnessRetry.policyPath", message)
    if block.get("escalationActions") != [*ESCALATIONS]:
        message = f"the escalations are {', '.join(ESCALATIONS)}"
        yield Finding(Reason.CONTRACT_DRIFT.wire, "harnessRetry.escalationActions", message)


def _evidence_findings(contract: Mapping[str, Any], routes: object) -> Iterator[Finding]:
    """An absent block is a missing route, not a pass."""
    block = _object(contract.get("evidenceFactorization"))
    if block.get("routesPath") != documents.EVIDENCE_ROUTES:
        message = f"the routes in force are {documents.EVIDENCE_ROUTES}"
        path = "evidenceFactorization.routesPath"
        yield Finding(Reason.EVIDENCE_ROUTE_MISSING.wire, path, message)
    if block.get("binding") != _BINDING:
        message = f"the binding does not name {NORMALIZER_REF} and {POLICY_REF}"
        path = "evidenceFactorization.binding"
        yield Finding(Reason.EVIDENCE_ROUTE_UNBOUND.wire, path, message)
    classes = _object(block.get("failureClasses"))
    for name, reason in _EVIDENCE_REASONS.items():
        if classes.get(name) != reason.wire:
            path = f"evidenceFactorization.failureClasses.{name}"
            yield Finding(reason.wire, path, f"the class is not {reason.wire}")
    yield from route_findings(routes, _actions(contract))


def _actions(contract: Mapping[str, Any]) -> dict[str, Any]:
    return _object(_object(contract.get("hostActionSurface")).get("requiredActions"))


def _is_command(words: object) -> bool:
    if not isinstance(words, list) or not words:
        return False
    return all(isinstance(word, str) and word.strip() for word in words)


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _where(path: str, json_path: str) -> str:
    return path + json_path.removeprefix("$")
