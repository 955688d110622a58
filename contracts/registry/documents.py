"""Where the published documents lie, and how one is read."""

from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[1]

CONTRACT = "data/control-plane-contract.json"
OPERATIONS = "data/operation-registry.json"
SITE_INPUT = "data/site-input.json"
RETRY_POLICY = "data/retry-policy.json"
EVIDENCE_ROUTES = "data/evidence-routes.json"
PINS = "data/pins.json"

# Which schema judges which document.
SCHEMAS = {
    CONTRACT: "control-plane-contract",
    OPERATIONS: "operation-registry",
    SITE_INPUT: "world-routes",
    RETRY_POLICY: "retry-policy",
    EVIDENCE_ROUTES: "evidence-routes",
}


def load(name: str, root: Path = ROOT) -> Any:  # the schema knows, not the type
    """Parse one document, named by its path below the room."""
    return orjson.loads((root / name).read_bytes())
