"""A tiny model of the lease protocol, written from its rules, without the authority's code.

It knows work, terms and time, and answers one question: what must become of this request now?
"""

from dataclasses import dataclass, field
from typing import Any

TTL_MIN, TTL_MAX, TTL_DEFAULT = 30, 86_400, 3_600
BLOCKING = {"blocks", "parent-child", "conditional-blocks", "waits-for"}
LENDABLE = {"issue.update", "issue.close", "issue.discover", "dep.add", "dep.remove", "dep.replace"}
TITLED = ("title", "priority")


@dataclass
class Loan:
    holder: str
    scope: set[str]
    deadline_ms: int


@dataclass
class Strand:
    """One fiber."""

    parent: str | None
    state: str = "running"


@dataclass
class Term:
    """One grant, from its fence to its end."""

    owner: str
    lease_id: str | None  # None: the authority made one up
    fence: int
    deadline_ms: int
    renewals: int = 0
    spent: int = 0  # tokens
    loans: dict[str, Loan] = field(default_factory=dict)
    instances: set[str] = field(default_factory=set)
    fibers: dict[str, Strand] = field(default_factory=dict)

    def running(self) -> set[str]:
        return {name for name, strand in self.fibers.items() if strand.state == "running"}

    def scope(self, top: str) -> set[str]:
        """A fiber and what runs below it."""
        children = {name for name in self.running() if self.fibers[name].parent == top}
        return {top}.union(*(self.scope(child) for child in children))


@dataclass
class Piece:
    """One piece of work."""

    priority: int
    created_ms: int
    assignee: str
    labels: frozenset[str]
    title: str
    status: str = "open"
    attempts: int = 0
    excused: int = 0
    approval: str | None = None
    term: Term | None = None
    needs: list[tuple[str, str]] = field(default_factory=list)
    orphans: set[str] = field(default_factory=set)  # fibers that ran when the last term ended
    spent: int = 0  # tokens

    def end_term(self) -> None:
        if self.term is not None:
            self.orphans = self.term.running()
            self.term = None


@dataclass(frozen=True)
class Verdict:
    """Accepted where `failure` is None. `fence` is that of a term given or made longer."""

    failure: str | None = None
    issue: str | None = None
    fence: int | None = None


class Model:
    def __init__(self) -> None:
        self.pieces: dict[str, Piece] = {}
        self.fences: list[int] = []  # every grant, in order
        self.paused: set[str] = set()  # scopes
        self.budgets: dict[tuple[str, str], int] = {}  # tokens, by scope and what they are per
        self.spent: dict[str, int] = {}  # by label

    def ask(self, action: str, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        """What becomes of the request if it is row `seq` at `now_ms`; accepted ones take effect."""
        rule = getattr(self, "_" + action.replace(".", "_"))
        verdict: Verdict = rule(asked, seq, now_ms)
        return verdict

    def live(self, issue: str, now_ms: int) -> Term | None:
        term = self.pieces[issue].term
        return term if term is not None and now_ms <= term.deadline_ms else None

    # --- the ladder -----------------------------------------------------------------------------

    def _holds(self, action: str, asked: dict[str, Any], now_ms: int) -> str | None:
        """The first of the ten guards that refuses."""
        piece = self.pieces.get(asked["id"])
        if piece is None:
            return "lease_not_found"
        if piece.status == "closed":
            return "lease_issue_closed"
        term, fence = piece.term, asked.get("fence")
        if term is None:
            return "lease_missing"
        if fence is None:
            return "lease_fence_missing"
        if fence != term.fence:
            return "lease_fence_unknown" if fence > term.fence else "lease_fence_stale"
        name = asked.get("subleaseId")
        loan = term.loans.get(name) if name else None
        if now_ms > term.deadline_ms or (loan and now_ms > loan.deadline_ms):
            return "lease_stale"
        if asked.get("assignee") != (loan.holder if loan else term.owner):
            return "lease_owner_mismatch"
        if asked.get("leaseId") != term.lease_id or (name and not loan):
            return "lease_id_mismatch"
        return "lease_capability_missing" if loan and action not in loan.scope else None

    def _touches(self, action: str, asked: dict[str, Any], now_ms: int) -> str | None:
        """As the ladder, but free work may be changed by those who claim nothing about it."""
        failure = self._holds(action, asked, now_ms)
        named = asked.get("leaseId") or asked.get("subleaseId") or asked.get("fence") is not None
        return None if failure == "lease_missing" and not named else failure

    def _waits(self, piece: Piece) -> bool:
        open_needs = [
            target
            for target, kind in piece.needs
            if kind in BLOCKING and self.pieces[target].status != "closed"
        ]
        return bool(open_needs) or piece.status == "blocked"

    # --- claims ---------------------------------------------------------------------------------

    def _issue_claim(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        piece = self.pieces.get(asked["id"])
        if not asked["assignee"].strip():
            return Verdict("lease_invalid_assignee")
        if not TTL_MIN <= asked.get("leaseTtlSeconds", TTL_DEFAULT) <= TTL_MAX:
            return Verdict("lease_invalid_ttl")
        if piece is None:
            return Verdict("lease_not_found")
        if piece.status == "closed":
            return Verdict("lease_issue_closed")
        failure = self._stands_in_the_way(piece, asked["assignee"], asked.get("fence"), now_ms)
        failure = failure or self._withheld(asked["id"], now_ms)
        return Verdict(failure) if failure else self._grant(asked["id"], asked, seq, now_ms)

    def _issue_claim_next(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        if not asked["assignee"].strip():
            return Verdict("lease_invalid_assignee")
        if not TTL_MIN <= asked.get("leaseTtlSeconds", TTL_DEFAULT) <= TTL_MAX:
            return Verdict("lease_invalid_ttl")
        handed_out = sorted(
            (piece.priority, piece.created_ms, issue) for issue, piece in self.pieces.items()
        )
        for _, _, issue in handed_out:
            piece = self.pieces[issue]
            lapsed = piece.term is not None and now_ms > piece.term.deadline_ms
            offered = lapsed or (piece.status == "open" and not self._waits(piece))
            if not offered or not set(asked.get("labels", ())) <= piece.labels:
                continue
            failure = self._stands_in_the_way(piece, asked["assignee"], None, now_ms)
            if (failure or self._withheld(issue, now_ms)) is None:
                return self._grant(issue, asked, seq, now_ms)
        return Verdict()

    def _stands_in_the_way(
        self, piece: Piece, claimant: str, fence: int | None, now_ms: int
    ) -> str | None:
        term = piece.term
        if term is not None and now_ms <= term.deadline_ms:
            if term.owner != claimant:
                return "lease_contention_active"
            if fence in (None, term.fence):
                return None
            return "lease_fence_unknown" if fence > term.fence else "lease_fence_stale"
        if term is None and piece.assignee not in ("", claimant):
            return "lease_contention_active"
        if self._is_over(piece, self._work(piece)):
            return "budget_exceeded"
        return "lease_issue_blocked" if self._waits(piece) else None

    def _withheld(self, issue: str, now_ms: int) -> str | None:
        """Why people let no new term begin; a term that lives is none of theirs."""
        piece = self.pieces[issue]
        if self.live(issue, now_ms):
            return None
        if piece.status == "cancelled":
            return "issue_cancelled"
        if piece.approval in ("waiting", "rejected"):
            return "approval_missing" if piece.approval == "waiting" else "approval_rejected"
        return "work_paused" if self._scopes(issue) & self.paused else None

    def _scopes(self, issue: str) -> set[str]:
        return {"*", f"issue/{issue}"} | {f"label/{each}" for each in self.pieces[issue].labels}

    # --- operators ------------------------------------------------------------------------------

    def _over(self, asked: dict[str, Any]) -> str | None:
        piece = self.pieces.get(asked["id"])
        if piece is None:
            return "issue_not_found"
        return "lease_issue_closed" if piece.status == "closed" else None

    def _issue_cancel(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._over(asked)
        if failure is None and self.pieces[asked["id"]].status == "cancelled":
            failure = "issue_cancelled"
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        piece.end_term()
        piece.status, piece.assignee = "cancelled", ""
        return Verdict()

    def _issue_retry(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._over(asked)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        stands = piece.status in ("blocked", "cancelled") or piece.approval == "rejected"
        tried = piece.status == "open" and piece.attempts > piece.excused
        if piece.term or not (stands or tried):
            return Verdict("work_not_blocked")
        piece.status, piece.assignee, piece.excused = "open", "", piece.attempts
        if piece.approval == "rejected":
            piece.approval = "waiting"
        return Verdict()

    def _issue_prioritize(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._over(asked)
        if failure is None:
            self.pieces[asked["id"]].priority = asked["priority"]
        return Verdict(failure)

    def _pause_set(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        family, _, name = asked["scope"].partition("/")
        if family == "issue" and name not in self.pieces:
            return Verdict("issue_not_found")
        self.paused.add(asked["scope"])
        for issue, piece in self.pieces.items():
            if asked.get("now") and piece.term and asked["scope"] in self._scopes(issue):
                piece.excused += 1
                self._free(issue)
        return Verdict()

    def _pause_clear(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        if asked["scope"] not in self.paused:
            return Verdict("pause_missing")
        self.paused.remove(asked["scope"])
        return Verdict()

    def _approval_ask(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._touches("approval.ask", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        piece.approval = "waiting"
        if piece.term:
            piece.excused += 1
            piece.end_term()
            piece.status, piece.assignee = "open", ""
        return Verdict()

    def _approval_give(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._over(asked)
        if failure is None and self.pieces[asked["id"]].approval != "waiting":
            failure = "approval_not_asked"
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        piece.approval = asked["decision"]
        if piece.approval == "rejected" and piece.status == "open":
            piece.status = "blocked"
        return Verdict()

    # --- what it costs --------------------------------------------------------------------------

    def _work(self, piece: Piece) -> dict[str, int]:
        """What is held against budgets of one piece, and of what its labels share."""
        shared = {f"label/{label}": self.spent.get(label, 0) for label in piece.labels}
        return {"*": piece.spent} | shared

    def _is_over(self, piece: Piece, spent: dict[str, int]) -> bool:
        caps = self.budgets
        over = ("*", "work") in caps and spent["*"] >= caps["*", "work"]
        return over or any(
            (scope, "label") in caps and spent[scope] >= caps[scope, "label"] for scope in spent
        )

    def _spend_report(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        amounts = (asked["tokens"], asked.get("milliseconds", 0))
        if min(amounts) < 0 or max(amounts) == 0:
            return Verdict("spend_amount_invalid")
        failure = self._holds("spend.report", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        assert piece.term is not None
        piece.spent += asked["tokens"]
        piece.term.spent += asked["tokens"]
        for label in piece.labels:
            self.spent[label] = self.spent.get(label, 0) + asked["tokens"]
        cap = self.budgets.get(("*", "attempt"))
        if self._is_over(piece, self._work(piece)) or (cap and piece.term.spent >= cap):
            self._free(asked["id"])
            piece.status = "blocked"
        return Verdict()

    def _budget_set(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        if asked["tokensMax"] <= 0:
            return Verdict("budget_invalid")
        self.budgets[asked["scope"], asked["per"]] = asked["tokensMax"]
        return Verdict()

    def _budget_clear(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        found = [key for key in self.budgets if key[0] == asked["scope"]]
        for key in found:
            del self.budgets[key]
        return Verdict() if found else Verdict("budget_not_found")

    def _grant(self, issue: str, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        piece = self.pieces[issue]
        deadline_ms = now_ms + 1000 * asked.get("leaseTtlSeconds", TTL_DEFAULT)
        term = self.live(issue, now_ms)
        if term is None:
            piece.end_term()
            term = Term(asked["assignee"], asked.get("leaseId"), seq, deadline_ms)
            piece.attempts += 1
            self.fences.append(seq)
        else:
            term.deadline_ms, term.renewals = deadline_ms, term.renewals + 1
        piece.term, piece.assignee, piece.status = term, term.owner, "in_progress"
        return Verdict(None, issue, term.fence)

    # --- the holder -----------------------------------------------------------------------------

    def _issue_lease_renew(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        if not (asked.get("assignee") or "").strip():
            return Verdict("lease_invalid_assignee")
        if not TTL_MIN <= asked.get("leaseTtlSeconds", TTL_DEFAULT) <= TTL_MAX:
            return Verdict("lease_invalid_ttl")
        failure = self._holds("issue.lease_renew", asked, now_ms)
        return Verdict(failure) if failure else self._grant(asked["id"], asked, seq, now_ms)

    def _issue_lease_release(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("issue.lease_release", asked, now_ms)
        return Verdict(failure) if failure else self._free(asked["id"])

    def _issue_lease_reconcile(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("issue.lease_reconcile", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        assert piece.term is not None
        if (piece.status, piece.assignee) == ("in_progress", piece.term.owner):
            return Verdict("lease_not_contended")
        piece.status, piece.assignee = "in_progress", piece.term.owner
        return Verdict()

    def _issue_lease_break(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        piece = self.pieces.get(asked["id"])
        if not asked["reason"].strip():
            return Verdict("lease_break_reason_missing")
        if piece is None:
            return Verdict("lease_not_found")
        if piece.status == "closed":
            return Verdict("lease_issue_closed")
        return self._free(asked["id"]) if piece.term else Verdict("lease_missing")

    def _free(self, issue: str) -> Verdict:
        piece = self.pieces[issue]
        piece.end_term()
        piece.assignee = ""
        if piece.status == "in_progress":
            piece.status = "open"
        return Verdict()

    def _sublease_grant(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        if not TTL_MIN <= asked.get("leaseTtlSeconds", TTL_DEFAULT) <= TTL_MAX:
            return Verdict("lease_invalid_ttl")
        if not asked["holder"].strip():
            return Verdict("lease_invalid_assignee")
        if not set(asked["capabilityScope"]) <= LENDABLE:
            return Verdict("lease_capability_unknown")
        failure = self._holds("sublease.grant", asked, now_ms)
        if failure:
            return Verdict(failure)
        term = self.pieces[asked["id"]].term
        assert term is not None
        if asked["newSubleaseId"] in term.loans:
            return Verdict("lease_sublease_exists")
        deadline_ms = now_ms + 1000 * asked.get("leaseTtlSeconds", TTL_DEFAULT)
        loan = Loan(asked["holder"], set(asked["capabilityScope"]), deadline_ms)
        term.loans[asked["newSubleaseId"]] = loan
        return Verdict()

    def _sublease_revoke(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("sublease.revoke", asked, now_ms)
        if failure:
            return Verdict(failure)
        term = self.pieces[asked["id"]].term
        assert term is not None
        if term.loans.pop(asked["revokedSubleaseId"], None) is None:
            return Verdict("lease_sublease_missing")
        return Verdict()

    def _instance_open(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("instance.open", asked, now_ms)
        if failure:
            return Verdict(failure)
        term = self.pieces[asked["id"]].term
        assert term is not None
        if asked["instanceId"] in term.instances:
            return Verdict("lease_instance_exists")
        term.instances.add(asked["instanceId"])
        return Verdict()

    def _instance_close(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("instance.close", asked, now_ms)
        if failure:
            return Verdict(failure)
        term = self.pieces[asked["id"]].term
        assert term is not None
        if asked["instanceId"] not in term.instances:
            return Verdict("lease_instance_missing")
        term.instances.remove(asked["instanceId"])
        return Verdict()

    # --- fibers ---------------------------------------------------------------------------------

    def _fiber_spawn(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        if not asked["taskRef"].strip():
            return Verdict("fiber_missing_field")
        failure = self._holds("fiber.spawn", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece, parent = self.pieces[asked["id"]], asked.get("parentFiberId")
        assert piece.term is not None
        fibers = piece.term.fibers
        if asked["fiberId"] in fibers:
            return Verdict("fiber_exists")
        if parent is not None and parent not in fibers:
            orphan = parent in piece.orphans
            return Verdict("fiber_orphaned" if orphan else "fiber_parent_not_found")
        if parent is not None and fibers[parent].state != "running":
            return Verdict("fiber_scope_ended")
        fibers[asked["fiberId"]] = Strand(parent)
        piece.orphans.discard(asked["fiberId"])
        return Verdict()

    def _fiber_join(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("fiber.join", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece, top = self.pieces[asked["id"]], asked["fiberId"]
        failure = self._ends(piece, top)
        if failure:
            return Verdict(failure)
        assert piece.term is not None
        scope = piece.term.scope(top)
        for name in asked.get("joinSet", ()):
            failure = self._ends(piece, name)
            if failure or name not in scope:
                return Verdict(failure or "fiber_out_of_scope")
        if scope - {top, *asked.get("joinSet", ())}:
            return Verdict("fiber_scope_open")
        for name in scope:
            piece.term.fibers[name].state = "joined"
        return Verdict()

    def _fiber_cancel(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        top, whole = asked.get("fiberId"), asked.get("wholeScope", False)
        if (top is None) != whole:
            return Verdict("fiber_missing_field")
        failure = self._holds("fiber.cancel", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        assert piece.term is not None
        if top is not None:
            failure = self._ends(piece, top)
            if failure:
                return Verdict(failure)
        for name in piece.term.running() if top is None else piece.term.scope(top):
            piece.term.fibers[name].state = "cancelled"
        return Verdict()

    def _ends(self, piece: Piece, name: str) -> str | None:
        """Why this fiber cannot end."""
        assert piece.term is not None
        strand = piece.term.fibers.get(name)
        if strand is None:
            return "fiber_orphaned" if name in piece.orphans else "fiber_not_found"
        return None if strand.state == "running" else "fiber_ended"

    # --- work -----------------------------------------------------------------------------------

    def _issue_add(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        return self._add(asked["id"], asked, now_ms)

    def _add(self, issue: str, asked: dict[str, Any], now_ms: int) -> Verdict:
        if issue in self.pieces:
            return Verdict("issue_id_exists")
        self.pieces[issue] = Piece(
            priority=asked.get("priority", 2),
            created_ms=now_ms,
            assignee=asked.get("assignee", "") if asked.get("id") == issue else "",
            labels=frozenset(asked.get("labels", ())),
            title=asked["title"],
        )
        return Verdict()

    def _issue_discover(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._touches("issue.discover", asked, now_ms)
        if failure:
            return Verdict(failure)
        verdict = self._add(asked["newId"], asked, now_ms)
        if verdict.failure is None:
            self.pieces[asked["newId"]].needs.append((asked["id"], "discovered-from"))
        return verdict

    def _issue_update(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        piece, status = self.pieces.get(asked["id"]), asked.get("status")
        claims = asked.get("leaseId") or asked.get("subleaseId") or asked.get("fence") is not None
        reopens = piece is not None and piece.status == "closed" and status == "open"
        if not reopens or claims:
            failure = self._touches("issue.update", asked, now_ms)
            if failure:
                return Verdict(failure)
        assert piece is not None
        moves = status is not None and status != piece.status
        if moves and status not in ("open", "blocked", "closed"):
            return Verdict("issue_invalid_status")
        if moves and status == "closed" and piece.term and piece.term.running():
            return Verdict("fiber_scope_open")
        for name in TITLED:
            if name in asked:
                setattr(piece, name, asked[name])
        if moves and status == "open":
            piece.assignee = ""
        if "newAssignee" in asked:
            piece.assignee = asked["newAssignee"]
        if moves:
            piece.end_term()
            piece.status = str(status)
        if piece.status == "closed":
            piece.orphans = set()
        return Verdict()

    def _issue_close(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._touches("issue.close", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        if piece.term and piece.term.running():
            return Verdict("fiber_scope_open")
        piece.status, piece.term, piece.orphans = "closed", None, set()
        return Verdict()

    def _dep_add(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._touches("dep.add", asked, now_ms)
        if failure:
            return Verdict(failure)
        source, target, kind = asked["id"], asked["dependsOnId"], asked["type"]
        if source == target:
            return Verdict("dep_self_loop")
        if target not in self.pieces:
            return Verdict("dep_target_not_found")
        if (target, kind) in self.pieces[source].needs:
            return Verdict("dep_exists")
        if kind in BLOCKING and source in self._reach(target):
            return Verdict("dep_cycle")
        self.pieces[source].needs.append((target, kind))
        return Verdict()

    def _dep_remove(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._touches("dep.remove", asked, now_ms)
        if failure:
            return Verdict(failure)
        needs = self.pieces[asked["id"]].needs
        if (asked["dependsOnId"], asked["type"]) not in needs:
            return Verdict("dep_not_found")
        needs.remove((asked["dependsOnId"], asked["type"]))
        return Verdict()

    def _reach(self, issue: str) -> set[str]:
        """Everything that the issue waits for, directly or not, and the issue itself."""
        found = {issue}
        while True:
            more = {
                target
                for source in found
                for target, kind in self.pieces[source].needs
                if kind in BLOCKING
            }
            if more <= found:
                return found
            found |= more
