"""The authority and the model side by side: every move asks both, and compares what they say.

Who chooses the moves is left open: `pick` takes one of some options, at random or by Hypothesis.
"""

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

import orjson

from tests.authority.model import Model, Piece, Term, Verdict
from tests.fakes.desk import Desk, asked, records
from tests.fakes.journal import Disk, MemoryJournal
from understudy.authority.engine.engine import recover
from understudy.authority.law.image import dump
from understudy.authority.law.lease import hold
from understudy.authority.law.outcome import LeasePut, decode_changes
from understudy.authority.law.state import State, apply, check_invariants
from understudy.authority.law.turn import Turn
from understudy.authority.views.replay import replay
from understudy.contracts.records.job import excused_of
from understudy.contracts.records.records import Lease, Stamp, issue_resource
from understudy.contracts.requests.shapes import OfHolder, Transport

Pick: TypeAlias = Callable[[Sequence[Any]], Any]
Payload: TypeAlias = dict[str, Any]

ISSUES = ("i1", "i2", "i3", "i4")
AGENTS = ("ann", "bob", "cy")
TTLS = (30, 30, 30, 60, 600, 86_400, None)
BOTH = (False, True)
STATUSES = ("open", "blocked", "closed", "in_progress", "odd")
LENDABLE = ("issue.update", "issue.close", "issue.discover", "dep.add")
HELD = (
    "issue.lease_renew", "issue.lease_renew", "issue.lease_release", "issue.lease_reconcile",
    "issue.close", "issue.update", "issue.update", "issue.discover", "sublease.grant",
    "sublease.grant", "sublease.revoke", "instance.open", "instance.close", "dep.add",
    "dep.remove",
)  # fmt: skip
FIBERED = ("fiber.spawn",) * 5 + ("fiber.join",) * 4 + ("fiber.cancel",)
FIBERS = ("f1", "f2", "f3", "f4")
TWEAKS: tuple[Payload, ...] = (
    {"fence": None},
    {"fence": 0},
    {"fence": 2**53 - 1},
    {"assignee": "mallory"},
    {"assignee": " "},
    {"leaseId": "other"},
    {"leaseId": None},
    {"subleaseId": "s1"},
    {"subleaseId": "s2"},
    {"leaseTtlSeconds": 29},
    {"leaseTtlSeconds": 86_401},
)
LEASE_MOVES = (
    "add", "claim", "claim", "claim_next", "claim_wrongly", "break_lease",
    "change_without_a_lease", "change_without_a_lease", "act_as_the_holder", "act_as_the_holder",
    "act_as_the_holder", "act_as_the_holder", "act_as_a_former_holder",
    "act_with_something_wrong", "act_with_something_wrong", "act_under_a_sublease",
    "act_under_a_sublease", "retry_some_in_any_order", "reuse_an_id_for_something_else",
    "time_passes", "time_passes_to_a_deadline", "time_passes_to_a_deadline",
    "the_process_restarts",
)  # fmt: skip
MOVES = (*LEASE_MOVES, "work_side_by_side", "steer", "steer", "let_go_on")
SCOPES = ("*", "label/fast", "issue/i1", "issue/i4")
STEERED = (
    "issue.cancel", "issue.retry", "issue.prioritize", "pause.set", "pause.set", "pause.clear",
    "approval.ask", "approval.give", "approval.give",
)  # fmt: skip
COSTLY_MOVES = (
    *LEASE_MOVES,
    *("spend",) * 6,
    "spend_late",
    "budget",
    "budget",
    "unblock",
    "unblock",
)


def _door(action: str) -> Transport:
    """What git said does not come from agents."""
    return "cli" if action.startswith(("descent.", "glue.")) else "mcp"


class Pair:
    model_type: type[Model] = Model

    def __init__(self) -> None:
        self.desk, self.model = Desk(), self.model_type()
        self.folded, self.folded_seq = State(), 0
        self.shown: list[Payload] = []  # what holders were given, oldest first
        self.sent: list[tuple[str, Payload, bytes]] = []  # with a request id, in order
        self.fences: list[int] = []
        for place, issue in enumerate(ISSUES[:3]):
            first = {"id": issue, "title": "t", "priority": 3 - place, "labels": ["fast"]}
            self.both("issue.add", first, named=False)
        self.both("issue.claim", {"id": "i1", "assignee": "ann"}, named=True)

    def wander(self, random: Random, steps: int, moves: Sequence[str] = MOVES) -> None:
        """A walk of so many moves, checked after every one and proven at its end."""
        for _ in range(steps):
            getattr(self, random.choice(moves))(random.choice)
            self.check()
        self.prove()

    def both(self, action: str, payload: Payload, *, named: bool) -> None:
        """One request to the authority and to the model."""
        payload = {name: value for name, value in payload.items() if value is not None}
        if named:
            payload["requestId"] = f"r{len(self.sent)}"
        before = records(self.desk.authority.state)
        seq = self.desk.authority.head.seq + 1
        expected = self.model.ask(action, payload, seq, self.desk.time.wall_ms)
        raw = self.desk.raw(action, _door(action), **payload)
        answer = orjson.loads(raw)
        found = answer["failureClasses"][0] if answer["failureClasses"] else None
        assert found == expected.failure, (action, payload, answer)
        assert answer["result"] == ("rejected" if expected.failure else "accepted")
        if expected.failure:
            assert records(self.desk.authority.state) == before, "a refusal changed something"
        if named:
            self.sent.append((action, payload, raw))
        self._learn(action, payload, expected, answer)

    def _learn(self, action: str, payload: Payload, expected: Verdict, answer: Payload) -> None:
        """What a grant hands to its holder; the id that the authority made up is learned here."""
        if expected.issue is None:
            assert expected.failure or action != "issue.claim_next" or "issue" not in answer
            return
        lease = answer["issue"]["lease"]
        assert (answer["issue"]["id"], lease["fence"]) == (expected.issue, expected.fence)
        term = self.model.pieces[expected.issue].term
        assert isinstance(term, Term)
        term.lease_id = lease["leaseId"]
        if action.startswith("issue.claim"):
            shown = {"id": expected.issue, "assignee": payload["assignee"]}
            self.shown.append(shown | {"leaseId": lease["leaseId"], "fence": lease["fence"]})

    # --- work and claims ------------------------------------------------------------------------

    def add(self, pick: Pick) -> None:
        payload = {"id": pick(ISSUES), "title": "t", "priority": pick((1, 2, 3))}
        payload |= {"assignee": pick(("", "", "ann")), "labels": pick(([], ["fast"]))}
        self.both("issue.add", payload, named=pick(BOTH))

    def claim(self, pick: Pick) -> None:
        payload = {"id": pick(ISSUES), "assignee": pick(AGENTS), "leaseTtlSeconds": pick(TTLS)}
        payload |= {"leaseId": pick((None, "mine")), "fence": pick((None, None, None, 1, 10**6))}
        self.both("issue.claim", payload, named=pick(BOTH))

    def claim_next(self, pick: Pick) -> None:
        payload = {"assignee": pick(AGENTS), "leaseTtlSeconds": pick(TTLS)}
        payload["labels"] = pick((None, None, ["fast"]))
        self.both("issue.claim_next", payload, named=pick(BOTH))

    def claim_wrongly(self, pick: Pick) -> None:
        payload = {"assignee": pick((" ", "ann")), "leaseTtlSeconds": pick((29, 86_401))}
        match pick(("blank", "claim", "next")):
            case "blank":
                self.both("issue.claim", {"id": pick(ISSUES), "assignee": " "}, named=True)
            case "claim":
                self.both("issue.claim", payload | {"id": pick(ISSUES)}, named=True)
            case _:
                self.both("issue.claim_next", payload, named=True)

    def break_lease(self, pick: Pick) -> None:
        payload = {"id": pick(ISSUES), "reason": pick(("stuck", "stuck", " "))}
        self.both("issue.lease_break", payload, named=False)

    def steer(self, pick: Pick) -> None:
        """An operator says something, whatever stands or is under way."""
        action = pick(STEERED)
        self.both(action, self._arguments(action, pick), named=pick(BOTH))

    def let_go_on(self, pick: Pick) -> None:
        """Else walks would end with all work withheld."""
        for scope in sorted(self.model.paused):
            self.both("pause.clear", {"scope": scope}, named=False)
        for issue, piece in self.model.pieces.items():
            if piece.status == "cancelled":
                self.both("issue.retry", {"id": issue}, named=False)
            if piece.approval == "waiting":
                approved = {"id": issue, "decision": "approved"}
                self.both("approval.give", approved, named=False)

    def change_without_a_lease(self, pick: Pick) -> None:
        action = pick(("issue.update", "issue.update", "issue.close", "dep.add", "dep.remove"))
        self.both(action, {"id": pick(ISSUES)} | self._arguments(action, pick), named=False)

    # --- what holders do, and what former holders try -------------------------------------------

    def act_as_the_holder(self, pick: Pick) -> None:
        issue, action = pick(ISSUES), pick(HELD)
        term = self.model.pieces[issue].term if issue in self.model.pieces else None
        if term is not None:
            payload = {"id": issue, "assignee": term.owner, "leaseId": term.lease_id}
            payload |= {"fence": term.fence} | self._arguments(action, pick)
            self.both(action, payload, named=pick(BOTH))

    def spend(self, pick: Pick) -> None:
        issue, tokens = pick(ISSUES), pick((1, 5, 20, 50, 0, -1))
        term = self.model.pieces[issue].term if issue in self.model.pieces else None
        if term is not None:
            payload = {"id": issue, "assignee": term.owner, "leaseId": term.lease_id}
            payload |= {"fence": term.fence, "tokens": tokens, "milliseconds": pick((0, 5))}
            self.both("spend.report", payload, named=pick(BOTH))

    def spend_late(self, pick: Pick) -> None:
        self.both("spend.report", pick(self.shown[-6:]) | {"tokens": 1}, named=pick(BOTH))

    def budget(self, pick: Pick) -> None:
        scope, per = pick((("*", "work"), ("*", "attempt"), ("label/fast", "label")))
        if pick((False, False, True)):
            self.both("budget.clear", {"scope": scope}, named=False)
            return
        payload = {"scope": scope, "per": per, "tokensMax": pick((20, 60, 100, 0))}
        self.both("budget.set", payload, named=pick(BOTH))

    def unblock(self, pick: Pick) -> None:
        self.both("issue.update", {"id": pick(ISSUES), "status": "open"}, named=False)

    def act_as_a_former_holder(self, pick: Pick) -> None:
        shown, action = pick(self.shown[-6:]), pick(HELD)
        self.both(action, shown | self._arguments(action, pick), named=pick(BOTH))

    def act_with_something_wrong(self, pick: Pick) -> None:
        action, tweak = pick(HELD), pick(TWEAKS)
        timed = action in ("issue.lease_renew", "sublease.grant")
        if timed or "leaseTtlSeconds" not in tweak:
            payload = self.shown[-1] | self._arguments(action, pick) | tweak
            self.both(action, payload, named=pick(BOTH))

    def act_under_a_sublease(self, pick: Pick) -> None:
        terms = {key: piece.term for key, piece in self.model.pieces.items() if piece.term}
        loans = [(key, name) for key, term in terms.items() for name in term.loans]
        if loans:
            (issue, name), action = pick(loans), pick((*LENDABLE, *HELD))
            term = terms[issue]
            payload = {"id": issue, "leaseId": term.lease_id, "fence": term.fence}
            payload |= {"subleaseId": name, "assignee": term.loans[name].holder}
            if pick((True, False, False)):
                payload["assignee"] = pick(AGENTS)
            self.both(action, payload | self._arguments(action, pick), named=False)

    def work_side_by_side(self, pick: Pick) -> None:
        """A burst of requests about the fibers of one issue, by its holder or a former one."""
        shown = pick(self.shown[-3:])
        for _ in range(pick((4, 8, 16))):
            action = pick(FIBERED)
            self.both(action, shown | self._arguments(action, pick), named=pick(BOTH))

    def _arguments(self, action: str, pick: Pick) -> Payload:
        match action:
            case "issue.lease_renew":
                return {"leaseTtlSeconds": pick(TTLS)}
            case "issue.update":
                members = (
                    ("title", ("t", "u")),
                    ("priority", (1, 2, 3)),
                    ("status", STATUSES),
                    ("newAssignee", ("", "ann", "bob")),
                )
                return {name: pick(options) for name, options in members if pick(BOTH)}
            case "issue.discover":
                return {"newId": pick(ISSUES), "title": "t"}
            case "sublease.grant":
                scope = pick(([*LENDABLE], ["issue.update"], ["issue.claim"]))
                lent = {"newSubleaseId": pick(("s1", "s2")), "holder": pick(AGENTS)}
                return lent | {"capabilityScope": scope, "leaseTtlSeconds": pick(TTLS)}
            case "sublease.revoke":
                return {"revokedSubleaseId": pick(("s1", "s2"))}
            case "instance.open" | "instance.close":
                return {"instanceId": pick(("w1", "w2"))}
            case "fiber.spawn":
                spawned = {"taskRef": pick(("t", "t", "t", " ")), "fiberId": pick(FIBERS)}
                return spawned | {"parentFiberId": pick((None, None, *FIBERS))}
            case "fiber.join":
                joined = [pick(FIBERS) for _ in range(pick((0, 0, 0, 1, 2, 3)))]
                return {"fiberId": pick(FIBERS), "joinSet": pick((None, joined))}
            case "fiber.cancel":
                reach = pick(((True, False), (True, False), (False, True), (True, True)))
                named = {"fiberId": pick(FIBERS)} if reach[0] else {}
                return named | {"wholeScope": reach[1]}
            case "issue.cancel" | "issue.retry" | "approval.ask":
                return {"id": pick(ISSUES), "reason": pick((None, "r"))}
            case "issue.prioritize":
                return {"id": pick(ISSUES), "priority": pick((1, 2, 3))}
            case "pause.set":
                return {"scope": pick(SCOPES), "now": pick((None, True)), "byName": "eve"}
            case "pause.clear":
                return {"scope": pick(SCOPES)}
            case "approval.give":
                return {"id": pick(ISSUES), "decision": pick(("approved", "rejected"))}
            case "dep.add" | "dep.remove":
                kind = pick(("blocks", "waits-for", "related"))
                return {"dependsOnId": pick(ISSUES), "type": kind}
            case _:
                return {}

    # --- asking twice ---------------------------------------------------------------------------

    def retry_some_in_any_order(self, pick: Pick) -> None:
        mark = pick((None, 7))
        before, head = dump(self.desk.authority.state), self.desk.authority.head
        batch = [pick(self.sent) for _ in range(pick((1, 2, 4)))]
        requests = [asked(action, payload, mark=mark) for action, payload, _ in batch]
        answers, rows = self.desk.authority.submit(requests)
        front = b"{" if mark is None else b'{"id":7,'
        assert answers == [front + raw[1:] for _, _, raw in batch]
        assert (dump(self.desk.authority.state), self.desk.authority.head) == (before, head)
        assert rows == []

    def reuse_an_id_for_something_else(self, pick: Pick) -> None:
        before = dump(self.desk.authority.state)
        _, payload, _ = pick(self.sent)
        asking = {"id": pick(ISSUES), "assignee": "eve", "requestId": payload["requestId"]}
        assert self.desk.refusal("issue.claim", **asking) == "request_id_conflict"
        assert dump(self.desk.authority.state) == before

    # --- time and restarts ----------------------------------------------------------------------

    def time_passes(self, pick: Pick) -> None:
        self.desk.time.passes(pick((0, 1, 999, 29_999, 30_000, 30_001, 600_000)))

    def time_passes_to_a_deadline(self, pick: Pick) -> None:
        """To the tick itself, where a lease still holds, or one millisecond past it."""
        terms = [piece.term for piece in self.model.pieces.values() if piece.term]
        deadlines = [term.deadline_ms for term in terms]
        deadlines += [loan.deadline_ms for term in terms for loan in term.loans.values()]
        now_ms, past_ms = self.desk.time.wall_ms, pick((0, 1))
        ahead = sorted({each + past_ms for each in deadlines if each + past_ms >= now_ms})
        if ahead:
            self.desk.time.passes(pick(ahead) - now_ms)

    def the_process_restarts(self, pick: Pick) -> None:
        before = dump(self.desk.authority.state)
        if pick(BOTH):
            self.desk.authority.snapshot()
        self.desk.restart()
        assert dump(self.desk.authority.state) == before

    # --- after every move -----------------------------------------------------------------------

    def check(self) -> None:
        self._both_remember_the_same()
        self._fences_grow_and_the_fold_is_the_state()
        self._one_term_of_each_issue_passes_the_ladder()
        check_invariants(self.desk.authority.state)

    def _both_remember_the_same(self) -> None:
        known = self.desk.authority.state
        assert set(known.issues) == set(self.model.pieces)
        assert set(known.pauses) == self.model.paused
        for key, piece in self.model.pieces.items():
            issue = known.issues[key]
            found = (issue.status, issue.assignee, issue.priority, issue.title, issue.attempts)
            assert found == (
                piece.status, piece.assignee, piece.priority, piece.title, piece.attempts
            )  # fmt: skip
            assert (issue.approval or None) == piece.approval
            assert excused_of(issue) == piece.excused
            links = [(each.depends_on_id, each.type) for each in known.dependencies.get(key, ())]
            assert links == piece.needs
            self._same_term(known, issue_resource(key), piece.term)
            self._same_fibers(known, issue_resource(key), piece)

    def _same_fibers(self, known: State, resource: str, piece: Piece) -> None:
        found = {
            name: (fiber.state.value, fiber.parent_fiber_id or None)
            for name, fiber in known.fibers.get(resource, {}).items()
        }
        fibers = piece.term.fibers if piece.term else {}
        orphans = {name for name, (state, _) in found.items() if state == "orphaned"}
        assert orphans == piece.orphans
        assert {name: each for name, each in found.items() if name not in orphans} == {
            name: (strand.state, strand.parent) for name, strand in fibers.items()
        }

    def _same_term(self, known: State, resource: str, term: Term | None) -> None:
        held = known.leases.get(resource)
        loans, instances = known.subleases.get(resource, {}), known.instances.get(resource, {})
        if term is None:
            assert (held, loans, instances) == (None, {}, {})
            return
        assert held is not None
        found = (held.owner, held.lease_id, held.fence, held.deadline_ms, held.renewals)
        assert found == (
            term.owner, term.lease_id, term.fence, term.deadline_ms, term.renewals
        )  # fmt: skip
        lent = {k: (v.holder, set(v.capability_scope), v.deadline_ms) for k, v in loans.items()}
        assert lent == {k: (v.holder, v.scope, v.deadline_ms) for k, v in term.loans.items()}
        assert set(instances) == term.instances

    def _fences_grow_and_the_fold_is_the_state(self) -> None:
        for row in self.desk.journal.read(self.folded_seq):
            changes = decode_changes(row.changes)
            for change in changes:
                if isinstance(change, LeasePut) and change.lease.fence == row.seq:
                    assert not self.fences or row.seq > self.fences[-1]
                    self.fences.append(row.seq)
            apply(self.folded, changes)
            self.folded_seq = row.seq
        assert self.fences == self.model.fences
        assert dump(self.folded) == dump(self.desk.authority.state)

    def _one_term_of_each_issue_passes_the_ladder(self) -> None:
        stamp = Stamp(self.desk.authority.head.seq + 1, self.desk.time.wall_ms, 0, "n1")
        passing: dict[str, set[int]] = {}
        for shown in self.shown:
            request = OfHolder(
                id=shown["id"],
                assignee=shown["assignee"],
                lease_id=shown["leaseId"],
                fence=shown["fence"],
            )
            outcome = hold(Turn(self.desk.authority.state, stamp), request, "issue.update")
            if isinstance(outcome, Lease):
                passing.setdefault(shown["id"], set()).add(shown["fence"])
        assert all(len(fences) == 1 for fences in passing.values())

    def prove(self) -> None:
        """Replay gives the head, and the journal gives the state, with a snapshot and without."""
        replayed = replay(self.desk.journal)
        assert replayed.mismatch is None
        assert replayed.head == self.desk.authority.head
        journal = self.desk.journal
        rows_alone = MemoryJournal(Disk(epoch=journal.epoch(), rows=list(journal.read())))
        for journal in (rows_alone, self.desk.journal):
            state, head, _ = recover(journal)
            assert dump(state) == dump(self.desk.authority.state)
            assert head == self.desk.authority.head
