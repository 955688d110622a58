"""Noise on the standard streams and on the socket: seeded, and never anybody else's business."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.long import few
from tests.mcp.gateway.agents import LISTEN, Agent, Door, Wire
from tests.patience import eventually
from tests.tree.house import add
from understudy.contracts import limits
from understudy.surfaces.mcp import wire

LINES = 150  # of one seed
METHODS = ("initialize", "ping", "tools/list", "tools/call", "resources/read", "prompts/get", "x")
HUGE = b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * (limits.REQUEST_BYTES_MAX + 1) + b'"}\n'
LIKELY = (b"#", b"#hold 1 {}", b"#5 {}", b"#hello {}", b"#" + b"9" * 5_000 + b" {}", b"#keep 1 {}")


def _odd(dice: random.Random, depth: int = 0) -> Any:
    if depth > 3 or dice.random() < 0.5:
        return dice.choice([None, True, -1, 2**70, 0.5, "", "a", "\x00", "é", [], {}])
    if dice.random() < 0.5:
        return [_odd(dice, depth + 1) for _ in range(dice.randrange(4))]
    names = ("name", "arguments", "uri", "id", "_meta", "cursor", "requestId")
    return {dice.choice(names): _odd(dice, depth + 1) for _ in range(dice.randrange(4))}


def _request(dice: random.Random) -> bytes:
    request = {"jsonrpc": "2.0", "id": _odd(dice, 3), "method": dice.choice(METHODS)}
    return orjson.dumps(request | {"params": _odd(dice)}, default=str)


def _mangled(dice: random.Random) -> bytes:
    data = bytearray(_request(dice))
    for _ in range(1 + dice.randrange(4)):
        data[dice.randrange(len(data))] = dice.randrange(256)
    return bytes(data)


def _nested(dice: random.Random) -> bytes:
    depth = dice.choice([40, 1_000, 200_000])
    opening, closing = dice.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return b'{"jsonrpc":"2.0","id":7,"method":"ping","params":' + opening * depth + closing * depth


KINDS: tuple[Callable[[random.Random], bytes], ...] = (
    _request,
    _mangled,
    _nested,
    lambda dice: dice.randbytes(dice.randrange(400)),
    lambda dice: _request(dice)[: dice.randrange(60)],  # half a line
    lambda dice: b"[" + _request(dice) + b"]",
    lambda dice: dice.choice(LIKELY),
)


def noise(seed: int) -> Iterator[bytes]:
    """Lines, and some in two pieces; the last one is too long."""
    dice = random.Random(seed)
    for _ in range(LINES):
        try:
            line = dice.choice(KINDS)(dice)
        except TypeError:  # a number that is too great for the writer
            continue
        cut = dice.randrange(len(line) + 1)
        yield line[:cut]
        yield line[cut:] + b"\n"
    yield HUGE


@contextmanager
def served(state_dir: Path) -> Iterator[Door]:
    with Door(state_dir) as door:
        yield door.ready()


def _memory_kib(pid: int) -> int:
    (line,) = (each for each in _status(pid) if each.startswith("VmRSS"))
    return int(line.split()[1])


def _status(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/status").read_text("ascii").splitlines()


@pytest.mark.parametrize("seed", few(range(12)))
def test_noise_through_a_pump_leaves_it_and_its_gateway_as_they_were(
    state_dir: Path, seed: int
) -> None:
    add(state_dir, "a")
    with served(state_dir) as door, Agent(state_dir) as loud, Agent(state_dir) as other:
        pid = door.pid
        other.greet()
        for piece in noise(seed):
            loud.write(piece)
        loud.send({"jsonrpc": "2.0", "id": "the end", "method": "ping"})
        while loud.answer().get("id") != "the end":
            pass
        assert other.take()["id"] == "a"
        assert door.look()["pid"] == pid


@pytest.mark.parametrize("seed", few(range(12)))
def test_noise_on_the_socket_ends_one_connection_at_most(state_dir: Path, seed: int) -> None:
    add(state_dir, "a")
    with served(state_dir) as door, Agent(state_dir) as other:
        pid = door.pid
        other.greet()
        before_kib = _memory_kib(pid)
        for hello in (b"", wire.HELLO + b' {"protocol":1,"visit":"v"}\n', wire.HELLO + b" [\n"):
            with Wire(state_dir) as line:
                try:
                    line.write(hello + b"".join(noise(seed)))
                    line.ask("the end", "ping")
                    while (found := line.line()) and b'"the end"' not in found:
                        pass
                except (BrokenPipeError, ConnectionResetError):
                    continue  # it was turned away
        assert other.take()["id"] == "a"
        assert door.look()["pid"] == pid
        eventually(lambda: door.look()["clients"] == 1)
        assert _memory_kib(pid) - before_kib < 256 * 1024


@pytest.mark.parametrize("road", few(["pump", "socket"]))
def test_streams_without_end_are_bounded_and_leave_room_for_questions(
    state_dir: Path, road: str
) -> None:
    count = limits.MCP_STREAMS_MAX + 8
    with served(state_dir), Agent(state_dir) as agent, Wire(state_dir) as line:
        asked, answers = (agent, agent.answer) if road == "pump" else (line, line.answer)
        for number in range(count):
            request = {"jsonrpc": "2.0", "id": f"s{number}", "method": "subscriptions/listen"}
            asked.write(orjson.dumps(request | {"params": LISTEN}) + b"\n")
        asked.write(orjson.dumps({"jsonrpc": "2.0", "id": "p", "method": "ping"}) + b"\n")
        refused = 0
        while (answer := answers()).get("id") != "p":
            refused += "error" in answer and "streams of yours" in answer["error"]["message"]
        assert refused == count - limits.MCP_STREAMS_MAX


def test_subscriptions_are_bounded_in_the_pump_too(state_dir: Path) -> None:
    with Agent(state_dir) as agent:
        agent.greet()
        over = limits.MCP_WATCHES_MAX + 8
        answers = [agent.rpc("resources/subscribe", {"uri": f"issue://{n}"}) for n in range(over)]
        assert sum("error" in each for each in answers) == 8


def test_an_agent_keeps_no_lease_of_another_by_saying_that_it_did(state_dir: Path) -> None:
    """A line of the pump's own: what it kept through a gateway before."""
    add(state_dir, "a")
    with served(state_dir), Agent(state_dir) as ada:
        held = ada.greet().take()
        claim = {name: held[name] for name in ("leaseId", "fence")}
        note = claim | {"owner": held["assignee"], "issue": "a", "ttlSeconds": 30, "sinceMs": 1}
        said = b"#hold %d %s\n" % (held["fence"], orjson.dumps(note))
        with Agent(state_dir) as eve:
            eve.greet().write(said)
            assert "not JSON" in eve.answer()["error"]["message"]
        with Wire(state_dir) as line:
            line.write(wire.HELLO + b' {"protocol":1,"visit":"eve","name":"eve"}\n' + said)
            line.ask(1, "ping")
        eventually(lambda: ada.call("issue_update", notes="here", **held)["result"] == "accepted")
        assert ada.call("work_complete", **held)["result"] == "accepted"
