"""The stream of events: resumable, bounded, and of no use to one who does not read."""

import asyncio
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.limits import stands_on
from tests.patience import PATIENCE_SECONDS, eventually
from tests.web.stand import ConsoleStand, Person
from understudy.authority import Office, create_state_dir
from understudy.contracts import limits
from understudy.surfaces.web.desk import ConsoleDesk
from understudy.surfaces.web.stream import WebStreams


class Listener:
    """A browser's EventSource."""

    def __init__(self, person: Person, path: str = "/events", **headers: str) -> None:
        self._channel = person.connection()
        sent = {"cookie": person.cookie, "accept": "text/event-stream"}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._channel.request("GET", path, headers=sent | named)
        self.answer = self._channel.getresponse()

    def event(self) -> dict[str, Any]:
        """The next one, with its kind."""
        found: dict[str, Any] = {}
        while True:
            read = self.answer.readline()
            assert read, "the stream has ended"
            line = read.decode().rstrip("\n")
            name, _, value = line.partition(": ")
            if line.startswith((":", "retry")):
                continue
            if not line and found:
                return found
            if name == "data":
                found |= json.loads(value)
            elif name in ("event", "id"):
                found[name] = value

    def close(self) -> None:
        self._channel.close()


def test_it_says_that_something_was_decided_and_about_what(
    stand: ConsoleStand, person: Person
) -> None:
    listener = Listener(person)
    assert listener.answer.headers["content-type"].startswith("text/event-stream")
    begun = listener.event()
    assert begun["event"] == "hello"
    stand.told("issue", "add", "seen", "--id", "seen-1")
    found = listener.event()
    assert (found["event"], found["rows"], found["works"]) == ("rows", 1, ["issue/seen-1"])
    assert found["id"] == str(begun["seq"] + 1)
    listener.close()


def test_one_that_was_away_hears_what_it_missed_in_one_event(
    stand: ConsoleStand, person: Person
) -> None:
    first = Listener(person)
    seq = first.event()["seq"]
    first.close()
    for number in range(5):
        stand.told("issue", "add", f"missed {number}")
    again = Listener(person, last_event_id=str(seq))
    assert again.event()["seq"] == seq
    missed = again.event()
    assert (missed["rows"], missed["more"]) == (5, False)
    assert len(missed["works"]) == 5
    again.close()


@pytest.mark.parametrize("after", ["-1", "x", "9" * 30, "999999999", "", "1e3"])
def test_a_number_that_is_none_begins_now(person: Person, after: str) -> None:
    listener = Listener(person, f"/events?after={after}")
    begun = listener.event()
    assert begun["seq"] == begun["head"]
    listener.close()


def request_of(person: Person) -> bytes:
    head = f"GET /events HTTP/1.1\r\nhost: {person.netloc}\r\n"
    return f"{head}cookie: {person.cookie}\r\n\r\n".encode()


def connected(person: Person) -> socket.socket:
    host, _, port = person.netloc.rpartition(":")
    channel = socket.create_connection((host, int(port)), PATIENCE_SECONDS)
    channel.sendall(request_of(person))
    return channel


def test_a_thousand_streams_are_bounded_and_the_pages_go_on(
    stand: ConsoleStand, person: Person
) -> None:
    channels, answers = [], []
    try:
        for _ in range(1000):
            channels.append(connected(person))
            answers.append(channels[-1].recv(16)[9:12])
        assert limits.WEB_STREAMS_MAX - 8 < answers.count(b"200") <= limits.WEB_STREAMS_MAX
        assert set(answers) == {b"200", b"503"}
        assert person.get("/").status == 200
    finally:
        for each in channels:
            each.close()

    def is_served() -> bool:
        listener = Listener(person)
        listener.close()
        return listener.answer.status == 200

    eventually(is_served)


def test_one_that_does_not_read_holds_up_nobody(stand: ConsoleStand, person: Person) -> None:
    with connected(person) as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        listener = Listener(person)
        listener.event()
        for number in range(3):
            stand.told("issue", "add", f"heard {number}")
            assert listener.event()["rows"] >= 1
        listener.close()


def test_there_is_no_stream_without_a_session(stand: ConsoleStand) -> None:
    nobody = Listener(Person(stand.base))
    assert nobody.answer.status == 401
    nobody.close()


@stands_on("WEB_STREAMS_MAX")
def test_one_stream_too_many_is_told_to_come_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "WEB_STREAMS_MAX", 2)

    async def play() -> list[bool]:
        create_state_dir(tmp_path / "s", "local")
        desk = ConsoleDesk(tmp_path / "s")
        streams = WebStreams(desk)
        gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(_: Any) -> None:
            await asyncio.sleep(0)

        two = [asyncio.create_task(streams.serve(receive, send, None)) for _ in range(2)]
        while streams.count < 2:  # noqa: ASYNC110 - bounded by the test
            await asyncio.sleep(0.01)
        third = await streams.serve(receive, send, None)
        gone.set()
        streams.close()
        found = [*await asyncio.gather(*two), third]
        await desk.close()
        return found

    assert asyncio.run(play()) == [True, True, False]


def test_a_million_rows_are_one_summary(tmp_path: Path) -> None:
    """What is remembered is bounded: the rest is a number, and `more`."""

    async def play() -> dict[str, Any]:
        create_state_dir(tmp_path / "s", "local")
        with Office(tmp_path / "s") as office:
            for number in range(120):
                office.ask("issue.add", {"title": f"t {number}"})
        desk = ConsoleDesk(tmp_path / "s")
        streams = WebStreams(desk)
        await desk.freshen()
        found = streams._summary(0)
        await desk.close()
        return found

    found = asyncio.run(play())
    assert (found["seq"], found["rows"], found["more"], len(found["works"])) == (120, 120, True, 50)
