"""The digests of every published document, so that a changed byte is seen before it is obeyed.

`data/pins.json` holds the SHA-256 of every file in `data/` (but itself) and in `schemas/`.
After a deliberate change to one of them, seal them again:

    python -m understudy.contracts --write

It restates the digest of the retry policy, in the policy and in the contract that binds it, and
writes the pins anew. Without `--write` it only compares, and exits 9 on a difference.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import orjson

from .. import canonical
from ..reason import Exit
from . import documents
from .findings import Finding

PINS_KIND = "understudy.contract_pins.v1"
PIN_MISMATCH = "contract_pin_mismatch"


def pin_findings(root: Path = documents.ROOT) -> list[Finding]:
    """Every file that differs from its pin, has none, or is gone. Reads bytes and nothing else."""
    try:
        pinned = _pinned(documents.load(documents.PINS, root))
        actual = digests(root)
    except (OSError, orjson.JSONDecodeError) as error:
        return [Finding(PIN_MISMATCH, documents.PINS, f"the pins cannot be compared: {error}")]
    if pinned is None:
        return [Finding(PIN_MISMATCH, documents.PINS, "this is not a document of pins")]
    return [
        Finding(PIN_MISMATCH, name, _difference(pinned.get(name), actual.get(name)))
        for name in sorted(pinned.keys() | actual.keys())
        if pinned.get(name) != actual.get(name)
    ]


def digests(root: Path = documents.ROOT) -> dict[str, str]:
    """The SHA-256 of every published file, by its path below the room."""
    paths = [*root.glob("data/*.json"), *root.glob("schemas/*.json")]
    names = sorted(path.relative_to(root).as_posix() for path in paths)
    return {
        name: hashlib.sha256((root / name).read_bytes()).hexdigest()
        for name in names
        if name != documents.PINS
    }


def seal(root: Path = documents.ROOT) -> None:
    """Restate the retry policy's digest where it is quoted, then pin every file as it is now."""
    policy = documents.load(documents.RETRY_POLICY, root)
    stated = policy.pop("policyDigest")
    digest = canonical.digest("pol1", canonical.encode(policy))
    for name in (documents.RETRY_POLICY, documents.CONTRACT):
        # Text is replaced, not rewritten: the layout of the file belongs to its author.
        text = (root / name).read_text("utf-8")
        (root / name).write_text(text.replace(stated, digest), "utf-8")
    pins = {"schema": 1, "pinsKind": PINS_KIND, "files": digests(root)}
    data = orjson.dumps(pins, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    (root / documents.PINS).write_bytes(data)


def main(arguments: list[str], root: Path = documents.ROOT) -> int:
    """The command: compare, or with `--write` seal."""
    if arguments not in ([], ["--write"]):
        sys.stderr.write("usage: python -m understudy.contracts [--write]\n")
        return Exit.USAGE
    if arguments:
        seal(root)
    found = pin_findings(root)
    for finding in found:
        sys.stderr.write(f"{finding.path}: {finding.message}\n")
    return Exit.CHECK_FAILED if found else Exit.OK


def _pinned(document: Any) -> dict[str, str] | None:
    if not isinstance(document, dict) or document.get("pinsKind") != PINS_KIND:
        return None
    files = document.get("files")
    return files if isinstance(files, dict) else None


def _difference(pinned: str | None, actual: str | None) -> str:
    if actual is None:
        return "the file is pinned and is not there"
    if pinned is None:
        return "the file is there and is not pinned"
    return f"the file has the digest {actual}, pinned is {pinned}"
