"""What the console costs who decides: the same clients with ten pages open, and with none.

Each page does what its script does: it holds the stream of events, and asks for its own main part
again when something has changed, once a second at most. The pages take turns between Now, Work and
Evidence. Clients are paced at 1,000 decisions a second, and then go as fast as they can.
"""

import asyncio
import multiprocessing
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.progress import Progress
from benchmarks.systems import understudy
from benchmarks.systems.system import Refused
from tests.web.stand import Person, console
from understudy.authority import create_state_dir
from understudy.authority.service.client import AsyncClient

PACED, FLAT_OUT = "decisions a second, paced at 1,000", "decisions a second, flat out"
PAGES = 10
_PACE = 1_000
_CLIENTS = 8
_PATHS = ("/", "/work", "/evidence")
_SEQ = re.compile(rb"^id: ", re.MULTILINE)


def measure(
    folder: Path, rounds: int, seconds: float, progress: Progress
) -> dict[str, tuple[list[float], list[float]]]:
    """With pages and without, a figure a round."""
    folder.mkdir()
    home = folder / "state"
    create_state_dir(home, "bench")
    found: dict[str, tuple[list[float], list[float]]] = {PACED: ([], []), FLAT_OUT: ([], [])}
    with understudy.serve(home, folder / "log"), console(folder) as stand:
        person = stand.visit()
        for number in range(rounds):
            progress.say(f"console, round {number + 1} of {rounds}")
            for name, pace in ((PACED, _PACE), (FLAT_OUT, None)):
                found[name][1].append(asyncio.run(_rate(home, seconds, pace)))
                with _open(person, PAGES):
                    found[name][0].append(asyncio.run(_rate(home, seconds, pace)))
    return found


async def _rate(home: Path, seconds: float, pace: int | None) -> float:
    begun = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        share = pace / _CLIENTS if pace else None
        tasks = [group.create_task(_asked(home, begun + seconds, share)) for _ in range(_CLIENTS)]
    return sum(task.result() for task in tasks) / (time.perf_counter() - begun)


async def _asked(home: Path, until_s: float, per_second: float | None) -> int:
    count, begun = 0, time.perf_counter()
    async with AsyncClient(home, "mcp") as client:
        while (now := time.perf_counter()) < until_s:
            if per_second is not None and (ahead := begun + count / per_second - now) > 0:
                await asyncio.sleep(ahead)
            answer = await client.ask("issue.add", {"title": "work"})
            if answer["result"] != "accepted":
                raise Refused(str(answer["diagnostic"]))
            count += 1
    return count


@contextmanager
def _open(person: Person, pages: int) -> Iterator[None]:
    """Pages in a process of their own."""
    browser = multiprocessing.get_context("fork").Process(
        target=_browse, args=(person, pages), daemon=True
    )
    browser.start()
    time.sleep(1.0)  # until all of them are open
    try:
        yield
    finally:
        browser.terminate()
        browser.join()


def _browse(person: Person, pages: int) -> None:
    async def browse() -> None:
        await asyncio.gather(*(_page(person, _PATHS[each % len(_PATHS)]) for each in range(pages)))

    asyncio.run(browse())


async def _page(person: Person, path: str) -> None:
    """The stream, and the page again when it says so."""
    reader = await _sent(person, "/events", "accept: text/event-stream")
    while part := await reader.read(65_536):
        if _SEQ.search(part):
            answer = await _sent(person, path, "x-understudy-fragment: 1\r\nconnection: close")
            while await answer.read(65_536):
                pass
            await asyncio.sleep(1.0)


async def _sent(person: Person, path: str, header: str) -> asyncio.StreamReader:
    parts = urlsplit(person.base)
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
    head = f"GET {path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncookie: {person.cookie}\r\n{header}"
    writer.write(f"{head}\r\n\r\n".encode())
    await writer.drain()
    return reader
