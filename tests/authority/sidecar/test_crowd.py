"""Callers in lockstep are waited for, and nobody else."""

from types import SimpleNamespace
from typing import cast

import pytest

from understudy.authority import sidecar
from understudy.authority.sidecar import Connection, Crowd

ADA, BOB = (cast("Connection", object()) for _ in range(2))
BATCH_SECONDS = 1.0


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(sidecar, "time", SimpleNamespace(monotonic=lambda: now[0]))
    return now


@pytest.fixture
def crowd(now: list[float]) -> Crowd:
    """Ada and Bob were just answered together."""
    crowd = Crowd()
    _come(crowd, ADA, BOB)
    crowd.serve(BATCH_SECONDS)
    assert now == [0.0]
    return crowd


def _come(crowd: Crowd, *connections: Connection) -> None:
    crowd.gather()
    crowd.here.update(connections)


def test_whoever_asks_alone_waits_for_nobody(now: list[float]) -> None:
    crowd = Crowd()
    for _ in range(3):
        _come(crowd, ADA)
        assert not crowd.is_worth_waiting_for()
        crowd.serve(BATCH_SECONDS)
    assert now == [0.0]


def test_a_batch_waits_for_those_who_were_answered_last(crowd: Crowd) -> None:
    _come(crowd, ADA)
    assert crowd.is_worth_waiting_for()
    _come(crowd, BOB)
    assert not crowd.is_worth_waiting_for()


def test_two_groups_that_take_turns_become_one(crowd: Crowd) -> None:
    _come(crowd, ADA)
    crowd.serve(BATCH_SECONDS)
    _come(crowd, BOB)
    assert crowd.is_worth_waiting_for()


def test_it_waits_for_a_part_of_a_batch_and_then_not_for_some_batches(
    crowd: Crowd, now: list[float]
) -> None:
    _come(crowd, ADA)
    now[0] = BATCH_SECONDS * sidecar._WAIT_SHARE * 0.9
    assert crowd.is_worth_waiting_for()
    now[0] = BATCH_SECONDS * sidecar._WAIT_SHARE
    assert not crowd.is_worth_waiting_for()
    for _ in range(sidecar._HURRY_BATCHES):
        _come(crowd, ADA, BOB)
        crowd.serve(BATCH_SECONDS)
        _come(crowd, ADA)
    assert crowd.is_worth_waiting_for(), "they are in lockstep again"


def test_whoever_is_in_a_hurry_does_not_wait(crowd: Crowd, now: list[float]) -> None:
    _come(crowd, ADA)
    now[0] = BATCH_SECONDS
    assert not crowd.is_worth_waiting_for()
    crowd.serve(BATCH_SECONDS)
    _come(crowd, BOB)
    assert not crowd.is_worth_waiting_for()


def test_whoever_left_is_not_waited_for(crowd: Crowd) -> None:
    _come(crowd, ADA)
    crowd.leave(BOB)
    assert not crowd.is_worth_waiting_for()
