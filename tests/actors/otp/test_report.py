"""What is written down of starts, crashes and the end of patience."""

import json
import logging
from typing import Any

import pytest

from tests.actors.otp.players import Counter
from understudy.actors.otp import (
    KILL,
    Cast,
    ChildSpec,
    Flags,
    GenServer,
    Next,
    Ref,
    Start,
    WhichChildren,
    report,
    supervise,
)
from understudy.actors.otp.carriers.inline.system import Inline


@pytest.fixture
def rows() -> list[dict[str, Any]]:
    return []


@pytest.fixture
def system(rows: list[dict[str, Any]]) -> Inline:
    return Inline(sink=rows.append)


def kinds(rows: list[dict[str, Any]]) -> list[str]:
    return [row.get("context", row["kind"]) for row in rows]


def only(system: Inline, sup: Ref) -> Ref:
    infos: Any = system.call(sup, WhichChildren(), 100)
    assert len(infos) == 1
    ref: Ref = infos[0].ref
    return ref


def test_a_child_that_dies_too_often_leaves_the_whole_story(
    system: Inline, rows: list[dict[str, Any]]
) -> None:
    sup = system.spawn(supervise([ChildSpec("a", Start(Counter, (), "abel"))], Flags(intensity=1)))
    for _ in range(2):
        system.cast(only(system, sup), "bad")
        system.run()
    assert kinds(rows) == [
        "progress",
        "crash",
        "child_terminated",
        "progress",
        "crash",
        "child_terminated",
        "gave_up",
    ]
    crash, ended = rows[1], rows[2]
    assert crash["cell"]["label"] == "abel"
    assert crash["reason"] == {"kind": "crash", "detail": "ValueError: cast bad", "code": None}
    assert crash["message"] == repr(Cast("bad"))
    assert crash["traceback"].endswith("ValueError: cast bad\n")
    assert crash["state"] == {"type": "Counter"}
    assert ended["child"]["id"] == "a"
    assert ended["ended"] == crash["cell"]
    assert [row["restarts"] for row in rows if row["kind"] == "supervisor"] == [0, 1, 2]
    assert rows[-1]["reason"]["detail"] == "reached_max_restart_intensity"
    json.dumps(rows)


def test_a_clean_end_of_a_transient_child_is_no_news(
    system: Inline, rows: list[dict[str, Any]]
) -> None:
    child = ChildSpec("a", Start(Counter), restart="transient")
    system.spawn(supervise([child]))
    system.stop(1_000)
    assert kinds(rows) == ["progress"]


def test_a_failed_start_is_told_with_its_reason(system: Inline, rows: list[dict[str, Any]]) -> None:
    class Broken(GenServer):
        def init(self) -> Next:
            raise OSError("no disk")

    with pytest.raises(Exception, match="no disk"):
        system.spawn(supervise([ChildSpec("a", Start(Broken))]))
    assert kinds(rows) == ["crash", "start_error"]
    assert rows[0]["message"] == "'init'"
    assert rows[1]["reason"]["detail"] == "OSError: no disk"


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


def test_rows_stay_small_and_are_made_whatever_is_in_them(
    system: Inline, rows: list[dict[str, Any]]
) -> None:
    class Deep(Counter):
        def summary(self) -> object:
            return {"big": "x" * 10_000, "odd": Unspeakable(), "many": list(range(1_000))}

    ref = system.spawn(Start(Deep))
    system.cast(ref, ["y" * 10_000] * 1_000)
    system.run()
    (row,) = rows
    assert len(json.dumps(row)) < 10_000
    assert len(row["message"]) <= report.TEXT_LENGTH_MAX
    assert len(row["state"]["many"]) == 20


def test_a_summary_that_fails_does_not_hide_the_crash(
    system: Inline, rows: list[dict[str, Any]]
) -> None:
    class Worse(Counter):
        def summary(self) -> object:
            raise RuntimeError("no words")

    ref = system.spawn(Start(Worse))
    system.cast(ref, Unspeakable())
    system.run()
    assert rows[0]["state"] == "no summary: RuntimeError"


def test_without_a_carrier_that_takes_them_rows_are_lines_of_a_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Bare:
        me = Ref("s", "1", "bare")

        def now_ms(self) -> int:
            return 7

    row = report.progress(Bare.me, ChildSpec("a", Start(Counter)), Ref("s", "2"), 99, 7)
    with caplog.at_level(logging.INFO, "understudy.otp"):
        report.emit(Bare(), row)  # type: ignore[arg-type]  # no whole cell
        report.emit(Bare(), {"kind": "crash", "odd": {1, 2}})  # type: ignore[arg-type]  # no whole cell
    first, second = caplog.records
    assert json.loads(first.getMessage()) == row
    assert first.__dict__["row"] is row
    assert (first.levelno, second.levelno) == (logging.INFO, logging.ERROR)


def test_a_killed_cell_is_told_of_by_its_supervisor_alone(
    system: Inline, rows: list[dict[str, Any]]
) -> None:
    sup = system.spawn(supervise([ChildSpec("a", Start(Counter))]))
    system.signal(only(system, sup), KILL)
    system.run()
    assert kinds(rows) == ["progress", "child_terminated", "progress"]
    assert rows[1]["reason"]["kind"] == "killed"
