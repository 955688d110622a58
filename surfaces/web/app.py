"""Which address leads to which page, and what stands around all of them."""

import mimetypes
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from ...authority import Unavailable
from ...authority.views import sql
from ...contracts import limits
from . import actions
from .desk import ConsoleDesk
from .markup import Markup, joined
from .pages import descent, doctor, evidence, item, layout, logs, now, work
from .pages.parts import told
from .sessions import Visitor, WebSessions
from .stream import WebStreams
from .tasks import PROOFS, ProofTasks
from .view import Page, PageView, Render

_FRAGMENT: Final = "x-understudy-fragment"  # a script asks for what is between head and foot
_COME_AGAIN_SECONDS = 10
_NOTICES_MAX = 256
_PAGES: tuple[tuple[str, Render], ...] = (
    ("/", now.page),
    ("/work", work.page),
    ("/work/issue/{name:path}", item.issue_page),
    ("/work/job/{name:path}", item.job_page),
    ("/descent", descent.page),
    ("/evidence", evidence.page),
    ("/evidence/{seq:int}", evidence.row_page),
    ("/evidence/{seq:int}/vector", evidence.vector),
    ("/evidence/proof/{number:int}", evidence.proof_page),
    ("/logs", logs.page),
    ("/logs/read/{name:path}", logs.read),
    ("/logs/download/{name:path}", logs.download),
    ("/doctor", doctor.page),
)
Handler = Callable[[Request], Awaitable[Response]]


class ConsoleApp:
    """The pages of one state directory; `gate` stands in front of it."""

    def __init__(
        self, desk: ConsoleDesk, sessions: WebSessions, cookie: str, *, is_secure: bool
    ) -> None:
        self.desk, self.sessions = desk, sessions
        self.streams = WebStreams(desk)
        self.tasks = ProofTasks(desk.state_dir)
        self._cookie, self._is_secure = cookie, is_secure
        self._notices: dict[str, Markup] = {}  # what a session is to be told on its next page
        self._asgi = Starlette(
            routes=[
                *(Route(path, self._page(render), methods=["GET"]) for path, render in _PAGES),
                Route("/enter", self._enter, methods=["GET"]),
                Route("/leave", self._leave, methods=["POST"]),
                Route("/act/{verb}", self._act, methods=["POST"]),
                Route("/prove/{proof}", self._prove, methods=["POST"]),
                Route("/prove/{number:int}/stop", self._stop_proof, methods=["POST"]),
                Route("/prove/{number:int}", self._proof, methods=["GET"]),
                Route("/static/{name}", _static, methods=["GET"]),
                Route("/healthz", _health, methods=["GET"]),
            ],
            exception_handlers={404: self._missing},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/events" and scope["method"] == "GET":
            await self._events(scope, receive, send)
        else:
            await self._asgi(scope, receive, send)

    async def close(self) -> None:
        self.streams.close()
        await self.tasks.close()
        await self.desk.close()

    # --- looking ----------------------------------------------------------------------------------

    def _page(self, render: Render) -> Handler:
        async def handle(request: Request) -> Response:
            visitor: Visitor = request.scope["visitor"]
            try:
                view = PageView(self.desk, visitor, request, await self.desk.freshen(), self.tasks)
                made = await render(view)
            except (Unavailable, sql.BadQuery, OSError) as error:
                made = Page("Trouble", told(str(error), is_bad=True), 503)
            return made if isinstance(made, Response) else self._shown(request, visitor, made)

        return handle

    def _shown(self, request: Request, visitor: Visitor, page: Page) -> Response:
        if request.headers.get(_FRAGMENT):
            fresh = {"x-understudy-seq": f"{self.desk.time.index_high}"}
            return HTMLResponse(page.main.encode(errors="replace"), page.status, fresh)
        notice = self._notices.pop(visitor.csrf, None)
        main = joined(notice, page.main) if notice else page.main
        body = layout.document(
            page.title,
            main,
            visitor=visitor,
            time=self.desk.time,
            path=request.url.path,
            place=f"{self.desk.state_dir}",
        )
        return HTMLResponse(body, page.status)

    async def _missing(self, request: Request, _: Exception) -> Response:
        visitor = request.scope.get("visitor")
        if visitor is None:
            return JSONResponse({"error": "no such page"}, 404)
        page = Page("Not found", told("There is no such page.", is_bad=True), 404)
        return self._shown(request, visitor, page)

    async def _events(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        said = request.headers.get("last-event-id") or request.query_params.get("after") or ""
        after = int(said) if said.isdecimal() and len(said) <= 16 else None
        if not await self.streams.serve(receive, send, after):
            text = f"{limits.WEB_STREAMS_MAX} streams are open"
            later = {"retry-after": f"{_COME_AGAIN_SECONDS}"}
            await JSONResponse({"error": text}, 503, headers=later)(scope, receive, send)

    # --- changing ---------------------------------------------------------------------------------

    async def _act(self, request: Request) -> Response:
        verb = request.path_params["verb"]
        if verb not in actions.VERBS:
            return JSONResponse({"error": "no such action"}, 404)
        visitor: Visitor = request.scope["visitor"]
        form: dict[str, str] = request.scope["form"]
        done = await actions.act(self.desk, visitor, verb, form)
        return self._back(request, done.text, is_bad=done.is_refused)

    async def _prove(self, request: Request) -> Response:
        proof = request.path_params["proof"]
        if proof not in PROOFS:
            return JSONResponse({"error": "no such proof"}, 404)
        task = await self.tasks.begin(proof, request.scope["visitor"].name)
        if task is None:
            text = f"{limits.WEB_TASKS_MAX} proofs are at work; wait for one, or stop it"
            return self._back(request, text, is_bad=True)
        return RedirectResponse(f"/evidence/proof/{task.number}", 303)

    async def _stop_proof(self, request: Request) -> Response:
        is_stopped = await self.tasks.cancel(request.path_params["number"])
        text = "it is being stopped" if is_stopped else "it does not run"
        return self._back(request, text, is_bad=not is_stopped)

    async def _proof(self, request: Request) -> Response:
        task = self.tasks.find(request.path_params["number"])
        if task is None:
            return JSONResponse({"error": "no such proof"}, 404)
        return JSONResponse(task.as_json())

    def _back(self, request: Request, text: str, *, is_bad: bool) -> Response:
        """To the page that it was asked for on, which tells what became of it."""
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"text": text, "refused": is_bad})
        while len(self._notices) >= _NOTICES_MAX:
            del self._notices[next(iter(self._notices))]
        visitor: Visitor = request.scope["visitor"]
        self._notices[visitor.csrf] = told(text, is_bad=is_bad)
        back = request.scope["form"].get("back", "/")
        is_ours = back.startswith("/") and not back.startswith(("//", "/\\"))
        return RedirectResponse(back if is_ours else "/", 303)

    # --- coming and going -------------------------------------------------------------------------

    async def _enter(self, request: Request) -> Response:
        if request.method != "GET" or "sec-purpose" in request.headers:
            return JSONResponse({"error": "follow the link itself"}, 405)  # it is only looked at
        token = self.sessions.enter(request.query_params.get("key", ""))
        if token is None:
            return HTMLResponse(layout.signed_out("This link was used already, or is old."), 401)
        response = HTMLResponse(layout.entered())
        response.set_cookie(
            self._cookie,
            token,
            max_age=limits.WEB_SESSION_SECONDS,
            httponly=True,
            secure=self._is_secure,
            samesite="strict",
        )
        return response

    async def _leave(self, request: Request) -> Response:
        self.sessions.leave(request.cookies.get(self._cookie, ""))
        response = RedirectResponse("/", 303)
        response.delete_cookie(self._cookie)
        return response


async def _static(request: Request) -> Response:
    """A file of ours, by its name; there are no folders."""
    name = request.path_params["name"]
    folder = files(__package__) / "static"
    known = {each.name for each in folder.iterdir()}
    if name not in known:
        return JSONResponse({"error": "no such file"}, 404)
    kind, _ = mimetypes.guess_type(name)
    data = (folder / name).read_bytes()
    return Response(data, media_type=kind, headers={"cache-control": "no-cache"})


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


with suppress(KeyError):
    mimetypes.add_type("text/javascript", ".js")
