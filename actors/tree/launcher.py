"""Starts a tree in this process, keeps it until it ends or is told to, and leaves nothing behind.

    program --starts--> Thespian's processes --> coord_sup --> ...
       ^--control socket-- `understudy status`, `down` and others

I1  One tree per state directory: the run folder is locked by the kernel, which frees it however
    this process dies.
I2  When `stop` returns, no process of the tree is left, workers' commands included.
"""

import os
import threading
import time
from pathlib import Path
from typing import Any, Final, Self

from ...authority import Unavailable
from ...authority.service import client
from ..dispatch import orders
from ..otp import (
    CallFailed,
    ChildInfo,
    ExitReason,
    OtpError,
    Ref,
    Statistics,
    Target,
    WhichChildren,
)
from ..otp.carriers.process import SystemEnded, Troupe, process_id, report_file
from ..process.own_folder import refuse_foreign_link
from ..run.attempts import check_logs
from . import (
    authority_client,
    chain_runner,
    control,
    evidence_writer,
    gateway,
    gluer,
    job_dispatcher,
    job_loop,
    lease_dispatcher,
    lease_loop_cell,
    news,
    scheduler,
    tracer,
    tree,
)
from .plan import Plan

STOP_MS: Final = 60_000
_START_MS = 60_000
_LOOK_MS = 2_000
_LOOKED_AT_MAX = 64  # children of one supervisor that a picture asks how they are
_TOLD_MAX = 200


class Occupied(OtpError):
    """Another sidecar serves the state directory."""


class Tree:
    """A tree that runs. `wait` says why it ended; `stop` ends it."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._system = Troupe(plan.run_dir)
        self._told = report_file.ReportTail(self._system.reports, news.KINDS, _TOLD_MAX)
        self._fresh = report_file.ReportTail(self._system.reports, news.KINDS, None)
        self._control: control.Server | None = None
        self._ref: Ref | None = None
        self._begun = time.monotonic()
        self._stop_asked = threading.Event()
        self._drain_ms: int | None = 0

    def start(self) -> Self:
        """Raises `StartFailed`, `Occupied` and the like; then nothing is left."""
        check_logs(self.plan.state_dir)
        refuse_foreign_link(self.plan.run_dir)
        _refuse_served(self.plan.state_dir)
        self._system.start()
        try:
            self._ref = self._system.spawn(tree.coord_sup(self.plan), timeout_ms=_START_MS)
            self._control = control.Server(self.plan.run_dir, self.picture, self._told_to_stop)
        except BaseException:
            self._system.stop(STOP_MS)
            raise
        return self

    def wait(self, timeout_ms: int) -> ExitReason | None:
        """Why the tree ended by itself; None where it has not by then, or is told to stop."""
        assert self._ref is not None
        try:
            return self._system.join(self._ref, timeout_ms)
        except SystemEnded as error:
            return error.reason

    @property
    def is_told_to_stop(self) -> bool:
        """Whether a command said so through the control socket."""
        return self._stop_asked.is_set()

    def stop(self) -> None:
        """Hand everything back, and end (I2)."""
        if self._control is not None:
            self._control.close_door()
        self._drain()
        self._system.stop(STOP_MS)
        if self._control is not None:
            self._control.close()

    def reports(self) -> list[dict[str, Any]]:
        """What the loops have told, also those that have died since; the newest last."""
        return self._told.rows()

    def news(self) -> list[dict[str, Any]]:
        """What was told since the last time that this was asked, all of it."""
        return self._fresh.take()

    def picture(self) -> dict[str, Any]:
        """What is where, for people and programs."""
        return {
            "stateDir": str(self.plan.state_dir),
            "system": self._system.name,
            "pid": os.getpid(),
            "upSeconds": int(time.monotonic() - self._begun),
            "isStopping": self.is_told_to_stop,
            "processes": dict(self._system.pids),
            "tree": self._children(tree.NAME),
            "authority": self._ask(authority_client.NAME, authority_client.SidecarLook()),
            "evidence": self._ask(evidence_writer.NAME, evidence_writer.EvidenceTurn()),
            "dispatcher": self._dispatcher(),
            "jobs": self._job_loop(),
            "gateway": gateway.look(self.plan.state_dir) if self.plan.door else None,
            "specs": self._specs(),
            "schedules": self._schedules(),
            "reports": self.reports(),  # of the file, which has all that the loops answered with
        }

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _dispatcher(self) -> Any:
        if not self.plan.argv:
            return {"missing": "no workers were asked for"}
        return self._ask(lease_dispatcher.NAME, lease_dispatcher.DispatchLook())

    def _job_loop(self) -> Any:
        if not self.plan.kinds:
            return None
        return self._ask(job_loop.NAME, lease_dispatcher.DispatchLook())

    def _specs(self) -> dict[str, Any] | None:
        """Who makes jobs of specs, and who hands them out, where that was asked for."""
        if self.plan.job_files is None:
            return None
        names = {"runner": chain_runner.NAME, "dispatcher": job_dispatcher.NAME}
        return {role: self._ask(name, lease_loop_cell.LoopLook()) for role, name in names.items()}

    def _schedules(self) -> Any:
        if not self.plan.schedules:
            return None
        return self._ask(scheduler.NAME, lease_loop_cell.LoopLook())

    def _told_to_stop(self, drain_ms: int | None) -> None:
        self._drain_ms = drain_ms
        self._stop_asked.set()

    def _drain(self) -> None:
        """Let workers finish first, if that was asked for."""
        loops = [lease_dispatcher.NAME] if self.plan.argv else []
        loops += [job_loop.NAME] if self.plan.kinds else []
        if self._drain_ms == 0 or self._ref is None or not loops:
            return
        try:
            stop = orders.StopDispatcher(
                self._drain_ms, "asked to stop when the work at hand is done"
            )
            for name in loops:
                self._system.cast(name, stop)
            grace_ms = STOP_MS + self.plan.grace_ms
            timeout_ms = None if self._drain_ms is None else self._drain_ms + grace_ms
            self._system.join(self._ref, timeout_ms)
        except OtpError:
            return  # it has ended already

    def _children(self, name: str) -> list[dict[str, Any]]:
        found = self._ask(name, WhichChildren())
        if not isinstance(found, list):
            return []
        infos = [each for each in found if isinstance(each, ChildInfo)]
        children = [_child(each) for each in infos]
        for info, child in list(zip(infos, children, strict=True))[:_LOOKED_AT_MAX]:
            known = {} if info.ref is None else self._ask(info.ref, Statistics())
            child |= {"upMs": known.get("up_ms"), "mailbox": known.get("mailbox")}
            if child["type"] == "supervisor":
                child["children"] = self._children(child["id"])
        return sorted(children, key=lambda child: _ORDER.get(child["id"], 99))

    def _ask(self, target: Target, request: object) -> Any:
        try:
            return self._system.call(target, request, _LOOK_MS)
        except CallFailed as error:
            return {"missing": error.reason.kind}
        except OtpError as error:
            return {"missing": str(error)}


_ORDER = {
    name: place
    for place, name in enumerate(
        (
            authority_client.NAME,
            evidence_writer.NAME,
            lease_dispatcher.WORKER_SUP,
            lease_dispatcher.NAME,
            job_loop.JOB_SUP,
            job_loop.NAME,
            gateway.NAME,
            chain_runner.NAME,
            job_dispatcher.NAME,
            scheduler.NAME,
            gluer.NAME,
            tracer.NAME,
        )
    )
}


def _child(info: ChildInfo) -> dict[str, Any]:
    return {
        "id": info.id,
        "ref": None if info.ref is None else info.ref.serial,
        "state": info.state,
        "type": info.type,
        "pid": info.pid,
        "restarts": info.restarts,
    }


def _refuse_served(state_dir: Path) -> None:
    """A sidecar of others would not let ours in."""
    try:
        with client.Client(state_dir, "cli", retry_seconds=0, silence_seconds=2) as found:
            pid = found.server["pid"]
    except Unavailable:
        return
    raise Occupied(f"process {pid} serves {state_dir} already; stop it, or use it as it is")


def left_of(system: str) -> list[int]:
    """Processes of a tree that has stopped, of which there should be none."""
    return [each.pid for each in process_id.members(system)]
