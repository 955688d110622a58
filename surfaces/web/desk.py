"""What the pages know and do: one desk for all visitors, in the event loop.

    ask       the authority, through the operator's door (`cli`): every change, and what is cheap
    query     the SQL tables: lists, counts, pages of many thousands
    steps     the index of the journal: what happened, and to which work
    picture   the tree that runs, if one does

What is read from disk is read in one thread, and brought up to the journal there, at most so many
rows at a time: a page never waits for the past, and says how far behind it is.

    I1  Nothing is followed while no page asks: an idle console costs nothing.
    I2  Whatever many pages want in the same moment is looked up once.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import apsw

from ...actors import tree as trees
from ...actors.agents import AuthorityLink
from ...authority import Unavailable, open_journal
from ...authority.journal import journal, journal_url
from ...authority.views import evidence_index, sql

_PICTURE_SECONDS = 0.5
_TREE_SECONDS = 2.0
_QUERY_SECONDS = 5.0  # for one question to the tables
_ROWS_AT_ONCE = 2_000  # that are taken in before a page is shown
_ROWS_IN_STEP = 100
_FOLLOW_SECONDS = 0.04  # or what can be, in this time
_RECENT_MAX = 8_192  # rows that are remembered, for those who missed some

Record = dict[str, Any]
T = TypeVar("T")


class DeskTime(NamedTuple):
    """How fresh a page is, in rows of the journal."""

    head: int
    tables: int  # the last row that the tables show
    index_low: int
    index_high: int


class ConsoleDesk:
    """The desk of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self.link = AuthorityLink(state_dir, "cli")
        self.recent: deque[evidence_index.Indexed] = deque(maxlen=_RECENT_MAX)
        self.time = DeskTime(0, 0, 0, 0)
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="desk")
        self._books: _Books | None = None
        self._looked_at = self._picture_at = 0.0
        self._freshening: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[Record | None] | None = None
        self._seen: Record | None = None

    # --- the authority --------------------------------------------------------------------------

    async def ask(self, action: str, payload: Record | None = None) -> Record:
        """The authority's answer; a refusal is one, also where no authority serves."""
        return await self.link.answer(action, payload or {})

    # --- the tables and the journal ---------------------------------------------------------------

    async def freshen(self) -> DeskTime:
        """Take in what was decided until now; who asks meanwhile shares the next look (I2)."""
        asked_at = time.monotonic()
        while self._looked_at < asked_at:  # a look that had begun before may have missed it
            if self._freshening is None:
                self._freshening = asyncio.create_task(self._freshen())
            await asyncio.shield(self._freshening)
        return self.time

    async def query(self, statement: str, *values: str | int) -> list[Record]:
        """Rows of the tables, by the names of their columns."""
        return await self._read(lambda books: books.query(statement, values))

    async def steps(
        self, before: int | None, count: int, *, action: str = "", result: str = "", work: str = ""
    ) -> list[evidence_index.EvidenceStep]:
        """Rows of the journal in brief, the newest first."""
        if work:
            return await self._read(lambda books: books.index.timeline(work, before, count))
        return await self._read(
            lambda books: books.index.steps(before, count, action=action, result=result)
        )

    async def rows(self, seqs: Sequence[int]) -> dict[int, journal.Row]:
        """Rows of the journal whole, by their numbers."""
        return await self._read(
            lambda books: {seq: row for seq in seqs if (row := books.book.row(seq)) is not None}
        )

    async def in_thread(self, work: Callable[[], T]) -> T:
        """What takes a moment and asks nothing of the desk: files, mostly."""
        return await asyncio.to_thread(work)

    # --- the tree ---------------------------------------------------------------------------------

    async def picture(self) -> Record | None:
        """The tree as it is; None where none runs."""
        if time.monotonic() > self._picture_at + _PICTURE_SECONDS or self._looking is not None:
            if self._looking is None:
                self._looking = asyncio.create_task(asyncio.to_thread(self._look))
            task = self._looking
            try:
                self._seen = await asyncio.shield(task)
            finally:
                self._looking = None
            self._picture_at = time.monotonic()
        return self._seen

    def _look(self) -> Record | None:
        try:
            return trees.ask(self.state_dir / trees.RUN_FOLDER, {"ask": "picture"}, _TREE_SECONDS)
        except trees.NoTree:
            return None

    # --- the thread -------------------------------------------------------------------------------

    async def _freshen(self) -> None:
        began_at = time.monotonic()
        try:
            self.time, fresh = await self._read(lambda books: books.follow())
            self.recent.extend(fresh)
            self._looked_at = began_at
        finally:
            self._freshening = None

    async def _read(self, work: "Callable[[_Books], T]") -> T:
        """In the thread that has the connections; they are opened anew after whatever fails."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._with_books, work)

    def _with_books(self, work: "Callable[[_Books], T]") -> T:
        if self._books is None:
            self._books = _Books(self.state_dir)
        try:
            return work(self._books)
        except (Unavailable, sql.BadQuery, apsw.Error, OSError):
            self._close_books()
            raise

    def _close_books(self) -> None:
        books, self._books = self._books, None
        if books is not None:
            books.close()

    async def close(self) -> None:
        """Let go of everything."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close_books)
        self._thread.shutdown()
        await self.link.close()


class _Books:
    """What is open in the desk's thread: journal, tables and index, for reading."""

    def __init__(self, state_dir: Path) -> None:
        with ExitStack() as opened:
            self.book = opened.enter_context(open_journal(state_dir, read_only=True))
            self.index = opened.enter_context(closing(evidence_index.EvidenceIndex(state_dir)))
            self._tables: journal.SqlTables | None = None
            if journal_url.of(state_dir) is None:  # else the active authority writes them alone
                self._tables = opened.enter_context(closing(self.book.tables(state_dir)))
            self._reader = opened.enter_context(closing(sql.reader(state_dir, _QUERY_SECONDS)))
            self.close = opened.pop_all().close

    def follow(self) -> tuple[DeskTime, list[evidence_index.Indexed]]:
        fresh = self.index.follow(self.book, _ROWS_AT_ONCE, _FOLLOW_SECONDS)
        if self._tables is not None:
            with suppress(apsw.BusyError):  # the sidecar's own follower is at it
                give_up_s = time.monotonic() + _FOLLOW_SECONDS
                while self._tables.follow(self.book, _ROWS_IN_STEP) == _ROWS_IN_STEP:
                    if time.monotonic() > give_up_s:
                        break
        known = DeskTime(self.book.last_seq(), self._reader.watermark(), *self.index.bounds)
        return known, fresh

    def query(self, statement: str, values: Sequence[str | int]) -> list[Record]:
        answer = self._reader.ask(statement, values)
        return [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
