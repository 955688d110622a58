"""Whether one fence is current, as cheaply as that can be known: for hooks, scripts and watchers.

    sidecar, where one runs --yes--> current
    journal, read only -------yes--> current
                  \\--- doubt ---> the whole state --> current, or the guard that says no

It takes no lock and leaves no row, but for a sidecar whose policy is to journal reads. A fence is
the row of its grant, so the journal tells from that row on: as long as the newest word on the
lease is a grant or an extension with this fence, it is current until its deadline.

I1  A yes is never given on less than the authority itself would go by. Whatever is unclear is a
    doubt, and who doubts asks in full.

The common answer, yes, is given without what the rest of this room imports; `typing` and `pathlib`
alone would be a quarter of it.
"""

from __future__ import annotations

import os
import time

from ..journal import private
from ..journal.state_files import JOURNAL, SOCKET
from .open import decider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ...contracts import Lease, Stamp
    from ..law.outcome import Refused
    from ..law.state import State

_FORMAT = (0x75_6E_64_73, 1)  # as in `sqlite`
# What can be held: how a sidecar is asked for it, by which member, and where its answer has it and
# its lease.
_FAMILIES = {
    "issue": ("issue.show", "id", "issue", "lease"),
    "job": ("job.show", "jobId", "job", "lease"),
    "spec": ("spec.show", "specId", "spec", "lease"),
    "dispatch": ("job.show", "jobId", "job", "dispatchLease"),
    "glue": ("descent.show", "target", "glue", "lease"),
}
_PATIENCE_SECONDS = 1.0  # a sidecar answers at once, or it is stopped
_BUSY_MS = 1_000
_HELLO = b'{"hello":{"protocol":1,"transport":"cli","frozenClock":false}}\n'
_LINE_BYTES_MAX = 4 * 1024 * 1024  # one issue whole, with all its texts


class FenceStanding:
    """What is known of a fence. `failure` is the class of the guard that says no, if one does."""

    __slots__ = ("deadline_ms", "diagnostic", "failure", "fence", "resource")

    def __init__(
        self,
        resource: str,
        fence: int,
        deadline_ms: int | None = None,
        failure: str | None = None,
        diagnostic: str = "",
    ) -> None:
        self.resource = resource
        self.fence = fence  # the one that is current
        self.deadline_ms = deadline_ms
        self.failure = failure
        self.diagnostic = diagnostic


def families() -> list[str]:
    """What resources begin with, before the slash."""
    return list(_FAMILIES)


def is_resource(text: str) -> bool:
    """Whether it names something that can be held, such as `issue/ID` or `job/ID`."""
    family, _, name = text.partition("/")
    return family in _FAMILIES and bool(name)


def own_resources() -> list[str]:
    """What this process was started for, as its environment says; more than one is a doubt."""
    families = ("issue", "job", "glue")
    named = ((each, os.environ.get(f"UNDERSTUDY_{each.upper()}")) for each in families)
    return [f"{family}/{name}" for family, name in named if name]


def is_at_home(state_dir: str | os.PathLike[str]) -> bool:
    """Whether the lease in our environment is of this state directory; a fence of another authority
    says nothing, and may by chance be current here."""
    socket = os.environ.get("UNDERSTUDY_SOCKET")
    if not socket:
        return True  # a person has set the rest
    home = os.path.dirname(socket)
    return os.path.realpath(home) == os.path.realpath(state_dir)


def certain(state_dir: str, resource: str, fence: int) -> FenceStanding | None:
    """A yes, or nothing: whether it is a no, `glance` finds out."""
    return _looked(state_dir, resource, fence, None)[0]


def glance(
    state_dir: str | os.PathLike[str], resource: str, fence: int, boundary: str | None = None
) -> FenceStanding:
    """Look at a resource, as `is_resource` knows them; raise `Unavailable` where nothing is there
    to look at."""
    folder = os.fspath(state_dir)
    standing, told_ms = _looked(folder, resource, fence, boundary)
    return standing or _judged(folder, resource, fence, told_ms)


def _looked(
    folder: str, resource: str, fence: int, boundary: str | None
) -> tuple[FenceStanding | None, int]:
    """A yes if there is one, and the time that a sidecar goes by."""
    assert is_resource(resource), "the caller has looked"
    try:
        private.refuse_exposed(folder)
    except OSError:  # who opens it to judge says what is wrong
        return None, 0
    if decider(boundary, is_served=True) == "sidecar":
        answer = _asked(folder, resource)
        if answer is not None:
            return _shown(answer, resource, fence), answer.get("stamp", {}).get("wallMs", 0)
        if boundary == "sidecar":
            from .client import Unreachable  # only in trouble

            raise Unreachable(folder)
    found = _newest(os.path.join(folder, JOURNAL), resource, fence)
    if found is not None and found[0] == fence and _now_ms(found[2]) <= found[1]:
        return FenceStanding(resource, fence, found[1]), 0
    return None, 0


# --- from the journal -----------------------------------------------------------------------------


def _newest(path: str, resource: str, fence: int) -> tuple[int, int, int] | None:
    """Fence and deadline of the resource's lease, and the journal's own time.

    None if there is no lease, or none that is as young as the fence, or anything is odd.
    """
    import apsw  # where no sidecar runs

    try:
        db = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    except (apsw.Error, UnicodeEncodeError):
        return None
    try:
        db.set_busy_timeout(_BUSY_MS)
        db.execute("BEGIN")  # one moment for all that is read
        if (db.pragma("application_id"), db.pragma("user_version")) != _FORMAT:
            return None
        wall_ms = db.execute("SELECT wall_ms FROM journal ORDER BY seq DESC LIMIT 1").get
        query = "SELECT changes FROM journal WHERE seq >= ? AND instr(changes, ?) ORDER BY seq DESC"
        for (changes,) in db.execute(query, (fence, _needle(resource))):
            known, lease = _last_word(changes, resource)
            if known:
                return None if lease is None else (lease["fence"], lease["deadline_ms"], wall_ms)
    except (apsw.Error, ValueError, TypeError, KeyError):
        return None
    finally:
        db.close()
    return None


def _needle(resource: str) -> bytes:
    """Bytes that every change of the lease has in it, whatever JSON makes of the name."""
    plain = resource.isascii() and resource.isprintable() and not set(resource) & set('"\\')
    return b'"resource":"%b"' % resource.encode() if plain else b'"lease.'


def _last_word(changes: bytes, resource: str) -> tuple[bool, dict[str, Any] | None]:
    """Whether a row says anything of the lease, and the lease as it leaves it."""
    import json

    for change in reversed(json.loads(changes)):
        if change["change"] == "lease.put" and change["lease"]["resource"] == resource:
            return True, change["lease"]
        if change["change"] == "lease.dropped" and change["resource"] == resource:
            return True, None
    return False, None


def _now_ms(journal_ms: int) -> int:
    """As an authority would stamp a request now: no earlier than its newest row."""
    return max(time.time_ns() // 1_000_000, journal_ms)


# --- from the sidecar -----------------------------------------------------------------------------


def _asked(folder: str, resource: str) -> dict[str, Any] | None:
    """What a sidecar says of the resource; None where none answers in time."""
    if not os.path.exists(os.path.join(folder, SOCKET)):
        return None
    import json
    import socket

    from . import sockets

    family, _, name = resource.partition("/")
    action, member, *_ = _FAMILIES[family]
    request = {"action": action, "payload": {member: name}}
    try:
        line = json.dumps(request).encode() + b"\n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(_PATIENCE_SECONDS)
            sockets.connect(channel, folder, SOCKET)
            channel.sendall(_HELLO + line)
            hello, answer = _two_lines(channel)
        if "hello" not in json.loads(hello):
            return None
        said: dict[str, Any] = json.loads(answer)
    except (OSError, ValueError):
        return None
    return said


def _two_lines(channel: Any) -> tuple[bytes, bytes]:
    give_up = time.monotonic() + _PATIENCE_SECONDS
    data = b""
    while data.count(b"\n") < 2:
        part = channel.recv(65_536)
        if not part or len(data) > _LINE_BYTES_MAX or time.monotonic() > give_up:
            raise OSError("the sidecar hung up")
        data += part
    hello, answer, *_ = data.split(b"\n")
    return hello, answer


def _shown(answer: dict[str, Any], resource: str, fence: int) -> FenceStanding | None:
    *_, record, member = _FAMILIES[resource.partition("/")[0]]
    shown = answer.get(record)
    lease = shown.get(member) if isinstance(shown, dict) else None
    if lease is None or lease["fence"] != fence or lease["state"] != "active":
        return None
    if "deadlineMs" in lease:
        return FenceStanding(resource, fence, lease["deadlineMs"])
    from datetime import datetime

    deadline = datetime.fromisoformat(lease["expiresAt"])
    return FenceStanding(resource, fence, round(deadline.timestamp() * 1000))


# --- in full --------------------------------------------------------------------------------------


def _judged(folder: str, resource: str, fence: int, told_ms: int) -> FenceStanding:
    """By the whole state, on the ladder of a fenced action. It is most likely a no, and slow."""
    from pathlib import Path

    from ...contracts import Stamp
    from ..law.outcome import Refused
    from .local import Office

    with Office(Path(folder), writable=False) as office:
        state, head = office.authority.state, office.authority.head
        last = office.journal.row(head.seq)
    stamp = Stamp(head.seq, _now_ms(max(last.wall_ms if last else 0, told_ms)), 0, "")
    outcome = _held(state, resource, fence, stamp)
    if isinstance(outcome, Refused):
        words = outcome.diagnostic
        return FenceStanding(resource, outcome.fence or 0, None, outcome.reason.wire, words)
    return FenceStanding(resource, fence, outcome.deadline_ms)


def _held(state: State, resource: str, fence: int, stamp: Stamp) -> Lease | Refused:
    """As if the one who holds it now had shown that fence: only the fence is in question."""
    from ...contracts import OfHolder
    from ..law import lease
    from ..law.jobs import job, job_dispatch, spec
    from ..law.outcome import Refused
    from ..law.turn import Turn

    turn = Turn(state, stamp)
    family, _, name = resource.partition("/")
    held = state.leases.get(resource)
    owner, lease_id = (held.owner, held.lease_id) if held else (None, None)
    if family == "issue":
        request = OfHolder(id=name, assignee=owner, lease_id=lease_id, fence=fence)
        return lease.hold(turn, request, "issue.show")
    finders = {"job": job.find, "spec": spec.find, "dispatch": job_dispatch.find}
    found = finders[family](turn, name) if family in finders else None
    if isinstance(found, Refused):
        return found
    return lease.fenced(held, lease.ShownLease(owner, lease_id, fence), stamp, f"{family} {name}")
