"""Eight agents, each in a process of its own, all want the same two hundred issues."""

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.long import few
from tests.mcp.stand import standing
from tests.surfaces.process import ROOT, report_of, understudy

AGENTS, ISSUES = 8, 200


@pytest.mark.parametrize("road", few(["http", "stdio"]))
def test_nothing_is_won_twice_and_nothing_is_lost(road: str, tmp_path: Path) -> None:
    with standing(tmp_path, "--max-held", str(ISSUES)) as stand, ExitStack() as crowd:
        lines = "".join(
            json.dumps({"action": "issue.add", "payload": {"title": f"piece {number}"}}) + "\n"
            for number in range(ISSUES)
        )
        added = understudy("dispatch", "--state-dir", stand.state_dir, stdin=lines.encode())
        assert added.returncode == 0, added.stderr
        target = [stand.url] if road == "http" else [*stand.pump, "--on-leave", "expire"]
        racer = (sys.executable, "tests/mcp/racer.py")
        racers = [
            crowd.enter_context(
                subprocess.Popen(
                    [*racer, f"agent-{number}", str(ISSUES), road, *target],
                    cwd=ROOT,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for number in range(AGENTS)
        ]
        for each in racers:
            assert each.stdout is not None
            assert each.stdout.readline() == "ready\n"
        for each in racers:
            assert each.stdin is not None
            each.stdin.write("go\n")
            each.stdin.flush()
        told = [json.loads(each.stdout.readline()) for each in racers if each.stdout is not None]
    won = Counter(issue for each in told for issue in each["won"])
    assert [issue for issue, times in won.items() if times > 1] == []
    assert len(won) == ISSUES
    refused = sum((Counter(each["refused"]) for each in told), Counter[str]())
    assert refused == {"lease_contention_active": (AGENTS - 1) * ISSUES}
    # The gateway and its sidecar are gone: what is found now was on disk.
    listed = report_of("issue", "list", "--state-dir", tmp_path / "state")["issues"]
    fences = {each["id"]: each["lease"]["fence"] for each in listed}
    assert fences == {issue: fence for each in told for issue, fence in each["won"].items()}
