"""The authority against the model: same verdicts, same holders, whatever is asked and whenever."""

from typing import Any, ClassVar

import orjson
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.authority.model import Model, Term, Verdict
from tests.fakes.desk import Desk, asked, picture, records
from understudy.authority.lease import hold
from understudy.authority.outcome import LeasePut, Refused, decode_changes
from understudy.authority.replay import replay
from understudy.authority.service import recover
from understudy.authority.state import State, apply, check_invariants
from understudy.contracts.records import Lease, Stamp, issue_resource
from understudy.contracts.shapes import Held

ISSUES = ("i1", "i2", "i3", "i4")
AGENTS = ("ann", "bob", "cy")
LENDABLE = ("issue.update", "issue.close", "issue.discover", "dep.add")

issues = st.sampled_from(ISSUES)
agents = st.sampled_from(AGENTS)
ttls = st.sampled_from([30, 30, 30, 60, 600, 86_400, None])
bad_ttls = st.sampled_from([29, 86_401])
request_ids = st.booleans()
held_actions = st.sampled_from(
    [
        "issue.lease_renew",
        "issue.lease_renew",
        "issue.lease_release",
        "issue.lease_reconcile",
        "issue.close",
        "issue.update",
        "issue.update",
        "issue.discover",
        "sublease.grant",
        "sublease.grant",
        "sublease.revoke",
        "instance.open",
        "instance.close",
        "dep.add",
        "dep.remove",
    ]
)
tweaks = st.sampled_from(
    [
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
    ]
)


class AuthorityMachine(RuleBasedStateMachine):
    """Each rule asks both and compares; what both remember is compared after every step."""

    snapshots: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        self.desk, self.model = Desk(), Model()
        self.folded, self.folded_seq = State(), 0
        self.shown: list[dict[str, Any]] = []  # what holders were given, oldest first
        self.sent: list[tuple[str, dict[str, Any], bytes]] = []  # with a request id, in order
        self.fences: list[int] = []

    # --- asking ---------------------------------------------------------------------------------

    def both(self, action: str, payload: dict[str, Any], *, named: bool) -> Verdict:
        """One request to the authority and to the model."""
        payload = {name: value for name, value in payload.items() if value is not None}
        if named:
            payload["requestId"] = f"r{len(self.sent)}"
        before = records(self.desk.authority.state)
        seq = self.desk.authority.head.seq + 1
        expected = self.model.ask(action, payload, seq, self.desk.time.wall_ms)
        raw = self.desk.raw(action, **payload)
        answer = orjson.loads(raw)
        found = answer["failureClasses"][0] if answer["failureClasses"] else None
        assert found == expected.failure, (action, payload, answer)
        assert answer["result"] == ("rejected" if expected.failure else "accepted")
        if expected.failure:
            assert records(self.desk.authority.state) == before, "a refusal changed something"
        if named:
            self.sent.append((action, payload, raw))
        self._learn(action, payload, expected, answer)
        return expected

    def _learn(
        self, action: str, payload: dict[str, Any], expected: Verdict, answer: dict[str, Any]
    ) -> None:
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
            self.shown.append(
                {
                    "id": expected.issue,
                    "assignee": payload["assignee"],
                    "leaseId": lease["leaseId"],
                    "fence": lease["fence"],
                }
            )

    # --- work and claims ------------------------------------------------------------------------

    @initialize(agent=agents)
    def there_is_work_and_somebody_holds_some(self, agent: str) -> None:
        for place, issue in enumerate(ISSUES[:3]):
            payload = {"id": issue, "title": "t", "priority": 3 - place, "labels": ["fast"]}
            self.both("issue.add", payload, named=False)
        payload = {"id": "i1", "assignee": agent, "leaseTtlSeconds": 30}
        self.both("issue.claim", payload, named=True)

    @rule(
        issue=issues,
        priority=st.integers(1, 3),
        owner=st.sampled_from(["", "", "", "ann"]),
        labels=st.sampled_from([(), ("fast",)]),
        named=request_ids,
    )
    def add(
        self, issue: str, priority: int, owner: str, labels: tuple[str, ...], named: bool
    ) -> None:
        payload = {"id": issue, "title": "t", "priority": priority, "assignee": owner}
        self.both("issue.add", payload | {"labels": list(labels)}, named=named)

    @rule(
        issue=issues,
        agent=agents,
        ttl=ttls,
        lease_id=st.sampled_from([None, None, "mine"]),
        fence=st.sampled_from([None, None, None, 1, 10**6]),
        named=request_ids,
    )
    def claim(
        self,
        issue: str,
        agent: str,
        ttl: int | None,
        lease_id: str | None,
        fence: int | None,
        named: bool,
    ) -> None:
        payload = {"id": issue, "assignee": agent, "leaseTtlSeconds": ttl}
        payload |= {"leaseId": lease_id, "fence": fence}
        self.both("issue.claim", payload, named=named)

    @rule(
        agent=agents, ttl=ttls, labels=st.sampled_from([None, None, ["fast"]]), named=request_ids
    )
    def claim_next(
        self, agent: str, ttl: int | None, labels: list[str] | None, named: bool
    ) -> None:
        payload = {"assignee": agent, "leaseTtlSeconds": ttl, "labels": labels}
        self.both("issue.claim_next", payload, named=named)

    @rule(issue=issues, agent=st.sampled_from([*AGENTS, " "]), ttl=bad_ttls)
    def claim_wrongly(self, issue: str, agent: str, ttl: int) -> None:
        self.both("issue.claim", {"id": issue, "assignee": " "}, named=True)
        payload = {"assignee": agent, "leaseTtlSeconds": ttl}
        self.both("issue.claim", payload | {"id": issue}, named=True)
        self.both("issue.claim_next", payload, named=True)

    @rule(issue=issues, reason=st.sampled_from(["stuck", "stuck", " "]))
    def break_lease(self, issue: str, reason: str) -> None:
        self.both("issue.lease_break", {"id": issue, "reason": reason}, named=False)

    @rule(issue=issues, data=st.data())
    def change_without_a_lease(self, issue: str, data: st.DataObject) -> None:
        action = data.draw(st.sampled_from(["issue.update", "issue.close", "dep.add", "dep.remove"]))
        self.both(action, {"id": issue} | self._arguments(action, data), named=False)

    # --- what holders do, and what former holders try -------------------------------------------

    @rule(data=st.data(), action=held_actions, named=request_ids)
    def act_as_the_last_holder(self, data: st.DataObject, action: str, named: bool) -> None:
        self.both(action, self.shown[-1] | self._arguments(action, data), named=named)

    @rule(data=st.data(), issue=issues, action=held_actions, named=request_ids)
    def act_as_the_holder(
        self, data: st.DataObject, issue: str, action: str, named: bool
    ) -> None:
        term = self.model.pieces[issue].term if issue in self.model.pieces else None
        if term is None:
            return
        payload = {"id": issue, "assignee": term.owner, "leaseId": term.lease_id}
        payload |= {"fence": term.fence} | self._arguments(action, data)
        self.both(action, payload, named=named)

    @rule(data=st.data(), action=held_actions, named=request_ids)
    def act_as_a_former_holder(self, data: st.DataObject, action: str, named: bool) -> None:
        place = data.draw(st.integers(0, len(self.shown) - 1))
        self.both(action, self.shown[place] | self._arguments(action, data), named=named)

    @rule(data=st.data(), action=held_actions, tweak=tweaks, named=request_ids)
    def act_with_something_wrong(
        self, data: st.DataObject, action: str, tweak: dict[str, Any], named: bool
    ) -> None:
        if "leaseTtlSeconds" in tweak and action not in ("issue.lease_renew", "sublease.grant"):
            return
        payload = self.shown[-1] | self._arguments(action, data) | tweak
        self.both(action, payload, named=named)

    @rule(data=st.data(), action=st.sampled_from(LENDABLE), lent=st.booleans())
    def act_under_a_sublease(self, data: st.DataObject, action: str, lent: bool) -> None:
        terms = {key: piece.term for key, piece in self.model.pieces.items() if piece.term}
        loans = [(key, name) for key, term in terms.items() for name in term.loans]
        if not loans:
            return
        issue, name = data.draw(st.sampled_from(loans))
        term = terms[issue]
        payload = {"id": issue, "leaseId": term.lease_id, "fence": term.fence, "subleaseId": name}
        payload["assignee"] = term.loans[name].holder if lent else data.draw(agents)
        self.both(action, payload | self._arguments(action, data), named=False)

    def _arguments(self, action: str, data: st.DataObject) -> dict[str, Any]:
        match action:
            case "issue.lease_renew":
                return {"leaseTtlSeconds": data.draw(ttls)}
            case "issue.update":
                members = {
                    "title": st.sampled_from(["t", "u"]),
                    "priority": st.integers(1, 3),
                    "status": st.sampled_from(["open", "blocked", "closed", "in_progress", "odd"]),
                    "newAssignee": st.sampled_from(["", "ann", "bob"]),
                }
                chosen = data.draw(st.sets(st.sampled_from(sorted(members)), max_size=2))
                return {name: data.draw(members[name]) for name in sorted(chosen)}
            case "issue.discover":
                return {"newId": data.draw(issues), "title": "t"}
            case "sublease.grant":
                scope = data.draw(st.sampled_from([[*LENDABLE], ["issue.update"], ["issue.claim"]]))
                return {
                    "newSubleaseId": data.draw(st.sampled_from(["s1", "s2"])),
                    "holder": data.draw(agents),
                    "capabilityScope": scope,
                    "leaseTtlSeconds": data.draw(ttls),
                }
            case "sublease.revoke":
                return {"revokedSubleaseId": data.draw(st.sampled_from(["s1", "s2"]))}
            case "instance.open" | "instance.close":
                return {"instanceId": data.draw(st.sampled_from(["w1", "w2"]))}
            case "dep.add" | "dep.remove":
                kind = data.draw(st.sampled_from(["blocks", "waits-for", "related"]))
                return {"dependsOnId": data.draw(issues), "type": kind}
            case _:
                return {}

    # --- asking twice ---------------------------------------------------------------------------

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), mark=st.sampled_from([None, 7]))
    def retry_some_in_any_order(self, data: st.DataObject, mark: int | None) -> None:
        places = data.draw(st.lists(st.integers(0, len(self.sent) - 1), max_size=4))
        before, head = picture(self.desk.authority.state), self.desk.authority.head
        batch = [self.sent[place] for place in places]
        requests = [asked(action, payload, mark=mark) for action, payload, _ in batch]
        answers, rows = self.desk.authority.submit(requests)
        front = b"{" if mark is None else b'{"id":7,'
        assert answers == [front + raw[1:] for _, _, raw in batch]
        assert (picture(self.desk.authority.state), self.desk.authority.head) == (before, head)
        assert rows == []

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), issue=issues)
    def reuse_an_id_for_something_else(self, data: st.DataObject, issue: str) -> None:
        place = data.draw(st.integers(0, len(self.sent) - 1))
        before = picture(self.desk.authority.state)
        request_id = self.sent[place][1]["requestId"]
        found = self.desk.refusal("issue.claim", id=issue, assignee="eve", requestId=request_id)
        assert found == "request_id_conflict"
        assert picture(self.desk.authority.state) == before

    # --- time and restarts ----------------------------------------------------------------------

    @rule(ms=st.sampled_from([0, 1, 999, 29_999, 30_000, 30_001, 600_000]))
    def time_passes(self, ms: int) -> None:
        self.desk.time.passes(ms)

    @rule(data=st.data(), past_ms=st.sampled_from([0, 1]))
    def time_passes_to_a_deadline(self, data: st.DataObject, past_ms: int) -> None:
        terms = [piece.term for piece in self.model.pieces.values() if piece.term]
        deadlines = [term.deadline_ms for term in terms]
        deadlines += [loan.deadline_ms for term in terms for loan in term.loans.values()]
        now_ms = self.desk.time.wall_ms
        ahead = sorted({each + past_ms for each in deadlines if each + past_ms >= now_ms})
        if ahead:
            self.desk.time.passes(data.draw(st.sampled_from(ahead)) - now_ms)

    @rule(snapshot=st.booleans())
    def the_process_restarts(self, snapshot: bool) -> None:
        before = picture(self.desk.authority.state)
        if snapshot and self.snapshots:
            self.desk.authority.snapshot()
        self.desk.restart()
        assert picture(self.desk.authority.state) == before

    # --- after every step -----------------------------------------------------------------------

    @invariant()
    def both_remember_the_same(self) -> None:
        state = self.desk.authority.state
        assert set(state.issues) == set(self.model.pieces)
        for key, piece in self.model.pieces.items():
            issue, term = state.issues[key], piece.term
            found = (issue.status, issue.assignee, issue.priority, issue.title, issue.attempts)
            assert found == (
                piece.status, piece.assignee, piece.priority, piece.title, piece.attempts
            )  # fmt: skip
            links = [(each.depends_on_id, each.type) for each in state.dependencies.get(key, ())]
            assert links == piece.needs
            self._same_term(state, issue_resource(key), term)

    def _same_term(self, state: State, resource: str, term: Term | None) -> None:
        lease = state.leases.get(resource)
        loans, instances = state.subleases.get(resource, {}), state.instances.get(resource, {})
        if term is None:
            assert (lease, loans, instances) == (None, {}, {})
            return
        assert lease is not None
        found = (lease.owner, lease.lease_id, lease.fence, lease.deadline_ms, lease.renewals)
        assert found == (
            term.owner, term.lease_id, term.fence, term.deadline_ms, term.renewals
        )  # fmt: skip
        lent = {k: (v.holder, set(v.capability_scope), v.deadline_ms) for k, v in loans.items()}
        assert lent == {k: (v.holder, v.scope, v.deadline_ms) for k, v in term.loans.items()}
        assert set(instances) == term.instances

    @invariant()
    def fences_strictly_grow_and_the_fold_is_the_state(self) -> None:
        for row in self.desk.journal.read(self.folded_seq):
            changes = decode_changes(row.changes)
            for change in changes:
                if isinstance(change, LeasePut) and change.lease.fence == row.seq:
                    assert not self.fences or row.seq > self.fences[-1]
                    self.fences.append(row.seq)
            apply(self.folded, changes)
            self.folded_seq = row.seq
        assert self.fences == self.model.fences
        assert picture(self.folded) == picture(self.desk.authority.state)

    @invariant()
    def at_most_one_term_of_each_issue_passes_the_ladder(self) -> None:
        state, wall_ms = self.desk.authority.state, self.desk.time.wall_ms
        stamp = Stamp(self.desk.authority.head.seq + 1, wall_ms, 0, "n1")
        passing: dict[str, set[int]] = {}
        for shown in self.shown:
            request = Held(
                id=shown["id"],
                assignee=shown["assignee"],
                lease_id=shown["leaseId"],
                fence=shown["fence"],
            )
            outcome = hold(state, request, "issue.update", stamp)
            assert isinstance(outcome, Lease | Refused)
            if isinstance(outcome, Lease):
                passing.setdefault(shown["id"], set()).add(shown["fence"])
        assert all(len(fences) == 1 for fences in passing.values())

    @invariant()
    def the_indexes_agree_with_the_records(self) -> None:
        check_invariants(self.desk.authority.state)

    def teardown(self) -> None:
        replayed = replay(self.desk.journal)
        assert replayed.mismatch is None
        assert replayed.head == self.desk.authority.head
        state, head, _ = recover(self.desk.journal)
        assert (picture(state), head) == (picture(self.desk.authority.state), self.desk.authority.head)


AuthorityMachine.TestCase.settings = settings(
    max_examples=250,
    stateful_step_count=50,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestAuthorityAgreesWithTheModel = AuthorityMachine.TestCase
