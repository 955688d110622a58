"""One agent that tries to claim every issue: `racer.py NAME COUNT http URL | stdio COMMAND...`.

It is a process of its own with nothing but the standard library, says that it is ready, waits for
a line, and then prints what it won and by which classes it was refused.
"""

import http.client
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

Call = Callable[[dict[str, Any]], dict[str, Any]]
_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def over_http(name: str, url: str) -> Call:
    near = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
    headers = {
        "content-type": "application/json",
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "issue_claim",
        "understudy-agent": name,
    }

    def call(body: dict[str, Any]) -> dict[str, Any]:
        near.request("POST", "/mcp", json.dumps(body), headers)
        told: dict[str, Any] = json.loads(near.getresponse().read())
        return told

    return call


def over_stdio(command: list[str]) -> Call:
    pump = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def call(body: dict[str, Any]) -> dict[str, Any]:
        assert pump.stdin is not None
        assert pump.stdout is not None
        pump.stdin.write(json.dumps(body).encode() + b"\n")
        pump.stdin.flush()
        told: dict[str, Any] = json.loads(pump.stdout.readline())
        return told

    return call


def main(name: str, count: int, road: str, *target: str) -> None:
    call = over_http(name, target[0]) if road == "http" else over_stdio(list(target))
    print("ready", flush=True)
    sys.stdin.readline()
    won, refused = {}, Counter[str]()
    for number in range(1, count + 1):
        asked = {"name": "issue_claim", "arguments": {"id": f"us-{number}"}, "_meta": _META}
        told = call({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": asked})
        answer = told["result"]["structuredContent"]
        if answer["result"] == "accepted":
            won[answer["issue"]["id"]] = answer["issue"]["lease"]["fence"]
        else:
            refused.update(answer["failureClasses"])
    print(json.dumps({"won": won, "refused": refused}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
