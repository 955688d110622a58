"""`understudy descent`: covers, gluers as processes, and what is left when they are killed."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.actors.descent.glue_world import MEANING, GlueWorld, issues_of
from tests.patience import eventually
from tests.surfaces.conftest import Run
from tests.surfaces.process import FAILPOINT, UNDERSTUDY, Program, Words, commanded, understudy
from understudy.actors.descent import branch
from understudy.authority.journal.failpoint import GLUE_NAMES


@pytest.fixture
def world(tmp_path: Path) -> GlueWorld:
    return GlueWorld(tmp_path / "world")


@pytest.fixture
def told(world: GlueWorld, bare: Run) -> Run:
    """A command on the world's state directory."""

    def said(*words: object) -> Any:
        return bare("descent", *words, "--state-dir", world.state_dir)

    return said


def here(world: GlueWorld) -> tuple[str, ...]:
    return ("--cwd", str(world.folder), "--into", "main")


def glue_words(world: GlueWorld, *words: str) -> list[str | Path]:
    return ["descent", "glue", *here(world), *words, "--state-dir", world.state_dir]


# --- covers and looking ---------------------------------------------------------------------------


def test_a_cover_shows_its_order_and_where_scopes_meet(world: GlueWorld, told: Run) -> None:
    for name, priority in (("low", 3), ("top", 0)):
        world.accepted(
            "issue.add", id=name, title=name, priority=priority, labels=["core"], scope=["src/**"]
        )
    said = told("start", "--label", "core", *here(world))
    assert said.code == 0, said.err
    assert said.out.index("top") < said.out.index("low")
    assert "may meet: src/**" in said.out
    assert world.shown()["covers"][0]["base"] == world.base


def test_a_spec_is_the_issues_with_its_label(world: GlueWorld, told: Run) -> None:
    world.accepted("issue.add", id="a", title="a", labels=["spec:nightly"])
    world.accepted("issue.add", id="b", title="b")
    found = told("start", "--spec", "nightly", *here(world), "--json").json
    assert [each["issueId"] for each in found["cover"]["members"]] == ["a"]


def test_a_cover_of_nothing_is_refused_with_what_to_do(world: GlueWorld, told: Run) -> None:
    said = told("start", "--label", "none", *here(world))
    assert (said.code, "understudy issue list" in said.err) == (10, True)
    said = told("start", *here(world))
    assert (said.code, "in one way" in said.err) == (2, True)


def test_an_aborted_cover_gives_its_issues_back(world: GlueWorld, told: Run) -> None:
    world.add("a", "b")
    assert told("start", "--issues", "a,b", "--id", "c", *here(world)).code == 0
    world.section("b", {"b.txt": "new\n"})
    said = told("abort", "c", "--reason", "not like this")
    assert said.out == "c is aborted; open again: b\n"
    assert world.status("b") == "open"


def test_status_shows_what_waits_and_for_what(world: GlueWorld, told: Run) -> None:
    world.add("a", "b")
    told("start", "--issues", "a,b", "--id", "c", *here(world))
    section = world.section("b", {"b.txt": "new\n"})
    said = told("status")
    assert f"{section}  into main  1 path  not looked at  waits for a" in said.out
    assert "cover c into main: open: a open, b gluing" in said.out
    assert told("status", "--json").json["counts"]["open"] == 1


def test_overlaps_are_drawn_from_the_records_or_from_git(world: GlueWorld, told: Run) -> None:
    world.section("x", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    world.section("y", {"a.txt": "UNO\ntwo\nthree\n"}, world.base)
    assert "conflict:" not in told("overlaps", *here(world)).out
    said = told("overlaps", "--check", *here(world))
    assert "conflict: a.txt" in said.out
    assert "asking git about 2 sections" in said.err
    assert not world.shown()["overlaps"], "nothing is recorded"


def test_a_detached_head_asks_for_the_branch(world: GlueWorld, told: Run) -> None:
    said = told("glue", "--cwd", world.folder)
    assert (said.code, "HEAD is detached" in said.err) == (78, True)
    said = told("glue", "--cwd", world.folder, "--into", "nope")
    assert (said.code, "nope: there is no such branch" in said.err) == (78, True)


def test_what_is_no_repository_is_named(world: GlueWorld, told: Run, tmp_path: Path) -> None:
    said = told("glue", "--cwd", tmp_path)
    assert (said.code, "not a git repository" in said.err) == (78, True)


# --- gluing, in processes -------------------------------------------------------------------------


def test_a_gluer_glues_and_says_what_did_not_fit(world: GlueWorld) -> None:
    first = world.section("first", {"a.txt": "ONE\ntwo\nthree\n"}, world.base)
    second = world.section("second", {"a.txt": "UNO\ntwo\nthree\n"}, world.base)
    done = understudy(*glue_words(world, "--json"))
    assert done.returncode == 5, done.stderr
    found = orjson.loads(done.stdout)
    assert (found["glued"], found["obstructions"][0]["section"]) == ([first], second)
    assert b"second/" in commanded("descent", "obstructions", "--state-dir", world.state_dir).stdout
    done = understudy(*glue_words(world))
    assert (done.returncode, done.stdout) == (0, b"main: nothing waits\n")
    assert "lease" not in world.shown()["glue"]


def test_a_rewritten_branch_stops_the_command_with_the_way_on(world: GlueWorld) -> None:
    world.section("a", {"new.txt": "a"})
    assert understudy(*glue_words(world)).returncode == 0
    world.git.run("update-ref", "refs/heads/main", world.base)
    world.section("b", {"b2.txt": "b"}, world.base)
    done = understudy(*glue_words(world))
    assert (done.returncode, b"--accept-moved" in done.stderr) == (1, True)
    done = understudy(*glue_words(world, "--follow"))
    assert (done.returncode, b"was rewritten" in done.stderr) == (1, True), "nothing to wait for"
    assert understudy(*glue_words(world, "--accept-moved")).returncode == 0


@pytest.mark.parametrize("point", GLUE_NAMES)
def test_a_gluer_killed_at_any_step_is_followed_by_one_that_ends_alike(
    world: GlueWorld, point: str
) -> None:
    world.require_python(MEANING)
    names = ("first", "left", "right", "last")
    ids = [world.section(name, {f"{name}.txt": name}, world.base) for name in names]
    done = understudy(*glue_words(world, "--speculate", "2"), env={FAILPOINT: f"{point}:2"})
    assert done.returncode == 137, done.stderr
    done = understudy(*glue_words(world, "--speculate", "2"))
    assert done.returncode == 5 or world.status("right") == "open", done.stderr
    assert world.merges() == [each for each in ids if not each.startswith("right/")]
    assert sorted(world.files()) == ["a.txt", "b.txt", "first.txt", "last.txt", "left.txt"]
    assert [world.status(name) for name in names] == ["closed", "closed", "open", "closed"]
    shown = world.shown()
    assert (shown["count"], "pending" in shown["glue"]) == (0, False)
    assert shown["glue"]["glued"] == 3
    assert issues_of([each["section"] for each in shown["obstructions"]]) == ["right"]
    for words in (("replay",), ("verify",)):
        proof = commanded(*words, "--state-dir", world.state_dir)
        assert proof.returncode == 0, proof.stdout + proof.stderr


@pytest.fixture
def frozen(world: GlueWorld) -> Iterator[Program]:
    """A pass without a warden, frozen after it was authorised and before it moves."""
    world.section("a", {"new.txt": "a"})
    world.section("b", {"b2.txt": "b"})
    desk = world.claim("zombie", 60_000)
    order = orjson.dumps({"folder": str(world.folder), "report": str(world.folder / ".git/report"),
                          "boundary": None, "settings": {}}).decode()  # fmt: skip
    words: Words = [
        UNDERSTUDY.with_name("python"),
        "-m",
        "understudy.actors.descent.glue_program",
        order,
    ]
    env = desk.held.environment(world.state_dir) | {FAILPOINT: "glue.moving:1:stop"}
    with Program(words, env=env) as program:
        eventually(lambda: "pending" in world.shown()["glue"])
        eventually(lambda: _is_stopped(program.pid))
        world.release(desk)  # as if its time were up
        yield program


def test_a_frozen_gluer_that_wakes_moves_nothing(world: GlueWorld, frozen: Program) -> None:
    done = understudy(*glue_words(world))
    assert done.returncode == 0, done.stderr
    head, fence = world.head, branch.registered_fence(world.git, "main")
    world.git.run("update-ref", "refs/heads/main", world.base)  # where the zombie saw it last
    frozen.wake()
    assert frozen.wait() == 6, frozen.complaint()
    assert world.head == world.base
    assert branch.registered_fence(world.git, "main") == fence
    assert orjson.loads((world.folder / ".git/report").read_bytes())["glued"] == []
    world.git.run("update-ref", "refs/heads/main", head)
    assert [world.status(name) for name in ("a", "b")] == ["closed", "closed"]


def test_two_gluers_at_once_glue_each_section_once(world: GlueWorld) -> None:
    ids = [world.section(f"s{number}", {f"s{number}.txt": "x"}, world.base) for number in range(6)]
    words = [UNDERSTUDY, *glue_words(world, "--follow")]
    with Program(words) as one, Program(words) as two:
        eventually(lambda: world.status("s5") == "closed")
        ids.append(world.section("late", {"late.txt": "x"}, world.base))
        eventually(lambda: world.status("late") == "closed")
        assert {one.terminate(), two.terminate()} <= {0, 143}
    assert world.merges() == ids
    assert world.shown()["glue"]["glued"] == 7


def test_a_signal_ends_a_gluer_that_waits(world: GlueWorld) -> None:
    with Program([UNDERSTUDY, *glue_words(world, "--follow")]) as program:
        section = world.section("a", {"new.txt": "a"})
        eventually(lambda: world.merges() == [section])
        program.signal(signal.SIGINT)
        assert program.wait() in (0, 130)


def _is_stopped(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"
