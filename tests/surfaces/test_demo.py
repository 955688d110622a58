"""The second act of the demo is left out where there is no git that can merge without a tree."""

from pathlib import Path

import pytest

from understudy.actors.descent import git
from understudy.surfaces.cli.commands import demo, demo_descent


def _no_git() -> tuple[int, ...]:
    raise git.GitRefused("there is no git here; install git 2.38 or newer")


@pytest.mark.parametrize(
    ("version", "why"),
    [
        (lambda: (2, 37), "git 2.37; 2.38 is needed"),
        (_no_git, "there is no git here; install git 2.38 or newer"),
    ],
    ids=["old", "none"],
)
def test_without_a_git_that_can_do_it_the_second_act_says_so_and_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: object, why: str
) -> None:
    monkeypatch.setattr(git, "version", version)
    told: list[str] = []
    report = demo.second_act(tmp_path / "act", lambda _, text: told.append(text))
    assert report == {"result": "skipped", "why": why}
    assert told[-1] == f"many workers on one repository: left out, {why}"
    assert list(tmp_path.iterdir()) == []


def test_git_2_38_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(git, "version", lambda: (2, 38))
    assert demo_descent.missing() == ""
