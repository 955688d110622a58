"""Who may use the console: a link that opens once, and the cookie that it is exchanged for.

link   /enter?key=...   made on request of the state directory's owner, good once, for minutes
cookie                  a random token; what is kept of it is a digest, in a private file, so
                        that a gateway that is started again still knows its visitors

I1  A key opens at most one session, and none after its time.
I2  A cookie that is not the token of a session that lasts is nothing: there is no signature to
    forge, and one that was signed out stays so.
I3  Keys and sessions are bounded; the oldest goes.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import orjson

from ...authority.journal import private
from ...contracts import limits, regular_file
from .link_socket import SESSIONS

_TOKEN_BYTES = 32


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks, and the word that each change of theirs must carry."""

    name: str
    csrf: str


@dataclass(frozen=True, slots=True)
class _Session:
    name: str
    until_s: float


class WebSessions:
    """The sessions of one console; `now` is the wall clock, since they outlive the process."""

    def __init__(self, run_dir: Path, now: Callable[[], float] = time.time) -> None:
        self._path, self._now = run_dir / SESSIONS, now
        self._keys: dict[str, _Session] = {}  # by the digests of one-time keys
        self._sessions: dict[str, _Session] = dict(self._read())

    def make_key(self, name: str) -> str:
        """What a link carries, for this person."""
        key = secrets.token_urlsafe(_TOKEN_BYTES)
        until_s = self._now() + limits.WEB_KEY_SECONDS
        _put(self._keys, _digest(key), _Session(name, until_s), limits.WEB_KEYS_MAX)
        return key

    def enter(self, key: str) -> str | None:
        """The cookie for a key, which is used up; None for one that is none (I1)."""
        found = self._keys.pop(_digest(key), None)
        if found is None or self._now() > found.until_s:
            return None
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        session = _Session(found.name, self._now() + limits.WEB_SESSION_SECONDS)
        _put(self._sessions, _digest(token), session, limits.WEB_SESSIONS_MAX)
        self._write()
        return token

    def visitor(self, token: str) -> Visitor | None:
        """Who has this cookie; None where nobody has it (I2)."""
        found = self._sessions.get(_digest(token))
        if found is None or self._now() > found.until_s:
            return None
        csrf = hmac.new(token.encode(), b"understudy csrf", hashlib.sha256).hexdigest()
        return Visitor(found.name, csrf)

    def leave(self, token: str) -> None:
        """Sign out: the cookie is nothing from now on."""
        if self._sessions.pop(_digest(token), None) is not None:
            self._write()

    def _read(self) -> list[tuple[str, _Session]]:
        with suppress(OSError, ValueError, TypeError, KeyError):
            rows = orjson.loads(regular_file.read(self._path, limits.REQUEST_BYTES_MAX))
            found = [(str(row["token"]), str(row["name"]), float(row["until"])) for row in rows]
            now_s = self._now()
            return [(token, _Session(name, until)) for token, name, until in found if until > now_s]
        return []

    def _write(self) -> None:
        rows = [
            {"token": token, "name": each.name, "until": each.until_s}
            for token, each in self._sessions.items()
        ]
        fresh = self._path.with_suffix(".new")
        private.make_folder(self._path.parent)
        private.write(fresh, orjson.dumps(rows))
        fresh.replace(self._path)


def _put(known: dict[str, _Session], digest: str, session: _Session, most: int) -> None:
    """I3."""
    while len(known) >= most:
        del known[next(iter(known))]
    known[digest] = session


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
