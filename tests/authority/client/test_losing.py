"""No sidecar there, or none any more: what a lost one costs a client."""

import asyncio
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from tests.authority.client.calls import BOTH, Kind, add, asked
from tests.authority.client.impostor import (
    GREETING,
    Impostor,
    greet_and_hang_up,
    hang_up,
    obey,
    tear,
)
from tests.authority.sidecar.peer import refusal
from tests.authority.sidecar.serving import Serving, prove, rows_of
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import Serve
from understudy.authority import Unavailable
from understudy.authority.service import client
from understudy.authority.service.client import AsyncClient, Client, ClientCall, Unreachable
from understudy.contracts import Reason

# --- no sidecar there -----------------------------------------------------------------------------


@BOTH
def test_where_no_sidecar_serves_a_client_is_told_at_once(state_dir: Path, kind: Kind) -> None:
    for folder in (state_dir, state_dir / "missing"):
        with pytest.raises(Unreachable) as caught:
            asked(kind, folder, [add(1)])
        assert caught.value.reason is Reason.SIDECAR_UNREACHABLE


@BOTH
def test_where_no_sidecar_comes_back_a_client_gives_up(state_dir: Path, kind: Kind) -> None:
    with Impostor(state_dir, greet_and_hang_up), pytest.raises(Unreachable):
        asked(kind, state_dir, [add(1), add(2)], retry_seconds=0.1)


def test_a_client_that_gave_up_finds_a_sidecar_that_came_back_later(state_dir: Path) -> None:
    with Impostor(state_dir, greet_and_hang_up):
        connection = Client(state_dir, "mcp", retry_seconds=0.1)
    with connection:
        with pytest.raises(Unreachable):
            connection.ask(*add(1))
        with Serving(state_dir):
            assert refusal(connection.ask(*add(1))) is None


def test_an_async_client_that_gave_up_does_not_leave_the_next_one_waiting(state_dir: Path) -> None:
    async def in_tasks() -> None:
        async with AsyncClient(state_dir, "mcp", retry_seconds=0.1) as connection:
            with pytest.raises(Unreachable):
                await connection.ask(*add(1))
            async with asyncio.timeout(2):
                with suppress(Unavailable):
                    await connection.ask(*add(2))

    with Impostor(state_dir, greet_and_hang_up):
        asyncio.run(in_tasks())


@BOTH
def test_a_sidecar_that_hangs_up_before_its_greeting_is_unreachable(
    state_dir: Path, kind: Kind
) -> None:
    """As one does that has no room for another connection."""
    with Impostor(state_dir, hang_up), pytest.raises(Unavailable):
        asked(kind, state_dir, [add(1)], retry_seconds=0.1)


@BOTH
def test_another_protocol_is_named_and_not_retried(
    state_dir: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "PROTOCOL", 2)
    with Serving(state_dir), pytest.raises(Unavailable, match="protocol 1") as caught:
        asked(kind, state_dir, [add(1)])
    assert caught.value.reason is Reason.PROTOCOL_MISMATCH


def test_no_client_waits_for_good_when_a_sidecar_comes_back_with_another_protocol(
    state_dir: Path,
) -> None:
    def mumble(channel: socket.socket) -> None:
        channel.makefile("rb").readline()
        channel.sendall(b'{"diagnostic":"protocol 9"}\n')

    async def in_tasks() -> None:
        async with AsyncClient(state_dir, "mcp", retry_seconds=0.1) as connection:
            with pytest.raises(Unavailable):
                async with asyncio.timeout(PATIENCE_SECONDS):
                    await connection.ask(*add(1))

    with Impostor(state_dir, greet_and_hang_up, mumble):
        asyncio.run(in_tasks())


# --- lost and found -------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "troubles",
    [[greet_and_hang_up], [tear], [tear, hang_up, greet_and_hang_up, hang_up, tear]],
    ids=["lost", "torn", "again and again"],
)
def test_whatever_happens_on_the_way_a_client_goes_on_with_the_next_connection(
    state_dir: Path, kind: Kind, troubles: list[Callable[[socket.socket], None]]
) -> None:
    with Impostor(state_dir, *troubles, obey):
        answers = asked(kind, state_dir, [add(1), add(2), ClientCall("issue.list", {})], 5)
    assert [answer["result"] for answer in answers] == ["accepted"] * 3


@BOTH
def test_a_sidecar_that_never_answers_is_not_asked_for_ever(state_dir: Path, kind: Kind) -> None:
    with Impostor(state_dir, *[greet_and_hang_up] * 1_000), pytest.raises(Unreachable):
        asked(kind, state_dir, [add(1)], retry_seconds=0.3)


def test_a_lost_sidecar_is_waited_for_from_the_moment_it_was_lost(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed = [0.0]
    monkeypatch.setattr(
        client, "time", SimpleNamespace(monotonic=lambda: sum(passed), sleep=passed.append)
    )

    def work_for_a_minute(channel: socket.socket) -> None:
        lines = channel.makefile("rb")
        lines.readline()
        channel.sendall(GREETING)
        lines.readline()
        passed.append(60.0)

    with Impostor(state_dir, work_for_a_minute, obey), Client(state_dir, "mcp") as connection:
        assert connection.ask(*add(1))["result"] == "accepted"


@BOTH
def test_a_killed_sidecar_that_is_started_again_has_done_everything_once(
    state_dir: Path, kind: Kind
) -> None:
    calls = [add(place, requestId=f"r{place}") for place in range(600)]
    answers: list[dict[str, Any]] = []

    def ask() -> None:
        if kind == "async":
            answers.extend(asked(kind, state_dir, calls))
            return
        with Client(state_dir, "mcp") as connection:
            for start in range(0, len(calls), 60):
                answers.extend(connection.ask_many(calls[start : start + 60]))

    with Serve(state_dir) as first:
        first.ready()
        patient = Client(state_dir, "mcp")
        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: len(rows_of(state_dir)) > 20)
        first.kill()
    with patient, Serve(state_dir) as second:
        assert patient.ask("issue.add", {"id": "last", "title": "t"})["result"] == "accepted"
        assert patient.server["pid"] == second.pid
        asking.join(PATIENCE_SECONDS)
        assert second.terminate() == 0, second.complaint()
    rows = {orjson.loads(row.request)["payload"]["id"]: row for row in rows_of(state_dir)}
    assert len(rows) == len(rows_of(state_dir)) == 601, "each once"
    assert len(answers) == 600
    for call, answer in zip(calls, answers, strict=True):
        assert answer == orjson.loads(rows[call.payload["id"]].response)
    prove(state_dir)


def test_an_answer_that_a_crash_kept_back_is_given_by_the_next_sidecar(state_dir: Path) -> None:
    with Serving(state_dir) as first:
        connection = Client(state_dir, "mcp")
        first.commits.failure = Unavailable(Reason.JOURNAL_WRITE_FAILED, "no")
        answers: list[dict[str, Any]] = []
        asking = threading.Thread(target=lambda: answers.append(connection.ask(*add(1))))
        asking.start()
        first.wait()
    with Serving(state_dir):
        asking.join(PATIENCE_SECONDS)
        assert [refusal(answer) for answer in answers] == [None]
        connection.close()
    assert len(rows_of(state_dir)) == 1


def test_lines_that_are_relayed_are_sent_once(state_dir: Path) -> None:
    with (
        Impostor(state_dir, tear, obey),
        Client(state_dir, "mcp") as connection,
        pytest.raises(Unreachable),
    ):
        connection.relay([b'{"action":"issue.add","payload":{"title":"t"}}'] * 3)


def test_closing_an_async_client_leaves_no_call_waiting(state_dir: Path) -> None:
    async def in_tasks() -> None:
        connection = AsyncClient(state_dir, "mcp")
        async with asyncio.timeout(PATIENCE_SECONDS):
            await connection.__aenter__()
            asking = [asyncio.create_task(connection.ask(*add(place))) for place in range(10)]
            await asyncio.to_thread(running.commits.wait_for_one)
            await connection.close()
            done, waiting = await asyncio.wait(asking, timeout=5)
            assert not waiting
            assert not [task for task in done if not task.cancelled() and task.exception() is None]

    with Serving(state_dir) as running:
        running.commits.hold()
        asyncio.run(in_tasks())
        running.commits.go()
        eventually(lambda: len(rows_of(state_dir)) > 0)  # what was taken in is done


def test_closing_a_client_from_another_thread_ends_its_request(state_dir: Path) -> None:
    with Serving(state_dir) as running:
        connection = Client(state_dir, "mcp", retry_seconds=0)
        running.commits.hold()
        ended: list[BaseException] = []

        def ask() -> None:
            try:
                connection.ask(*add(1))
            except Unavailable as error:
                ended.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        running.commits.wait_for_one()
        connection._socket.shutdown(socket.SHUT_RDWR)
        asking.join(PATIENCE_SECONDS)
        running.commits.go()
        assert len(ended) == 1
        connection.close()
