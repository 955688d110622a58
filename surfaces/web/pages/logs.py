"""Logs: what commands printed, attempt by attempt, and what the tree's own programs did.

A log is named `issue/ID`, `job/ID`, or `tree/FILE`. What is shown of one is bounded; `from` moves
through it, and `raw` is for the script that follows it.
"""

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from starlette.responses import JSONResponse, Response, StreamingResponse

from ....actors.run import attempts
from ....actors.tree import RUN_FOLDER
from ....contracts import regular_file
from ..markup import Child, Markup, joined, part, tag, url
from ..view import Page, PageView
from .layout import plain
from .parts import moment, section, table, told, work_link

_FOLDERS_MAX = 100  # pieces of work, the newest first
_SHOWN_BYTES = 262_144
_SEARCHED_BYTES = 16_777_216
_SEARCH_SECONDS = 2.0
_FOUND_MAX = 200
_OWN = ("up.log", "gateway.log", "sidecar.log", "evidence.log", "gluer.log", "tracer.log")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|[\x00-\x08\x0b-\x1f\x7f]")


class LogPiece(NamedTuple):
    """A part of a log: its text, where it begins and ends, and whether more may come."""

    text: str
    begin: int
    end: int
    size: int
    is_written: bool


async def page(view: PageView) -> Page:
    """Which logs there are, the newest first; with `q`, where a text stands in them."""
    text = view.asked("q")
    kept = await view.desk.in_thread(lambda: list(_kept(view.desk.state_dir)))
    own = await view.desk.in_thread(lambda: list(_own_logs(view.desk.state_dir)))
    found = None
    if text:
        hits, whole = await view.desk.in_thread(lambda: _searched(kept, text))
        found = section(f"“{plain(text)}”", _hits(hits, whole=whole))
    rows = (
        [
            work_link(work),
            tag("a", f"attempt {newest.number}", href=_target(work, newest)),
            moment(int(at_s * 1000)),
            count,
        ]
        for work, newest, at_s, count in kept
    )
    main = joined(
        tag("h1", "Logs"),
        _search("/logs", text, "In the newest logs"),
        found,
        section(
            "Work",
            table(
                ("work", "newest", "written", "outputs"),
                rows,
                caption="Outputs of work",
                empty="No output is kept.",
            ),
        ),
        section(
            "The tree's own",
            table(
                ("file", "bytes", "written"),
                (
                    [
                        tag("a", name, href=f"/logs/read/tree/{part(name)}"),
                        size,
                        moment(int(at_s * 1000)),
                    ]
                    for name, size, at_s in own
                ),
                caption="Logs of the tree",
                empty="No tree has run here.",
            ),
        ),
    )
    return Page("Logs", main)


def _search(path: str, text: str, label: str, **kept: str | int | None) -> Markup:
    hidden = (
        tag("input", type="hidden", name=name, value=value)
        for name, value in kept.items()
        if value is not None
    )
    return tag(
        "form",
        hidden,
        tag("label", label, " ", tag("input", type="search", name="q", value=text, size=30)),
        tag("button", "Search"),
        method="get",
        action=path,
        class_="filters",
        role="search",
    )


# --- what there is --------------------------------------------------------------------------------


def _kept(state_dir: Path) -> Iterator[tuple[str, attempts.Attempt, float, int]]:
    """Work with its newest output, when it was written, and how many there are."""
    folders = []
    with suppress(OSError):
        attempts.check_logs(state_dir)
        folders = [(each.stat().st_mtime, each) for each in (state_dir / attempts.LOGS).iterdir()]
    for at_s, folder in sorted(folders, reverse=True)[:_FOLDERS_MAX]:
        name = unquote(folder.name)
        found = attempts.attempts_of(state_dir, name)
        if found and attempts.folder_of(state_dir, name) == folder:
            work = name if name.startswith("job/") else f"issue/{name}"
            yield work, found[-1], at_s, len(found)


def _own_logs(state_dir: Path) -> Iterator[tuple[str, int, float]]:
    for name in _OWN:
        with suppress(OSError):
            found = (state_dir / RUN_FOLDER / name).stat()
            yield name, found.st_size, found.st_mtime


def _target(work: str, attempt: attempts.Attempt, **more: str | int) -> str:
    return url(f"/logs/read/{part(work)}", attempt=attempt.number, run=attempt.run, **more)


# --- one log --------------------------------------------------------------------------------------


async def read(view: PageView) -> Page | Response:
    """The end of a log, or the part that `from` names; with `q`, only lines that have it."""
    name = view.request.path_params["name"]
    begin = view.asked_number("from")
    source = await view.desk.in_thread(lambda: _source(view, name))
    if source is None:
        if view.asked("raw"):
            return JSONResponse({"error": "no such log"}, 404)
        return Page("No such log", told("No such output is kept.", is_bad=True), 404)
    piece = await view.desk.in_thread(lambda: _piece(source, begin))
    if view.asked("raw"):
        headers = {
            "x-understudy-next": f"{piece.end}",
            "x-understudy-ended": "0" if piece.is_written else "1",
        }
        return Response(_harmless(piece.text), 200, headers, "text/plain; charset=utf-8")
    return Page("Log", _shown(view, name, piece))


def _shown(view: PageView, name: str, piece: LogPiece) -> Markup:
    text, path = view.asked("q"), view.request.url.path
    kept = {"attempt": view.asked("attempt"), "run": view.asked("run")}
    body: Child = _harmless(piece.text)
    if text:
        body = _marked(_harmless(piece.text), text)
    earlier = None
    if piece.begin > 0:
        target = url(path, **kept, from_=max(0, piece.begin - _SHOWN_BYTES))
        earlier = tag("a", "Earlier", href=target)
    later = None
    if piece.end < piece.size:
        later = tag("a", "Later", href=url(path, **kept, from_=piece.end), rel="next")
    said = f"bytes {piece.begin} to {piece.end} of {piece.size}"
    said += ", is being written" if piece.is_written else ""
    follow = url(path, **kept, raw=1) if not text and piece.end == piece.size else None
    return joined(
        tag("h1", plain(name)),
        tag("p", work_link(name)) if name.startswith(("issue/", "job/")) else None,
        _search(path, text, "In this part", **kept),
        tag(
            "p",
            said,
            " ",
            earlier,
            " ",
            later,
            " ",
            tag("a", "Download", href=url(f"/logs/download/{part(name)}", **kept)),
            class_="pager",
        ),
        tag(
            "pre",
            body,
            id="log",
            class_="log",
            tabindex="0",
            data_follow=follow if piece.is_written or name.startswith("tree/") else None,
            data_next=piece.end,
        ),
    )


def _marked(text: str, wanted: str) -> Markup:
    lines = [line for line in text.split("\n") if wanted.lower() in line.lower()]
    pattern = re.compile(re.escape(wanted), re.IGNORECASE)
    made = []
    for line in lines[:_FOUND_MAX]:
        at = 0
        for hit in pattern.finditer(line):
            made += [line[at : hit.start()], tag("mark", hit[0])]
            at = hit.end()
        made += [line[at:], "\n"]
    return joined(made) if made else tag("em", "nowhere in this part")


def _source(view: PageView, name: str) -> "attempts.Transcript | Path | None":
    """What a name stands for; None where there is no such log."""
    family, _, rest = name.partition("/")
    state_dir = view.desk.state_dir
    if family == "tree":
        path = state_dir / RUN_FOLDER / rest
        return path if rest in _OWN and path.is_file() else None
    if family not in ("issue", "job") or not rest or "\x00" in rest:
        return None
    with suppress(OSError):
        attempts.check_logs(state_dir)
        known = rest if family == "issue" else name
        number, run = view.asked_number("attempt"), view.asked_number("run")
        chosen = [
            each
            for each in attempts.attempts_of(state_dir, known)
            if number in (None, each.number) and run in (None, each.run)
        ]
        return chosen[-1].output() if chosen else None
    return None


def _piece(source: "attempts.Transcript | Path", begin: int | None) -> LogPiece:
    if isinstance(source, Path):
        data = regular_file.read(source, 2 * _SEARCHED_BYTES)
        size, is_written = len(data), True
        start = max(0, size - _SHOWN_BYTES) if begin is None else min(begin, size)
        shown = data[start : start + _SHOWN_BYTES]
        return LogPiece(shown.decode(errors="replace"), start, start + len(shown), size, is_written)
    is_written = source.is_written()
    size, _ = source.extent()
    start = max(0, size - _SHOWN_BYTES) if begin is None else min(begin, size)
    source.offset = start
    parts, end = [], start
    for each in source.read():
        if isinstance(each, attempts.Gap):
            parts.append(f"\n[... {each.size} bytes are not kept ...]\n")
            end += each.size
            continue
        taken = each[: _SHOWN_BYTES + start - end] if end < start + _SHOWN_BYTES else b""
        parts.append(taken.decode(errors="replace"))
        end += len(taken)
        if len(taken) < len(each):
            break
    return LogPiece("".join(parts), start, end, max(size, end), is_written)


def _harmless(text: str) -> str:
    """Without what a terminal would obey."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


async def download(view: PageView) -> Response:
    """All of a log that is kept, as a file."""
    name = view.request.path_params["name"]
    source = await view.desk.in_thread(lambda: _source(view, name))
    if source is None:
        return JSONResponse({"error": "no such log"}, 404)
    plain_name = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:80]
    headers = {"content-disposition": f'attachment; filename="{plain_name}.log"'}
    return StreamingResponse(_bytes(source), 200, headers, "application/octet-stream")


def _bytes(source: "attempts.Transcript | Path") -> Iterator[bytes]:
    if isinstance(source, Path):
        yield regular_file.read(source, 2 * _SEARCHED_BYTES)
        return
    for each in source.read():
        if isinstance(each, attempts.Gap):
            yield f"\n[... {each.size} bytes are not kept ...]\n".encode()
        else:
            yield each


# --- across logs ----------------------------------------------------------------------------------


def _searched(
    kept: list[tuple[str, attempts.Attempt, float, int]], text: str
) -> tuple[list[tuple[str, str, str]], bool]:
    """Lines with a text in the newest logs, and whether all of them were looked through."""
    found: list[tuple[str, str, str]] = []
    wanted, read_bytes = text.lower().encode(), 0
    give_up_s = time.monotonic() + _SEARCH_SECONDS
    for work, attempt, _, _ in kept:
        for data in attempt.output().read():
            if isinstance(data, attempts.Gap):
                continue
            read_bytes += len(data)
            for line in data.split(b"\n"):
                if wanted in line.lower():
                    shown = _harmless(line[:400].decode(errors="replace"))
                    found.append((work, _target(work, attempt, q=text), shown))
            is_late = time.monotonic() > give_up_s
            if len(found) >= _FOUND_MAX or read_bytes > _SEARCHED_BYTES or is_late:
                return found[:_FOUND_MAX], False
    return found, True


def _hits(hits: list[tuple[str, str, str]], *, whole: bool) -> Markup:
    rows = ([tag("a", plain(work), href=target), tag("code", line)] for work, target, line in hits)
    made = table(("work", "line"), rows, caption="Found", empty="Nowhere in the newest logs.")
    return joined(made, None if whole else tag("p", "The search stopped early; narrow it."))
