"""A world in one thread: an authority that crashes, a disk that lies, a network that loses, clients
that pause. A seed decides everything, so that a run can be had again.

    clients --requests--> network --batches--> authority --rows--> disk
       ^------------------ answers <------------'

The auditor reads the disk, and nothing but the disk, and says what must not be there.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

import orjson

from tests.fakes.desk import Time, asked
from tests.fakes.journal import FAULTS, Crash, Disk, MemoryJournal
from understudy.authority.engine.engine import Authority, recover
from understudy.authority.journal.journal import Row, Unavailable
from understudy.authority.law.image import dump
from understudy.authority.law.state import check_invariants
from understudy.authority.views.replay import replay
from understudy.contracts import rfc3339
from understudy.contracts.requests.shapes import Transport

LOST = {
    "lease_not_found", "lease_issue_closed", "lease_missing", "lease_fence_missing",
    "lease_fence_unknown", "lease_fence_stale", "lease_stale", "lease_owner_mismatch",
    "lease_id_mismatch",
}  # fmt: skip
FENCED = {
    "issue.lease_renew", "issue.lease_release", "issue.update", "issue.close", "issue.discover",
    "sublease.grant", "fiber.spawn", "fiber.join", "fiber.cancel", "spend.report",
    "descent.section",
}  # fmt: skip
WISHES = ("renew", "renew", "update", "update", "close", "release", "lend")
COSTLY = ("spend", "spend", "spend", "renew", "update", "close")
SPREADING = (*("spawn",) * 6, "join", "join", "cancel", "stop", "renew", "close")
FIBERS = ("f0", "f1")
ENDING = ("issue.close", "issue.lease_release", "descent.section")
SECTION = {
    "target": "main", "base": "0" * 40, "commit": "1" * 40, "tree": "2" * 40,
    "paths": ["x"], "pathCount": 1, "pathsDigest": "d",
}  # fmt: skip
TTL_SECONDS = 30
WORK_TOKENS_MAX = 100  # where there are budgets


class Violation(AssertionError):
    """Something happened that must never happen."""


def must(fact: object, words: str) -> None:
    if not fact:
        raise Violation(words)


def door_of(action: str) -> Transport:
    """What git said does not come from agents."""
    return "cli" if action.startswith(("descent.", "glue.")) else "mcp"


# --- the auditor --------------------------------------------------------------------------------


@dataclass
class Term:
    owner: str
    lease_id: str
    fence: int
    deadline_ms: int
    running: dict[str, str | None] = field(default_factory=dict)  # fibers and their parents


@dataclass
class Auditor:
    """Follows the committed rows and keeps its own book of who holds what."""

    family: ClassVar[str] = "issue"
    seq: int = 0
    stamp: tuple[int, int] = (-1, -1)
    epoch: int = 0
    fence: int = 0
    terms: dict[str, Term] = field(default_factory=dict)
    closed: set[str] = field(default_factory=set)
    cancelled: set[str] = field(default_factory=set)
    paused: set[str] = field(default_factory=set)  # scopes: all of it, or one issue
    unapproved: set[str] = field(default_factory=set)  # what waits for a person
    named: set[str] = field(default_factory=set)
    spent: dict[str, int] = field(default_factory=dict)  # tokens, by issue

    def follow(self, rows: list[Row]) -> None:
        for row in rows[self.seq :]:
            self._order(row)
            request, answer = orjson.loads(row.request), orjson.loads(row.response)
            payload = request["payload"]
            self._once(payload.get("requestId"), answer)
            if answer["result"] == "accepted":
                self._accepted(request["action"], payload, answer, row)

    def _order(self, row: Row) -> None:
        must(row.seq == self.seq + 1, f"row {row.seq} follows row {self.seq}")
        must((row.wall_ms, row.counter) > self.stamp, f"row {row.seq}: its stamp does not grow")
        must(row.epoch >= self.epoch, f"row {row.seq}: a deposed epoch wrote it")
        self.seq, self.stamp, self.epoch = row.seq, (row.wall_ms, row.counter), row.epoch

    def _once(self, request_id: str | None, answer: dict[str, Any]) -> None:
        must(request_id not in self.named, f"{request_id} was decided twice")
        if request_id is not None:
            self.named.add(request_id)

    def _accepted(
        self, action: str, payload: dict[str, Any], answer: dict[str, Any], row: Row
    ) -> None:
        if action.startswith("issue.claim"):
            if "issue" in answer:
                self._claimed(payload, answer, row)
            return
        issue = payload.get("id", "")
        if action in FENCED:
            self._holder_only(issue, payload, row)
        if action == "issue.lease_renew":
            deadline_ms = rfc3339.parse_ms(answer["issue"]["lease"]["expiresAt"])
            must(deadline_ms is not None, f"row {row.seq}: no deadline")
            self.terms[issue].deadline_ms = deadline_ms or 0
        elif action == "spend.report":
            self._spent(issue, payload, answer, row)
        elif action in ("issue.lease_release", "issue.lease_break", "issue.cancel"):
            term = self.terms.pop(issue, None)
            self._told(term, answer, row)
            if action == "issue.cancel":
                self.cancelled.add(issue)
        elif action == "issue.retry":
            must(issue not in self.terms, f"row {row.seq}: {issue} was brought back and is held")
            self.cancelled.discard(issue)
        elif action.startswith("pause."):
            self._paused(action, payload, answer, row)
        elif action == "approval.ask":
            self.unapproved.add(issue)
        elif action == "approval.give":
            self.unapproved.remove(issue)
        elif action.startswith("fiber."):
            self._fibers(action, payload, answer, row)
        elif action == "issue.close":
            term = self.terms.pop(issue, None)
            must(not (term and term.running), f"row {row.seq}: {issue} is done and runs")
            must(issue not in self.closed, f"row {row.seq}: {issue} was done twice")
            self.closed.add(issue)

    def _paused(
        self, action: str, payload: dict[str, Any], answer: dict[str, Any], row: Row
    ) -> None:
        scope = payload.get("scope", "*")
        if action == "pause.clear":
            self.paused.remove(scope)
            return
        self.paused.add(scope)
        ended = [each for each in self.terms if scope in ("*", f"{self.family}/{each}")]
        ended = sorted(ended) if payload.get("now") else []
        told = [each.removeprefix(f"{self.family}/") for each in answer["handedBack"]]
        must(told == ended, f"row {row.seq}: {ended} end, and {told} were told")
        for issue in ended:
            del self.terms[issue]

    def _spent(self, issue: str, payload: dict[str, Any], answer: dict[str, Any], row: Row) -> None:
        """Every report counts once, and the one that uses a budget up ends the term."""
        self.spent[issue] = self.spent.get(issue, 0) + payload["tokens"]
        told = answer["spend"]["total"]["tokens"]
        must(told == self.spent[issue], f"row {row.seq}: {self.spent[issue]} spent, {told} told")
        is_over = told >= WORK_TOKENS_MAX
        must(answer["stopped"] == is_over, f"row {row.seq}: {told} spent, and it goes on")
        if is_over:
            self._told(self.terms.pop(issue, None), answer, row)

    def _told(self, term: Term | None, answer: dict[str, Any], row: Row) -> None:
        running = list(term.running) if term else []
        told = answer.get("orphanedFibers", [])
        must(told == running, f"row {row.seq}: {running} are orphans, and {told} were told")

    def _fibers(
        self, action: str, payload: dict[str, Any], answer: dict[str, Any], row: Row
    ) -> None:
        running = self.terms[payload["id"]].running
        if action == "fiber.spawn":
            parent = payload.get("parentFiberId")
            must(payload["fiberId"] not in running, f"row {row.seq}: it runs twice")
            must(parent is None or parent in running, f"row {row.seq}: its scope has ended")
            running[payload["fiberId"]] = parent
            return
        ended = answer["joinSet" if action == "fiber.join" else "cancelled"]
        for fiber_id in ended:
            must(fiber_id in running, f"row {row.seq}: {fiber_id} ended twice")
            del running[fiber_id]
        left = [each for each, parent in running.items() if parent and parent not in running]
        must(not left, f"row {row.seq}: {left} run in a scope that has ended")

    def _claimed(self, payload: dict[str, Any], answer: dict[str, Any], row: Row) -> None:
        key, lease = answer["issue"]["id"], answer["issue"]["lease"]
        deadline_ms = rfc3339.parse_ms(lease["expiresAt"]) or 0
        before = self.terms.get(key)
        must(key not in self.closed, f"row {row.seq}: closed work was handed out")
        must(lease["owner"] == payload["assignee"], f"row {row.seq}: another owner")
        if before is not None and row.wall_ms <= before.deadline_ms:
            must(before.owner == lease["owner"], f"row {row.seq}: {key} has two live holders")
            must(before.fence == lease["fence"], f"row {row.seq}: a longer term, a new fence")
            before.deadline_ms = deadline_ms
            return
        self._free_to_begin(key, row)
        self._told(before, answer, row)
        must(lease["fence"] > self.fence, f"row {row.seq}: its fence does not grow")
        self.fence = lease["fence"]
        self.terms[key] = Term(lease["owner"], lease["leaseId"], lease["fence"], deadline_ms)

    def _free_to_begin(self, key: str, row: Row) -> None:
        """No operator has withheld it."""
        scopes = {"*", f"{self.family}/{key}"}
        must(key not in self.cancelled, f"row {row.seq}: cancelled work was handed out")
        must(not scopes & self.paused, f"row {row.seq}: paused work was handed out")
        must(key not in self.unapproved, f"row {row.seq}: unapproved work was handed out")

    def _holder_only(self, issue: str, payload: dict[str, Any], row: Row) -> None:
        term = self.terms.get(issue)
        if term is None:
            must(payload.get("fence") is None, f"row {row.seq}: a fence where there is no holder")
            return
        must(payload.get("fence") == term.fence, f"row {row.seq}: a deposed holder was heard")
        must(row.wall_ms <= term.deadline_ms, f"row {row.seq}: a late holder was heard")
        must(payload.get("assignee") == term.owner, f"row {row.seq}: a stranger was heard")


# --- clients ------------------------------------------------------------------------------------


@dataclass
class Message:
    client: int
    action: str
    payload: dict[str, Any]
    sent_ms: int  # on the client's steady clock


@dataclass
class Client:
    """Asks with a request id until it is answered. A pause makes it a zombie that knows nothing."""

    name: str
    index: int
    lease_id: str | None  # some bring their own, the same every time
    targets: list[str | None]  # what they claim; None is whatever comes next
    wishes: tuple[str, ...] = WISHES  # what they do with it
    count: int = 0
    waiting: Message | None = None
    held: dict[str, Any] | None = None
    safe_until_ms: int = -1  # on the steady clock, from before the claim was sent
    paused_until_ms: int = -1
    unfinished: bool = False  # something runs, so that the work cannot be closed

    def next_message(self, random: Random, steady_ms: int, *, eager: bool = False) -> Message:
        if self.waiting is None:
            self.count += 1
            wish = ("stop" if self.unfinished else "close") if eager else random.choice(self.wishes)
            target = None if eager else random.choice(self.targets)
            action, payload = self._wish(wish, random) if self.held else self._claim(target)
            payload["requestId"] = f"{self.name}.{self.count}"
            self.waiting = Message(self.index, action, payload, steady_ms)
        return self.waiting

    def _claim(self, target: str | None) -> tuple[str, dict[str, Any]]:
        payload: dict[str, Any] = {"assignee": self.name, "leaseTtlSeconds": TTL_SECONDS}
        if self.lease_id is not None:
            payload["leaseId"] = self.lease_id
        if target is None:
            return "issue.claim_next", payload
        return "issue.claim", payload | {"id": target}

    def _wish(self, wish: str, random: Random) -> tuple[str, dict[str, Any]]:
        held = dict(self.held or {})
        match wish:
            case "renew":
                return "issue.lease_renew", held | {"leaseTtlSeconds": TTL_SECONDS}
            case "update":
                return "issue.update", held | {"notes": f"by {self.name}.{self.count}"}
            case "close":
                return "issue.close", held
            case "spend":
                return "spend.report", held | {"tokens": random.choice((10, 30))}
            case "release":
                return "issue.lease_release", held
            case "section":
                return "descent.section", held | SECTION
            case "spawn":
                parent = random.choice((None, None, *FIBERS))
                below = {} if parent is None else {"parentFiberId": parent}
                named = {"fiberId": random.choice(FIBERS), "taskRef": "t"}
                return "fiber.spawn", held | named | below
            case "join":
                named = {"fiberId": random.choice(FIBERS)}
                return "fiber.join", held | named | {"joinSet": random.choice(([], [*FIBERS]))}
            case "cancel":
                return "fiber.cancel", held | {"fiberId": random.choice(FIBERS)}
            case "stop":
                return "fiber.cancel", held | {"wholeScope": True}
            case _:
                lent = {"holder": "sub", "capabilityScope": ["issue.update"]}
                return "sublease.grant", held | lent

    def hear(self, message: Message, answer: dict[str, Any]) -> None:
        """Learn from an answer. One to an older question, or a second one, says nothing new."""
        if message is not self.waiting:
            return
        self.waiting = None
        failures = answer["failureClasses"]
        if failures:
            self.unfinished = failures[0] == "fiber_scope_open"
            if failures[0] in LOST:
                self._drop()
            return
        self.unfinished = False
        if message.action.startswith("issue.claim") and "issue" in answer:
            issue = answer["issue"]
            self.held = {
                "id": issue["id"],
                "assignee": self.name,
                "leaseId": issue["lease"]["leaseId"],
                "fence": issue["lease"]["fence"],
            }
            self.safe_until_ms = message.sent_ms + TTL_SECONDS * 1000
        elif message.action == "issue.lease_renew":
            self.safe_until_ms = message.sent_ms + TTL_SECONDS * 1000
        elif message.action in ENDING or answer.get("stopped"):
            self._drop()

    def forget(self) -> None:
        self.waiting = None
        self._drop()

    def _drop(self) -> None:
        self.held, self.safe_until_ms = None, -1


# --- the world ----------------------------------------------------------------------------------


class World:
    def __init__(self, seed: int, *, steps: int = 120, is_costly: bool = False) -> None:
        """A costly one has a budget for each piece of work, and clients that use it up."""
        self.random = Random(seed)
        self.steps, self.is_costly = steps, is_costly
        self.time, self.disk, self.auditor = Time(), Disk(), Auditor()
        self.process: Authority | None = None
        self.ghosts: list[Authority] = []  # paused processes, replaced meanwhile
        self.requests: list[Message] = []
        self.answers: list[tuple[Message, bytes]] = []
        self.trace = hashlib.sha256()
        self.issues = [f"i{place}" for place in range(self.random.randint(1, 4))]
        targets = [*self.issues, *[None] * len(self.issues)]
        self.clients = [
            Client(
                f"c{place}",
                place,
                self.random.choice((None, "mine")),
                targets,
                self.random.choice(
                    (COSTLY, COSTLY, SPREADING) if is_costly else (WISHES, SPREADING)
                ),
            )
            for place in range(self.random.randint(2, 4))
        ]

    def run(self) -> str:
        """Live through the faults, then heal, then finish; the digest of all that happened."""
        self._boot()
        self._lay_out_work()
        for _ in range(self.steps):
            self._step()
            self._check()
        self._heal()
        self._prove()
        self.trace.update(orjson.dumps([row.digest for row in self.disk.rows]))
        return self.trace.hexdigest()

    def _note(self, *words: object) -> None:
        self.trace.update(repr(words).encode())

    # --- events ---------------------------------------------------------------------------------

    def _step(self) -> None:
        events = (
            (30, self._client_speaks),
            (25, self._authority_works),
            (20, self._answer_arrives),
            (10, self._time_passes),
            (3, self._deadline_comes),
            (3, self._network_repeats),
            (3, self._network_loses),
            (3, self._client_pauses),
            (2, self._client_dies),
            (2, self._disk_will_fail),
            (2, self._process_dies),
            (1, self._process_pauses),
            (1, self._ghost_wakes),
            (1, self._snapshot),
            (1, self._wall_clock_is_set_back),
            (1, self._operator_breaks),
            (1, self._operator_cancels),
            (1, self._operator_pauses),
            (2, self._operator_relents),
        )
        weights = [weight for weight, _ in events]
        event = self.random.choices([event for _, event in events], weights)[0]
        self._note(event.__name__)
        event()

    def _client_speaks(self) -> None:
        client = self.random.choice(self.clients)
        if client.paused_until_ms <= self.time.steady_ms:
            self.requests.append(client.next_message(self.random, self.time.steady_ms))

    def _authority_works(self) -> None:
        """A batch is taken from the network in any order, decided and committed together."""
        if self.process is None:
            self._boot()
        self.random.shuffle(self.requests)
        self._work_off(self.random.randint(1, 4))

    def _work_off(self, size: int) -> None:
        batch, self.requests = self.requests[:size], self.requests[size:]
        assert self.process is not None
        if not self._submit(self.process, batch):
            self.process = None

    def _submit(self, process: Authority, batch: list[Message]) -> bool:
        """Whether the process lives on. No caller hears of a batch that was not committed."""
        requests = [asked(each.action, each.payload, door=door_of(each.action)) for each in batch]
        try:
            answers, _ = process.submit(requests)
        except (Unavailable, Crash) as error:
            self._note(type(error).__name__)
            return False
        for message, answer in zip(batch, answers, strict=True):
            self._acknowledged(answer)
            self.answers.append((message, answer))
            self._note(answer)
        return True

    def _acknowledged(self, answer: bytes) -> None:
        seq = orjson.loads(answer)["seq"]
        row = self.disk.rows[seq - 1] if seq <= len(self.disk.rows) else None
        must(row is not None and row.response == answer, f"answer {seq} is not in the journal")

    def _answer_arrives(self) -> None:
        if not self.answers:
            return
        place = self.random.randrange(len(self.answers))
        message, answer = self.answers[place]
        client = self.clients[message.client]
        if client.paused_until_ms <= self.time.steady_ms:
            del self.answers[place]
            client.hear(message, orjson.loads(answer))

    def _time_passes(self) -> None:
        self.time.passes(self.random.choice((1, 40, 1_000, 7_000, 20_000)))

    def _deadline_comes(self) -> None:
        """To the very tick of a deadline, or one past it; and everybody rushes."""
        ahead = [
            term.deadline_ms - self.time.wall_ms
            for term in self.auditor.terms.values()
            if term.deadline_ms >= self.time.wall_ms
        ]
        if ahead:
            self.time.passes(self.random.choice(ahead) + self.random.randint(0, 1))
            for _ in self.clients:
                self._client_speaks()
            self._authority_works()

    def _network_repeats(self) -> None:
        if self.requests:
            self.requests.append(self.random.choice(self.requests))
        if self.answers:
            self.answers.append(self.random.choice(self.answers))

    def _network_loses(self) -> None:
        for queue in (self.requests, self.answers):
            if queue:
                del queue[self.random.randrange(len(queue))]

    def _client_pauses(self) -> None:
        client = self.random.choice(self.clients)
        pause_ms = self.random.choice((1_000, TTL_SECONDS * 1000 + 1, 3 * TTL_SECONDS * 1000))
        client.paused_until_ms = self.time.steady_ms + pause_ms

    def _client_dies(self) -> None:
        """It comes back under its own name and knows nothing; what it sent may still be coming."""
        self.random.choice(self.clients).forget()

    def _disk_will_fail(self) -> None:
        self.disk.faults.append(self.random.choice(FAULTS))

    def _process_dies(self) -> None:
        self.process = None

    def _process_pauses(self) -> None:
        """Another one takes over, and the first does not know."""
        if self.process is not None:
            self.ghosts.append(self.process)
            self.process = None

    def _ghost_wakes(self) -> None:
        if not self.ghosts:
            return
        ghost = self.ghosts.pop(self.random.randrange(len(self.ghosts)))
        messages = self.requests[: self.random.randint(1, 3)]
        if messages:
            self._submit(ghost, messages)

    def _snapshot(self) -> None:
        if self.process is not None:
            self.process.snapshot()

    def _wall_clock_is_set_back(self) -> None:
        self.time.wall_ms -= self.random.choice((200, 5_000, 3_600_000))

    def _operator_breaks(self) -> None:
        if self.process is None:
            return
        issue = self.random.choice(self.issues)
        self._operator("issue.lease_break", {"id": issue, "reason": "no sign of life"})

    def _operator_cancels(self) -> None:
        """Renewals and claims may be on their way meanwhile."""
        if self.process is not None:
            self._operator("issue.cancel", {"id": self.random.choice(self.issues)})

    def _operator_pauses(self) -> None:
        if self.process is not None:
            scope = self.random.choice(("*", *(f"issue/{each}" for each in self.issues)))
            self._operator("pause.set", {"scope": scope, "now": self.random.choice((True, False))})

    def _operator_relents(self) -> None:
        """What is cancelled comes back, and what is paused goes on."""
        for scope in sorted(self.auditor.paused):
            if self.process is not None:
                self._operator("pause.clear", {"scope": scope})
        for issue in sorted(self.auditor.cancelled):
            if self.process is not None:
                self._operator("issue.retry", {"id": issue})

    def _operator(self, action: str, payload: dict[str, Any]) -> None:
        assert self.process is not None
        try:
            answers, _ = self.process.submit([asked(action, payload)])
        except (Unavailable, Crash):
            self.process = None
        else:
            self._acknowledged(answers[0])

    def _boot(self) -> None:
        self.process = Authority(MemoryJournal(self.disk), self.time.clock())

    def _lay_out_work(self) -> None:
        for place, issue in enumerate(self.issues):
            self._operator("issue.add", {"id": issue, "title": issue, "priority": place % 2})

        if self.is_costly:
            caps = {"scope": "*", "per": "work", "tokensMax": WORK_TOKENS_MAX}
            self._operator("budget.set", caps)

    def _raise_the_budget(self) -> None:
        """What was stopped for its cost is free again, now that the budget is gone."""
        assert self.process is not None
        self._operator("budget.clear", {"scope": "*"})
        for issue in self.issues:
            if self.process.state.issues[issue].status == "blocked":
                self._operator("issue.update", {"id": issue, "status": "open"})

    # --- what must hold -------------------------------------------------------------------------

    def _check(self) -> None:
        self.auditor.follow(self.disk.rows)
        self._one_safe_holder()
        if self.process is not None:
            check_invariants(self.process.state)

    def _one_safe_holder(self) -> None:
        """Even by their own clocks, no two clients think at once that an issue is theirs.

        An operator's break takes a lease from a holder that does not know; the fence takes care.
        """
        holders: dict[str, list[str]] = {}
        for client in self.clients:
            if client.held is None or client.safe_until_ms < self.time.steady_ms:
                continue
            term = self.auditor.terms.get(client.held["id"])
            if term is not None and client.held["fence"] == term.fence:
                holders.setdefault(client.held["id"], []).append(client.name)
        must(all(len(names) == 1 for names in holders.values()), f"two holders: {holders}")

    def _heal(self) -> None:
        """No more faults: all work is done within a bounded number of rounds."""
        self.disk.faults.clear()
        self.ghosts.clear()
        self.time.wall_ms = max(self.time.wall_ms, self.auditor.stamp[0])
        self._boot()
        self.auditor.follow(self.disk.rows)
        self._operator_relents()
        if self.is_costly:
            self._raise_the_budget()
        for _ in range(60):
            if set(self.issues) <= self.auditor.closed:
                return
            self._round()
            self._check()
        raise Violation(f"work is never done: {set(self.issues) - self.auditor.closed}")

    def _round(self) -> None:
        self.time.passes(2_000)
        for client in self.clients:
            client.paused_until_ms = -1
            message = client.next_message(self.random, self.time.steady_ms, eager=True)
            self.requests.append(message)
        self._work_off(len(self.requests))
        for message, answer in self._drained():
            self.clients[message.client].hear(message, orjson.loads(answer))

    def _drained(self) -> Iterator[tuple[Message, bytes]]:
        while self.answers:
            yield self.answers.pop()

    def _prove(self) -> None:
        journal = MemoryJournal(self.disk)
        replayed = replay(journal)
        must(replayed.mismatch is None, str(replayed.mismatch))
        must(replayed.head == journal.head(), "the head differs after replay")
        state, head, _ = recover(journal)
        assert self.process is not None
        must(head == self.process.head, "the head differs after a restart")
        must(dump(state) == dump(self.process.state), "the state differs after a restart")
