"""Budgets of a tree at work: what commands say that they spend, and what becomes of them."""

import os
import random
import secrets
from pathlib import Path

import orjson
import pytest

from tests.actors.litter import Mark
from tests.actors.litter import mark as mark  # noqa: PLC0414 - a fixture
from tests.long import LONG
from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, understudy
from tests.tree.house import Up, add, job, prove, schedule, statuses
from tests.tree.storm import Storm
from understudy.authority import open_journal
from understudy.contracts import Exit

SECONDS = float(os.environ.get("UNDERSTUDY_TREE_SECONDS", "8"))
SEED = int(os.environ.get("UNDERSTUDY_TREE_SEED", "0")) or secrets.randbits(32)

pytestmark = pytest.mark.timeout(120)

SPENDS = 'echo "usd={} tokens=7" >> "$UNDERSTUDY_SPEND_FILE"'
LINGERS = "sleep 600 & (setsid sleep 600 &) ; wait"  # with a descendant that leaves its group


def spent(state_dir: Path) -> dict[str, int]:
    shown = understudy("spend", "report", "--json", "--state-dir", state_dir)
    total: dict[str, int] = orjson.loads(shown.stdout)["total"]
    return total


@pytest.mark.parametrize("way", ["file", "client"])
def test_a_command_that_uses_up_its_budget_is_stopped_with_its_descendants(
    state_dir: Path, mark: Mark, way: str
) -> None:
    add(state_dir, "dear")
    says = {"file": SPENDS.format("0.50"), "client": f"{UNDERSTUDY} spend --usd 0.50 --tokens 7"}
    words = ("--exec", f"{says[way]}; {LINGERS}", "--max-usd-per-issue", "0.50", "--until-done")
    with Up(state_dir, *words, env={"UNDERSTUDY_TEST_MARK": mark.word}) as up:
        assert up.wait() == Exit.WORK_BLOCKED, up.complaint()
        assert "0 done, 1 blocked" in up.complaint()
        assert "done  dear" not in up.complaint()
    mark.gone()
    assert statuses(state_dir) == {"dear": "blocked"}
    assert spent(state_dir) == {"tokens": 7, "usdMicros": 500_000, "milliseconds": 0}
    shown = understudy("issue", "show", "dear", "--state-dir", state_dir).stdout.decode()
    assert "0.500000 USD, 7 tokens; see `understudy spend report --issue dear`" in shown
    found = understudy("spend", "report", "--issue", "dear", "--state-dir", state_dir)
    assert b"100 % of issue/dear" in found.stdout or b"100 % of * per work" in found.stdout
    prove(state_dir)


@pytest.mark.parametrize("per", ["attempt", "label", "tree"])
def test_a_wrapper_writes_to_a_descriptor_and_any_cap_ends_its_work(
    state_dir: Path, per: str
) -> None:
    understudy("issue", "add", "dear", "--id", "dear", "--label", "red", "--state-dir", state_dir)
    command = f'exec 3>> "$UNDERSTUDY_SPEND_FILE"; echo seconds=61 >&3; {LINGERS}'
    words = ("--exec", command, f"--max-seconds-per-{per}", "1m", "--until-done")
    with Up(state_dir, *words) as up:
        assert up.wait() == Exit.WORK_BLOCKED, up.complaint()
        assert f"budget exceeded  dear: 101 % of * per {per}" in up.complaint()
    assert statuses(state_dir) == {"dear": "blocked"}


def test_what_is_spent_within_the_budget_is_counted_before_the_issue_is_closed(
    state_dir: Path,
) -> None:
    add(state_dir, "a", "b")
    command = SPENDS.format("0.4")
    words = ("--exec", command, "--max-usd-per-attempt", "0.5", "--until-done", "--workers", "2")
    with Up(state_dir, *words) as up:
        assert up.wait() == 0, up.complaint()
        assert b"budget warning" in up.complaint().encode()
    assert statuses(state_dir) == {"a": "closed", "b": "closed"}
    assert spent(state_dir)["usdMicros"] == 800_000


def test_lines_that_say_nothing_are_told_of_and_count_nothing(state_dir: Path) -> None:
    add(state_dir, "a")
    command = 'printf "eur=5\\nusd=-1\\nusd=x\\ntokens=3" >> "$UNDERSTUDY_SPEND_FILE"'
    with Up(state_dir, "--exec", command, "--until-done") as up:
        assert up.wait() == 0, up.complaint()
        assert "spending not understood" in up.complaint()
    assert spent(state_dir) == {"tokens": 3, "usdMicros": 0, "milliseconds": 0}


def test_a_job_whose_handler_spends_too_much_is_given_back_and_blocked(
    state_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "trade.py").write_text(
        "import time\n"
        "def work(job):\n"
        "    job.spend(tokens=90, usd='0.01', seconds='1.5')\n"
        "    job.spend(tokens=20)\n"
        "    time.sleep(600)\n"
    )
    schedule(state_dir, [{"jobId": "j", "kind": "ci.build"}])
    understudy("budget", "set", "kind/ci.", "--per", "work", "--tokens", "100",
               "--state-dir", state_dir)  # fmt: skip
    with Up(state_dir, "--job-handler", "ci.=trade:work", cwd=tmp_path).ready() as up:
        eventually(lambda: job(state_dir, "j")["state"] == "blocked")
        eventually(lambda: not up.job_terms())
    assert job(state_dir, "j")["spend"]["total"] == {
        "tokens": 110, "usdMicros": 10_000, "milliseconds": 1_500,
    }  # fmt: skip


@LONG
@pytest.mark.timeout(SECONDS + 420)
def test_whatever_a_storm_kills_no_work_goes_on_past_its_budget(state_dir: Path) -> None:
    """Every third issue is too dear at once, and others become so by what a killed attempt cost."""
    names = add(state_dir, *(f"i{number}" for number in range(24)))
    price = "case $UNDERSTUDY_ISSUE in *[369]) cost=40;; *) cost=20;; esac"
    says = 'echo tokens=$cost >> "$UNDERSTUDY_SPEND_FILE"; sleep 0.3'
    command = f"{price}; for turn in 1 2 3; do {says}; done"
    words = ["--exec", command, "--workers", "4", "--ttl", "30", "--grace", "1"]
    words += ["--max-tokens-per-issue", "100"]
    storm = Storm(state_dir, words, random.Random(SEED))
    try:
        storm.blow(SECONDS)
        storm.calm(codes=(0, Exit.WORK_BLOCKED))
    finally:
        print(f"seed {SEED}: {dict(storm.hits)}, {len(storm.systems)} trees")
        if storm.up.process.poll() is None:
            storm.up.kill()
    assert storm.left() == []
    dear = _prove_within(state_dir, 100)
    assert dear >= {f"issue/{name}" for name in names if name[-1] in "369"}
    prove(state_dir)


def _prove_within(state_dir: Path, most: int) -> set[str]:
    """The report that uses a budget up is the last, and so is its term; what came to that."""
    totals: dict[str, int] = {}
    over: set[str] = set()
    with open_journal(state_dir, read_only=True) as journal:
        answers = [orjson.loads(row.response) for row in journal.read()]
    for answer in answers:
        if answer["result"] != "accepted":
            continue
        name = f"issue/{answer['effect']['issueId']}"
        if answer["action"] in ("issue.claim", "issue.close", "issue.lease_renew", "spend.report"):
            assert name not in over, answer["action"]
        if answer["action"] == "spend.report":
            before, totals[name] = totals.get(name, 0), answer["spend"]["total"]["tokens"]
            assert before < totals[name]
            assert answer["stopped"] is (totals[name] >= most)
            over |= {name} if answer["stopped"] else set()
    return over
