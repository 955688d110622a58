"""What we make is its owner's alone, whatever the umask; and a folder that others can change is
refused."""

import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.authority.sidecar.peer import served_by
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.process import UNDERSTUDY, Words, commanded, environment, understudy
from understudy.authority import Office, create_state_dir
from understudy.authority.journal import private

STRANGER = 65_534  # an id of a user that we are not
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")


def run_under(umask: int, *words: str | Path, cwd: Path) -> str:
    """A real process under this umask, which must succeed."""
    done = subprocess.run(
        [UNDERSTUDY, *words],
        umask=umask,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode()


def exposed(state_dir: Path) -> list[str]:
    """Everything in and below it that another user could open, as a walk finds it."""
    return [
        f"{path.relative_to(state_dir)} {stat.S_IMODE(path.lstat().st_mode):04o}"
        for path in (state_dir, *sorted(state_dir.rglob("*")))
        if path.lstat().st_mode & 0o077
    ]


def walked(umask: int, state_dir: Path, cwd: Path) -> None:
    """Use everything that makes files: commands, a sidecar that is killed, a tree, logs, tables."""
    place = ("--state-dir", state_dir)
    run_under(umask, "init", *place, cwd=cwd)
    for title in ("one", "two", "three"):
        run_under(umask, "issue", "add", title, *place, cwd=cwd)
    run_under(umask, "exec", "us-1", *place, "--", "echo", "said", cwd=cwd)
    run_under(umask, "sql", "SELECT 1", *place, cwd=cwd)
    run_under(umask, "export", *place, cwd=cwd)
    run_under(umask, "up", "--exec", "echo said", "--mcp", "--until-done", *place, cwd=cwd)
    run_under(umask, "rebuild", *place, cwd=cwd)


@pytest.fixture(params=[0o000, 0o022, 0o377], ids=oct)
def umask(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture
def sidecar(umask: int, state_dir: Path) -> Iterator["subprocess.Popen[bytes]"]:
    words: Words = [UNDERSTUDY, "authority", "serve", "--state-dir", state_dir]
    with subprocess.Popen(words, umask=umask, env=environment()) as running:
        eventually(lambda: served_by(state_dir) == running.pid)
        yield running
        running.kill()


@pytest.mark.parametrize("umask", [0o000, 0o022], ids=oct)
@pytest.mark.parametrize("made_by", ["init", "mkdir"])
def test_all_that_is_made_is_its_owner_s_alone(tmp_path: Path, umask: int, made_by: str) -> None:
    state_dir = tmp_path / "state"
    if made_by == "mkdir":
        state_dir.mkdir()
        state_dir.chmod(0o775)
    walked(umask, state_dir, tmp_path)
    made = {path.name for path in state_dir.iterdir()}
    assert made > {"journal.db", "tables.db", "lock", "run", "logs", "issues.jsonl", "kernel.image"}
    assert exposed(state_dir) == []


def test_a_sidecar_s_socket_and_log_are_its_owner_s_alone(
    state_dir: Path, sidecar: "subprocess.Popen[bytes]"
) -> None:
    assert sidecar.poll() is None
    assert commanded("issue", "add", "one", "--state-dir", state_dir).returncode == 0
    assert {"authority.sock", "journal.db-wal"} < {path.name for path in state_dir.iterdir()}
    assert exposed(state_dir) == []
    for path in state_dir.iterdir():
        assert os.access(path, os.R_OK | os.W_OK), path.name


def test_a_folder_with_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    state_dir = tmp_path / "project"
    state_dir.mkdir()
    state_dir.chmod(0o755)
    (state_dir / "README").touch(mode=0o644)
    run_under(0o000, "init", "--state-dir", state_dir, cwd=tmp_path)
    run_under(0o000, "issue", "add", "one", "--state-dir", state_dir, cwd=tmp_path)
    assert exposed(state_dir) == [". 0755", "README 0644"]


# --- refused --------------------------------------------------------------------------------------

COMMANDS = [
    ("issue", "add", "one"),
    ("issue", "list"),
    ("guard", "--resource", "issue/us-1", "--fence", "1"),
    ("verify",),
    ("replay",),
    ("init",),
    ("authority", "serve"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o1777], ids=oct)
def test_a_folder_that_others_can_write_in_is_refused(
    state_dir: Path, words: tuple[str, ...], mode: int
) -> None:
    state_dir.chmod(mode)
    done = commanded(*words, "--state-dir", state_dir)
    assert (done.returncode, done.stdout) == (78, b"")
    assert b"(state_dir_denied)" in done.stderr
    assert f"`chmod 700 {state_dir}`".encode() in done.stderr


def test_no_fence_is_current_in_a_folder_that_others_can_write_in(state_dir: Path) -> None:
    with Office(state_dir) as office:
        office.ask("issue.add", {"id": "us-1", "title": "t"})
        office.ask("issue.claim", {"id": "us-1", "assignee": "a"})
    words = ("guard", "--resource", "issue/us-1", "--fence", "2", "--state-dir", state_dir)
    assert understudy(*words).returncode == 0
    state_dir.chmod(0o777)
    assert understudy(*words).returncode == 78


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@AS_ROOT
def test_a_folder_of_another_user_is_refused_also_to_root(
    state_dir: Path, words: tuple[str, ...]
) -> None:
    os.chown(state_dir, STRANGER, STRANGER)
    done = commanded(*words, "--state-dir", state_dir)
    assert (done.returncode, done.stdout) == (78, b"")
    assert f"belongs to user {STRANGER}".encode() in done.stderr
    assert b"--user" in done.stderr


def test_a_socket_in_a_folder_that_others_can_write_in_is_not_trusted(
    state_dir: Path, sidecar: "subprocess.Popen[bytes]"
) -> None:
    assert sidecar.poll() is None
    state_dir.chmod(0o777)
    done = commanded("issue", "list", "--state-dir", state_dir)
    assert done.returncode == 78, done.stderr
    said = commanded("doctor", "--state-dir", state_dir).stdout.decode()
    assert "it was not asked" in said
    assert "restore from a backup" not in said


# --- mended ---------------------------------------------------------------------------------------


@pytest.fixture
def wide(tmp_path: Path) -> Path:
    """A state directory as an older version left it under umask 000."""
    state_dir = tmp_path / "wide"
    create_state_dir(state_dir, "local")
    with Office(state_dir) as office:
        office.ask("issue.add", {"title": "one"})
    (state_dir / "logs" / "us-1").mkdir(parents=True)
    (state_dir / "logs" / "us-1" / "1.log").touch()
    for path in (*state_dir.rglob("*"), state_dir):
        path.chmod(0o777 if path.is_dir() else 0o666)
    (state_dir / "README").touch(mode=0o644)
    (state_dir / "link").symlink_to(tmp_path)
    return state_dir


def test_doctor_closes_what_was_left_open_and_nothing_else(wide: Path) -> None:
    said = commanded("doctor", "--state-dir", wide)
    assert said.returncode == 9
    assert b"doctor --fix" in said.stdout
    before = exposed(wide)
    assert len(before) > 8, "a look changes nothing"
    mended = commanded("doctor", "--fix", "--state-dir", wide)
    assert mended.returncode == 0, mended.stdout
    assert mended.stdout.startswith(b"closed "), mended.stdout
    assert exposed(wide) == ["README 0644", "link 0777"]
    assert commanded("issue", "list", "--state-dir", wide).returncode == 0


def test_files_that_are_open_in_a_private_folder_are_noted(wide: Path) -> None:
    wide.chmod(0o700)
    said = commanded("doctor", "--state-dir", wide)
    assert said.returncode == 0, said.stdout
    assert b"open to others (" in said.stdout


def test_what_was_left_open_is_closed_when_it_is_written_again(wide: Path) -> None:
    wide.chmod(0o755)
    with Office(wide) as office:
        office.ask("issue.add", {"title": "two"})
    closed = {"lock", "evidence.lock", "harness_trajectory.jsonl", "tables.db"}
    assert not closed & {each.partition(" ")[0] for each in exposed(wide)}


def test_a_file_of_sqlite_beside_a_private_one_is_private(tmp_path: Path) -> None:
    private.touch(tmp_path / "db")
    with closing(apsw.Connection(str(tmp_path / "db"))) as db:
        db.pragma("journal_mode", "wal")
        db.execute("CREATE TABLE t (x)")
        assert [path.name for path in sorted(tmp_path.iterdir())] == ["db", "db-shm", "db-wal"]
        assert exposed(tmp_path) == []
