"""The world of the simulator with a branch in it, and gluers that die between any two steps.

    descent.glue --(the gluer moves the branch, if the branch knows its fence)--> descent.seal

The branch is git as far as it matters: it takes a move from where it is, by the newest gluer that
wrote its fence into it. The auditor knows at the end which sections it must have, each once.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

import orjson

from tests.authority.simulator import LOST, Auditor, Client, Message, Term, World, must
from understudy.authority.journal.journal import Row

TERM_MS = 90_000
WISHES = (*("section",) * 6, "renew", "renew", "update", "close", "release")
START = "0" * 40


@dataclass
class BranchInGit:
    """What a zombie cannot move."""

    head: str = START
    fence: int = 0
    log: list[str] = field(default_factory=list)  # sections that it has

    def write_fence(self, fence: int) -> None:
        self.fence = max(self.fence, fence)

    def move(self, fence: int, pending: dict[str, Any]) -> None:
        if (fence, pending["old"]) == (self.fence, self.head):
            self.head = pending["new"]
            self.log += pending["sections"]


@dataclass
class GlueAuditor(Auditor):
    """Keeps the book of sections too."""

    waiting: dict[str, str] = field(default_factory=dict)  # issue -> its section, oldest first
    pending: list[str] = field(default_factory=list)
    glued: list[str] = field(default_factory=list)
    gluer: Term | None = None

    def _accepted(
        self, action: str, payload: dict[str, Any], answer: dict[str, Any], row: Row
    ) -> None:
        super()._accepted(action, payload, answer, row)
        if action == "descent.section":
            term = self.terms.pop(payload["id"])
            self.waiting[payload["id"]] = f"{payload['id']}/{term.fence}"
        elif action in ("issue.cancel", "issue.close"):
            self.waiting.pop(payload["id"], None)
        elif action == "glue.claim":
            self._glue_claimed(payload, answer, row)
        elif action in ("descent.glue", "descent.seal", "descent.obstruct", "glue.release"):
            self._gluer_only(payload, row)
            self._glued(action, payload, row)

    def _free_to_begin(self, key: str, row: Row) -> None:
        super()._free_to_begin(key, row)
        must(key not in self.waiting, f"row {row.seq}: {key} waits to be glued and is handed out")

    def _glue_claimed(self, payload: dict[str, Any], answer: dict[str, Any], row: Row) -> None:
        lease, before = answer["glue"]["lease"], self.gluer
        if before is not None and row.wall_ms <= before.deadline_ms:
            must(before.fence == lease["fence"], f"row {row.seq}: two gluers at once")
        else:
            must(lease["fence"] == row.seq, f"row {row.seq}: a new gluer, an old fence")
            must("*" not in self.paused, f"row {row.seq}: a gluer begins and all is paused")
        named = (payload["gluer"], lease["leaseId"], lease["fence"], lease["deadlineMs"])
        self.gluer = Term(*named)

    def _gluer_only(self, payload: dict[str, Any], row: Row) -> None:
        term = self.gluer
        must(term is not None and term.fence == payload["fence"], f"row {row.seq}: a zombie glues")
        must(term is not None and row.wall_ms <= term.deadline_ms, f"row {row.seq}: a late gluer")

    def _glued(self, action: str, payload: dict[str, Any], row: Row) -> None:
        if action == "descent.glue":
            must(not self.pending, f"row {row.seq}: two moves at once")
            first = [*self.waiting.values()][: len(payload["sections"])]
            must(payload["sections"] == first, f"row {row.seq}: {first} come first")
            self.pending = payload["sections"]
        elif action == "descent.seal":
            for section in self.pending if payload["result"] == "moved" else ():
                issue = section.partition("/")[0]
                self.glued.append(section)
                if self.waiting.get(issue) == section:
                    del self.waiting[issue]
                    self.closed.add(issue)
            self.pending = []
        elif action == "descent.obstruct":
            must(self.waiting.pop(payload["section"].partition("/")[0]), f"row {row.seq}: gone")


@dataclass
class Gluer(Client):
    """Takes the branch, looks what waits, has it authorised, moves the branch, and says so."""

    branch: BranchInGit = field(default_factory=BranchInGit)
    proof: dict[str, Any] | None = None
    pending: dict[str, Any] | None = None
    queue: list[str] = field(default_factory=list)

    def next_message(self, random: Random, steady_ms: int, *, eager: bool = False) -> Message:
        if self.waiting is None:
            self.count += 1
            action, payload = self._step(random, eager=eager)
            if action != "descent.show":
                payload["requestId"] = f"{self.name}.{self.count}"
            self.waiting = Message(self.index, action, payload, steady_ms)
        return self.waiting

    def _step(self, random: Random, *, eager: bool) -> tuple[str, dict[str, Any]]:
        if self.proof is None:
            named = {"target": "main", "gluer": self.name, "leaseDurationMs": TERM_MS}
            return "glue.claim", named
        is_hasty = not eager and random.random() < 0.15  # and does not look what is the case
        if self.pending is not None and not (is_hasty and self.queue):
            if eager or random.random() < 0.8:
                self.branch.move(self.proof["fence"], self.pending)
            has_moved = is_hasty or self.branch.head == self.pending["new"]
            said = {"result": "moved" if has_moved else "void", "head": self.branch.head}
            return "descent.seal", self.proof | said
        if not self.queue:
            return "descent.show", {"target": "main"}
        if not eager and random.random() < 0.2:
            found = {"kind": "conflict", "onto": self.branch.head, "ontoTree": START}
            return "descent.obstruct", self.proof | found | {"section": self.queue[0]}
        move = {
            "sections": self.queue[-1:] if is_hasty else self.queue[: random.choice((1, 2))],
            "old": self.branch.head,
            "new": f"{self.index:04x}{self.count:036x}",
            "tree": START,
            "moved": True,
        }
        return "descent.glue", self.proof | move

    def hear(self, message: Message, answer: dict[str, Any]) -> None:
        if message is not self.waiting:
            return
        self.waiting = None
        if message.action != "descent.glue":
            self.queue = []
        if answer["failureClasses"]:
            self.queue = []
            if answer["failureClasses"][0] in LOST:
                self.forget()
            return
        glue = answer.get("glue", {})
        if message.action == "glue.claim":
            lease = glue["lease"]
            named = {"target": "main", "gluer": self.name, "leaseId": lease["leaseId"]}
            self.proof = named | {"fence": lease["fence"]}
            self.branch.write_fence(lease["fence"])
        if message.action == "descent.show":
            self.queue = [each["sectionId"] for each in answer["sections"]]
        if message.action != "descent.obstruct":
            self.pending = glue.get("pending")

    def forget(self) -> None:
        super().forget()
        self.proof, self.pending, self.queue = None, None, []


class GlueWorld(World):
    """Workers that record sections, and two gluers of one branch."""

    auditor: GlueAuditor

    def __init__(self, seed: int) -> None:
        super().__init__(seed, steps=240)
        self.auditor, self.branch = GlueAuditor(), BranchInGit()
        self.issues = [f"i{place}" for place in range(self.random.randint(3, 8))]
        for client in self.clients:
            client.wishes, client.targets = WISHES, [*self.issues, *[None] * 8]
        for name in ("gil", "hal"):
            gluer = Gluer(name, len(self.clients), None, [None], branch=self.branch)
            self.clients.append(gluer)

    def _time_passes(self) -> None:
        self.time.passes(self.random.choice((1, 40, 1_000, 4_000)))

    def _acknowledged(self, answer: bytes) -> None:
        if orjson.loads(answer)["action"] != "descent.show":  # a read is no row
            super()._acknowledged(answer)

    def _check(self) -> None:
        super()._check()
        must({*self.auditor.glued} <= {*self.branch.log}, "sealed, and the branch does not have it")

    def _prove(self) -> None:
        super()._prove()
        must(len(self.branch.log) == len({*self.branch.log}), "the branch has a section twice")
        must(not self.auditor.waiting, f"never glued: {self.auditor.waiting}")
        known = {*self.auditor.glued, *self.auditor.pending}
        must({*self.branch.log} <= known, "the branch has what was never authorised")
