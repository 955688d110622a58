"""`understudy service`: units that systemd takes, and files of others that stay as they are."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.surfaces.process import commanded
from understudy.surfaces.cli.systemd_unit import MARK, UnitPlan, quoted, unit_text

UP = ("--", "--workers", "4", "--exec", 'my-agent --task "$UNDERSTUDY_ISSUE" 50%')


@pytest.fixture
def state_dir(tmp_path: Path) -> Path:
    assert commanded("--state-dir", tmp_path / "s", "init").returncode == 0
    return tmp_path / "s"


def unquoted(text: str) -> str:
    """What systemd makes of a quoted word: escapes, then its own specifiers and variables."""
    assert text[0] == text[-1] == '"'
    found, rest = "", text[1:-1]
    while rest:
        if rest.startswith("\\"):
            found += {"\\": "\\", '"': '"', "t": "\t"}[rest[1]]
            rest = rest[2:]
        else:
            assert rest[0] != '"'
            found += rest[0]
            rest = rest[1:]
    assert found.replace("%%", "").count("%") == 0
    assert found.replace("$$", "").count("$") == 0
    return found.replace("%%", "%").replace("$$", "$")


printable = st.characters(exclude_categories=("Cc", "Cs", "Cn", "Co", "Zl", "Zp", "Zs", "Cf"))


@given(st.text(printable | st.sampled_from(' \\"$%\t')))
def test_any_word_comes_back_from_a_unit(word: str) -> None:
    assert unquoted(quoted(word)) == word


@pytest.mark.parametrize("word", ["a\nb", "\x00", "\x1b[31m"])
def test_what_a_unit_cannot_say_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="no spelling"):
        quoted(word)


@pytest.mark.parametrize("run_as", [None, "daemon"])
def test_systemd_itself_takes_the_unit(tmp_path: Path, run_as: str | None) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd-analyze here")
    plan = UnitPlan(UP[1:], tmp_path, tmp_path, tmp_path / "service.env", run_as)
    unit = tmp_path / "understudy.service"
    unit.write_text(unit_text(plan), "utf-8")
    kind = "--system" if run_as else "--user"
    done = subprocess.run(
        ["systemd-analyze", "verify", kind, unit], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if str(unit) in line]
    assert complaints == []


def test_a_unit_is_written_once_shown_and_removed(state_dir: Path, tmp_path: Path) -> None:
    folder = tmp_path / "units"
    where = ("--folder", str(folder))
    done = commanded("--state-dir", state_dir, "service", "install", *where, *UP)
    assert done.returncode == 0, done.stderr
    assert b"systemctl --user" in done.stdout
    unit = folder / "understudy.service"
    text = unit.read_text("utf-8")
    assert text.startswith(MARK)
    assert str(state_dir) in text
    assert (state_dir / "service.env").stat().st_mode & 0o077 == 0
    assert commanded("--state-dir", state_dir, "service", "install", *where, *UP).returncode == 0
    shown = commanded("--state-dir", state_dir, "service", "show", "--json", *where)
    assert json.loads(shown.stdout)["unit"] == text
    assert commanded("--state-dir", state_dir, "service", "uninstall", *where).returncode == 0
    assert not unit.exists()
    assert commanded("--state-dir", state_dir, "service", "uninstall", *where).returncode == 3


def test_what_is_not_ours_stays(state_dir: Path, tmp_path: Path) -> None:
    where, unit = ("--folder", str(tmp_path)), tmp_path / "understudy.service"
    unit.write_text("[Unit]\n", "utf-8")
    for verb in (("install", *where, *UP), ("uninstall", *where)):
        assert commanded("--state-dir", state_dir, "service", *verb).returncode == 1
        assert unit.read_text("utf-8") == "[Unit]\n"
    unit.write_text(f"{MARK}\n# and by me\n", "utf-8")
    assert commanded("--state-dir", state_dir, "service", "install", *where, *UP).returncode == 1
    assert "by me" in unit.read_text("utf-8")
    forced = ("install", "--force", *where, *UP)
    assert commanded("--state-dir", state_dir, "service", *forced).returncode == 0
    assert "by me" not in unit.read_text("utf-8")


@pytest.mark.parametrize(
    "words",
    [
        ("--", "--wrokers", "4"),
        ("--", "--exec", "true", "--detach"),
        ("--system", "--", "--exec", "true"),
        ("--system", "--run-as", "no-such-user-here", "--", "--exec", "true"),
        ("--run-as", "root", "--", "--exec", "true"),
        ("--name", "../evil", "--", "--exec", "true"),
        ("--", "--exec", "a\nb"),
    ],
)
def test_a_unit_that_could_not_run_is_not_written(
    state_dir: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    where = ("--folder", str(tmp_path / "units"))
    done = commanded("--state-dir", state_dir, "service", "install", *where, *words)
    assert done.returncode == 2, done.stdout
    assert not (tmp_path / "units").exists()
