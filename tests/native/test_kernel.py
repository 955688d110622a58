"""C against the reference: the same lines, and every byte of what comes of them."""

import os

import pytest

from tests.fakes.desk import Time
from tests.fakes.journal import MemoryJournal
from tests.native.walk import Walk
from understudy.authority.kernel import NativeAuthority
from understudy.authority.replay import replay
from understudy.authority.service import Authority
from understudy.authority.state import check_invariants, dump
from understudy.contracts import parse
from understudy.contracts.request import Door

SEEDS = int(os.environ.get("UNDERSTUDY_WALKS", "8"))
STEPS = 3_000


class Pair:
    """Both, over journals of their own, with one time."""

    def __init__(self) -> None:
        self.law_journal, self.native_journal = MemoryJournal(), MemoryJournal()
        self.time = Time()
        self.law = Authority(self.law_journal, self.time.clock())
        self.native = NativeAuthority(self.native_journal, self.time.clock())

    def submit(self, lines: list[tuple[bytes, Door]]) -> list[bytes]:
        wanted, wanted_rows = self.law.submit([parse(data, door) for data, door in lines])
        answers, rows = self.native.submit_lines(lines)
        assert answers == wanted
        assert rows == wanted_rows
        assert self.native.head == self.law.head
        assert self.native.garbage_count == self.law.garbage_count
        return answers

    def prove(self) -> None:
        assert dump(self.native.state) == dump(self.law.state)
        check_invariants(self.native.state)
        assert self.native_journal.disk.rows == self.law_journal.disk.rows
        assert self.native_journal.disk.saved == self.law_journal.disk.saved


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_walk_gives_the_same_bytes(seed: int) -> None:
    pair, walk = Pair(), Walk(seed)
    batch: list[tuple[bytes, Door]] = []
    for line in walk.lines(STEPS):
        batch.append(line)
        if walk.random.random() < 0.3:
            for answer in pair.submit(batch):
                walk.heard(answer)
            batch = []
    pair.submit(batch)
    pair.prove()
    assert replay(pair.native_journal).mismatch is None
