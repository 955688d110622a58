"""Makes a vector of what has happened: the first rows of a journal, as requests and answers.

A fence is the number of its row, so only a whole beginning comes out the same elsewhere. The vector
is played before it is handed out: one that does not hold is no vector.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson

from ..journal.journal import Row
from .vectors import Vector, run_vector


class NoVector(ValueError):
    """These rows make no vector; the text says why."""


def vector_of(rows: Sequence[Row], name: str) -> dict[str, Any]:
    """A vector of these rows, which are the first of a journal; `NoVector` where they make none."""
    if [row.seq for row in rows] != list(range(1, len(rows) + 1)) or not rows:
        raise NoVector("a vector begins with the first row")
    body: dict[str, Any] = {
        "suite": "copied",
        "name": name,
        "kind": "dispatch",
        "why": f"copied from a journal: its first {len(rows)} rows",
        "clause": "copied",
        "requests": [_step(row) for row in rows],
        "expect": [_expected(row) for row in rows],
    }
    played = run_vector(Vector(Path(name), "copied", "golden", name, body))
    if played.problems:
        raise NoVector(f"it does not come out the same elsewhere: {played.problems[0]}")
    return body | dict(played.written)


def _step(row: Row) -> dict[str, Any]:
    asked = orjson.loads(row.request)
    request = {"action": asked["action"], "now": row.wall_ms, "payload": asked["payload"]}
    if asked.get("context"):
        request["context"] = asked["context"]
    return {"door": asked["door"], "request": request}


def _expected(row: Row) -> dict[str, Any]:
    answer = orjson.loads(row.response)
    return {
        "failureClasses": answer["failureClasses"],
        "journaled": True,
        "result": answer["result"],
    }
