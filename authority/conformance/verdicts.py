"""Vectors about documents: the contract's checks, evidence routes, issues.jsonl.

Each judge takes a vector's members and gives what is to be compared: plain JSON, the same on every
machine. What was published is damaged with patches; nothing in the package is written to.
"""

import base64
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson

from ...contracts import (
    Reason,
    check_all,
    coherence_report,
    documents,
    factor,
    host_actions,
    parse_routes,
    pins,
    route_findings,
    startup_check,
    world_registry_check,
)
from ..engine.engine import recover
from ..journal.state_dir import open_journal
from ..views.issues_file import export_issues, import_payloads, read_issues
from .pointer import patched
from .scene import make_state, play, scratch

DOCUMENTS = {
    "siteInput": documents.SITE_INPUT,
    "operations": documents.OPERATIONS,
    "contract": documents.CONTRACT,
    "retryPolicy": documents.RETRY_POLICY,
    "evidenceRoutes": documents.EVIDENCE_ROUTES,
}
_NOW_TEXT = "1970-01-01T00:16:40Z"


def check(body: Mapping[str, Any]) -> dict[str, Any]:
    """Damage the published documents, and ask one of the four checks about them."""
    match body.get("check", "world"):
        case "world":
            report = _world_check(body)
        case "published":
            report = _tree_check(body, check_all)
        case "startup":
            report = _tree_check(body, startup_check)
        case "coherence":
            report = _tree_check(body, coherence_report)
        case other:
            raise ValueError(f"there is no check `{other}`")
    paths = sorted({issue["path"] for issue in report["issues"]})
    return {
        "result": report["result"],
        "failureClasses": report["failureClasses"],
        "paths": paths,
        "report": report,
    }


def _world_check(body: Mapping[str, Any]) -> dict[str, Any]:
    loaded = damaged(body)
    return world_registry_check(
        loaded["siteInput"],
        loaded["operations"],
        loaded["contract"] if body.get("withContract", True) else None,
        body.get("requiredFamilies", ()),
        [(family, operation) for family, operation in body.get("requiredBindings", ())],
    )


def _tree_check(body: Mapping[str, Any], judge: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    with scratch() as folder:
        root = Path(folder)
        copy_documents(root)
        for name, document in damaged(body).items():
            if any(each["document"] == name for each in body.get("patches", ())):
                (root / DOCUMENTS[name]).write_bytes(orjson.dumps(document))
        for name in body.get("removed", ()):
            (root / DOCUMENTS[name]).unlink()
        if body.get("sealed"):
            pins.seal(root)
        return judge(root)


def copy_documents(root: Path) -> None:
    """The published documents and schemas, where a vector may spoil them."""
    for name in ("data", "schemas"):
        shutil.copytree(documents.ROOT / name, root / name)


def damaged(body: Mapping[str, Any]) -> dict[str, Any]:
    """The published documents, with the patches of a vector."""
    loaded = {name: documents.load(path) for name, path in DOCUMENTS.items()}
    for each in body.get("patches", ()):
        loaded[each["document"]] = patched(loaded[each["document"]], each["patch"])
    return loaded


def evidence(body: Mapping[str, Any]) -> dict[str, Any]:
    """The route that a row takes; without a row, what is wrong with the table of routes."""
    document = damaged(body)["evidenceRoutes"]
    if "row" in body:
        route = factor(body["row"], parse_routes(document))
        if isinstance(route, Reason):
            return {"failureClasses": [route.wire], "route": None}
        return {"failureClasses": [], "route": route}
    findings = route_findings(document, host_actions())
    return {"failureClasses": sorted({finding.failure_class for finding in findings})}


def imported(body: Mapping[str, Any]) -> dict[str, Any]:
    """The ids that a file of issues gives, and its bad lines by number."""
    data = base64.b64decode(body["fileBase64"]) if "fileBase64" in body else body["file"].encode()
    records, problems, _ = read_issues(data, _NOW_TEXT)
    return {
        "export": _exported(records),
        "failureClasses": sorted({problem.reason.wire for problem in problems}),
        "ids": [record["id"] for record in records],
        "problems": [
            {"line": problem.line, "failureClass": problem.reason.wire} for problem in problems
        ],
        "records": records,
    }


def _exported(records: list[dict[str, Any]]) -> str:
    """The file that an export writes, once an authority has taken the records over."""
    steps = [
        {"door": "cli", "request": {"action": "issue.import", "payload": payload}}
        for payload in import_payloads(records)
    ]
    with scratch() as folder:
        make_state(Path(folder))
        for answer in play({"requests": steps}, "reference", Path(folder)):
            assert answer.value["result"] == "accepted", answer.value["diagnostic"]
        with open_journal(Path(folder), read_only=True) as journal:
            state, _, _ = recover(journal)
    return export_issues(state).decode()
