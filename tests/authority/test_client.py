"""The two clients: what they send, in which order they answer, and what a lost sidecar costs."""

import asyncio
import os
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace, TracebackType
from typing import Any, Literal, Self

import orjson
import pytest

from tests.authority.test_sidecar import (
    PATIENCE_SECONDS,
    Peer,
    Serving,
    eventually,
    prove,
    refusal,
    rows_of,
)
from tests.surfaces.process import UNDERSTUDY, environment
from understudy.authority import SOCKET, Unavailable, client, create_state_dir
from understudy.authority.client import AsyncClient, Call, Client, Unreachable
from understudy.contracts import Reason, limits

Kind = Literal["sync", "async"]
BOTH = pytest.mark.parametrize("kind", ["sync", "async"])
_ANSWER_SECONDS = 5  # a second is much for anything asked here
GREETING = b'{"hello":{"protocol":1,"node":"n1","pid":1}}\n'


def add(place: int, **payload: object) -> Call:
    return Call("issue.add", {"id": f"i{place}", "title": "t"} | payload)


def asked(
    kind: Kind, state_dir: Path, calls: Sequence[Call], retry_seconds: float = PATIENCE_SECONDS
) -> list[dict[str, Any]]:
    """The answers to calls that are in flight together; whoever waits for too long fails."""

    async def in_tasks() -> list[dict[str, Any]]:
        async with (
            asyncio.timeout(_ANSWER_SECONDS),
            AsyncClient(state_dir, "mcp", retry_seconds=retry_seconds) as connection,
        ):
            return list(await asyncio.gather(*(connection.ask(*each) for each in calls)))

    if kind == "async":
        return asyncio.run(in_tasks())
    with Client(state_dir, "mcp", retry_seconds=retry_seconds) as connection:
        return connection.ask_many(calls)


class Process:
    """A real `understudy authority serve`. Leaving the block ends it, whatever happened."""

    def __init__(
        self, state_dir: Path, *flags: str, prepare: Callable[[], None] | None = None
    ) -> None:
        self.state_dir = state_dir
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = subprocess.Popen(
            [UNDERSTUDY, "authority", "serve", "--state-dir", state_dir, *flags],
            stdin=subprocess.DEVNULL,
            stdout=self._said,
            stderr=self._said,
            env=environment(),
            preexec_fn=prepare,  # noqa: PLW1509
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._said.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def ready(self) -> Self:
        """Wait until this process answers on the socket."""
        eventually(self.serves)
        return self

    def serves(self) -> bool:
        assert self.process.poll() is None, self.complaint()
        return served_by(self.state_dir) == self.pid

    def send(self, number: signal.Signals) -> None:
        """A signal to this process and no other."""
        if self.process.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send(signal.SIGKILL)
        self.process.wait(PATIENCE_SECONDS)

    def terminate(self) -> int:
        self.send(signal.SIGTERM)
        return self.process.wait(PATIENCE_SECONDS)

    def last_words(self) -> str:
        """How a process ended that should not have."""
        code = self.process.wait(PATIENCE_SECONDS)
        return f"{code}: {self.complaint()[-500:]}"

    def complaint(self) -> str:
        self._said.seek(0)
        return self._said.read().decode()


def served_by(state_dir: Path) -> int | None:
    """The process that answers on the socket, if there is one."""
    with suppress(Unavailable, OSError, EOFError, AssertionError), Peer(state_dir) as peer:
        return int(peer.server["pid"])
    return None


class Impostor:
    """Something on the socket that follows a script: one act for each connection in turn."""

    def __init__(self, state_dir: Path, *acts: Callable[[socket.socket], None]) -> None:
        self._path = state_dir / SOCKET
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(PATIENCE_SECONDS)
        folder = os.open(state_dir, os.O_RDONLY)
        self._listener.bind(f"/proc/self/fd/{folder}/{SOCKET}")
        os.close(folder)
        self._listener.listen()
        self._acts = acts
        self._thread = threading.Thread(target=self._play)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()
        self._thread.join(PATIENCE_SECONDS)

    def _play(self) -> None:
        for act in self._acts:
            with suppress(OSError):
                channel, _ = self._listener.accept()
                channel.settimeout(PATIENCE_SECONDS)
                if act is self._acts[-1]:
                    self._leave()  # nobody else is let in
                with channel:
                    act(channel)

    def _leave(self) -> None:
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # whoever waits for a guest waits no longer
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def hang_up(channel: socket.socket) -> None:
    """Say nothing."""


def greet_and_hang_up(channel: socket.socket) -> None:
    channel.makefile("rb").readline()
    channel.sendall(GREETING)


def tear(channel: socket.socket) -> None:
    """Hear three requests, give half of an answer, and then nothing."""
    lines = channel.makefile("rb")
    lines.readline()
    channel.sendall(GREETING)
    for _ in range(3):
        lines.readline()
    channel.sendall(b'{"id":0,"result":"acc')


def obey(channel: socket.socket) -> None:
    """Answer everything, until the other side leaves."""
    lines = channel.makefile("rb")
    lines.readline()
    channel.sendall(GREETING)
    while line := lines.readline():
        answer = {"id": orjson.loads(line)["id"], "result": "accepted", "failureClasses": []}
        channel.sendall(orjson.dumps(answer) + b"\n")


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "state"
    create_state_dir(folder, "n1")
    return folder


# --- asking ---------------------------------------------------------------------------------------


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
        add(place) if place % 3 else Call("issue.show", {"id": f"i{place - 1}"})
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

    calls = [add(1), add(2, requestId="mine"), add(3), Call("issue.list", {})]
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
            asked(kind, state_dir, [Call("issue.add", {"title": value})])
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
        answers = asked(kind, state_dir, [add(1), Call("issue.add", payload), add(2)])
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
def test_whoever_reads_hears_everything_however_long_it_is_together(
    state_dir: Path, kind: Kind
) -> None:
    text = "x" * 130_000
    shows = [Call("issue.show", {"id": "i1"})] * (limits.OUTPUT_BYTES_MAX // len(text) + 10)
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
    assert set(map(refusal, answers)) <= {None, "authority_overloaded"}
    done = {f"i{place}" for place, each in enumerate(answers) if refusal(each) is None}
    assert {orjson.loads(row.request)["payload"]["id"] for row in rows_of(state_dir)} == done


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


# --- nobody there ---------------------------------------------------------------------------------


@BOTH
def test_where_nobody_serves_a_client_is_told_at_once(state_dir: Path, kind: Kind) -> None:
    for folder in (state_dir, state_dir / "missing"):
        with pytest.raises(Unreachable) as caught:
            asked(kind, folder, [add(1)])
        assert caught.value.reason is Reason.SIDECAR_UNREACHABLE


@BOTH
def test_where_nobody_comes_back_a_client_gives_up(state_dir: Path, kind: Kind) -> None:
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
        answers = asked(kind, state_dir, [add(1), add(2), Call("issue.list", {})], 5)
    assert [answer["result"] for answer in answers] == ["accepted"] * 3


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

    with Process(state_dir) as first:
        first.ready()
        patient = Client(state_dir, "mcp")
        asking = threading.Thread(target=ask)
        asking.start()
        eventually(lambda: len(rows_of(state_dir)) > 20)
        first.kill()
    with patient, Process(state_dir) as second:
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


def test_closing_an_async_client_leaves_nobody_waiting(state_dir: Path) -> None:
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
        eventually(lambda: len(rows_of(state_dir)) == 10)  # what was taken in is done


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
