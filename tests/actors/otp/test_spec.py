"""Children and flags: OTP's defaults, and a clear word for everything that cannot work."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from tests.actors.otp.players import Counter
from tests.together import together
from understudy.actors.otp import ChildSpec, Flags, SpecInvalid, Start, supervise
from understudy.actors.otp.spec import ID_LENGTH_MAX

START = Start(Counter)


def test_a_worker_has_the_defaults_of_otp() -> None:
    spec = ChildSpec("a", START)
    assert (spec.restart, spec.shutdown, spec.type) == ("permanent", 5_000, "worker")
    assert spec.significant is False
    assert spec.start_timeout_ms is None


def test_a_supervisor_gets_all_the_time_it_needs() -> None:
    assert ChildSpec("a", START, type="supervisor").shutdown == "infinity"
    assert ChildSpec("a", START, type="supervisor", shutdown=10).shutdown == 10


def test_flags_have_the_defaults_of_otp() -> None:
    assert Flags() == Flags("one_for_one", 1, 5_000, "never")


@together(
    ("fields", "why"),
    [
        ({"id": ""}, "id"),
        ({"id": 5}, "id"),
        ({"id": "x" * (ID_LENGTH_MAX + 1)}, "id"),
        ({"start": "Counter"}, "makes no behaviour"),
        ({"start": Start(None)}, "makes no behaviour"),  # type: ignore[arg-type]  # what is refused
        ({"restart": "always"}, "restart: 'always' is none of permanent, transient, temporary"),
        ({"type": "boss"}, "type"),
        ({"shutdown": 0}, "shutdown: 0 is no whole number from 1"),
        ({"shutdown": "soon"}, "shutdown"),
        ({"shutdown": 1.5}, "shutdown"),
        ({"shutdown": True}, "shutdown"),
        ({"significant": 1}, "significant"),
        ({"start_timeout_ms": 0}, "start_timeout_ms"),
        ({"significant": True}, "permanent child"),
    ],
)
def test_a_child_that_cannot_work_is_refused(fields: dict[str, Any], why: str) -> None:
    given: dict[str, Any] = {"id": "a", "start": START} | fields
    with pytest.raises(SpecInvalid, match=why):
        ChildSpec(**given)


def test_the_longest_id_is_fine() -> None:
    assert ChildSpec("x" * ID_LENGTH_MAX, START).id


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"strategy": "all_for_one"}, "strategy"),
        ({"intensity": -1}, "intensity: -1 is no whole number from 0"),
        ({"intensity": "3"}, "intensity"),
        ({"period_ms": 0}, "period_ms"),
        ({"auto_shutdown": "always"}, "auto_shutdown"),
    ],
)
def test_flags_that_cannot_work_are_refused(fields: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecInvalid, match=why):
        Flags(**fields)


def test_two_children_have_two_names() -> None:
    spec = ChildSpec("a", START)
    with pytest.raises(SpecInvalid, match="child a: listed twice"):
        supervise([spec, spec])


def test_a_significant_child_needs_a_supervisor_that_cares() -> None:
    spec = ChildSpec("a", START, restart="transient", significant=True)
    with pytest.raises(SpecInvalid, match="auto_shutdown is never"):
        supervise([spec])
    assert supervise([spec], Flags(auto_shutdown="any_significant"))


def test_what_is_no_child_is_refused() -> None:
    with pytest.raises(SpecInvalid, match="is no child"):
        supervise(["a"])  # type: ignore[list-item]  # what is refused


def test_a_start_travels_with_all_its_children() -> None:
    inner = supervise([ChildSpec("a", START, shutdown="brutal_kill")], Flags("one_for_all", 0, 1))
    outer = supervise([ChildSpec("inner", inner, type="supervisor")], name="top")
    assert pickle.loads(pickle.dumps(outer)) == outer
    assert replace(outer, label="x") != outer
