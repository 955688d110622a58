"""Who is let in, and through which door."""

import os
from pathlib import Path

import orjson
import pytest

from tests.authority.sidecar.peer import (
    HELLO,
    TOO_LARGE,
    Peer,
    add,
    lines_of,
    refusal,
    results,
    show,
)
from tests.authority.sidecar.serving import Serving
from understudy.contracts import contract_digest, limits

# --- hello ----------------------------------------------------------------------------------------


def test_the_greeting_says_who_serves_and_by_which_contract(serving: Serving) -> None:
    with Peer(serving.state_dir) as peer:
        assert peer.server["protocol"] == 1
        assert peer.server["node"] == "n1"
        assert peer.server["pid"] == os.getpid()
        assert peer.server["contractDigest"] == contract_digest()


@pytest.mark.parametrize(
    "hello",
    [
        b'{"hello":{"protocol":2,"transport":"mcp"}}',
        b'{"hello":{"protocol":0,"transport":"mcp"}}',
        b'{"hello":{"protocol":"1","transport":"mcp"}}',
        b'{"hello":{"protocol":1.0,"transport":"mcp"}}',
        b'{"hello":{"protocol":true,"transport":"mcp"}}',
        b'{"hello":{"transport":"mcp"}}',
        b'{"hello":{"protocol":1}}',
        b'{"hello":{"protocol":1,"transport":"carrier-pigeon"}}',
        b'{"hello":{"protocol":1,"transport":null}}',
        b'{"hello":{"protocol":1,"transport":["mcp"]}}',
        b'{"hello":{"protocol":1,"transport":{}}}',
        b'{"hello":1}',
        b'{"hello":null}',
        b'["hello"]',
        b"1",
        b"garbage",
        b"\xff\x00",
        b'{"hello":{"protocol":1,"protocol":1,"transport":"mcp"}}',
        b'{"action":"issue.list","payload":{}}',
        b"[" * 1000,
    ],
    ids=lambda hello: hello[:60].decode(errors="replace"),
)
def test_a_peer_that_does_not_say_hello_is_told_so_and_shown_out(
    serving: Serving, hello: bytes
) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(hello + b"\n")
        assert refusal(peer.answer()) == "sidecar_protocol_mismatch"
        assert peer.rest() == []
    with Peer(serving.state_dir) as other:
        assert refusal(other.ask(add(1))) is None


def test_nothing_behind_a_refused_hello_is_taken_in(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(b"garbage\n" + lines_of(HELLO, add(1)))
        assert [orjson.loads(line).get("result") for line in peer.rest()] == ["rejected"]
    with Peer(serving.state_dir) as other:
        assert refusal(other.ask(show(1, "i1"))) == "issue_not_found"


def test_a_hello_that_is_too_long_is_refused_and_a_second_try_is_heard(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.write(b"x" * (2 * limits.REQUEST_BYTES_MAX) + b"\n")
        assert refusal(peer.answer()) == TOO_LARGE
        assert "hello" in peer.ask(HELLO)


def test_requests_may_follow_the_hello_without_waiting(serving: Serving) -> None:
    with Peer(serving.state_dir, hello=None) as peer:
        peer.send(HELLO, add(1), add(2))
        assert "hello" in peer.answer()
        assert results(peer.answers(2)) == {1: None, 2: None}


# --- doors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("transport", "expected"),
    [("mcp", None), ("cli", "control_plane_host_action_mcp_transport_required")],
)
def test_a_lease_is_renewed_through_the_mcp_door_alone(
    serving: Serving, transport: str, expected: str | None
) -> None:
    with Peer(serving.state_dir) as holder:
        holder.ask(add(1))
        claim = {"id": "i1", "assignee": "ada", "leaseId": "l"}
        fence = holder.ask({"action": "issue.claim", "payload": claim})["issue"]["lease"]["fence"]
    hello = {"hello": {"protocol": 1, "transport": transport}}
    with Peer(serving.state_dir, hello) as peer:
        renew = {"action": "issue.lease_renew", "payload": claim | {"fence": fence}}
        assert refusal(peer.ask(renew)) == expected


def test_a_door_does_not_get_stronger_by_asking(serving: Serving) -> None:
    with Peer(serving.state_dir, {"hello": {"protocol": 1, "transport": "cli"}}) as peer:
        asked = {"action": "issue.list", "payload": {}, "context": {"transport": "mcp"}}
        assert refusal(peer.ask(asked)) == "transport_escalation_denied"


@pytest.mark.parametrize(
    ("frozen_server", "frozen_hello", "taken"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_time_is_brought_along_only_where_both_sides_want_it(
    state_dir: Path, frozen_server: bool, frozen_hello: bool, taken: bool
) -> None:
    hello = {"hello": {"protocol": 1, "transport": "mcp", "frozenClock": frozen_hello}}
    with Serving(state_dir, frozen_clock=frozen_server), Peer(state_dir, hello) as peer:
        answer = peer.ask(add(1) | {"now": 4_000_000_000_000})
        assert (refusal(answer) is None) is taken
        if taken:
            assert answer["stamp"]["wallMs"] == 4_000_000_000_000
