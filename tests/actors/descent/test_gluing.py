"""Gluing: real sections, a real repository, the real authority."""

from pathlib import Path
from unittest import mock

import pytest

from tests.actors.descent.glue_world import MEANING, GlueWorld, issues_of
from understudy.actors.descent import branch
from understudy.actors.descent.git import GitRefused
from understudy.actors.descent.glue_desk import GlueStopped, LeaseOver
from understudy.actors.descent.gluing import GlueLater, GluePass, GlueSettings


@pytest.fixture
def world(tmp_path: Path) -> GlueWorld:
    return GlueWorld(tmp_path)


# --- what fits ------------------------------------------------------------------------------------


def test_sections_are_glued_in_the_order_of_the_journal_and_their_issues_closed(
    world: GlueWorld,
) -> None:
    ids = [world.section(name, {f"{name}.txt": name}, world.base) for name in ("z", "a", "m")]
    report = world.glue()
    assert report.glued == ids
    assert world.merges() == ids
    assert {"z.txt", "a.txt", "m.txt"} <= set(world.files())
    assert [world.status(name) for name in ("z", "a", "m")] == ["closed"] * 3
    assert world.shown()["glue"]["head"] == world.head


def test_a_cover_is_glued_in_the_order_of_its_issues_whichever_is_ready_first(
    world: GlueWorld,
) -> None:
    for name, priority in (("low", 3), ("mid", 2), ("top", 0)):
        world.accepted("issue.add", id=name, title=name, priority=priority)
    world.accepted(
        "descent.cover", coverId="c", target="main", base=world.base, issues=["low", "mid", "top"]
    )
    low = world.section("low", {"low.txt": "low"})
    mid = world.section("mid", {"mid.txt": "mid"})
    assert world.glue().glued == [], "the first is not there"
    top = world.section("top", {"top.txt": "top"})
    assert world.glue().glued == [top, mid, low]
    assert world.shown()["covers"][0]["state"] == "glued"


def test_a_merge_is_the_same_for_whoever_makes_it(tmp_path: Path) -> None:
    trees = []
    for order in (("x", "y"), ("y", "x")):
        world = GlueWorld(tmp_path / order[0])
        world.add("x", "y")
        world.accepted(
            "descent.cover", coverId="c", target="main", base=world.base, issues=["x", "y"]
        )
        for name in order:
            world.section(name, {f"{name}.txt": name})
        world.glue()
        assert issues_of(world.merges()) == ["x", "y"]
        trees.append(world.git.text("rev-parse", "main^{tree}"))
    assert trees[0] == trees[1]


def test_a_merge_names_its_section_and_not_the_gluer(world: GlueWorld) -> None:
    section = world.section("a", {"new.txt": "a"})
    world.glue()
    said = world.git.text("log", "-1", "--format=%B%an %ad %cd", "--date=unix", "main")
    assert said.startswith(f"Glue {section} into main\n")
    for line in ("Understudy-Issue: a", f"Understudy-Section: {section}", "Understudy-Glue: main"):
        assert line in said
    recorded = said.splitlines()[-1].split()
    assert recorded[0] == "understudy"
    assert recorded[1] == recorded[2]


def test_a_section_that_is_in_already_is_closed_without_another_commit(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    world.git.run("update-ref", "refs/heads/main", "HEAD")  # merged by hand
    head = world.head
    assert issues_of(world.glue().glued) == ["a"]
    assert (world.head, world.status("a")) == (head, "closed")


def test_overlaps_are_recorded_with_the_target_and_between_sections(world: GlueWorld) -> None:
    for name in ("first", "x", "y"):
        world.add(name)
    world.accepted(
        "descent.cover", coverId="c", target="main", base=world.base, issues=["first", "x", "y"]
    )
    x = world.section("x", {"a.txt": "ONE\ntwo\nthree\n"})
    y = world.section("y", {"a.txt": "UNO\ntwo\nthree\n"})
    world.section("single", {"b.txt": "other\n"})
    world.glue()
    found = {(it["left"], it.get("right", "")): it for it in world.shown()["overlaps"]}
    assert found[x, ""]["verdict"] == "agree"
    pair = found.get((x, y)) or found[y, x]
    assert (pair["verdict"], pair["paths"]) == ("conflict", ["a.txt"])


def test_a_member_that_is_taken_out_is_not_waited_for_and_comes_in_later(world: GlueWorld) -> None:
    world.section("before", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    world.add("x", "y")
    world.accepted("descent.cover", coverId="c", target="main", base=world.base, issues=["x", "y"])
    world.section("x", {"a.txt": "UNO\ntwo\nthree\n"}, world.base)
    world.section("y", {"y.txt": "y"}, world.base)
    assert issues_of(world.glue().glued) == ["before", "y"]
    assert world.status("x") == "open"
    world.section("x", {"a.txt": "UNO E ONE\ntwo\nthree\n"})
    assert issues_of(world.glue().glued) == ["x"]
    assert world.file("a.txt").startswith("UNO E ONE")


# --- what does not --------------------------------------------------------------------------------


def test_what_conflicts_goes_back_with_the_paths_and_the_lines(world: GlueWorld) -> None:
    first = world.section("first", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    second = world.section("second", {"a.txt": "UNO\ntwo\nthree\n"}, world.base)
    third = world.section("third", {"c.txt": "c\n"}, world.base)
    report = world.glue()
    assert report.glued == [first, third]
    (found,) = report.obstructions
    assert (found["section"], found["kind"], found["end"]) == (second, "conflict", "return")
    assert (found["paths"], found["others"]) == (["a.txt"], [first])
    assert world.status("second") == "open"
    told = world.handover("second")
    for words in ("a.txt (content)", first, "UNO", f"refs/understudy/section/{second}", "Next:"):
        assert words in told
    assert world.file("a.txt") == "ONE\ntwo\nthree"


def test_a_conflict_that_comes_back_too_often_stops(world: GlueWorld) -> None:
    world.section("first", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    ends = []
    for text in ("UNO", "EINS", "UN"):
        world.section("second", {"a.txt": f"{text}\ntwo\nthree\n"}, world.base)
        ends += [each["end"] for each in world.glue().obstructions]
    assert ends == ["return", "return", "stop"]
    assert world.status("second") == "blocked"


@pytest.mark.parametrize("end", ["file", "stop"])
def test_an_operator_chooses_what_becomes_of_a_conflict(world: GlueWorld, end: str) -> None:
    world.section("first", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    world.section("second", {"a.txt": "UNO\ntwo\nthree\n"}, world.base)
    (found,) = world.glue(on_obstruction=end).obstructions
    assert (found["end"], world.status("second")) == (end, "blocked")
    if end == "file":
        filed = world.accepted("issue.show", id=found["newId"])["issue"]
        assert "a.txt" in filed["description"]


def test_sections_that_pass_alone_and_fail_together_conflict_in_meaning(world: GlueWorld) -> None:
    world.require_python(MEANING)
    left = world.section("left", {"l.txt": "left"}, world.base)
    right = world.section("right", {"r.txt": "right"}, world.base)
    report = world.glue()
    assert report.glued == [left]
    (found,) = report.obstructions
    assert (found["section"], found["kind"], found["check"]) == (right, "meaning", "tests")
    assert found["others"] == [left]
    assert found["witness"].startswith("ciwitness://required/")
    told = world.handover("right")
    assert "check `tests` does not pass" in told
    assert "looked" in told
    assert not list((world.state_dir / "worktrees" / ".glue").rglob("*.txt"))


def test_one_failing_member_is_taken_out_and_the_rest_goes_on(world: GlueWorld) -> None:
    world.require_python(MEANING)
    names = ("a1", "left", "a2", "right", "a3", "a4")
    ids = {name: world.section(name, {f"{name}.txt": name}, world.base) for name in names}
    report = world.glue(speculate=4)
    assert issues_of(report.glued) == ["a1", "left", "a2", "a3", "a4"]
    assert [each["section"] for each in report.obstructions] == [ids["right"]]
    assert world.merges() == report.glued


def test_a_target_that_fails_by_itself_obstructs_nothing(world: GlueWorld) -> None:
    world.require_python("print('broken'); raise SystemExit(1)")
    world.section("a", {"new.txt": "a"})
    with pytest.raises(GlueStopped, match="main itself does not pass check `tests`"):
        world.glue()
    assert (world.status("a"), world.head) == ("gluing", world.base)


def test_a_check_that_cannot_be_run_obstructs_nothing(world: GlueWorld) -> None:
    world.require("there-is-no-such-command")
    world.section("a", {"new.txt": "a"})
    with pytest.raises(GlueStopped, match="cannot be run here"):
        world.glue()
    assert world.status("a") == "gluing"


def test_checks_run_after_the_setup_of_their_worktree(world: GlueWorld) -> None:
    world.require("test", "-e", "made")
    world.section("a", {"new.txt": "a"})
    with pytest.raises(GlueStopped, match=r"(?s)setup of a worktree.*no network"):
        world.glue(setup="echo no network; false")
    assert issues_of(world.glue(setup="touch made").glued) == ["a"]
    assert "made" not in world.files()


def test_an_operator_says_how_often_an_issue_goes_back(world: GlueWorld) -> None:
    world.section("first", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    world.section("second", {"a.txt": "UNO\ntwo\nthree\n"}, world.base)
    (found,) = world.glue(attempts=1).obstructions
    assert (found["end"], world.status("second")) == ("stop", "blocked")


# --- a branch that is not as it was left ----------------------------------------------------------


def test_a_branch_that_was_moved_forward_by_hand_is_gone_on_with(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    world.glue()
    moved = world.commit({"hand.txt": "by hand"}, "main")
    world.git.run("update-ref", "refs/heads/main", moved)
    world.section("b", {"b2.txt": "b"}, world.base)
    report = world.glue()
    assert issues_of(report.glued) == ["b"]
    assert "was moved by hand" in report.notes[0]
    assert "hand.txt" in world.files()


def test_a_branch_that_was_rewritten_stops_the_glue_until_that_is_accepted(
    world: GlueWorld,
) -> None:
    world.section("a", {"new.txt": "a"})
    world.glue()
    world.git.run("update-ref", "refs/heads/main", world.base)
    world.section("b", {"b2.txt": "b"}, world.base)
    with pytest.raises(GlueStopped, match="--accept-moved"):
        world.glue()
    assert (world.head, world.status("b")) == (world.base, "gluing")
    report = world.glue(accepts_moved=True)
    assert issues_of(report.glued) == ["b"]
    assert "was rewritten" in report.notes[0]


def test_a_branch_that_is_not_there_is_named(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    world.git.run("update-ref", "-d", "refs/heads/main")
    with pytest.raises(GitRefused, match="main: there is no such branch"):
        world.glue()


def test_a_dirty_checkout_of_the_branch_is_left_alone(world: GlueWorld) -> None:
    world.section("a", {"a.txt": "changed\n"})
    world.git.run("checkout", "-q", "main")
    (world.folder / "a.txt").write_text("mine\n")
    with pytest.raises(GlueLater, match="changes of its own"):
        world.glue()
    assert (world.folder / "a.txt").read_text() == "mine\n"
    assert (world.status("a"), world.head) == ("gluing", world.base)


def test_a_section_whose_commit_is_missing_says_what_to_do(world: GlueWorld) -> None:
    world.add("a")
    claim = world.accepted("issue.claim", id="a", assignee="ada")["issue"]["lease"]
    world.accepted(
        "descent.section", id="a", assignee="ada", leaseId=claim["leaseId"], fence=claim["fence"],
        target="main", base=world.base, commit="1" * 40, tree="2" * 40, paths=["x"], pathCount=1,
        pathsDigest="paths1_0",
    )  # fmt: skip
    with pytest.raises(GlueStopped, match="Fetch it to refs/understudy/section/a/"):
        world.glue()


# --- the team's own command -----------------------------------------------------------------------


def test_a_command_glues_in_place_of_the_move(world: GlueWorld, tmp_path: Path) -> None:
    section = world.section("a", {"new.txt": "a"})
    seen = tmp_path / "seen"
    words = f'cat > {seen}; echo "$UNDERSTUDY_OLD $UNDERSTUDY_FENCE" >> {seen}; '
    command = words + 'git update-ref refs/heads/main "$UNDERSTUDY_NEW" "$UNDERSTUDY_OLD"'
    assert world.glue(command=command).glued == [section]
    assert f'"sectionId":"{section}"' in seen.read_text()
    assert world.base in seen.read_text()
    assert (world.status("a"), world.merges()) == ("closed", [section])


def test_a_command_may_ask_to_be_run_later(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    with pytest.raises(GlueLater, match="asks to be run later"):
        world.glue(command="exit 75")
    assert (world.status("a"), world.head) == ("gluing", world.base)
    assert issues_of(world.glue().glued) == ["a"]


def test_a_command_that_fails_stops_the_glue_with_its_words(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    with pytest.raises(GlueStopped, match=r"(?s)ended with 3 for a/.*no such remote"):
        world.glue(command="echo no such remote; exit 3")
    assert "pending" not in world.shown()["glue"]
    assert world.status("a") == "gluing"


@pytest.mark.parametrize("is_in", [True, False])
def test_a_command_whose_gluer_died_counts_only_if_the_branch_has_its_sections(
    world: GlueWorld, tmp_path: Path, *, is_in: bool
) -> None:
    section = world.section("a", {"new.txt": "a"})
    ran = tmp_path / "ran"
    moves = 'git update-ref refs/heads/main "$UNDERSTUDY_NEW"' if is_in else "true"
    desk = world.claim("dead")
    work = GluePass(desk, world.git, world.state_dir, GlueSettings(command=moves))
    dies = mock.patch.object(work, "_sealed", side_effect=KeyboardInterrupt)
    with dies, pytest.raises(KeyboardInterrupt):
        work.run()
    world.release(desk)
    report = world.glue(command=f"echo once >> {ran}")
    assert (report.settled, report.glued) == ([section], [section])
    assert ran.exists() != is_in, "it is run again only where it may not have been"


# --- gluers that come late ------------------------------------------------------------------------


def test_a_glue_that_was_authorised_and_not_moved_is_moved_by_the_next(world: GlueWorld) -> None:
    section = world.section("a", {"new.txt": "a"})
    pending = _authorised(world)
    report = world.glue()
    assert (report.settled, report.glued, world.head) == ([section], [section], pending["new"])
    assert world.merges() == [section]


def test_a_glue_that_was_moved_and_not_sealed_is_sealed_by_the_next(world: GlueWorld) -> None:
    section = world.section("a", {"new.txt": "a"})
    pending = _authorised(world)
    world.git.run("update-ref", "refs/heads/main", pending["new"])
    later = world.commit({"hand.txt": "upon it"}, "main")
    world.git.run("update-ref", "refs/heads/main", later)
    report = world.glue()
    assert (report.glued, world.head, world.status("a")) == ([section], later, "closed")


def test_a_glue_whose_branch_went_elsewhere_is_void_and_done_anew(world: GlueWorld) -> None:
    section = world.section("a", {"new.txt": "a"})
    _authorised(world)
    moved = world.commit({"hand.txt": "by hand"}, world.base)
    world.git.run("update-ref", "refs/heads/main", moved)
    report = world.glue()
    assert report.glued == [section]
    assert any("void" in each for each in report.notes)
    assert {"hand.txt", "new.txt"} <= set(world.files())


def test_a_gluer_whose_lease_is_over_moves_nothing(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    old = world.claim("old")
    world.release(old)
    young = world.claim("young")
    branch.register(world.git, "main", young.held.fence)
    with pytest.raises(branch.Deposed):
        GluePass(old, world.git, world.state_dir, GlueSettings()).run()
    with pytest.raises(LeaseOver):
        old.act("descent.seal", result="moved", head=world.base)
    assert world.head == world.base


def test_a_repository_that_another_state_directory_glued_says_so(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    branch.register(world.git, "main", 5_000)
    with pytest.raises(GlueStopped, match="git update-ref -d refs/understudy/fence/main"):
        world.glue()
    world.git.run("update-ref", "-d", "refs/understudy/fence/main")
    assert issues_of(world.glue().glued) == ["a"]


def _authorised(world: GlueWorld) -> dict[str, str]:
    """A gluer that dies between the word of the authority and its deed."""
    desk = world.claim("dead")
    work = GluePass(desk, world.git, world.state_dir, GlueSettings())
    dies = mock.patch.object(branch, "move", side_effect=KeyboardInterrupt)
    with dies, pytest.raises(KeyboardInterrupt):
        work.run()
    world.release(desk)
    pending: dict[str, str] = world.shown()["glue"]["pending"]
    return pending
