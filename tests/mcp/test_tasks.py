"""Long calls as tasks, on the wire: over HTTP and through the pump, for those who speak of them."""

import http.client
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.limits import stands_on
from tests.mcp.stand import Stand, standing
from tests.patience import eventually
from understudy.contracts import limits
from understudy.surfaces.mcp.tasks.tasks import EXTENSION

UNKNOWN, HEADERS, UNABLE = -32602, -32020, -32021
ENDLESS = {"name": "slow_compute", "arguments": {"seconds": 3_600}}
SHORT = {"name": "slow_compute", "arguments": {"seconds": 0}}
Answer = dict[str, Any]


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    mount = ("--mount", "tests.mcp.outside.fixtures:mount")
    with standing(tmp_path_factory.mktemp("tasks"), *mount) as each:
        yield each


def request(method: str, params: Answer, *, speaks: bool = True) -> Answer:
    able: Answer = {"elicitation": {}}
    if speaks:
        able["extensions"] = {EXTENSION: {}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": able,
    }
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}


@contextmanager
def sent(stand: Stand, body: Answer, agent: str, **more: str) -> Iterator[http.client.HTTPResponse]:
    url = urlsplit(stand.url)
    near = http.client.HTTPConnection("127.0.0.1", url.port or 0, timeout=30)
    params = body["params"]
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": body["method"],
        "mcp-name": params.get("name") or params.get("taskId") or "",
        "understudy-agent": agent,
        **{name.replace("_", "-"): value for name, value in more.items()},
    }
    try:
        near.request("POST", "/mcp", json.dumps(body), headers)
        yield near.getresponse()
    finally:
        near.close()


def ask(
    stand: Stand, method: str, params: Answer, *, agent: str = "ada", speaks: bool = True, **h: str
) -> Answer:
    """The whole answer, be it a result or an error."""
    with sent(stand, request(method, params, speaks=speaks), agent, **h) as answer:
        told: Answer = json.loads(answer.read())
        assert (answer.status == 200) == ("result" in told)
        return told


def begun(stand: Stand, call: Answer = ENDLESS) -> str:
    task = ask(stand, "tools/call", call)["result"]
    assert task["resultType"] == "task"
    return str(task["taskId"])


def status(stand: Stand, task_id: str) -> str:
    return str(ask(stand, "tasks/get", {"taskId": task_id})["result"]["status"])


def test_a_long_call_names_a_task_whose_end_can_be_asked_for(stand: Stand) -> None:
    task_id = begun(stand, SHORT)
    eventually(lambda: status(stand, task_id) == "completed")
    told = ask(stand, "tasks/get", {"taskId": task_id})["result"]
    assert told["result"]["content"] == [{"type": "text", "text": "computed"}]
    assert told["ttlMs"] >= limits.TASK_TTL_MS


def test_a_client_that_knows_no_tasks_waits_for_its_answer(stand: Stand) -> None:
    told = ask(stand, "tools/call", SHORT, speaks=False)["result"]
    assert (told["resultType"], told["isError"]) == ("complete", False)


def test_no_other_agent_finds_a_task(stand: Stand) -> None:
    task_id = begun(stand)
    for method in ("tasks/get", "tasks/cancel"):
        told = ask(stand, method, {"taskId": task_id}, agent="bob")
        assert told["error"]["code"] == UNKNOWN
    told = ask(stand, "tasks/update", {"taskId": task_id, "inputResponses": {}}, agent="bob")
    assert told["error"]["code"] == UNKNOWN
    assert status(stand, task_id) == "working"
    assert ask(stand, "tasks/cancel", {"taskId": task_id})["result"]["resultType"] == "complete"
    assert status(stand, task_id) == "cancelled"


@pytest.mark.parametrize("task_id", ["", "nothing", "x" * (limits.ID_LENGTH_MAX + 1)])
def test_a_task_that_never_was_is_unknown(stand: Stand, task_id: str) -> None:
    for method in ("tasks/get", "tasks/cancel"):
        assert ask(stand, method, {"taskId": task_id})["error"]["code"] == UNKNOWN


def test_the_header_that_routes_a_request_is_the_task_in_it(stand: Stand) -> None:
    task_id = begun(stand)
    for name in ("", "another"):
        told = ask(stand, "tasks/cancel", {"taskId": task_id}, mcp_name=name)
        assert told["error"]["code"] == HEADERS
    assert status(stand, task_id) == "working"
    ask(stand, "tasks/cancel", {"taskId": task_id})


def test_who_does_not_speak_of_tasks_is_told_what_it_lacks(stand: Stand) -> None:
    task_id = begun(stand)
    lacking = [
        ask(stand, "tasks/get", {"taskId": task_id}, speaks=False),
        ask(stand, "tools/call", {"name": "failing_job", "arguments": {}}, speaks=False),
        ask(stand, "subscriptions/listen", {"notifications": {"taskIds": [task_id]}}, speaks=False),
    ]
    for told in lacking:
        assert told["error"]["code"] == UNABLE
        assert EXTENSION in told["error"]["data"]["requiredCapabilities"]["extensions"]
    ask(stand, "tasks/cancel", {"taskId": task_id})


def events(stream: http.client.HTTPResponse) -> Iterator[Answer]:
    for line in stream:
        if line.startswith(b"data: "):
            yield json.loads(line.removeprefix(b"data: "))


def test_a_listener_hears_what_becomes_of_its_tasks_alone(stand: Stand) -> None:
    asking = begun(stand, {"name": "confirm_delete", "arguments": {"filename": "a"}})
    eventually(lambda: status(stand, asking) == "input_required")
    other = begun(stand)
    listen = request("subscriptions/listen", {"notifications": {"taskIds": [asking, "unknown"]}})
    with sent(stand, listen, "ada") as stream:
        heard = events(stream)
        first = next(heard)
        assert first["method"] == "notifications/subscriptions/acknowledged"
        assert first["params"]["notifications"] == {"taskIds": [asking]}
        ask(stand, "tasks/cancel", {"taskId": other})
        questions = ask(stand, "tasks/get", {"taskId": asking})["result"]["inputRequests"]
        answers = {key: {"action": "accept", "content": {"confirm": True}} for key in questions}
        ask(stand, "tasks/update", {"taskId": asking, "inputResponses": answers})
        told = [next(heard) for _ in range(2)]
    assert [each["method"] for each in told] == ["notifications/tasks"] * 2
    assert {each["params"]["taskId"] for each in told} == {asking}
    assert [each["params"]["status"] for each in told] == ["working", "completed"]
    assert told[-1]["params"]["result"]["content"]
    key = "io.modelcontextprotocol/subscriptionId"
    assert {each["params"]["_meta"][key] for each in told} == {1}


def test_another_agent_hears_nothing_of_a_task(stand: Stand) -> None:
    task_id = begun(stand)
    listen = request("subscriptions/listen", {"notifications": {"taskIds": [task_id]}})
    with sent(stand, listen, "bob") as stream:
        first = next(events(stream))
        assert first["params"]["notifications"] == {}
    ask(stand, "tasks/cancel", {"taskId": task_id})


@stands_on("TASK_WATCHED_MAX")
def test_one_listener_follows_so_many_tasks(stand: Stand) -> None:
    ids = ["x"] * (limits.TASK_WATCHED_MAX + 1)
    listen = request("subscriptions/listen", {"notifications": {"taskIds": ids[1:]}})
    with sent(stand, listen, "ada") as stream:
        assert next(events(stream))["method"] == "notifications/subscriptions/acknowledged"
    told = ask(stand, "subscriptions/listen", {"notifications": {"taskIds": ids}})
    assert told["error"]["code"] == UNKNOWN


@stands_on("TASK_QUESTIONS_MAX")
def test_one_update_answers_so_many_questions(stand: Stand) -> None:
    task_id = begun(stand)

    def told(count: int) -> Answer:
        replies: Answer = {f"q{number}": {} for number in range(count)}
        return ask(stand, "tasks/update", {"taskId": task_id, "inputResponses": replies})

    assert "result" in told(limits.TASK_QUESTIONS_MAX)
    assert told(limits.TASK_QUESTIONS_MAX + 1)["error"]["code"] == UNKNOWN
    ask(stand, "tasks/cancel", {"taskId": task_id})


def test_through_the_pump_a_task_is_the_agents_own(stand: Stand) -> None:
    def exchanged(pump: subprocess.Popen[bytes], body: Answer) -> Answer:
        assert pump.stdin is not None
        assert pump.stdout is not None
        pump.stdin.write(json.dumps(body).encode() + b"\n")
        pump.stdin.flush()
        told: Answer = json.loads(pump.stdout.readline())
        return told

    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(stand.pump, **pipes) as one, subprocess.Popen(stand.pump, **pipes) as two:  # type: ignore[call-overload]  # options by name
        task = exchanged(one, request("tools/call", ENDLESS))["result"]
        get = request("tasks/get", {"taskId": task["taskId"]})
        assert exchanged(one, get)["result"]["status"] == "working"
        assert exchanged(two, get)["error"]["code"] == UNKNOWN
        exchanged(one, request("tasks/cancel", {"taskId": task["taskId"]}))
        assert exchanged(one, get)["result"]["status"] == "cancelled"
        for each in (one, two):
            each.stdin.close()
            each.wait(30)
