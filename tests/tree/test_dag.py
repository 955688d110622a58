"""A graph of jobs, worked off by a tree whose processes are killed and frozen all the while.

What must hold afterwards, whatever was hit and when:

1. Every job was completed exactly once, under the fence of its last claim, and by a command that
   ran to its end under that fence.
2. No job was claimed before all that it waits for was completed.
3. No two commands worked on one job at the same time.
4. No process is left, and `verify` and `replay` agree on one unbroken chain.

`UNDERSTUDY_DAG_JOBS` says how many, `UNDERSTUDY_DAG_SEED` repeats the choices.
"""

import os
import random
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.long import LONG
from tests.surfaces.process import journal_rows, report_of
from tests.tree.house import prove, schedule
from tests.tree.storm import Storm

JOBS = int(os.environ.get("UNDERSTUDY_DAG_JOBS", "60"))
SEED = int(os.environ.get("UNDERSTUDY_DAG_SEED", "0")) or secrets.randbits(32)
SECONDS = 5 + JOBS / 5  # of storm, at most
LAYER = max(5, JOBS // 20)  # jobs that wait for nothing but the layer before
_COMMAND = Path(__file__).with_name("mark.py")


@LONG
@pytest.mark.timeout(2 * SECONDS + 600)
def test_every_job_of_a_graph_is_done_once_whatever_is_killed(
    state_dir: Path, tmp_path: Path
) -> None:
    dice = random.Random(SEED)
    trace = tmp_path / "trace"
    trace.mkdir()
    graph = _graph(dice)
    begun = time.monotonic()
    schedule(state_dir, [_scheduled(name, number, graph) for number, name in enumerate(graph)])
    command = f"exec {sys.executable} -I -S {_COMMAND} {trace}"
    words = ["--job", f"dag.={command}", "--job", f"dag.odd=:; {command}"]
    words += ["--job-workers", "8" if JOBS > 1_000 else "4"]
    storm = Storm(state_dir, [*words, "--ttl", "30", "--grace", "1"], dice)
    try:
        storm.blow(SECONDS, lambda: _ends(trace) >= JOBS * 9 // 10)
        blown = time.monotonic()
        storm.calm(SECONDS + 500)
    finally:
        if storm.up.process.poll() is None:
            storm.up.kill()
        hits = sum(storm.hits.values())
        print(f"seed {SEED}: {hits} hits {dict(storm.hits)}, {len(storm.systems)} trees")
    print(f"{blown - begun:.0f} s of storm, {time.monotonic() - blown:.0f} s of calm")
    assert storm.left() == []
    prove(state_dir)
    counts = report_of("job", "roster", "--state-dir", state_dir)["jobCounts"]
    assert counts == {"total": JOBS, "pending": 0, "claimed": 0, "waiting": 0, "overdue": 0}
    _prove_once(state_dir, graph, trace)


def _graph(dice: random.Random) -> dict[str, list[str]]:
    """Layers; each job waits for one to four of the layer before."""
    names = [f"j{number}" for number in range(JOBS)]
    graph: dict[str, list[str]] = {}
    for number, name in enumerate(names):
        before = names[max(0, number // LAYER - 1) * LAYER : number // LAYER * LAYER]
        graph[name] = dice.sample(before, min(len(before), dice.randint(1, 4)))
    return graph


def _scheduled(name: str, number: int, graph: dict[str, list[str]]) -> dict[str, Any]:
    deps = [f"complete/{each}" for each in graph[name]]
    return {"jobId": name, "kind": "dag.odd" if number % 2 else "dag.even", "causalDeps": deps}


def _ends(trace: Path) -> int:
    """How many jobs have begun, which is about how many are done."""
    return sum(1 for _ in os.scandir(trace))


def _prove_once(state_dir: Path, graph: dict[str, list[str]], trace: Path) -> None:
    """Claims 1 to 3, from the journal and from what the commands wrote."""
    done: dict[str, int] = {}  # by job, the row
    fences: dict[str, list[int]] = {name: [] for name in graph}
    for seq, _, asked, answered in journal_rows(state_dir):
        request, answer = orjson.loads(asked), orjson.loads(answered)
        name = request["payload"].get("jobId")
        if answer["result"] != "accepted" or name not in graph:
            continue
        if request["action"] == "job.claim":
            fence = answer["job"]["lease"]["fence"]
            if fence == seq:  # a grant, and no renewal
                assert all(each in done for each in graph[name]), f"{name} was granted too early"
                assert name not in done, f"{name} was granted again"
                fences[name].append(fence)
        elif request["action"] == "job.complete":
            assert name not in done, f"{name} was completed twice"
            assert request["payload"]["fence"] == fences[name][-1], name
            done[name] = seq
    assert done.keys() == graph.keys()
    for name in graph:
        lines = [line.split() for line in (trace / name).read_text().splitlines()]
        assert not [line for line in lines if line[0] == "overlap"], name
        assert ["end", str(fences[name][-1])] in lines, name
        begun = [int(fence) for word, fence in lines if word == "begin"]
        assert begun == sorted(set(begun)), f"{name}: fences of its runs do not grow"
