"""Calls that are in flight together, through either client."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from tests.patience import PATIENCE_SECONDS
from understudy.authority.service.client import AsyncClient, Client, ClientCall

Kind = Literal["sync", "async"]
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])
_ANSWER_SECONDS = 5  # a second is much for anything asked here


def add(place: int, **payload: object) -> ClientCall:
    return ClientCall("issue.add", {"id": f"i{place}", "title": "t"} | payload)


def asked(
    kind: Kind,
    state_dir: Path,
    calls: Sequence[ClientCall],
    retry_seconds: float = PATIENCE_SECONDS,
) -> list[dict[str, Any]]:
    """The answers to calls that are in flight together; a call that takes too long fails."""

    async def in_tasks() -> list[dict[str, Any]]:
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            AsyncClient(state_dir, "mcp", retry_seconds=retry_seconds) as connection,
        ):
            return list(await asyncio.gather(*(connection.ask(*each) for each in calls)))

    if kind == "async":
        return asyncio.run(in_tasks())
    with Client(state_dir, "mcp", retry_seconds=retry_seconds) as connection:
        return connection.ask_many(calls)
