"""Covers, sections and glue: the numbers at which something changes, and any order of moves."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.desk import Desk, fits
from tests.limits import stands_on
from tests.long import tried
from understudy.authority.law.descent.queue import before, waiting
from understudy.authority.law.image import dump, load
from understudy.authority.law.state import State, check_invariants
from understudy.contracts import (
    SECTION_TRANSITIONS,
    SectionMove,
    SectionState,
    globs_meet,
    limits,
    matches,
)

Document = dict[str, Any]
A, B, C, D = (letter * 40 for letter in "abcd")
MAIN = {"target": "main"}


def made(*paths: str, count: int | None = None, **members: object) -> Document:
    """What git says of a section."""
    known = {"paths": list(paths), "pathCount": len(paths) if count is None else count}
    return {**MAIN, "base": A, "commit": B, "tree": C, "pathsDigest": "d", **known, **members}


def section(desk: Desk, issue: str, **members: object) -> str:
    """Claim an issue and record what came of it; the id of the section."""
    held = desk.claim(issue, "ann")
    payload = {**made(f"src/{issue}.py"), **members}
    return str(desk.grant("descent.section", "cli", **held, **payload)["section"]["sectionId"])


def gluer(desk: Desk, name: str = "gil", target: str = "main") -> Document:
    lease = desk.grant("glue.claim", "cli", target=target, gluer=name)["glue"]["lease"]
    return {"target": target, "gluer": name, "fence": lease["fence"], "leaseId": lease["leaseId"]}


def move(*sections: str, old: str = A, new: str = B) -> Document:
    return {"old": old, "new": new, "tree": C, "sections": list(sections)}


def in_the_way(section_id: str, **members: object) -> Document:
    return {"section": section_id, "kind": "conflict", "onto": A, "ontoTree": C, **members}


def work(*issues: str, **members: object) -> Desk:
    desk = Desk()
    for issue in issues:
        desk.grant("issue.add", id=issue, title=issue, **members)
    return desk


# --- limits ---------------------------------------------------------------------------------------


@stands_on("BRANCH_LENGTH_MAX")
def test_a_branch_has_a_name_of_so_many_characters() -> None:
    name = "x" * limits.BRANCH_LENGTH_MAX
    assert fits("descent.show", {"target": name})
    assert not fits("descent.show", {"target": name + "x"})


@stands_on("COVER_ISSUES_MAX", "SCOPE_GLOBS_MAX", "GLUE_SECTIONS_MAX", "OVERLAP_BATCH_MAX")
def test_lists_in_a_request_have_an_end() -> None:
    def cover(count: int) -> Document:
        return {**MAIN, "base": A, "issues": [f"i{place}" for place in range(count)]}

    def scope(count: int) -> Document:
        return {"title": "t", "scope": [f"src/{place}" for place in range(count)]}

    def glue(count: int) -> Document:
        return {**MAIN, **move(*(f"i/{place + 1}" for place in range(count)))}

    def overlap(count: int) -> Document:
        return {**MAIN, "overlaps": [{"left": "i/1", "onto": A, "verdict": "agree"}] * count}

    cases: list[tuple[str, Callable[[int], Document], int]] = [
        ("descent.cover", cover, limits.COVER_ISSUES_MAX),
        ("issue.add", scope, limits.SCOPE_GLOBS_MAX),
        ("descent.glue", glue, limits.GLUE_SECTIONS_MAX),
        ("descent.overlap", overlap, limits.OVERLAP_BATCH_MAX),
    ]
    for action, payload, most in cases:
        assert fits(action, payload(most)), action
        assert not fits(action, payload(most + 1)), action


@stands_on("SECTION_PATHS_MAX")
def test_a_section_names_its_first_paths_and_says_how_many_there_are() -> None:
    desk = work("a")
    held = desk.claim("a", "ann")
    most = limits.SECTION_PATHS_MAX
    paths = [f"src/{place:05}" for place in range(most + 1)]
    for named, count in ((paths, most + 1), (paths[:-2], most), (paths[:-2], most + 1)):
        payload = made(*named, count=count)
        assert desk.refusal("descent.section", "cli", **held, **payload) == (
            "descent_invalid_payload"
        )
    desk.grant("descent.section", "cli", **held, **made(*paths[:-1], count=most + 1))


@stands_on("OVERLAP_PATHS_MAX", "DESCENT_PATHS_SHOWN_MAX")
def test_an_obstruction_names_so_many_paths_and_shows_the_first_of_them() -> None:
    desk = work("a")
    found = in_the_way(section(desk, "a"))
    held = gluer(desk)
    paths = [f"src/{place:03}" for place in range(limits.OVERLAP_PATHS_MAX + 1)]
    assert desk.refusal("descent.obstruct", "cli", **held, **found, paths=paths) is not None
    view = desk.grant("descent.obstruct", "cli", **held, **found, paths=paths[1:])["obstruction"]
    assert view["paths"] == paths[1 : limits.DESCENT_PATHS_SHOWN_MAX + 1]
    assert view["pathCount"] == limits.OVERLAP_PATHS_MAX


@stands_on("COVERS_MAX", "COVERS_KEPT_MAX")
def test_covers_have_an_end_and_the_oldest_that_are_over_are_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert limits.COVERS_MAX < limits.COVERS_KEPT_MAX
    desk = work("a", "b", "c")

    def start(issue: str) -> str | None:
        return desk.refusal("descent.cover", **MAIN, base=A, issues=[issue], coverId=issue)

    monkeypatch.setattr(limits, "COVERS_MAX", 2)
    monkeypatch.setattr(limits, "COVERS_KEPT_MAX", 2)
    assert (start("a"), start("b"), start("c")) == (None, None, "covers_full")
    desk.grant("descent.abort", coverId="b")
    assert start("c") is None
    assert [*desk.authority.state.descent.covers] == ["a", "c"]
    desk.prove()


@stands_on("TARGETS_MAX")
def test_so_many_branches_are_glued_to(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = work()
    monkeypatch.setattr(limits, "TARGETS_MAX", 1)
    gluer(desk)
    asked = {"target": "next", "gluer": "gil"}
    assert desk.refusal("glue.claim", "cli", **asked) == "targets_full"
    monkeypatch.setattr(limits, "TARGETS_MAX", 2)
    assert desk.refusal("glue.claim", "cli", **asked) is None


@stands_on("OVERLAPS_MAX")
def test_so_many_overlaps_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = work("a", "b")
    ids = [section(desk, issue) for issue in "ab"]
    held = gluer(desk)
    both = [{"left": each, "onto": A, "verdict": "agree"} for each in ids]
    monkeypatch.setattr(limits, "OVERLAPS_MAX", 1)
    assert desk.refusal("descent.overlap", "cli", **held, overlaps=both) == "overlaps_full"
    desk.grant("descent.overlap", "cli", **held, overlaps=both[:1] * 3)  # the last word counts
    desk.prove()


@stands_on("OBSTRUCTIONS_MAX")
def test_the_newest_obstructions_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = work("a", "b")
    monkeypatch.setattr(limits, "OBSTRUCTIONS_MAX", 1)
    held = gluer(desk)
    for issue in "ab":
        desk.grant("descent.obstruct", "cli", **held, **in_the_way(section(desk, issue)))
    (kept,) = desk.authority.state.descent.obstructions.values()
    assert kept.section_id.startswith("b/")
    desk.prove()


@stands_on("DESCENT_SHOWN_MAX")
def test_an_answer_shows_so_much_and_says_that_there_is_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = work("a", "b")
    for issue in "ab":
        section(desk, issue)
    monkeypatch.setattr(limits, "DESCENT_SHOWN_MAX", 2)
    assert desk.grant("descent.show")["truncated"] is False
    monkeypatch.setattr(limits, "DESCENT_SHOWN_MAX", 1)
    shown = desk.grant("descent.show")
    assert (shown["truncated"], len(shown["sections"]), shown["count"]) == (True, 1, 2)


def test_covers_are_shown_as_far_as_there_is_room_for_their_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    desk = work("a", "b", "c")
    for cover in ("ab", "c"):
        desk.grant("descent.cover", **MAIN, base=A, issues=[*cover], coverId=cover)
    monkeypatch.setattr(limits, "LIST_MAX", 2)
    shown = desk.grant("descent.show")
    assert ([each["coverId"] for each in shown["covers"]], shown["truncated"]) == (["c"], True)
    monkeypatch.setattr(limits, "LIST_MAX", 3)
    assert len(desk.grant("descent.show")["covers"]) == 2


@stands_on("SCOPES_COMPARED_MAX")
def test_so_many_globs_are_compared_when_a_cover_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = work("a", "b", scope=["src/**", "docs/**"])
    asked = {**MAIN, "base": A, "issues": ["a", "b"]}
    monkeypatch.setattr(limits, "SCOPES_COMPARED_MAX", 4)
    cover = desk.grant("descent.cover", **asked)
    assert len(cover["meetingScopes"]) == 1
    desk.grant("descent.abort", coverId=cover["cover"]["coverId"])
    monkeypatch.setattr(limits, "SCOPES_COMPARED_MAX", 3)
    assert desk.grant("descent.cover", **asked)["meetingScopes"] == []


def test_no_issue_is_filed_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = work("a")
    found = in_the_way(section(desk, "a"), end="file")
    held = gluer(desk)
    monkeypatch.setattr(limits, "ISSUES_MAX", 1)
    assert desk.refusal("descent.obstruct", "cli", **held, **found) == "issue_store_full"
    monkeypatch.setattr(limits, "ISSUES_MAX", 2)
    desk.grant("descent.obstruct", "cli", **held, **found)


# --- rules ----------------------------------------------------------------------------------------


def test_the_same_obstruction_files_one_issue() -> None:
    desk = work("a" * limits.ID_LENGTH_MAX)
    (issue,) = desk.authority.state.issues
    held = gluer(desk)
    filed = []
    for _ in range(2):
        found = in_the_way(section(desk, issue), end="file")
        view = desk.grant("descent.obstruct", "cli", **held, **found)["obstruction"]
        filed.append((view["obstructionId"], view["newId"]))
        desk.grant("issue.retry", id=issue)
    assert filed[0] == filed[1]
    assert len(filed[0][1]) == limits.ID_LENGTH_MAX
    assert len(desk.authority.state.issues) == 2


def test_an_obstruction_has_another_id_where_another_thing_does_not_fit() -> None:
    """It follows from trees and paths; fences, commits and the order of paths are nothing to it."""

    def identity(tree: str = C, **members: object) -> str:
        desk = work("a")
        for _ in range(int(str(members.pop("terms", 1)))):  # each has another fence
            held = desk.claim("a", "ann")
            desk.grant("issue.lease_release", **held)
        found = in_the_way(section(desk, "a", tree=tree, commit=str(members.pop("commit", B))))
        answer = desk.grant("descent.obstruct", "cli", **gluer(desk), **{**found, **members})
        return str(answer["obstruction"]["obstructionId"])

    plain = identity(paths=["x", "y"])
    assert plain == identity(paths=["y", "x"]) == identity(paths=["x", "y"], terms=3, commit=D)
    others = [
        identity(tree=D, paths=["x", "y"]),
        identity(paths=["x"]),
        identity(paths=["x", "y"], kind="meaning"),
        identity(paths=["x", "y"], ontoTree=D),
        identity(paths=["x", "y"], check="lint"),
    ]
    assert len({plain, *others}) == len(others) + 1


def test_an_abort_excuses_no_more_than_was_tried() -> None:
    desk = work("a")
    desk.grant("descent.cover", **MAIN, base=A, issues=["a"], coverId="one")
    section(desk, "a")
    desk.grant("issue.update", id="a", afresh=True)
    desk.grant("descent.abort", coverId="one")
    issue = desk.authority.state.issues["a"]
    assert (issue.excused, issue.attempts) == (1, 1)


def test_a_cover_without_an_id_is_named_after_its_row() -> None:
    desk = work("a", "b")
    seq = desk.authority.head.seq
    taken = f"cover-{seq + 2}"
    desk.grant("descent.cover", **MAIN, base=A, issues=["a"], coverId=taken)
    cover = desk.grant("descent.cover", **MAIN, base=A, issues=["b"])["cover"]
    assert cover["coverId"] == taken + "x"


def test_a_record_from_elsewhere_may_have_the_word_alone() -> None:
    desk = Desk()
    moment = "2027-01-15T08:00:00Z"
    record = {"id": "a", "title": "t", "status": "gluing", "created_at": moment}
    desk.grant("issue.import", "cli", records=[record | {"updated_at": moment}])
    assert desk.refusal("issue.claim", id="a", assignee="ann") is None
    desk.prove()


def test_circles_from_elsewhere_do_not_keep_a_cover_from_its_order() -> None:
    desk = Desk()
    moment = "2027-01-15T08:00:00Z"
    records = [
        {"id": each, "title": "t", "created_at": moment, "updated_at": moment, "dependencies": [
            {"depends_on_id": other, "type": "blocks", "extra": ""}
        ]}
        for each, other in ("ab", "ba", "cd")
    ]  # fmt: skip
    desk.grant("issue.import", "cli", records=records)
    cover = desk.grant("descent.cover", **MAIN, base=A, issues=["b", "c", "a"])["cover"]
    assert [each["issueId"] for each in cover["members"]] == ["c", "a", "b"]


def test_scope_is_set_and_cleared_and_leaves_the_bytes_of_before() -> None:
    desk = work("a")
    untouched = desk.authority.state.issues["a"]
    assert desk.grant("issue.update", id="a", scope=[])["changed"] is False
    assert desk.authority.state.issues["a"] == untouched
    desk.grant("issue.update", id="a", scope=["src/**", "src/**"])
    assert desk.grant("issue.show", id="a")["issue"]["scope"] == ["src/**"]
    desk.grant("issue.update", id="a", scope=[])
    assert "scope" not in desk.grant("issue.show", id="a")["issue"]


def test_sections_go_through_their_life_and_through_no_other() -> None:
    ends = {SectionState.GLUED, SectionState.OBSTRUCTED, SectionState.WITHDRAWN}
    assert {state for state, _ in SECTION_TRANSITIONS} == {*SectionState} - ends
    assert {*SECTION_TRANSITIONS.values()} == {*SectionState}
    assert {move for _, move in SECTION_TRANSITIONS} == {*SectionMove}


GLOB = st.lists(
    st.sampled_from(["a", "b", "ab", "*", "?", "a*", "*b", "a?b", "**"]), min_size=1, max_size=4
).map("/".join)
PATH = st.lists(st.sampled_from(["a", "b", "ab", "aab"]), min_size=1, max_size=4).map("/".join)


@tried(400)
@given(GLOB, GLOB, PATH)
def test_globs_that_take_one_path_meet(left: str, right: str, path: str) -> None:
    assert globs_meet(left, right) == globs_meet(right, left)
    assert not (matches(left, path) and matches(right, path)) or globs_meet(left, right)
    assert globs_meet(left, path) == matches(left, path)


# --- whatever order is taken ----------------------------------------------------------------------

ISSUES = ("a", "b", "c")
STATUSES = {"open", "in_progress", "gluing", "closed", "blocked", "cancelled"}
PLAIN = ("section", "claim", "cancel", "retry", "reopen", "block", "close", "abort", "cover")
STEPS = st.lists(
    st.tuples(
        st.sampled_from((*PLAIN, "glue", "seal", "void", "obstruct", "depose")),
        st.integers(0, 5),
    ),
    max_size=25,
)


class Play:
    """Anything that can be done to three issues and two branches, in any order."""

    def __init__(self) -> None:
        self.desk = work(*ISSUES)
        self.held: dict[str, Document] = {}
        self.gluers = {"main": gluer(self.desk)}
        self.moves = 0

    @property
    def state(self) -> State:
        return self.desk.authority.state

    def take(self, step: str, number: int) -> None:
        issue = ISSUES[number % len(ISSUES)]
        plain: dict[str, tuple[str, Document]] = {
            "cancel": ("issue.cancel", {"id": issue}),
            "retry": ("issue.retry", {"id": issue}),
            "reopen": ("issue.update", {"id": issue, "status": "open"}),
            "block": ("issue.update", {"id": issue, "status": "blocked"}),
            "close": ("issue.close", {"id": issue}),
            "abort": ("descent.abort", {"coverId": f"cover-{number}"}),
            "cover": (
                "descent.cover",
                {**MAIN, "base": A, "issues": [*ISSUES[: 1 + number % 3]]}
                | {"coverId": f"cover-{number}"},
            ),
        }
        if step in plain:
            action, payload = plain[step]
            self.desk.ask(action, "cli", **payload)
        else:
            getattr(self, step)(issue, number)

    def claim(self, issue: str, number: int) -> None:
        answer = self.desk.ask("issue.claim", id=issue, assignee=f"w{number}")
        if answer["result"] == "accepted":
            lease = answer["issue"]["lease"]
            proof = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
            self.held[issue] = {"id": issue, "assignee": f"w{number}", **proof}

    def section(self, issue: str, number: int) -> None:
        if issue not in self.held:
            self.claim(issue, number)
        if issue in self.held:
            self.desk.ask("descent.section", "cli", **self.held[issue], **made(f"src/{issue}"))

    def glue(self, _: str, number: int) -> None:
        """The first of what waits, which is never out of order; then what is not the first."""
        ids = [each.section_id for each in waiting(self.state, "main")]
        first = [each for each in waiting(self.state, "main") if not [*before(self.state, each)]]
        if not ids:
            return
        self.moves += 1
        new = f"{self.moves:040}"
        pending = self.state.descent.targets["main"].pending
        asked = move(*(ids if number % 2 else ids[-1:]), new=new) | {"moved": True}
        answer = self.desk.ask("descent.glue", "cli", **self.gluers["main"], **asked)
        if answer["result"] == "rejected" and first and pending is None:
            asked = move(first[0].section_id, new=new) | {"moved": True}
            answer = self.desk.ask("descent.glue", "cli", **self.gluers["main"], **asked)
            assert answer["failureClasses"] in ([], ["lease_fence_stale"])

    def seal(self, _: str, __: int) -> None:
        pending = self.state.descent.targets["main"].pending
        head = pending.new if pending else B
        self.desk.ask("descent.seal", "cli", **self.gluers["main"], result="moved", head=head)

    def void(self, _: str, __: int) -> None:
        self.desk.ask("descent.seal", "cli", **self.gluers["main"], result="void", head=D)

    def obstruct(self, issue: str, number: int) -> None:
        found = self.state.descent.sections.get(issue)
        if found is not None:
            end = ("return", "file", "stop")[number % 3]
            payload = in_the_way(found.section_id, end=end)
            self.desk.ask("descent.obstruct", "cli", **self.gluers["main"], **payload)

    def depose(self, _: str, number: int) -> None:
        """Another gluer; what the first one asks for afterwards changes nothing."""
        first = self.gluers["main"]
        self.desk.time.passes(limits.SPEC_TTL_MS_DEFAULT + 1)
        self.gluers["main"] = gluer(self.desk, f"g{number}")
        image = dump(self.state)
        for action, payload in (
            ("descent.seal", {"result": "moved", "head": B}),
            ("descent.glue", move("a/1")),
        ):
            refusal = self.desk.refusal(action, "cli", **first, **payload)
            assert refusal == "lease_fence_stale"
        assert dump(self.state) == image


@tried(120)
@given(STEPS)
def test_whatever_is_done_each_issue_is_in_one_state_and_glue_keeps_its_order(
    steps: list[tuple[str, int]],
) -> None:
    play = Play()
    for step, number in steps:
        queue = [each.issue_id for each in waiting(play.state, "main")]
        single = [each for each in queue if each not in play.state.descent.covered]
        play.take(step, number)
        check_invariants(play.state)
        assert dump(load(dump(play.state))) == dump(play.state)
        assert {play.state.issues[issue].status for issue in ISSUES} <= STATUSES
        for issue, found in play.state.descent.sections.items():
            if found.state is SectionState.OPEN:
                assert play.state.issues[issue].status == "gluing"
        pending = play.state.descent.targets["main"].pending
        if step == "glue" and pending is not None:
            taken = [each.partition("/")[0] for each in pending.section_ids]
            ours = [each for each in taken if each in single]
            assert ours == single[: len(ours)]
    play.desk.prove()
