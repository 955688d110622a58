"""The same crew and the same checker, and an authority that is broken on purpose: they notice."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.authority.sidecar.serving import Serving
from tests.fakes.mutant import break_rule
from tests.faults.crew import ISSUES, MANNERS, Log, calls_of, career, told
from tests.faults.history import problems
from tests.patience import eventually
from understudy.authority import Office
from understudy.authority.law import lease

PARTS_MAX = 10
ENOUGH_BYTES = 200_000  # of each log: some dozens of answers to every worker

MUTANTS = [  # silent ones: many others end the authority, by its own invariants
    ("fenced", "shown.fence < lease.fence", "False"),
    ("fenced", "shown.fence < lease.fence", "shown.fence < lease.fence - 40"),
    ("fenced", "stamp.wall_ms > deadline_ms", "stamp.wall_ms > deadline_ms - 29_990"),
    ("_obstacle", "lease.owner != assignee", "lease.owner[0] != assignee[0]"),
    ("grant", "fence=turn.stamp.seq", "fence=turn.stamp.seq % 40 + 1"),
    ("deadline_of", "stamp.wall_ms + ttl_seconds", "stamp.wall_ms + 3 * ttl_seconds"),
    ("release", "step(turn,", "return Accepted(fence=lease.fence)\n    step(turn,"),
]


@pytest.fixture
def prepared(state_dir: Path) -> Path:
    with Office(state_dir) as office:
        for issue in ISSUES:
            office.ask("issue.add", {"id": issue, "title": "t"})
    return state_dir


def play(state_dir: Path, *logs: Path) -> None:
    """Some of the crew in threads of this process, until they have heard enough."""
    with Serving(state_dir, frozen_clock=True) as serving, ThreadPoolExecutor() as crew:
        for log in logs:
            names = [f"{log.stem}{number}" for number in range(4)]
            careers = {name: career(name, name) for name in names}
            manner = MANNERS[log.stem.split("-")[-1]]
            crew.submit(manner, state_dir, Log(str(log)), careers)
        try:
            eventually(lambda: serving.ended_with or all(map(_is_long, logs)))
        finally:
            for log in logs:
                log.with_suffix(".stop").touch()
        assert serving.ended_with is None


def _is_long(log: Path) -> bool:
    return log.stat().st_size > ENOUGH_BYTES


def test_a_sound_authority_is_found_sound(prepared: Path, tmp_path: Path) -> None:
    logs = [tmp_path / f"{name}.log" for name in ("bob", "dan", "eve")]
    play(prepared, *logs)
    assert problems(calls_of(logs), told) == []


@pytest.mark.parametrize("rule", MUTANTS, ids=" - ".join)
def test_a_broken_rule_is_noticed(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rule: tuple[str, str, str]
) -> None:
    break_rule(monkeypatch, lease, *rule)
    logs: list[Path] = []
    for part in range(PARTS_MAX):  # some show themselves only when workers meet at a bad moment
        fresh = [tmp_path / f"{part}-{name}.log" for name in ("bob", "dan", "eve")]
        play(prepared, *fresh)
        logs += fresh
        if problems(calls_of(logs), told):
            return
    raise AssertionError("it was not noticed")


def test_a_journal_that_was_set_back_is_noticed(prepared: Path, tmp_path: Path) -> None:
    """As after a restored backup: what was acknowledged since is lost, and fences come again."""
    backup = tmp_path / "backup"
    shutil.copytree(prepared, backup)
    first, second = ([tmp_path / f"{part}-{name}.log" for name in ("bob", "dan")] for part in "12")
    play(prepared, *first)
    shutil.rmtree(prepared)
    shutil.copytree(backup, prepared)
    play(prepared, *second)
    assert problems(calls_of(first), told) == []
    assert problems(calls_of(second), told) == []
    assert problems(calls_of([*first, *second]), told) != []
