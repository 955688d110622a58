"""A holder as a process of its own, with an authority that is played: `holder.py FOLDER KIND TTL`.

The authority grants a short lease, and is then away for good. When it was asked, and when nothing
of the command was left, stands in `FOLDER/asked` and `FOLDER/over`, in seconds that only grow.
"""

import sys
import time
from pathlib import Path
from typing import Any

from understudy.actors.run.runner import Runner, Task, report
from understudy.authority import Unavailable
from understudy.contracts import Reason, rfc3339

FOLDER, KIND, TTL_MS = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
TROUBLE = Path(__file__).with_name("trouble.py")


def ask(action: str, payload: dict[str, Any]) -> dict[str, Any]:
    if action != "issue.claim":
        raise Unavailable(Reason.SIDECAR_UNREACHABLE, action)
    (FOLDER / "asked").write_text(str(time.monotonic()))
    now_ms = time.time_ns() // 1_000_000
    lease = {"fence": 7, "leaseId": "l", "owner": payload["assignee"]}
    lease["expiresAt"] = rfc3339.answer_text(now_ms + TTL_MS)
    issue = {"id": "x", "attempts": 1, "lease": lease}
    return {"result": "accepted", "seq": 7, "stamp": {"wallMs": now_ms}, "issue": issue}


task = Task("x", "ada", [sys.executable, "-I", "-S", str(TROUBLE), KIND], grace_ms=300)
outcome = Runner(task, ask, FOLDER).run()
(FOLDER / "over").write_text(str(time.monotonic()))
sys.stdout.write(f"{report(outcome)}\n")
sys.exit(outcome.code)
