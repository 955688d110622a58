"""The supervision tree of a state directory: whether one runs, and what is wrong with it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...actors.tree import RUN_FOLDER, NoTree, ask
from ...contracts import Reason
from .finding import DoctorFinding

_PATIENCE_SECONDS = 10.0
_RESTARTS_MANY = 3  # of one child: it lives, and something is wrong with it all the same


def running(state_dir: Path) -> Iterator[DoctorFinding]:
    """No tree is fine; one that does not answer, or lacks a child, is not."""
    run_dir = state_dir / RUN_FOLDER
    if not (run_dir / "tree.sock").exists():
        yield DoctorFinding("tree", "ok", "no tree runs here; `understudy up` starts one")
        return
    try:
        picture = ask(run_dir, {"ask": "picture"}, _PATIENCE_SECONDS)
    except NoTree as error:
        words = f"its program died or does not answer: {error}"
        remedy = "`understudy up` sweeps what is left and starts anew; see run/up.log"
        yield DoctorFinding("tree", "problem", words, remedy, Reason.SIDECAR_UNREACHABLE.wire)
        return
    yield from _children(picture)


def _children(picture: dict[str, Any]) -> Iterator[DoctorFinding]:
    facts = {"pid": picture["pid"], "upSeconds": picture["upSeconds"]}
    wrong = False
    for child in picture["tree"]:
        if child["state"] != "running":
            wrong = True
            words = f"{child['id']} is {child['state']}"
            remedy = "wait a moment; run/reports.jsonl says why it ended"
            yield DoctorFinding("tree", "problem", words, remedy, facts=facts)
        elif child["restarts"] >= _RESTARTS_MANY:
            words = f"{child['id']} was restarted {child['restarts']} times"
            yield DoctorFinding("tree", "note", words, "run/reports.jsonl says why", facts=facts)
    gateway = picture.get("gateway")
    if gateway is not None and "missing" in gateway:
        wrong = True
        words = f"the gateway for agents does not answer: {gateway['missing']}"
        remedy = "wait a moment; run/gateway.log says what is wrong"
        yield DoctorFinding("tree", "problem", words, remedy, facts=facts)
    stopping = picture["dispatcher"].get("stopping")
    if stopping:
        yield DoctorFinding("tree", "note", f"it claims nothing more: {stopping}", facts=facts)
    if not wrong:
        busy = len(picture["dispatcher"].get("terms", []))
        words = f"process {picture['pid']} runs a tree, {busy} workers busy"
        yield DoctorFinding("tree", "ok", words, facts=facts)
