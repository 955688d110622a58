"""A tree with a gluer: it glues what comes, is seen in pictures, and replaced when it dies."""

import os
import signal
import sys
from pathlib import Path

from tests.actors.descent.glue_world import GlueWorld
from tests.patience import eventually
from tests.surfaces.process import Program, Words, understudy
from tests.tree.house import prove
from understudy.actors.tree import control
from understudy.actors.tree.plan import RUN_FOLDER

# As `understudy up` makes a plan; a tree of its own, since it has no workers.
TREE = """
import sys
from pathlib import Path
from understudy.actors.tree import Plan, Tree

state_dir, folder = map(Path, sys.argv[1:])
words = (sys.executable, "-m", "understudy", "descent", "glue", "--follow", "--tree")
words += ("--into", "main", "--cwd", str(folder), "--state-dir", str(state_dir))
with Tree(Plan(state_dir, (), gluer=words, cwd=folder)) as tree:
    while tree.wait(200) is None and not tree.is_told_to_stop:
        pass
"""


def test_the_gluer_of_a_tree_glues_what_comes_and_is_replaced_when_it_dies(tmp_path: Path) -> None:
    world = GlueWorld(tmp_path)
    words: Words = [sys.executable, "-c", TREE, world.state_dir, world.folder]
    with Program(words) as program:
        eventually(lambda: program.process.poll() is not None or _pid(world) is not None)
        assert program.process.poll() is None, program.last_words()
        first = world.section("first", {"first.txt": "1"})
        eventually(lambda: world.status("first") == "closed")
        pid = _pid(world)
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        second = world.section("second", {"second.txt": "2"})
        eventually(lambda: world.status("second") == "closed")
        assert world.merges() == [first, second]
        said = understudy("status", "--state-dir", world.state_dir).stdout.decode()
        assert "descent: 0 sections wait, 0 agree, 0 conflict, 0 gluing, 2 glued" in said
        drawn = understudy("tree", "--state-dir", world.state_dir).stdout.decode()
        assert "gluer" in drawn
        assert understudy("down", "--state-dir", world.state_dir).returncode == 0
        assert program.wait() == 0
    prove(world.state_dir)


def _pid(world: GlueWorld) -> int | None:
    """The cell that owns the gluer's process, which does not outlive it."""
    try:
        picture = control.ask(world.state_dir / RUN_FOLDER, {"ask": "picture"}, 10.0)
    except control.NoTree:
        return None
    found = [each["pid"] for each in picture["tree"] if each["id"] == "gluer"]
    return int(found[0]) if found and found[0] else None
