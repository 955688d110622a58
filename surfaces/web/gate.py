"""Lets a request to the console in, or says why not: one ladder, the first that applies answers.

    1  Host is no name or address of ours                          421
    2  Origin is another, or a page of elsewhere sent it           403
    3  not GET, HEAD or POST                                       405
    4  what needs no session: how it looks, its health, the link   (the page itself)
    5  no cookie, or none of a session that lasts                  401, and how to get a link
    6  the body is too long / does not arrive                      413 / 408
    7  a change without the session's own word                     403

What is answered may be kept by no cache, framed by no page, and runs no script but our files.
"""

import asyncio
import hmac
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import parse_qs

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...contracts import limits
from ..http.hosts import OwnHosts, host_of
from ..http.server import whole_body
from ..http.strangers import Strangers
from .pages import layout
from .sessions import Visitor, WebSessions

OPEN_PATHS: Final = ("/static/", "/healthz", "/enter")
CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-understudy-csrf"
_SECURITY: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


class WebGate:
    """In front of the pages. `scope["visitor"]` says who asks, `scope["form"]` what was sent."""

    def __init__(
        self,
        app: ASGIApp,
        hosts: OwnHosts,
        sessions: WebSessions,
        strangers: Strangers,
        cookie: str,
    ) -> None:
        self._app, self._hosts, self._sessions = app, hosts, sessions
        self._strangers, self._cookie = strangers, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = Headers(scope=scope)
        visitor = self._visitor(headers)
        refusal = self._refusal(scope, headers, visitor)
        guarded = _guarded(send, scope["path"])
        if refusal is not None:
            await refusal(scope, receive, guarded)
            return
        if scope["client"] is not None and visitor is not None:
            self._strangers.leave(tuple(scope["client"]))
        if scope["method"] == "POST":
            body = await _body(headers, receive)
            if isinstance(body, int):  # 6
                await _said(body, "the request is too long, or did not arrive")(
                    scope, receive, guarded
                )
                return
            form = _form(body)
            if visitor is None or not _is_meant(visitor, headers, form):  # 7
                text = "the page is of another session; load it again, and repeat what you did"
                await _said(403, text)(scope, receive, guarded)
                return
            scope["form"] = form
        scope["visitor"] = visitor
        await self._app(scope, receive, guarded)

    def _refusal(self, scope: Scope, headers: Headers, visitor: Visitor | None) -> Response | None:
        if not self._hosts.has(host_of(f"//{headers.get('host', '')}")):  # 1
            return _said(421, "Host is not ours")
        if not self._is_own_page(scope, headers):  # 2
            return _said(403, "a page of another origin sent this")
        if scope["method"] not in ("GET", "HEAD", "POST"):  # 3
            return _said(405, "GET, HEAD or POST")
        is_open = scope["method"] != "POST" and scope["path"].startswith(OPEN_PATHS)  # 4
        if visitor is None and not is_open:  # 5
            wants_page = "text/html" in headers.get("accept", "")
            return HTMLResponse(layout.signed_out(), 401) if wants_page else _said(401, "sign in")
        return None

    def _is_own_page(self, scope: Scope, headers: Headers) -> bool:
        """A change must come from this very origin; a look may not come from inside another page.

        A link that is followed from elsewhere is a navigation, and has the cookie only if the
        browser says that it is from here.
        """
        origin = headers.get("origin")
        if origin is not None and origin != f"{scope['scheme']}://{headers.get('host', '')}":
            return False
        site = headers.get("sec-fetch-site", "same-origin")
        if scope["method"] == "POST":
            return (origin is not None or "sec-fetch-site" in headers) and site == "same-origin"
        is_navigation = headers.get("sec-fetch-mode", "navigate") == "navigate"
        return site in ("same-origin", "none") or is_navigation

    def _visitor(self, headers: Headers) -> Visitor | None:
        try:
            found = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return None
        return None if found is None else self._sessions.visitor(found.value)


def _is_meant(visitor: Visitor, headers: Headers, form: dict[str, str]) -> bool:
    word = headers.get(CSRF_HEADER) or form.get(CSRF_FIELD, "")
    return hmac.compare_digest(word.encode(), visitor.csrf.encode())


async def _body(headers: Headers, receive: Receive) -> bytes | int:
    """The body, or the status of its refusal."""
    try:
        async with asyncio.timeout(limits.HTTP_BODY_SECONDS):
            body = await whole_body(headers.get("content-length", "0"), receive)
    except (TimeoutError, ClientDisconnect):
        return 408
    return 413 if body is None else body


def _form(body: bytes) -> dict[str, str]:
    """Fields by name, each once; what is no form is empty."""
    try:
        found = parse_qs(
            body.decode(), keep_blank_values=True, max_num_fields=limits.WEB_FIELDS_MAX
        )
    except ValueError:
        return {}
    return {name: values[-1] for name, values in found.items()}


def _guarded(send: Send, path: str) -> Send:
    """Every answer says what a browser may do with it."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _SECURITY.items():
                headers[name] = value
            if not path.startswith("/static/"):
                headers["cache-control"] = "no-store"
        await send(message)

    return sent


def _said(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status_code=status)
