"""What clients send, and in which order they answer."""

import asyncio
import socket
import threading
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.authority.client.calls import BOTH, Kind, add, asked
from tests.authority.client.impostor import GREETING, Impostor
from tests.authority.sidecar.peer import refusal
from tests.authority.sidecar.serving import Serving, rows_of
from tests.patience import PATIENCE_SECONDS
from understudy.authority import SOCKET, create_state_dir
from understudy.authority.service.client import AsyncClient, Client, ClientCall
from understudy.contracts import limits


@BOTH
def test_an_answer_comes_back_without_our_own_mark(state_dir: Path, kind: Kind) -> None:
    with Serving(state_dir):
        (answer,) = asked(kind, state_dir, [add(1)])
    assert (answer["result"], answer["action"]) == ("accepted", "issue.add")
    assert "id" not in answer


def test_one_connection_asks_again_and_again(state_dir: Path) -> None:
    with Serving(state_dir), Client(state_dir, "mcp") as connection:
        for place in range(50):
            assert refusal(connection.ask(*add(place))) is None
        assert refusal(connection.ask(*add(0))) == "issue_id_exists"
        assert connection.ask_many([]) == []


@BOTH
def test_a_thousand_in_flight_come_back_in_the_order_of_their_calls(
    state_dir: Path, kind: Kind
) -> None:
    calls = [
        add(place) if place % 3 else ClientCall("issue.show", {"id": f"i{place - 1}"})
        for place in range(1000)
    ]
    with Serving(state_dir) as running:
        answers = asked(kind, state_dir, calls)
        assert len(running.commits.sizes) < 100, "they were in flight together"
    assert [answer["action"] for answer in answers] == [call.action for call in calls]
    for call, answer in list(zip(calls, answers, strict=True))[1:]:
        assert answer["issue"]["id"] == call.payload["id"]


def test_the_context_travels_along(state_dir: Path) -> None:
    context = {"instructionRef": "instruction://1"}
    with Serving(state_dir), Client(state_dir, "mcp") as connection:
        effect = connection.ask("issue.add", {"title": "t"}, context)["effect"]
    assert effect["instructionRef"] == "instruction://1"


@BOTH
def test_a_change_gets_a_request_id_and_a_read_gets_none(state_dir: Path, kind: Kind) -> None:
    heard: list[bytes] = []

    def listen(channel: socket.socket) -> None:
        lines = channel.makefile("rb")
        heard.append(lines.readline())
        channel.sendall(GREETING)
        for mark in range(4):
            heard.append(lines.readline())
            channel.sendall(b'{"id":%d,"result":"accepted"}\n' % mark)

    calls = [add(1), add(2, requestId="mine"), add(3), ClientCall("issue.list", {})]
    with Impostor(state_dir, listen):
        asked(kind, state_dir, calls)
    payloads = [orjson.loads(line)["payload"] for line in heard[1:]]
    assert payloads[1]["requestId"] == "mine"
    assert payloads[0]["requestId"] != payloads[2]["requestId"]
    assert payloads[3] == {}
    assert "requestId" not in calls[0].payload, "the caller's own payload is left alone"


@BOTH
def test_what_is_no_json_is_said_before_anything_is_sent(state_dir: Path, kind: Kind) -> None:
    for value in (object(), {1, 2}, "\ud800", 2**70, {1: 2}):
        with Serving(state_dir), pytest.raises(ValueError, match="not JSON"):
            asked(kind, state_dir, [ClientCall("issue.add", {"title": value})])
    assert rows_of(state_dir) == []


def test_a_connection_is_still_good_after_what_was_no_json(state_dir: Path) -> None:
    async def in_tasks() -> None:
        async with AsyncClient(state_dir, "mcp") as connection:
            with pytest.raises(ValueError, match="not JSON"):
                await connection.ask("issue.add", {"title": object()})
            assert refusal(await connection.ask(*add(1))) is None

    with Serving(state_dir):
        with Client(state_dir, "mcp") as connection:
            with pytest.raises(ValueError, match="not JSON"):
                connection.ask("issue.add", {"title": object()})
            assert refusal(connection.ask(*add(2))) is None
        asyncio.run(in_tasks())


@BOTH
@pytest.mark.parametrize(
    "payload",
    [{"title": "a\0b"}, {"title": 1.5}, {"title": "t", "priority": 2**60}, {"é": 1}],
    ids=["NUL", "float", "beyond 2^53", "key"],
)
def test_what_is_json_but_not_canonical_is_refused_as_any_door_refuses_it(
    state_dir: Path, kind: Kind, payload: dict[str, Any]
) -> None:
    with Serving(state_dir):
        answers = asked(kind, state_dir, [add(1), ClientCall("issue.add", payload), add(2)])
    assert list(map(refusal, answers)) == [None, "transport_invalid_request", None]


@BOTH
@pytest.mark.parametrize("size", [limits.REQUEST_BYTES_MAX, 4 * limits.REQUEST_BYTES_MAX])
def test_a_request_that_is_too_long_is_refused_as_any_door_refuses_it(
    state_dir: Path, kind: Kind, size: int
) -> None:
    with Serving(state_dir):
        answers = asked(kind, state_dir, [add(1), add(2, notes="x" * size), add(3)])
    assert list(map(refusal, answers)) == [None, "transport_request_too_large", None]


@BOTH
def test_a_client_that_reads_hears_everything_however_long_it_is_together(
    state_dir: Path, kind: Kind
) -> None:
    text = "x" * 130_000
    shows = [ClientCall("issue.show", {"id": "i1"})] * (limits.OUTPUT_BYTES_MAX // len(text) + 10)
    with Serving(state_dir):
        asked(kind, state_dir, [add(1, notes=text)])
        answers = asked(kind, state_dir, shows, retry_seconds=0.3)
    assert {answer["issue"]["notes"] for answer in answers} == {text}


@BOTH
def test_more_than_may_be_in_flight_is_refused_and_the_rest_is_done(
    state_dir: Path, kind: Kind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "INFLIGHT_MAX", 10)
    with Serving(state_dir):
        answers = asked(kind, state_dir, [add(place) for place in range(100)])
    refused = {None} if kind == "sync" else {None, "authority_overloaded"}  # who waits in turn
    assert set(map(refusal, answers)) <= refused
    done = {f"i{place}" for place, each in enumerate(answers) if refusal(each) is None}
    assert {orjson.loads(row.request)["payload"]["id"] for row in rows_of(state_dir)} == done


def test_a_caller_may_read_of_an_answer_what_it_needs(state_dir: Path) -> None:
    with Serving(state_dir), Client(state_dir, "mcp") as connection:
        found = connection.ask_for(lambda line: orjson.loads(line)["seq"], [add(1), add(2)])
    assert found == [1, 2]


def test_tasks_and_threads_ask_at_the_same_time_and_each_hears_its_own(state_dir: Path) -> None:
    async def worker(connection: AsyncClient, first: int) -> None:
        for place in range(first, first + 25):
            answer = await connection.ask(*add(place))
            assert answer["issue"]["id"] == f"i{place}"

    async def in_tasks() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS), AsyncClient(state_dir, "mcp") as connection:
            await asyncio.gather(*(worker(connection, first * 100) for first in range(8)))

    def in_a_thread(first: int) -> None:
        with Client(state_dir, "mcp") as connection:
            for place in range(first, first + 25):
                assert connection.ask(*add(place))["issue"]["id"] == f"i{place}"

    with Serving(state_dir):
        threads = [threading.Thread(target=in_a_thread, args=(5000 + n * 100,)) for n in range(4)]
        for thread in threads:
            thread.start()
        asyncio.run(in_tasks())
        for thread in threads:
            thread.join(PATIENCE_SECONDS)
    assert len(rows_of(state_dir)) == 8 * 25 + 4 * 25


@BOTH
def test_a_state_directory_may_lie_deeper_than_a_socket_s_path_is_long(
    tmp_path: Path, kind: Kind
) -> None:
    folder = tmp_path / ("deep" * 30) / ("er" * 60)
    create_state_dir(folder, "n1")
    assert len(str(folder)) > 240
    with Serving(folder):
        assert refusal(asked(kind, folder, [add(1)])[0]) is None
        assert (folder / SOCKET).is_socket()
