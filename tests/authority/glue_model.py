"""Sections and the glue of one branch, added to the model and to what it is compared with.

Written from the rules: a section ends the term, sections are glued in the order of their rows, one
move of the branch is authorised at a time, and whichever gluer holds the branch seals it.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.authority.model import Model, Piece, Term, Verdict
from tests.authority.pair import AGENTS, BOTH, LEASE_MOVES, Pair, Payload, Pick

A, B = "a" * 40, "b" * 40
GLUERS = ("gil", "hal")
TERM_MS = 60_000
GLUE_MOVES = (
    *LEASE_MOVES,
    *("record_a_section",) * 5,
    *("record_late", "claim_the_branch", "claim_the_branch", "steer", "let_go_on"),
    *("authorize", "authorize", "authorize", "seal", "seal", "obstruct", "act_as_a_former_gluer"),
    "take_up_again",
)


@dataclass
class Part:
    """The newest section of a piece."""

    section_id: str
    seq: int
    state: str = "open"


@dataclass
class GlueModel(Model):
    """The model, and one branch."""

    parts: dict[str, Part] = field(default_factory=dict)
    gluer: Term | None = None
    pending: list[str] | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def standing(self, issue: str) -> bool:
        part = self.parts.get(issue)
        return part is not None and part.state == "open" and self.pieces[issue].status == "gluing"

    def queue(self) -> list[str]:
        """Ids of sections that wait, in their order."""
        found = [part for issue, part in self.parts.items() if self.standing(issue)]
        return [part.section_id for part in sorted(found, key=lambda part: part.seq)]

    def _withheld(self, issue: str, now_ms: int) -> str | None:
        if self.pieces[issue].status == "gluing" and not self.live(issue, now_ms):
            return "issue_gluing"
        return super()._withheld(issue, now_ms)

    # --- the holder of an issue -------------------------------------------------------------------

    def _descent_section(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._holds("descent.section", asked, now_ms)
        if failure:
            return Verdict(failure)
        piece = self.pieces[asked["id"]]
        assert piece.term is not None
        self.parts[asked["id"]] = Part(f"{asked['id']}/{piece.term.fence}", seq)
        piece.end_term()
        piece.status, piece.assignee = "gluing", ""
        return Verdict()

    # --- the gluer --------------------------------------------------------------------------------

    def _glue_claim(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        term = self.gluer
        if term is not None and now_ms <= term.deadline_ms:
            if term.owner != asked["gluer"]:
                return Verdict("lease_contention_active")
            failure = self._glues(asked | {"leaseId": term.lease_id}, now_ms)
            if failure:
                return Verdict(failure)
            term.deadline_ms = now_ms + TERM_MS
            return Verdict()
        if "fence" in asked:
            return Verdict(self._glues(asked, now_ms))
        if "*" in self.paused:
            return Verdict("work_paused")
        self.gluer = Term(asked["gluer"], f"glue/main/{seq}", seq, now_ms + TERM_MS)
        self.fences.append(seq)
        return Verdict()

    def _glues(self, asked: dict[str, Any], now_ms: int) -> str | None:
        """The ladder of the branch."""
        term, fence = self.gluer, asked.get("fence")
        if term is None:
            return "lease_missing"
        if fence is None:
            return "lease_fence_missing"
        if fence != term.fence:
            return "lease_fence_unknown" if fence > term.fence else "lease_fence_stale"
        if now_ms > term.deadline_ms:
            return "lease_stale"
        if asked["gluer"] != term.owner:
            return "lease_owner_mismatch"
        return None if asked["leaseId"] == term.lease_id else "lease_id_mismatch"

    def _descent_glue(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._glues(asked, now_ms)
        if failure is None and "*" in self.paused:
            failure = "work_paused"
        if failure is None and self.pending is not None:
            failure = "glue_pending"
        if failure:
            return Verdict(failure)
        queue = self.queue()
        for place, section_id in enumerate(asked["sections"]):
            if section_id not in queue:
                return Verdict("section_not_open")
            if queue[place] != section_id:
                return Verdict("glue_out_of_order")
        self.pending = asked["sections"]
        for section_id in self.pending:
            self._part(section_id).state = "gluing"
        return Verdict()

    def _descent_seal(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._glues(asked, now_ms)
        if failure is None and self.pending is None:
            failure = "glue_not_pending"
        if failure:
            return Verdict(failure)
        for section_id in self.pending or ():
            issue = section_id.partition("/")[0]
            part, piece = self.parts[issue], self.pieces[issue]
            if part.section_id != section_id:
                continue  # the work was taken up again, and has a newer one
            if asked["result"] == "moved":
                part.state = "glued"
                if piece.status == "gluing":
                    self._done(piece)
            else:
                part.state = "open" if piece.status == "gluing" else "withdrawn"
        self.pending = None
        return Verdict()

    def _done(self, piece: Piece) -> None:
        piece.status = "closed"
        piece.orphans.clear()

    def _descent_obstruct(self, asked: dict[str, Any], seq: int, now_ms: int) -> Verdict:
        failure = self._glues(asked, now_ms)
        if failure is None and asked["section"] not in self.queue():
            failure = "section_not_open"
        if failure:
            return Verdict(failure)
        self._part(asked["section"]).state = "obstructed"
        piece = self.pieces[asked["section"].partition("/")[0]]
        piece.status = "open" if asked["end"] == "return" else "blocked"
        piece.assignee = ""
        return Verdict()

    def _part(self, section_id: str) -> Part:
        return self.parts[section_id.partition("/")[0]]


class GluePair(Pair):
    """Moves of workers and gluers; every gluer remembers what it was given."""

    model: GlueModel
    model_type = GlueModel

    def __init__(self) -> None:
        self.claims: list[Payload] = []
        super().__init__()

    def claim_the_branch(self, pick: Pick) -> None:
        payload: Payload = {"target": "main", "gluer": pick(GLUERS)}
        if self.claims and pick(BOTH):
            payload |= {"fence": self.claims[-1]["fence"]}
        before = self.model.gluer
        self.both("glue.claim", payload, named=False)
        term = self.model.gluer
        if term is not None and term is not before:
            proof = {"gluer": term.owner, "leaseId": term.lease_id, "fence": term.fence}
            self.claims.append({"target": "main", **proof})

    def record_a_section(self, pick: Pick) -> None:
        live = [each for each in self.shown if self._is_current(each)]
        if live:
            self.both("descent.section", pick(live) | _made(), named=False)

    def record_late(self, pick: Pick) -> None:
        if self.shown:
            self.both("descent.section", pick(self.shown) | _made(), named=False)

    def authorize(self, pick: Pick) -> None:
        if not self.claims:
            return
        queue = self.model.queue()
        known = [part.section_id for part in self.model.parts.values()] or ["i1/1"]
        sections = pick((queue[:1], queue[:2], queue, queue[::-1], [pick(known)])) or known[:1]
        move = {"old": A, "new": B, "tree": A, "moved": True, "sections": sections}
        self.both("descent.glue", self.claims[-1] | move, named=False)

    def take_up_again(self, pick: Pick) -> None:
        """Work whose glue is authorised is opened by a person, and worked on by another."""
        if self.model.pending:
            issue = pick(self.model.pending).partition("/")[0]
            self.both("issue.update", {"id": issue, "status": "open"}, named=False)
            self.both("issue.claim", {"id": issue, "assignee": pick(AGENTS)}, named=False)
            self.record_a_section(pick)

    def seal(self, pick: Pick) -> None:
        if self.claims:
            said = pick(({"result": "moved", "head": B}, {"result": "void", "head": A}))
            self.both("descent.seal", self.claims[-1] | said, named=False)

    def obstruct(self, pick: Pick) -> None:
        known = self.model.queue() or [part.section_id for part in self.model.parts.values()]
        if self.claims and known:
            found = {"kind": "conflict", "onto": A, "ontoTree": A, "section": pick(known)}
            ended = found | {"end": pick(("return", "stop"))}
            self.both("descent.obstruct", self.claims[-1] | ended, named=False)

    def act_as_a_former_gluer(self, pick: Pick) -> None:
        if self.claims:
            said = {"result": "moved", "head": B}
            self.both("descent.seal", pick(self.claims) | said, named=False)

    def check(self) -> None:
        super().check()
        known = self.desk.authority.state.descent
        queue = [issue for _, issue in known.unglued.get("main", ())]
        open_ones = [issue for issue in queue if known.sections[issue].state == "open"]
        assert [known.sections[each].section_id for each in open_ones] == self.model.queue()
        target = known.targets.get("main")
        pending = target.pending if target else None
        assert (list(pending.section_ids) if pending else None) == self.model.pending

    def _is_current(self, shown: Payload) -> bool:
        term = self.model.pieces[shown["id"]].term
        return term is not None and term.fence == shown["fence"]


def _made() -> Payload:
    known = {"paths": ["x"], "pathCount": 1, "pathsDigest": "d"}
    return {"target": "main", "base": A, "commit": B, "tree": A, **known}
