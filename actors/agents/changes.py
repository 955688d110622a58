"""What changes, as it changes: one follower of the journal for all clients of a process.

    journal --read-only--> follower --events--> listen streams, watches, who waits for work
                              ^---- deadlines: a lease that runs out leaves no row

It follows while there is a listener. A change through this process is seen at once, one of others
within a quarter of a second. Events say what to read again; there is no replay.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from ...authority import Unavailable, open_journal
from ...authority.journal import journal
from ...contracts import is_issue, issue_of, rfc3339
from ..run import evidence_process

STATUS = "mesh://status"
READY = "mesh://ready"  # there may be work now that was not there before
LISTED = "issue://"  # there is an issue more
_LATEST = "trajectory://latest"
_FAILED = "trajectory://failed"

_BUSY_SECONDS = 0.02  # between two looks at a journal that grows
_IDLE_SECONDS = 0.25  # and at one that stands still
_LOST_SECONDS = 5.0  # and at one that cannot be read
_ROWS_MAX = 128  # read at once; the event loop waits that long

Listener = Callable[[str], None]  # told what to read again, by its URI
Ask = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]


class Changes:
    """The events of a state directory."""

    def __init__(self, state_dir: Path, ask: Ask) -> None:
        self._state_dir = state_dir
        self._ask = ask
        self._listeners: dict[object, Listener] = {}
        self._deadlines: dict[str, int] = {}  # of the leases that are known to run, by issue
        self._nudged = asyncio.Event()
        self._following: asyncio.Task[None] | None = None

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Hear of everything that is decided from now on, until the returned call is made."""
        token = object()
        self._listeners[token] = listener
        if self._following is None:
            # The end of the journal is taken here: what follows the caller's next step is heard.
            self._following = asyncio.create_task(self._follow(self._last_seq()))

        def unsubscribe() -> None:
            self._listeners.pop(token, None)
            if not self._listeners:
                self.close()

        return unsubscribe

    def nudge(self) -> None:
        """Something was decided: look at once."""
        self._nudged.set()

    def close(self) -> None:
        """Follow no more."""
        if self._following is not None:
            self._following.cancel()
            self._following = None

    def tell(self, events: Iterable[str]) -> None:
        """Tell every listener."""
        for event in events:
            for listener in list(self._listeners.values()):
                listener(event)

    def _last_seq(self) -> int | None:
        try:
            with open_journal(self._state_dir, read_only=True) as book:
                return book.last_seq()
        except Unavailable:
            return None

    async def _follow(self, seq: int | None) -> None:
        self._deadlines = await self._known()
        while True:
            try:
                with open_journal(self._state_dir, read_only=True) as book:
                    seq = book.last_seq() if seq is None else seq
                    pause_seconds = _BUSY_SECONDS
                    while True:
                        rows = book.rows(seq, _ROWS_MAX)  # a thread for it would cost more
                        self.tell(dict.fromkeys(self._news(rows)))
                        seq = rows[-1].seq if rows else seq
                        longer = min(2 * pause_seconds, _IDLE_SECONDS)
                        pause_seconds = _BUSY_SECONDS if rows else longer
                        await self._pause(0 if len(rows) == _ROWS_MAX else pause_seconds)
            except Unavailable:  # it is being restored, or has no room; listeners stay
                await asyncio.sleep(_LOST_SECONDS)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._nudged.wait()
        self._nudged.clear()

    async def _known(self) -> dict[str, int]:
        """The deadlines of leases that were granted before there was a listener."""
        try:
            answer = await self._ask("issue.lease_projection", {})
        except Unavailable:
            return {}
        deadlines = {
            each["id"]: rfc3339.parse_ms(each["lease"]["expiresAt"])
            for each in answer.get("items", [])
            if each["lease"]["state"] == "active"
        }
        return {key: value for key, value in deadlines.items() if value is not None}

    def _news(self, rows: Iterable[journal.Row]) -> Iterable[str]:
        for row in rows:
            effect = orjson.loads(row.response)["effect"]
            for change in orjson.loads(row.changes):
                yield from self._changed(change)
            if effect["issueId"] is not None:
                yield f"trajectory://{effect['issueId']}"
            if effect["failureClasses"]:
                yield _FAILED
            if evidence_process.stirs(row):
                yield READY
            if row.changes != b"[]":  # where reads are journaled, who reads again would not end
                yield STATUS
            yield _LATEST
        now_ms = time.time_ns() // 1_000_000
        for issue_id in [key for key, ms in self._deadlines.items() if now_ms > ms]:
            del self._deadlines[issue_id]
            yield from (*_leased(issue_id), READY, STATUS)

    def _changed(self, change: dict[str, Any]) -> Iterable[str]:
        """The events of one change; the listener passes over those it does not want."""
        match change:
            case {"change": "issue.added", "issue": {"id": issue_id}}:
                yield from (f"issue://{issue_id}", LISTED)
            case {"change": "issue.set", "id": issue_id}:
                yield f"issue://{issue_id}"
            case {"lease": {"resource": resource}} | {"resource": str(resource)} if not is_issue(
                resource
            ):
                pass  # a lease on a job or a spec, which no client can watch
            case {"change": "lease.put", "lease": {"resource": resource, "deadline_ms": ms}}:
                self._deadlines[issue_of(resource)] = ms
                yield from _leased(issue_of(resource))
            case {"change": "lease.dropped", "resource": resource}:
                self._deadlines.pop(issue_of(resource), None)
                yield from _leased(issue_of(resource))
            case {"dependency": {"issue_id": issue_id}} | {"handover": {"issue_id": issue_id}}:
                yield f"issue://{issue_id}"
            case {"resource": str(resource)}:
                yield from _leased(issue_of(resource))
            case (
                {"sublease": {"resource": resource}}
                | {"instance": {"resource": resource}}
                | {"fiber": {"resource": resource}}
            ):
                yield from _leased(issue_of(resource))
            case _:  # nothing that can be read here
                pass


def _leased(issue_id: str) -> tuple[str, str]:
    return f"lease://{issue_id}", f"issue://{issue_id}"
