"""The Tab key: what a shell is offered for words so far, as it asks for it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.surfaces.process import understudy


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a space in its name, work, a route, a limit and two budgets."""
    home = tmp_path_factory.mktemp("shell") / "a b"
    home.mkdir()
    for line in (
        "init", "issue add Two:parts,here --id cart", "issue add Old --id done",
        "issue update done --status closed", "job schedule build --kind ci.build",
        "route set ci.build --to n1", "route set ci.test --to n1", "route clear ci.test",
        "limit set ci. --concurrency 2", "budget set * --per day --usd 1",
        "budget set label/x --per day --usd 1", "issue claim cart --as ann",
    ):  # fmt: skip
        ended = understudy(*line.split(" "), cwd=home)
        assert ended.returncode == 0, (line, ended.stderr)
    below = home / "below"
    below.mkdir()
    return below


def offered(folder: Path, words: str, shell: str = "bash") -> list[str]:
    """What a shell is told for these words, the last of which is typed at."""
    typed = words.rpartition(" ")[2] if shell == "fish" else str(words.count(" "))
    env = os.environ | {
        "COMP_WORDS": words,
        "COMP_CWORD": typed,
        "_UNDERSTUDY_COMPLETE": f"{shell}_complete",
    }
    argv = [sys.executable, "-m", "understudy"]
    ended = subprocess.run(argv, cwd=folder, env=env, capture_output=True, check=False)
    assert ended.stderr == b""
    return ended.stdout.decode().split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("issue show ", ["cart", "done"]),
        ("issue show c", ["cart"]),
        ("cancel ", ["cart", "done", "job/build"]),
        ("job show ", ["build"]),
        ("issue release cart --as ", ["ann"]),
        ("route clear ", ["ci.build"]),
        ("limit clear ", ["ci."]),
        ("budget clear ", ["label/x"]),
        ("import --from ", ["beads", "github"]),
        ("help iss", ["issue"]),
        ("help issue cla", ["claim"]),
    ],
)
def test_a_shell_is_offered_what_there_is(folder: Path, words: str, names: list[str]) -> None:
    found = [line.partition(",")[2] for line in offered(folder, f"understudy {words}")]
    assert found == names


def test_every_shell_gets_titles_in_its_own_form(folder: Path) -> None:
    fish = offered(folder, "understudy issue show c", "fish")
    assert fish == ["plain,cart", "Two:parts,here"]
    zsh = offered(folder, "understudy issue show c", "zsh")
    assert zsh == ["plain", "cart", "Two:parts,here"]


def test_where_nothing_can_be_read_nothing_is_offered(tmp_path: Path) -> None:
    assert offered(tmp_path, "understudy issue show ") == []
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_a_shell_is_what_click_writes(folder: Path, shell: str) -> None:
    ended = understudy("completion", shell, cwd=folder)
    assert f"{shell}_complete" in ended.stdout.decode()
