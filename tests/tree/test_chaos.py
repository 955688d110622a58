"""Kill and freeze every kind of process of a real tree at random, while it works.

What must hold afterwards, whatever was hit and when:

1. Every issue was closed exactly once, under the fence of its last claim; or it used up exactly the
   attempts that the policy allows, and was escalated once.
2. No two commands worked on one issue at the same time.
3. No process is left, and `verify` and `replay` agree on one unbroken chain.

`UNDERSTUDY_TREE_SECONDS` says for how long, `UNDERSTUDY_TREE_SEED` repeats the choices.
"""

import os
import random
import secrets
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.long import LONG
from tests.tree.house import add, issues, prove, rows
from tests.tree.storm import Storm

SECONDS = float(os.environ.get("UNDERSTUDY_TREE_SECONDS", "8"))
SEED = int(os.environ.get("UNDERSTUDY_TREE_SEED", "0")) or secrets.randbits(32)
ISSUES = 200 if SECONDS >= 60 else 40
ATTEMPTS = 3
_COMMAND = Path(__file__).with_name("labour.py")


@LONG
@pytest.mark.timeout(SECONDS + 420)
def test_whatever_is_killed_every_issue_is_done_once(state_dir: Path, tmp_path: Path) -> None:
    dice = random.Random(SEED)
    trace = tmp_path / "trace"
    trace.mkdir()
    names = add(state_dir, *(f"i{number}" for number in range(ISSUES)))
    command = f"{sys.executable} {_COMMAND} {trace}"
    words = ["--exec", command, "--workers", "4", "--ttl", "30", "--grace", "1"]
    storm = Storm(state_dir, words, dice, more=("--mcp",))
    try:
        storm.blow(SECONDS)
        storm.calm()
    finally:
        said = f"seed {SEED}: {dict(storm.hits)}, {len(storm.systems)} trees"
        print(said)  # pytest shows it where the test fails
        if storm.up.process.poll() is None:
            storm.up.kill()
    assert storm.left() == []
    prove(state_dir)
    _prove_once(state_dir, names)
    _prove_alone(trace)


def _prove_once(state_dir: Path, names: list[str]) -> None:
    """Claim 1, from the evidence alone."""
    claims: dict[str, list[int]] = {name: [] for name in names}
    closes: dict[str, list[int]] = {name: [] for name in names}
    filed: Counter[str] = Counter()
    anew: Counter[str] = Counter()  # an operator brought it back, with all its attempts
    ended: Counter[str] = Counter()  # a pause ended its term
    for row in rows(state_dir):
        name, fence = row.get("issueId"), row["effect"]["fence"]
        if row["action"] == "pause.set" and row["resultClass"] == "accepted":
            ended.update(names)  # or one less
        if row["resultClass"] != "accepted" or name not in claims:
            continue
        if row["action"] == "issue.claim":
            claims[name].append(fence)
        elif row["action"] == "issue.close":
            closes[name].append(fence)
        elif row["action"] == "issue.discover":
            filed[name] += 1
        elif row["action"] == "issue.retry":
            anew[name] += 1
    found = issues(state_dir)
    for name in names:
        assert len(set(claims[name])) == len(claims[name])
        if found[name]["status"] == "closed":
            assert closes[name] == claims[name][-1:], name
            assert len(claims[name]) <= ATTEMPTS * (1 + anew[name]) + 1 + ended[name], name
        else:
            assert found[name]["status"] == "blocked", name
            # Where the lease of the last attempt lapsed, one more claim is made to say so.
            most = ATTEMPTS * (1 + anew[name]) + 1 + ended[name]
            assert ATTEMPTS <= len(claims[name]) <= most, name
            assert 1 <= filed[name] <= 1 + anew[name], name
            assert closes[name] == [], name
    closed = sum(found[name]["status"] == "closed" for name in names)
    assert closed >= ISSUES * 9 // 10, "the storm was the exception"


def _prove_alone(trace: Path) -> None:
    """Claim 2: `labour` writes a line when it begins and when it ends, under a lock of its own."""
    for path in trace.iterdir():
        for line in path.read_text().splitlines():
            assert not line.startswith("overlap"), f"{path.name}: {line}"
