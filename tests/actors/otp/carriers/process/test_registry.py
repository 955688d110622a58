"""The files that say who is there."""

import os
import time
from pathlib import Path

import pytest

from understudy.actors.otp import KILLED, NORMAL, ExitReason, Ref
from understudy.actors.otp.carriers.process.registry import (
    STALE_SECONDS,
    RegistryEntry,
    RegistryFolder,
    Roll,
)
from understudy.actors.otp.identity import Identity, identity


@pytest.fixture
def roll(tmp_path: Path) -> Roll:
    made = Roll(tmp_path / "live", "s")
    made.prepare()
    return made


def _place(who: Identity) -> RegistryFolder:
    return RegistryFolder("s", who.pid, who.ticks, "127.0.0.1", 1)


GONE = Identity(os.getpid(), 1)  # our pid, in an earlier life


def test_the_first_word_on_an_end_is_the_last(roll: Roll) -> None:
    assert roll.how("1") is None
    assert roll.end("1", KILLED) == KILLED
    assert roll.end("1", NORMAL) == KILLED
    assert roll.how("1") == KILLED
    assert roll.end("2", ExitReason("signal", "SIGSEGV", 11)) == ExitReason("signal", "SIGSEGV", 11)


def test_what_a_cell_says_of_itself_is_not_overwritten_by_its_parent(roll: Roll) -> None:
    mine = RegistryEntry(_place(identity()), "0", GONE)
    roll.enter("1", mine, anew=True)
    roll.enter("1", RegistryEntry(RegistryFolder("s", 1, 1), "0", GONE))
    assert roll.find("1") == mine
    roll.leave("1")
    assert roll.find("1") is None


def test_a_pid_that_is_used_again_is_not_the_same_cell(roll: Roll) -> None:
    assert roll.take("name", Ref("s", "1", "", _place(GONE)))
    assert roll.holder("name") is None
    living = Ref("s", "2", "label", _place(identity()))
    assert roll.take("name", living)
    assert roll.holder("name") == living
    assert not roll.take("name", living)
    assert not GONE.kill()


def test_tidying_forgets_the_dead_and_the_old_and_nothing_else(roll: Roll) -> None:
    roll.enter("1", RegistryEntry(_place(GONE), "0", GONE))
    roll.enter("2", RegistryEntry(_place(identity()), "0", GONE))
    roll.take("dead", Ref("s", "1", "", _place(GONE)))
    roll.take("alive", Ref("s", "2", "", _place(identity())))
    roll.end("1", NORMAL)
    roll.end("0", NORMAL)
    old = time.time() - STALE_SECONDS - 1
    os.utime(roll.folder / "ends" / "0", (old, old))
    roll.tidy("s")
    assert roll.find("1") is None
    assert roll.find("2") is not None
    assert roll.holder("alive") is not None
    assert (roll.how("0"), roll.how("1")) == (None, NORMAL)
    names = [path for path in (roll.folder / "names").iterdir() if path.name != ".lock"]
    assert len(names) == 1
    assert not list(roll.folder.glob(".*"))
