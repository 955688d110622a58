"""An authority on a disk, and everything that comes out of it in a day."""

from pathlib import Path
from typing import Any

import orjson

from tests.fakes.desk import Time
from understudy.authority.engine.engine import Authority
from understudy.authority.journal.journal import Row
from understudy.authority.journal.sqlite import SqliteJournal
from understudy.authority.views.trajectory import Trajectory
from understudy.contracts import canonical
from understudy.contracts.reason import Reason
from understudy.contracts.requests.request import Door, parse
from understudy.contracts.requests.shapes import Transport

Document = dict[str, Any]
NODE = "n1"


class Day:
    """An authority on a disk, and everything that came out of it."""

    def __init__(self, folder: Path) -> None:
        SqliteJournal.create(folder / "journal.db", NODE)
        self.journal = SqliteJournal(folder / "journal.db")
        self.time = Time()
        self.authority = Authority(self.journal, self.time.clock())
        self.trajectory = Trajectory(folder / "trajectory.jsonl", 0)
        self.answers: list[Document] = []

    def close(self) -> None:
        self.trajectory.close()
        self.journal.close()

    def send(self, *lines: bytes, door: Transport = "mcp", frozen: bool = False) -> list[Document]:
        """One batch of raw lines through one door."""
        batch = [parse(line, Door(door, frozen_clock=frozen)) for line in lines]
        data, rows = self.authority.submit(batch)
        self.trajectory.follow(self.journal, rows)
        answers: list[Document] = [orjson.loads(each) for each in data]
        self.answers += answers
        return answers

    def ask(
        self,
        action: str,
        payload: Document | None = None,
        /,
        *,
        door: Transport = "mcp",
        **top: object,
    ) -> Document:
        line = canonical.encode({"action": action, "payload": payload or {}, **top})
        return self.send(line, door=door, frozen="now" in top)[0]

    def grant(self, action: str, door: Transport = "mcp", /, **payload: object) -> Document:
        answer = self.ask(action, payload, door=door)
        assert answer["result"] == "accepted", answer["diagnostic"]
        return answer

    def refuse(
        self, reason: Reason, action: str, door: Transport = "mcp", /, **payload: object
    ) -> None:
        self.refused(reason, self.ask(action, payload, door=door))

    def refused(self, reason: Reason, answer: Document) -> None:
        assert answer["failureClasses"] == [reason.wire], answer

    def claim(self, issue_id: str, assignee: str = "ann", **payload: object) -> Document:
        """Claim, and give back what the holder must show from now on."""
        answer = self.grant("issue.claim", id=issue_id, assignee=assignee, **payload)
        lease = answer["issue"]["lease"]
        return {
            "id": issue_id,
            "assignee": assignee,
            "leaseId": lease["leaseId"],
            "fence": lease["fence"],
        }

    def rows(self) -> list[Row]:
        return list(self.journal.read())
