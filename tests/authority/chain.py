"""Random histories of specs: submitted, materialised, dispatched and worked on, by several."""

from random import Random
from typing import Any

from tests.fakes.desk import Desk

PEOPLE = ("ann", "bob", "cy")
STEPS = ("root", "step:2", "step:3", "leaf")


class Chain:
    """The caller reads no refusals: what cannot be done is part of the history."""

    def __init__(self, desk: Desk, random: Random) -> None:
        self.desk, self.random = desk, random
        self.specs: list[str] = []
        self.held: list[dict[str, Any]] = []  # what was granted, now or once

    def wander(self, steps: int) -> None:
        moves = (
            self.submit, self.claim, self.claim, self.materialize, self.materialize,
            self.materialize, self.release, self.dispatch, self.dispatch, self.sent, self.sent,
            self.work, self.work, self.done, self.done, self.time_passes,
        )  # fmt: skip
        for _ in range(steps):
            self.random.choice(moves)()

    def submit(self) -> None:
        name = f"s{len(self.specs)}"
        count = self.random.randint(1, len(STEPS))
        steps = [
            {"stepKey": key, "kind": "k.x", "inputs": {"n": place}, "dependsOn": STEPS[:place][-1:]}
            for place, key in enumerate(STEPS[:count])
        ]
        self.desk.ask("spec.submit", "cli", specId=name, title=f"Ünï {name}", steps=steps)
        self.specs.append(name)

    def claim(self) -> None:
        if self.specs:
            asked = {"specId": self.random.choice(self.specs), "runner": self._who()}
            self._hold(asked, self.desk.ask("spec.claim", "cli", **asked), "spec", "lease")

    def materialize(self) -> None:
        keys = self.random.sample(STEPS, self.random.randint(1, len(STEPS)))
        self._as_holder("runner", "spec.materialize", stepKeys=sorted(keys))

    def release(self) -> None:
        if self.random.random() < 0.3:
            self._as_holder("runner", "spec.release", reason="tired")
            self._as_holder("dispatcher", "dispatch.release")

    def dispatch(self) -> None:
        self._claim_job("dispatch.claim", "dispatcher", "dispatchLease")

    def sent(self) -> None:
        self._as_holder("dispatcher", "dispatch.complete", file="f.json", digest="sha256:00")

    def work(self) -> None:
        self._claim_job("job.claim", "worker", "lease")

    def done(self) -> None:
        action = self.random.choice(["job.complete", "job.complete", "job.yield"])
        self._as_holder("worker", action)

    def time_passes(self) -> None:
        self.desk.time.passes(self.random.choice([1, 1_000, 61_000]))

    def _claim_job(self, action: str, role: str, lease: str) -> None:
        jobs = sorted(self.desk.authority.state.lane.jobs)
        if jobs:
            asked = {"jobId": self.random.choice(jobs), role: self._who()}
            self._hold(asked, self.desk.ask(action, "cli", **asked), "job", lease)

    def _hold(self, asked: dict[str, Any], answer: dict[str, Any], what: str, lease: str) -> None:
        if answer["result"] == "accepted":
            term = answer[what][lease]
            self.held.append(asked | {"leaseId": term["leaseId"], "fence": term["fence"]})

    def _as_holder(self, role: str, action: str, **more: object) -> None:
        mine = [each for each in self.held if role in each]
        if mine:
            self.desk.ask(action, "cli", **self.random.choice(mine[-3:]), **more)

    def _who(self) -> str:
        return self.random.choice(PEOPLE)
