"""A small check policy, sealed with its own digest, and envelopes that name it."""

from typing import Any

from understudy.contracts import policy_digest

Document = dict[str, Any]


def policy(**members: object) -> Document:
    """Two checks, three rules; any member can be another."""
    document: Document = {
        "schema": 1,
        "policyKind": "ci.check.policy.v1",
        "policyId": "policy.test.v1",
        "checks": [
            {"checkId": "lint", "command": ["true"], "timeoutSeconds": 60},
            {"checkId": "tests", "command": ["true"], "timeoutSeconds": 60},
        ],
        "rules": [
            {"ruleId": "generated", "paths": ["**/gen/**"], "checks": []},
            {"ruleId": "code", "paths": ["**/*.py"], "checks": ["tests", "lint"]},
            {"ruleId": "text", "paths": ["**/*.txt"], "checks": ["lint"]},
        ],
        "defaultChecks": ["lint", "tests"],
        "docsPaths": ["docs/**", "*.md"],
        "docsChecks": [],
        "allowedChecks": ["lint", "tests"],
        "allowedNormalizers": ["nf.understudy.v1"],
        "instructionTypes": ["ci.check"],
        "closeRequires": "none",
        **members,
    }
    return {"policyDigest": policy_digest(document), **document}


def envelope(**members: object) -> Document:
    """What the small policy allows; any member can be another, and none where it is None."""
    document = {
        "schema": 1,
        "intent": "is it sound",
        "scope": "src/",
        "normalizerId": "nf.understudy.v1",
        "policyDigest": policy()["policyDigest"],
        "requestedChecks": ["lint"],
        "instructionType": "ci.check",
        **members,
    }
    return {name: value for name, value in document.items() if value is not None}


def passed(*check_ids: str) -> list[Document]:
    return [{"checkId": name, "status": "passed", "exitCode": 0} for name in check_ids]
