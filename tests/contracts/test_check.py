"""The check of everything: each document against its schema, and all of them against each other."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.together import together
from understudy.contracts import documents
from understudy.contracts.registry.check import (
    check_all,
    document_findings,
    startup_check,
    validator,
)
from understudy.contracts.registry.pins import seal
from understudy.contracts.requests.host_actions import contract_digest

SCHEMA_INVALID = "contract_schema_invalid"
DRIFT = "contract_drift"
DIGEST = "0" * 64

Document = dict[str, Any]


class Room:
    """A copy of the published documents, to be spoilt."""

    def __init__(self, path: Path) -> None:
        self.path = path
        for folder in ("data", "schemas"):
            shutil.copytree(documents.ROOT / folder, path / folder)

    def change(self, name: str, spoil: Callable[[Document], object]) -> None:
        """Spoil one document and pin the result, so that the pins are not what catches it."""
        document = documents.load(name, self.path)
        spoil(document)
        (self.path / name).write_bytes(orjson.dumps(document))
        if "policyDigest" in documents.load(documents.RETRY_POLICY, self.path):
            seal(self.path)

    def classes(self) -> list[str]:
        report = check_all(self.path)
        assert (report["result"] == "rejected") == bool(report["issues"])
        return [str(name) for name in report["failureClasses"]]


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def test_everything_published_is_accepted() -> None:
    report = check_all()
    assert report["schema"] == 1
    assert report["checkKind"] == "understudy.contract_check.v1"
    assert report["result"] == "accepted"
    assert report["failureClasses"] == []
    assert report["issues"] == []
    assert report["contractDigest"] == contract_digest()
    assert report["worldRegistryCheck"]["result"] == "accepted"


def test_the_startup_check_accepts_what_is_published() -> None:
    report = startup_check()
    assert report["checkKind"] == "understudy.contract_startup_check.v1"
    assert (report["result"], report["issues"]) == ("accepted", [])


def test_a_report_is_json() -> None:
    assert orjson.loads(orjson.dumps(check_all())) == check_all()


@pytest.mark.parametrize("name", sorted(documents.SCHEMAS))
def test_a_changed_byte_stops_the_start(room: Room, name: str) -> None:
    (room.path / name).write_bytes((room.path / name).read_bytes() + b"\n")
    assert startup_check(room.path)["failureClasses"] == ["contract_pin_mismatch"]
    assert room.classes() == ["contract_pin_mismatch"]


def test_a_wrong_world_stops_the_start_even_when_it_is_pinned(room: Room) -> None:
    def spoil(site: Document) -> None:
        site["worldRouteBindings"]["rows"][0]["worldId"] = "world.nonsense"

    room.change(documents.SITE_INPUT, spoil)
    assert startup_check(room.path)["failureClasses"] == ["world_route_unknown_world"]
    assert room.classes() == ["world_route_unknown_world"]


def test_a_document_is_judged_by_what_it_holds_now(room: Room) -> None:
    """Though what was judged before is not judged again."""
    path = room.path / documents.SITE_INPUT
    sound = path.read_bytes()
    for _ in range(2):
        path.write_bytes(sound)
        assert startup_check(room.path)["failureClasses"] == []
        path.write_bytes(sound.replace(b'"worldId": "world.', b'"worldId": "word.', 1))
        found = startup_check(room.path)["failureClasses"]
        assert found == ["contract_pin_mismatch", "world_route_unknown_world"]


@pytest.mark.parametrize("name", sorted(documents.SCHEMAS))
@pytest.mark.parametrize(
    "data", [b"", b"{", b"\xff", b'{"schema":1,"schema":1}', b"[" * 2000 + b"]" * 2000, b"1.5"]
)
def test_a_document_that_is_not_canonical_json_is_refused(
    room: Room, name: str, data: bytes
) -> None:
    (room.path / name).write_bytes(data)
    assert "contract_document_unreadable" in startup_check(room.path)["failureClasses"]
    assert "contract_document_unreadable" in room.classes()


@pytest.mark.parametrize("name", sorted(documents.SCHEMAS))
def test_a_document_that_is_gone_is_refused(room: Room, name: str) -> None:
    (room.path / name).unlink()
    report = startup_check(room.path)
    assert "contract_document_unreadable" in report["failureClasses"]
    assert str(room.path) not in str(report)
    assert "contract_document_unreadable" in room.classes()


@pytest.mark.parametrize("name", sorted(documents.SCHEMAS))
@pytest.mark.parametrize("document", [None, [], 7, "x", {}])
def test_any_other_document_gives_a_verdict(room: Room, name: str, document: object) -> None:
    (room.path / name).write_bytes(orjson.dumps(document))
    assert SCHEMA_INVALID in room.classes()


@pytest.mark.parametrize("name", sorted(documents.SCHEMAS))
def test_an_unknown_member_is_refused(room: Room, name: str) -> None:
    room.change(name, lambda document: document.update(surprise=1))
    assert SCHEMA_INVALID in room.classes()


# --- the contract against the rest ---------------------------------------------------------------


def put(*path: object) -> Callable[[Document], None]:
    """Set the value that comes last at the path before it."""

    def spoil(document: Document) -> None:
        target: Any = document
        for step in path[:-2]:
            target = target[step]
        target[path[-2]] = path[-1]

    return spoil


def drop(*path: object) -> Callable[[Document], None]:
    def spoil(document: Document) -> None:
        target: Any = document
        for step in path[:-1]:
            target = target[step]
        del target[path[-1]]

    return spoil


CAPABILITY = "capabilities.change_morphisms."
ACTIONS = ("hostActionSurface", "requiredActions")
ROUTES = ("workerLaneAuthority", "mutationRoutes")
LANE_UNBOUND = "worker_lane_route_unbound"
EVIDENCE = "unification.evidence_factorization."


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (put(*ACTIONS, "issue.claim", "capability", CAPABILITY + "issue_add"), LANE_UNBOUND),
        (put(*ACTIONS, "issue.list", "mutates", True), LANE_UNBOUND),  # noqa: FBT003 - the value to put
        (put(*ACTIONS, "issue.claim", "mutates", False), LANE_UNBOUND),  # noqa: FBT003 - the value to put
        (drop(*ROUTES, "issue.claim"), LANE_UNBOUND),
        (put(*ROUTES, "issue.list", CAPABILITY + "issue_list"), LANE_UNBOUND),
        (put(*ROUTES, "issue.claim", CAPABILITY + "all"), LANE_UNBOUND),
        (put(*ROUTES, "issue.steal", CAPABILITY + "issue_steal"),
         "control_plane_host_action_unregistered"),
        (put("workerLaneAuthority", "mutationPolicy", "allowedModes", ["instruction-linked"]),
         "worker_lane_mutation_mode_drift"),
        (put("workerLaneAuthority", "mutationPolicy", "allowedModes", None),
         "worker_lane_mutation_mode_drift"),
        (drop(*ACTIONS, "sublease.grant"), "world_route_unbound"),
        (drop(*ACTIONS, "issue.lease_break"), "world_route_unbound"),
        (put("commandSurface", "commands", {}), "control_plane_command_surface_unbound"),
        (put("commandSurface", "commands", "replay", "canonicalEntrypoint", []),
         "control_plane_command_surface_unbound"),
        (put("commandSurface", "commands", "replay", "canonicalEntrypoint", ["understudy", " "]),
         "control_plane_command_surface_unbound"),
        (drop("pipelineWrapperSurface"), "control_plane_pipeline_wrapper_unbound"),
        (put("pipelineWrapperSurface", "gates", {}), "control_plane_pipeline_wrapper_unbound"),
        (put("pipelineWrapperSurface", "entrypoints", "required", []),
         "control_plane_pipeline_wrapper_unbound"),
        (put("pipelineWrapperSurface", "gates", "replay", ["understudy", "rerun"]),
         "control_plane_pipeline_wrapper_parity_drift"),
        (put("leaseContract", "ttlSeconds", "min", 29), DRIFT),
        (put("leaseContract", "ttlSeconds", "max", 86_401), DRIFT),
        (put("leaseContract", "ttlSeconds", "default", 60), DRIFT),
        (put("leaseContract", "states", ["active"]), DRIFT),
        (put("leaseContract", "fence", "max", 2**31), DRIFT),
        (put("leaseContract", "guards", 4, "number", 6), DRIFT),
        (put("leaseContract", "guards", 5, "failureClasses", ["lease_stale"]), DRIFT),
        (put("leaseContract", "guards", None), DRIFT),
        (drop("leaseContract", "guards", 9), DRIFT),
        (drop("leaseContract"), DRIFT),
        (put("harnessRetry", "policyPath", "data/other.json"), DRIFT),
        (put("harnessRetry", "escalationActions", ["stop"]), DRIFT),
        (put("harnessRetry", "policyDigest", "pol1_" + DIGEST), "retry_policy_invalid_digest"),
        (drop("evidenceFactorization"), EVIDENCE + "missing"),
        (put("evidenceFactorization", "routesPath", "data/other.json"), EVIDENCE + "missing"),
        (put("evidenceFactorization", "binding", "policyDigestRef", "x"), EVIDENCE + "unbound"),
        (put("evidenceFactorization", "failureClasses", "ambiguous", EVIDENCE + "missing"),
         EVIDENCE + "ambiguous"),
        (put(*ACTIONS, "issue.steal", {"operationId": "op/mcp.issue_steal"}), EVIDENCE + "missing"),
    ],
)  # fmt: skip
def test_a_contract_that_contradicts_the_rest_is_refused(
    room: Room, spoil: Callable[[Document], None], expected: str
) -> None:
    room.change(documents.CONTRACT, spoil)
    assert expected in room.classes()


def test_guards_out_of_order_are_refused(room: Room) -> None:
    def spoil(contract: Document) -> None:
        guards = contract["leaseContract"]["guards"]
        guards[4], guards[5] = guards[5], guards[4]

    room.change(documents.CONTRACT, spoil)
    assert room.classes() == [DRIFT]


def test_a_policy_that_is_not_sealed_is_refused(room: Room) -> None:
    path = room.path / documents.RETRY_POLICY
    path.write_text(path.read_text().replace('"maxAttempts": 6', '"maxAttempts": 60'))
    assert room.classes() == ["contract_pin_mismatch", "retry_policy_invalid_digest"]


def test_a_policy_that_is_gone_is_refused(room: Room) -> None:
    (room.path / documents.RETRY_POLICY).unlink()
    assert "retry_policy_missing" in room.classes()


def test_an_action_in_two_evidence_routes_is_refused(room: Room) -> None:
    def spoil(routes: Document) -> None:
        routes["routes"][0]["actions"].append("issue.claim")

    room.change(documents.EVIDENCE_ROUTES, spoil)
    assert room.classes() == [EVIDENCE + "ambiguous"]


def test_weaker_morphisms_are_refused_in_our_own_rows(room: Room) -> None:
    def spoil(site: Document) -> None:
        site["worldRouteBindings"]["rows"][0]["requiredMorphisms"].pop()

    room.change(documents.SITE_INPUT, spoil)
    assert room.classes() == ["world_route_morphism_drift"]


# --- the schemas ---------------------------------------------------------------------------------

NAMES = sorted(
    path.name.removesuffix(".schema.json") for path in (documents.ROOT / "schemas").iterdir()
)


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_is_valid_and_has_the_address_of_its_name(name: str) -> None:
    schema = validator(name).schema
    assert isinstance(schema, dict)
    assert schema["$id"] == f"https://understudy.dev/schemas/{name}.json"
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"


def test_the_schemas_of_the_issue_are_all_there() -> None:
    assert {
        "response", "host-effect", "trajectory-row", "journal-row", "issue-record",
        "control-plane-contract", "operation-registry", "world-routes", "retry-policy",
        "evidence-routes", "vector",
    } <= {*NAMES}  # fmt: skip


def test_a_schema_with_a_foreign_address_is_refused(room: Room) -> None:
    path = room.path / "schemas" / "vector.schema.json"
    path.write_text(path.read_text().replace("understudy.dev", "example.org"))
    seal(room.path)
    assert room.classes() == [SCHEMA_INVALID]
    path.write_text("{")
    seal(room.path)
    assert room.classes() == [SCHEMA_INVALID]


def test_a_long_list_of_errors_is_cut() -> None:
    routes = {"routes": [{"routeId": 7}] * 1000}
    assert len(document_findings("evidence-routes", routes)) == 20


def effect() -> dict[str, Any]:
    return {
        "schema": "premath.host_effect.v0",
        "action": "issue.claim",
        "argsDigest": "he1_" + DIGEST,
        "resultClass": "accepted",
        "failureClasses": [],
        "witnessRefs": ["resolver://site-resolve/op_mcp.issue_claim/sr1_" + DIGEST],
        "policyDigest": "pol1_" + DIGEST,
        "normalizerId": "normalizer.v1",
        "instructionRef": None,
        "transport": "mcp",
        "issueId": "bd-1",
        "fence": 7,
        "seq": 7,
        "stamp": {"wallMs": 1_700_000_000_000, "counter": 0, "node": "n1"},
        "prev": None,
        "stateDigest": "st1_" + DIGEST,
    }


def trajectory_row() -> dict[str, Any]:
    return {
        "schema": 1,
        "stepKind": "premath.harness.step.v1",
        "stepId": "step.7",
        "action": "issue.claim",
        "resultClass": "accepted",
        "finishedAt": "2026-01-01T00:00:00.001Z",
        "route": "eta.lease_to_ev",
        "effect": effect(),
        "digest": "row1_" + DIGEST,
    }


def journal_row() -> dict[str, Any]:
    return {
        "seq": 7,
        "epoch": 1,
        "stamp": effect()["stamp"],
        "request": {
            "action": "issue.claim",
            "payload": {"id": "bd-1"},
            "context": {"transport": "mcp", "instructionRef": "i"},
            "door": "mcp",
            "policy": "pol1_" + DIGEST,
        },
        "response": response(),
        "changes": [{"change": "issue.set"}],
        "digest": "row1_" + DIGEST,
        "stateDigest": "st1_" + DIGEST,
    }


def response() -> dict[str, Any]:
    return {
        "schema": 1,
        "dispatchKind": "premath.transport_dispatch.v1",
        "profileId": "transport.issue_lease.v1",
        "id": 1,
        "action": "issue.claim",
        "actionId": "transport.action.issue_claim",
        "semanticDigest": "ts1_" + DIGEST,
        "result": "accepted",
        "failureClasses": [],
        "changed": True,
        "seq": 7,
        "stamp": effect()["stamp"],
        "issue": {
            "id": "bd-1",
            "title": "t",
            "status": "in_progress",
            "lease": {
                "leaseId": "lease1_bd-1_a_7",
                "owner": "a",
                "fence": 7,
                "state": "active",
                "acquiredAt": "2026-01-01T00:00:00+00:00",
                "expiresAt": "2026-01-01T01:00:00+00:00",
            },
        },
        "effect": effect(),
        "items": [],
    }


def issue_record() -> dict[str, Any]:
    return {
        "id": "bd-1",
        "title": "t",
        "status": "open",
        "priority": 2,
        "issue_type": " Epic",
        "created_at": "2026-01-01T00:00:00.123456789Z",
        "dependencies": [{"issue_id": "bd-1", "depends_on_id": "bd-2", "dep_type": "blocks"}],
        "lease": None,
        "metadata": {"anything": [1]},
        "somebody_elses": True,
    }


def vector() -> dict[str, Any]:
    return {
        "suite": "lease",
        "name": "claim",
        "why": "it shows",
        "clause": "002 6.1",
        "kind": "dispatch",
        "requests": [],
        "expect": [{"result": "accepted", "failureClasses": []}],
        "sha256": "0" * 64,
        "journal": "row1_" + "0" * 64,
    }


EXAMPLES: dict[str, Callable[[], dict[str, Any]]] = {
    "host-effect": effect,
    "trajectory-row": trajectory_row,
    "journal-row": journal_row,
    "response": response,
    "issue-record": issue_record,
    "vector": vector,
}


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_a_schema_accepts_its_example(name: str) -> None:
    assert document_findings(name, EXAMPLES[name]()) == []


@together(
    ("name", "member"),
    [(name, member) for name in sorted(EXAMPLES) for member in validator(name).schema["required"]],
)
def test_a_required_member_is_required(name: str, member: str) -> None:
    document = EXAMPLES[name]()
    del document[member]
    assert document_findings(name, document)


@pytest.mark.parametrize("name", ["host-effect", "trajectory-row", "journal-row"])
def test_a_format_of_ours_has_no_other_members(name: str) -> None:
    assert document_findings(name, {**EXAMPLES[name](), "surprise": 1})


@together(
    ("name", "spoil"),
    [
        ("host-effect", put("argsDigest", "he1_" + "0" * 63)),
        ("host-effect", put("argsDigest", "he1_" + "G" * 64)),
        ("host-effect", put("argsDigest", "he1_" + DIGEST + "\n")),
        ("host-effect", put("policyDigest", None)),
        ("host-effect", put("prev", "")),
        ("host-effect", put("fence", -1)),
        ("host-effect", put("fence", 2**53)),
        ("host-effect", put("seq", "7")),
        ("host-effect", put("transport", "pigeon")),
        ("host-effect", put("normalizerId", " ")),
        ("host-effect", put("witnessRefs", ["a", "a"])),
        ("host-effect", put("failureClasses", ["lease_stale"])),
        ("host-effect", put("resultClass", "lease_stale")),
        ("host-effect", put("stamp", "counter", 65_536)),
        ("host-effect", put("stamp", "wallMs", -1)),
        ("host-effect", put("stamp", "zone", "utc")),
        ("trajectory-row", put("finishedAt", "yesterday")),
        ("trajectory-row", put("route", "read")),
        ("trajectory-row", put("witnessRefs", [])),
        ("trajectory-row", put("effect", "seq", -1)),
        ("trajectory-row", put("digest", "row2_" + DIGEST)),
        ("journal-row", put("response", "result", "rejected")),
        ("journal-row", put("request", "context", {"transport": "pigeon"})),
        ("journal-row", put("request", "door", None)),
        ("journal-row", put("request", "now", -1)),
        ("journal-row", put("request", "then", 1)),
        ("response", put("id", None)),
        ("response", put("result", "maybe")),
        ("response", put("result", "rejected")),
        ("response", put("failureClasses", ["lease_stale"])),
        ("response", put("issue", "lease", "fence", None)),
        ("response", put("effect", "action", "claim")),
        ("issue-record", put("id", "../x")),
        ("issue-record", put("id", "bd-1\n")),
        ("issue-record", put("id", "a" * 129)),
        ("issue-record", put("issue_type", "story")),
        ("issue-record", put("priority", 2**31)),
        ("issue-record", put("dependencies", 0, "dep_type", "hates")),
        ("issue-record", put("lease", {"owner": "a"})),
        ("vector", put("kind", "poem")),
        ("vector", put("why", "")),
    ],
)
def test_a_schema_refuses_what_is_wrong(name: str, spoil: Callable[[Document], None]) -> None:
    document = EXAMPLES[name]()
    spoil(document)
    findings = document_findings(name, document, "row")
    assert findings
    assert {finding.failure_class for finding in findings} == {SCHEMA_INVALID}
    assert all(finding.path.startswith("row") for finding in findings)
