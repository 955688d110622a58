"""A worker in the demo: a process that takes work, does it, and believes in its own lease.

It speaks to the stage over its standard input and output, one JSON line a request.
"""

import json
import sys
import time
from typing import Any

_WORK_SECONDS = 0.15  # what one piece of work takes, in real time


def main(name: str) -> None:
    """Claim, work, write, close; until nothing is left or the stage hangs up."""
    while True:
        answer = _ask("issue.claim_next", {"assignee": name, "leaseTtlSeconds": 30})
        if answer is None:
            return
        if "issue" not in answer:
            time.sleep(_WORK_SECONDS)
            continue
        _work(name, answer["issue"])


def _work(name: str, issue: dict[str, Any]) -> None:
    lease = issue["lease"]
    holder = {
        "id": issue["id"],
        "assignee": name,
        "leaseId": lease["leaseId"],
        "fence": lease["fence"],
    }
    time.sleep(_WORK_SECONDS)  # a frozen process is frozen here, and never notices
    written = _ask("issue.update", holder | {"notes": f"done by {name}"})
    if written is not None and written["result"] == "accepted":
        _ask("issue.close", holder)


def _ask(action: str, payload: dict[str, Any]) -> dict[str, Any] | None:
    print(json.dumps({"action": action, "payload": payload}), flush=True)
    line = sys.stdin.readline()
    return json.loads(line) if line else None


if __name__ == "__main__":
    main(sys.argv[1])
