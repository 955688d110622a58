"""A tree whose workers have a worktree each, on a real repository, with kills and freezes."""

import os
import signal
import subprocess
from pathlib import Path

import orjson
import pytest

from tests.long import LONG
from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, report_of, understudy
from tests.tree.house import Up, add, issues, kill, prove, statuses
from understudy.authority.journal.state_dir import create_state_dir

pytestmark = pytest.mark.timeout(240)
CONFIG = 78
WORK = 'echo "$UNDERSTUDY_ISSUE" > "$UNDERSTUDY_ISSUE.txt"'


class Ground:
    """A repository on main, with its state directory in it."""

    def __init__(self, top: Path) -> None:
        self.top, self.state_dir = top, top / ".premath"
        self.start = ""  # its first commit

    def git(self, *words: str) -> str:
        done = subprocess.run(["git", *words], cwd=self.top, check=True, capture_output=True)
        return os.fsdecode(done.stdout).removesuffix("\n")

    def refs(self, kind: str) -> dict[str, str]:
        below = f"refs/understudy/{kind}/"
        said = self.git("for-each-ref", "--format=%(refname) %(objectname)", below)
        rows = (line.split(" ") for line in said.splitlines())
        return {name.removeprefix(below): commit for name, commit in rows}

    def worktrees(self) -> list[Path]:
        return sorted(each for each in self.state_dir.glob("worktrees/*/*") if each.is_dir())

    def up(self, *words: str) -> Up:
        return Up(self.state_dir, "--worktrees", *words, cwd=self.top)


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    made = Ground(tmp_path / "repository")
    made.top.mkdir()
    made.git("init", "--quiet", "--initial-branch=main")
    for name, value in (("user.name", "Ada"), ("user.email", "ada@example.org")):
        made.git("config", name, value)
    (made.top / ".gitignore").write_text("/.premath/\n")
    (made.top / "start.txt").write_text("start\n")
    made.git("add", "--all")
    made.git("commit", "--quiet", "--message=start")
    made.start = made.git("rev-parse", "main")
    create_state_dir(made.state_dir, "local")
    return made


def made_by(ground: Ground) -> dict[str, list[str]]:
    """What each issue's newest section has beyond its base, by issue."""
    found = {}
    for name, commit in ground.refs("section").items():
        words = ("diff", "--name-only", f"{commit}^", commit)
        found[name.partition("/")[0]] = ground.git(*words).splitlines()
    return found


def files(ground: Ground) -> list[str]:
    """What the target has beyond its beginning."""
    return ground.git("diff", "--name-only", "main", ground.start, "--").splitlines()


def test_three_workers_make_six_sections(ground: Ground) -> None:
    names = add(ground.state_dir, *"abcdef")
    with ground.up("--workers", "3", "--exec", WORK, "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert set(statuses(ground.state_dir).values()) == {"closed"}
    assert made_by(ground) == {name: [f"{name}.txt"] for name in names}
    assert files(ground) == [f"{name}.txt" for name in names]
    assert sorted(each.name for each in ground.top.glob("?.txt")) == files(ground)
    for name in names:
        found = ground.git("log", "--format=%H", "--no-merges", "main", "--", f"{name}.txt")
        assert len(found.splitlines()) == 1
    assert (ground.worktrees(), ground.refs("aside")) == ([], {})
    assert ground.git("branch", "--list", "understudy/*") == ""
    assert ground.git("status", "--porcelain") == ""
    prove(ground.state_dir)


def test_a_worker_that_is_killed_loses_nothing(ground: Ground, tmp_path: Path) -> None:
    add(ground.state_dir, "a")
    gate = tmp_path / "gate"
    script = f"{WORK}; if [ ! -e {gate} ]; then echo half > half.txt; sleep 600; fi"
    with ground.up("--exec", script, "--until-done", "--backoff", "1s..1s") as up:
        eventually(lambda: any((each / "half.txt").exists() for each in ground.worktrees()))
        (term,) = up.terms()
        assert term["branch"] == f"understudy/a/{term['fence']}"
        gate.touch()
        kill(term["pid"])
        assert up.wait() == 0, up.complaint()
    ((name, commit),) = ground.refs("aside").items()
    assert name == f"a/{term['fence']}"
    assert ground.git("show", f"{commit}:half.txt") == "half"
    assert made_by(ground) == {"a": ["a.txt"]}
    assert files(ground) == ["a.txt"]
    prove(ground.state_dir)


@LONG
def test_a_dispatcher_that_is_frozen_past_its_leases_loses_nothing(
    ground: Ground, tmp_path: Path
) -> None:
    """The warden ends the command at its time; the zombie's work is kept, and is not glued."""
    add(ground.state_dir, "a")
    gate, head = tmp_path / "gate", ground.git("rev-parse", "main")
    script = f"{WORK}; if [ ! -e {gate} ]; then echo half > half.txt; sleep 600; fi"
    words = ("--exec", script, "--ttl", "30s", "--grace", "1s", "--until-done")
    with ground.up(*words) as up:
        eventually(lambda: any((each / "half.txt").exists() for each in ground.worktrees()))
        (term,) = up.terms()
        gate.touch()
        dispatcher = up.pid_of("lease_dispatcher")
        kill(dispatcher, signal.SIGSTOP)
        eventually(lambda: not Path(f"/proc/{term['pid']}").exists())
        assert ground.git("rev-parse", "main") == head
        kill(dispatcher, signal.SIGCONT)
        assert up.wait() == 0, up.complaint()
    ((name, commit),) = ground.refs("aside").items()
    assert name == f"a/{term['fence']}"
    assert ground.git("show", f"{commit}:half.txt") == "half"
    assert made_by(ground) == {"a": ["a.txt"]}
    assert files(ground) == ["a.txt"]
    prove(ground.state_dir)


def test_a_tree_leaves_no_worktree_behind_and_finds_what_another_left(ground: Ground) -> None:
    add(ground.state_dir, "a")
    with ground.up("--exec", "echo half > half.txt; sleep 600") as up:
        eventually(lambda: any((each / "half.txt").exists() for each in ground.worktrees()))
        system = up.picture()["system"]
        up.kill()
        eventually(lambda: not up.left(system))
    words = ("--attempts", "1", "--until-done")
    with ground.up("--exec", "echo more > more.txt; kill -9 $PPID; sleep 600", *words) as up:
        assert up.wait() == 11, up.complaint()
    assert ground.worktrees() == []
    kept = [ground.git("ls-tree", "--name-only", each) for each in ground.refs("aside").values()]
    assert any("half.txt" in each for each in kept)


def test_a_setup_that_fails_stops_the_tree_and_burns_nothing(ground: Ground) -> None:
    add(ground.state_dir, "a", "b")
    words = ("--workers", "2", "--setup", "echo no network >&2; exit 3", "--until-done")
    with ground.up("--exec", WORK, *words) as up:
        assert up.wait() == CONFIG, up.complaint()
        assert "--setup ended with 3: echo no network" in up.complaint()
        assert "mend it" in up.complaint()
    found = issues(ground.state_dir)
    assert {each["status"] for each in found.values()} == {"open"}
    assert all(each["attempts"] == each.get("excused", 0) for each in found.values())
    assert ground.refs("section") == {}


def test_a_path_out_of_scope_fails_the_attempt(ground: Ground) -> None:
    report_of("issue", "add", "a", "--id", "a", "--scope", "docs/*", "--state-dir",
              ground.state_dir)  # fmt: skip
    words = ("--attempts", "2", "--backoff", "1s..1s", "--until-done")
    with ground.up("--exec", WORK, *words) as up:
        assert up.wait() == 11, up.complaint()
        assert "out_of_scope" in up.complaint()
    assert issues(ground.state_dir)["a"]["status"] == "blocked"
    assert len(ground.refs("section")) == 2


def test_the_next_worker_adopts_what_was_left(ground: Ground) -> None:
    add(ground.state_dir, "a")
    script = (
        "if grep -q aside/a; then $TOOL worktree adopt >&2; test -e half.txt; "
        "else echo half > half.txt; exit 1; fi"
    )
    script = f"TOOL={UNDERSTUDY}; {script}"
    with ground.up("--exec", script, "--backoff", "1s..1s", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert made_by(ground) == {"a": ["half.txt"]}


@pytest.mark.parametrize(
    ("words", "changed", "seen"),
    [
        (("--base", "dev"), "dev", "dev"),
        (("--base", "dev", "--into", "main"), "main", "dev"),
        (("--into", "dev"), "dev", "dev"),
        (("--base", "dev~1"), "main", "start"),
    ],
)
def test_work_starts_at_its_base_and_goes_into_its_branch(
    ground: Ground, words: tuple[str, ...], changed: str, seen: str
) -> None:
    ground.git("checkout", "--quiet", "-b", "dev")
    (ground.top / "start.txt").write_text("dev\n")
    ground.git("commit", "--quiet", "--all", "--message=dev")
    ground.git("checkout", "--quiet", "main")
    heads = {name: ground.git("rev-parse", name) for name in ("main", "dev")}
    add(ground.state_dir, "a")
    with ground.up("--exec", "cp start.txt a.txt", *words, "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    moved = {name for name, head in heads.items() if ground.git("rev-parse", name) != head}
    assert moved == {changed}
    assert ground.git("show", f"{changed}:a.txt") == seen


def test_a_handler_works_in_its_worktree(ground: Ground) -> None:
    text = "from pathlib import Path\ndef handle(work):\n    Path('a.txt').write_text('by hand')\n"
    (ground.top / "trade.py").write_text(text)
    (ground.top / ".gitignore").write_text("/.premath/\n__pycache__/\n")
    ground.git("add", "--all")
    ground.git("commit", "--quiet", "--message=trade")
    add(ground.state_dir, "a")
    with ground.up("--handler", "trade:handle", "--until-done") as up:
        assert up.wait() == 0, up.complaint()
    assert (ground.top / "a.txt").read_text() == "by hand"


def test_what_does_not_merge_goes_back_to_a_worker_that_is_told_why(
    ground: Ground, tmp_path: Path
) -> None:
    add(ground.state_dir, "a", "b")
    begun = tmp_path / "begun"
    begun.mkdir()
    script = (
        f"cat > {tmp_path}/$UNDERSTUDY_ISSUE.$UNDERSTUDY_FENCE; touch {begun}/$UNDERSTUDY_ISSUE; "
        f"while [ ! -e {begun}/a ] || [ ! -e {begun}/b ]; do sleep 0.01; done; "
        "echo $UNDERSTUDY_ISSUE >> start.txt"
    )
    words = ("--workers", "2", "--backoff", "1s..1s", "--until-done")
    with ground.up("--exec", script, *words) as up:
        assert up.wait() == 0, up.complaint()
        told = up.complaint()
    assert "  glued  main: " in told
    assert "start.txt; it is open" in told, "who reads along is told why it begins again"
    assert set(statuses(ground.state_dir).values()) == {"closed"}
    assert sorted((ground.top / "start.txt").read_text().split()) == ["a", "b", "start"]
    records = [orjson.loads(each.read_bytes()) for each in tmp_path.glob("?.*")]
    (again,) = [each for each in records if "obstruction" in each]
    assert len(records) == 3
    assert again["obstruction"]["paths"] == ["start.txt"]
    assert again["obstruction"]["kind"] == "conflict"
    (aside,) = again["asides"]
    assert ground.git("show", f"{aside['commit']}:start.txt") == f"start\n{again['id']}"
    prove(ground.state_dir)


# --- what is refused before anything is claimed ---------------------------------------------------


@pytest.fixture(params=["up", "exec"])
def door(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused(ground: Ground, door: str, *words: str, cwd: Path | None = None) -> str:
    """What is said, with exit code 78 and nothing claimed."""
    add(ground.state_dir, "a")
    place = ("--state-dir", ground.state_dir)
    ours = ("up", "--worktrees", "--exec", "true") if door == "up" else ("exec", "--worktree")
    last = () if door == "up" else ("a", "--", "true")
    done = understudy(*ours, *place, *words, *last, cwd=cwd or ground.top)
    assert done.returncode == CONFIG, done.stderr
    assert issues(ground.state_dir)["a"]["attempts"] == 0
    assert b"nothing was claimed" in done.stderr
    return done.stderr.decode()


def test_a_folder_that_is_in_no_repository_is_refused(
    ground: Ground, door: str, tmp_path: Path
) -> None:
    assert "in no git repository" in refused(ground, door, cwd=tmp_path)


def test_a_detached_head_is_refused(ground: Ground, door: str) -> None:
    ground.git("checkout", "--quiet", "--detach")
    assert "name one with --into" in refused(ground, door)


def test_an_unborn_branch_is_refused(ground: Ground, door: str) -> None:
    ground.git("checkout", "--quiet", "--orphan", "new")
    assert "has no commit yet" in refused(ground, door)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--base", "nowhere"), "no commit `nowhere`"),
        (("--into", "nowhere"), "no branch `nowhere`"),
        (("--sparse", "nowhere"), "--sparse nowhere: no folder"),
        (("--sparse", "../main"), "--sparse ../main: no folder"),
        (("--sparse", "link"), "--sparse link: no folder"),
    ],
)
def test_what_is_not_there_is_refused(
    ground: Ground, door: str, words: tuple[str, str], said: str
) -> None:
    (ground.top / "link").symlink_to("/etc")
    ground.git("add", "link")
    ground.git("commit", "--quiet", "--message=link")
    assert said in refused(ground, door, *words)


def test_a_command_that_is_not_committed_is_refused(ground: Ground) -> None:
    agent = ground.top / "agent.sh"
    agent.write_text("#!/bin/sh\n")
    agent.chmod(0o755)
    said = refused(ground, "up", "--exec", "./agent.sh")
    assert "./agent.sh is not in commit" in said
    assert "commit it" in said


def test_a_dirty_tree_is_told_and_not_taken_along(ground: Ground) -> None:
    add(ground.state_dir, "a")
    (ground.top / "start.txt").write_text("dirty\n")
    with ground.up("--exec", f"{WORK}; cat start.txt >> a.txt", "--until-done") as up:
        eventually(lambda: ground.refs("section"))
        assert "1 uncommitted change in" in up.complaint()
        assert "nothing is merged into main" in up.complaint()
        ((_, commit),) = ground.refs("section").items()
        assert ground.git("show", f"{commit}:a.txt") == "a\nstart"
        assert (ground.top / "start.txt").read_text() == "dirty\n"
        ground.git("checkout", "start.txt")
        assert up.wait() == 0, up.complaint()
    assert (ground.top / "a.txt").read_text() == "a\nstart\n"
