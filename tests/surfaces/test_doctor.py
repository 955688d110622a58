"""`understudy doctor`: it names what is wrong and what to do, and leaves everything as it was."""

import hashlib
import os
import random
import resource
import shutil
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import apsw
import orjson
import pytest

from tests.authority.client.impostor import Impostor, hang_up
from tests.patience import eventually
from tests.surfaces.conftest import Run, Scene
from tests.surfaces.process import Dispatch, Serve, understudy
from understudy.authority import SOCKET, TABLES, TRAJECTORY, Office, Unavailable
from understudy.authority.engine import ffi
from understudy.contracts import Reason, contract_digest, limits
from understudy.surfaces.doctor import DoctorFinding, examine, folder, journal, machine

CHECKS = [
    "program", "boundary", "contract", "sqlite", "files", "disk", "state", "lock", "sidecar",
    "tree", "journal", "snapshot", "clock", "trajectory", "tables",
]  # fmt: skip


def found(state_dir: Path, check: str, wanted: str | None = None) -> DoctorFinding:
    """The one word of a check."""
    [finding] = [each for each in examine(state_dir, wanted) if each.check == check]
    return finding


def contents(state_dir: Path) -> dict[str, str]:
    """Every file and its bytes, but for SQLite's shared memory."""
    return {
        each.name: "" if each.name.endswith("-shm") or not each.is_file() else _hash(each)
        for each in sorted(state_dir.iterdir())
    }


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def add(state_dir: Path, count: int = 3) -> None:
    with Office(state_dir) as office:
        for _ in range(count):
            office.ask("issue.add", {"title": "t"})


@pytest.fixture
def worked(state_dir: Path) -> Path:
    """A state directory that has been used, and was left in peace."""
    add(state_dir)
    return state_dir


# --- what it says ---------------------------------------------------------------------------------


def test_a_healthy_place_has_no_problem_and_every_check_says_so(scene: Scene) -> None:
    said = scene.run("doctor")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert [line.split()[:2] for line in lines[:-1]] == [["ok", name] for name in CHECKS]
    assert lines[-1] == f"{len(CHECKS)} ok, 0 noted, 0 wrong"


def test_the_report_for_programs_has_one_shape(scene: Scene, state_dir: Path) -> None:
    report = scene.run("doctor", "--json").json
    assert set(report) == {
        "schema", "result", "failureClasses", "stateDir", "counts", "findings",
    }  # fmt: skip
    assert (report["schema"], report["result"], report["failureClasses"]) == (1, "accepted", [])
    assert report["stateDir"] == str(state_dir)
    assert report["counts"] == {"ok": len(CHECKS), "note": 0, "problem": 0}
    assert [each["check"] for each in report["findings"]] == CHECKS
    for each in report["findings"]:
        assert set(each) == {"check", "status", "detail", "remedy", "failureClass", "facts"}
    facts = {each["check"]: each["facts"] for each in report["findings"]}
    assert facts["boundary"]["mode"] == "reference"
    assert facts["contract"]["contractDigest"] == contract_digest()
    assert facts["sqlite"]["sqlite"] == apsw.sqlite_lib_version()
    assert facts["sidecar"] == {"running": False}
    assert facts["journal"]["rows"] == facts["tables"]["seq"] == facts["trajectory"]["seq"] > 5


def test_a_problem_ends_it_with_9_and_is_named_with_its_remedy(worked: Path, call: Run) -> None:
    (worked / TRAJECTORY).write_bytes(b"garbage\n")
    to_people = call("doctor")
    assert (to_people.code, to_people.err) == (9, "")
    assert "problem  trajectory  its last line is none of ours\n" in to_people.out
    assert "-> `understudy rebuild`" in to_people.out
    assert to_people.out.endswith("1 wrong\n")
    to_programs = call("doctor", "--json")
    assert (to_programs.code, to_programs.json["result"]) == (9, "rejected")
    assert to_programs.json["failureClasses"] == ["trajectory_mismatch"]


def test_without_a_state_directory_it_says_how_to_make_one(bare: Run, tmp_path: Path) -> None:
    said = bare("doctor", "--state-dir", tmp_path / "nowhere")
    assert said.code == 0
    assert "note     state" in said.out
    assert "understudy init" in said.out
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", [b"\xff", b"a b/\xc3", b"?#%"], ids=repr)
def test_any_path_will_do(tmp_path: Path, path: bytes) -> None:
    folder_ = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + path))
    folder_.parent.mkdir(exist_ok=True)
    for _ in range(2):
        done = understudy("doctor", "--state-dir", folder_, "--json")
        assert (done.returncode, done.stderr) == (0, b"")
        orjson.loads(done.stdout)
        with suppress(Unavailable, UnicodeEncodeError):  # the second time there is a journal
            understudy("init", "--state-dir", folder_)


def test_a_check_that_cannot_look_is_a_problem_and_the_others_look(
    worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Iterator[DoctorFinding]:
        raise ZeroDivisionError

    monkeypatch.setattr(machine, "sqlite", broken)
    findings = list(examine(worked))
    assert [each.check for each in findings] == CHECKS
    [problem] = [each for each in findings if each.status != "ok"]
    assert (problem.check, problem.status) == ("sqlite", "problem")
    assert "ZeroDivisionError" in problem.detail


# --- it changes nothing ---------------------------------------------------------------------------


def used(state_dir: Path) -> None:
    add(state_dir)


def read(state_dir: Path) -> None:
    add(state_dir)
    Office(state_dir, writable=False).close()


def killed(state_dir: Path) -> None:
    with Dispatch(state_dir) as running:
        for number in range(5):
            running.ask("issue.add", id=f"i{number}", title="t")


def copied(state_dir: Path) -> None:
    """The journal and its log, without the shared memory that belongs to them."""
    killed(state_dir)
    (state_dir / "journal.db-shm").unlink()


def torn(state_dir: Path) -> None:
    add(state_dir)
    with (state_dir / TRAJECTORY).open("ab") as file:
        file.write(b'{"torn":')


def damaged(state_dir: Path) -> None:
    add(state_dir)
    (state_dir / "journal.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 9000)


PASTS: list[Callable[[Path], None]] = [
    lambda _: None, used, read, killed, copied, torn, damaged,
]  # fmt: skip


@pytest.mark.parametrize("past", PASTS, ids=lambda past: past.__name__)
def test_whatever_it_finds_it_leaves_as_it_was(
    state_dir: Path, call: Run, past: Callable[[Path], None]
) -> None:
    past(state_dir)
    before = contents(state_dir)
    assert call("doctor").code in (0, 9)
    assert contents(state_dir) == before


def test_it_looks_at_a_sidecar_at_work_and_disturbs_nothing(state_dir: Path, call: Run) -> None:
    with Serve(state_dir) as running:
        running.ready()
        assert call("issue", "add", "x").code == 0
        eventually(lambda: found(state_dir, "tables").facts["behind"] == 0)
        before = set(contents(state_dir))
        report = call("doctor", "--json")
        assert report.code == 0, report.out
        assert set(contents(state_dir)) == before
        facts = {each["check"]: each["facts"] for each in report.json["findings"]}
        assert facts["boundary"]["mode"] == "sidecar"
        assert facts["lock"]["pid"] == facts["sidecar"]["pid"] == running.pid
        assert facts["sidecar"]["protocol"] == 1
        assert facts["sidecar"]["contractDigest"] == contract_digest()
        assert facts["sidecar"]["boundary"] == ("native" if ffi.available() else "reference")
        assert facts["journal"]["rows"] == 1
        assert {each["status"] for each in report.json["findings"]} == {"ok"}
        assert call("issue", "add", "y").code == 0
        assert running.terminate() == 0


# --- the machine ----------------------------------------------------------------------------------


def test_a_library_that_was_not_built_is_a_note_and_says_why(
    worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ffi, "_why_not", "the C library was not built: no module")
    note = found(worked, "boundary")
    assert (note.status, note.facts["native"]) == ("note", False)
    assert "was not built" in note.detail
    assert found(worked, "boundary", "native").status == "problem", "it was asked for"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    alone = found(worked, "boundary")
    assert "no C compiler" in alone.detail
    assert alone.remedy is not None
    assert alone.remedy.startswith("install a C compiler")


def test_a_library_of_another_version_is_a_problem(
    worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ffi, "_why_not", "the C library has ABI 1, not 2")
    assert found(worked, "boundary").status == "problem"


@pytest.mark.parametrize("wanted", ["reference", "sidecar", "native"])
def test_the_mode_that_was_asked_for_is_the_mode_in_use(worked: Path, wanted: str) -> None:
    finding = found(worked, "boundary", wanted)
    assert finding.facts["mode"] == wanted
    assert "as you ask" in finding.detail
    assert found(worked, "sidecar", wanted).status == ("problem" if wanted == "sidecar" else "ok")


def test_a_contract_that_drifted_is_a_problem_with_a_class(
    worked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drifted = {"result": "rejected", "failureClasses": ["contract_pin_mismatch"]}
    monkeypatch.setattr(machine, "startup_check", lambda: drifted)
    problem = found(worked, "contract")
    assert (problem.status, problem.failure) == ("problem", Reason.CONTRACT_DRIFT.wire)
    assert "contract_pin_mismatch" in problem.detail


@pytest.mark.parametrize(
    ("free", "inodes", "status"),
    [
        (machine.FREE_BYTES_LOW, 9, "ok"),
        (machine.FREE_BYTES_LOW - 1, 9, "note"),
        (machine.FREE_BYTES_MIN, 9, "note"),
        (machine.FREE_BYTES_MIN - 1, 9, "problem"),
        (machine.FREE_BYTES_LOW, 0, "problem"),
    ],
)
def test_a_disk_without_room_is_seen_before_it_is_full(
    worked: Path, monkeypatch: pytest.MonkeyPatch, free: int, inodes: int, status: str
) -> None:
    disk = SimpleNamespace(f_bavail=free, f_frsize=1, f_favail=inodes, f_files=10)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    assert found(worked, "disk").status == status


def test_few_files_are_few_connections(worked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = limits.CONNECTIONS_MAX + machine.SPARE_FILES
    for soft, status in ((wanted - 1, "note"), (wanted, "ok"), (resource.RLIM_INFINITY, "ok")):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert found(worked, "files").status == status


# --- the state directory --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("folder_mode", "file_mode", "status"),
    [
        (0o700, 0o600, "ok"),
        (0o700, 0o666, "note"),
        (0o755, 0o644, "note"),
        (0o710, 0o600, "note"),
        (0o755, 0o664, "problem"),
        (0o777, 0o600, "problem"),
        (0o770, 0o600, "problem"),
    ],
)
def test_another_user_who_can_write_could_take_any_lease(
    worked: Path, folder_mode: int, file_mode: int, status: str
) -> None:
    (worked / "journal.db").chmod(file_mode)
    worked.chmod(folder_mode)
    finding = found(worked, "state")
    assert (finding.status, finding.facts["mode"]) == (status, f"{folder_mode:04o}")


def test_a_place_without_a_journal_that_should_have_one_is_a_problem(
    worked: Path, tmp_path: Path
) -> None:
    (worked / "journal.db").unlink()
    lost = found(worked, "state")
    assert (lost.status, lost.failure) == ("problem", Reason.STATE_DIR_MISSING.wire)
    (tmp_path / "file").touch()
    file = found(tmp_path / "file", "state")
    assert (file.status, file.failure) == ("problem", Reason.STATE_DIR_DENIED.wire)


def test_a_stopped_sidecar_is_found_by_its_silence_and_by_its_lock(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder, "_GREETING_SECONDS", 0.1)
    with Serve(state_dir) as running:
        running.ready().halt()
        silent, held = found(state_dir, "sidecar"), found(state_dir, "lock")
        assert (silent.status, silent.failure) == ("problem", Reason.SIDECAR_UNREACHABLE.wire)
        assert (held.status, held.remedy) == ("problem", f"kill -CONT {running.pid}")
        running.wake()
        monkeypatch.undo()
        assert found(state_dir, "sidecar").status == found(state_dir, "lock").status == "ok"


def test_a_socket_that_was_left_behind_is_a_note(state_dir: Path) -> None:
    with Serve(state_dir) as running:
        running.ready().kill()
    note = found(state_dir, "sidecar")
    assert (note.status, note.facts["running"]) == ("note", False)
    assert found(state_dir, "boundary").facts["mode"] == "reference"
    assert found(state_dir, "sidecar", "sidecar").status == "problem", "it was asked for"
    (state_dir / SOCKET).unlink()
    (state_dir / SOCKET).symlink_to("nowhere")
    assert found(state_dir, "sidecar").status == "note"


@pytest.mark.parametrize(
    ("answer", "failure"),
    [
        ({"hello": {"protocol": 1, "pid": 1, "contractDigest": "pol1_other"}}, "CONTRACT_DRIFT"),
        ({"result": "rejected", "diagnostic": "protocol 2"}, "PROTOCOL_MISMATCH"),
        ([], "PROTOCOL_MISMATCH"),
        (None, "SIDECAR_UNREACHABLE"),
    ],
)
def test_a_sidecar_of_another_kind_is_a_problem(
    state_dir: Path, answer: object, failure: str
) -> None:
    def greet(channel: socket.socket) -> None:
        channel.makefile("rb").readline()
        channel.sendall(orjson.dumps(answer) + b"\n")

    with Impostor(state_dir, hang_up if answer is None else greet):
        problem = found(state_dir, "sidecar")
    assert (problem.status, problem.failure) == ("problem", Reason[failure].wire)


# --- what is written ------------------------------------------------------------------------------


def test_a_trajectory_that_is_behind_or_torn_is_a_note(worked: Path) -> None:
    path = worked / TRAJECTORY
    lines = path.read_bytes().splitlines(keepends=True)
    for data, behind, is_torn in (
        (b"".join(lines[:2]), 1, False),
        (b"".join(lines[:2]) + lines[2][:30], 1, True),
        (lines[0][:-1], 3, True),
        (b"", 3, False),
    ):
        path.write_bytes(data)
        note = found(worked, "trajectory")
        assert (note.status, note.facts["behind"], note.facts["torn"]) == ("note", behind, is_torn)
    path.unlink()
    assert found(worked, "trajectory").status == "note"
    add(worked, 1)
    assert found(worked, "trajectory").status == "ok", "the next writer fills it in"


def test_a_trajectory_that_is_not_the_journal_s_is_a_problem(worked: Path, tmp_path: Path) -> None:
    path = worked / TRAJECTORY
    lines = path.read_bytes().splitlines(keepends=True)
    step = orjson.loads(lines[2])
    for last in (
        b"garbage\n",
        b"[]\n",
        orjson.dumps(step | {"digest": "row1_" + "0" * 64}) + b"\n",
    ):
        path.write_bytes(b"".join(lines[:2]) + last)
        problem = found(worked, "trajectory")
        assert (problem.status, problem.failure) == ("problem", Reason.TRAJECTORY_MISMATCH.wire)
    path.write_bytes(b"".join(lines))
    shutil.copytree(worked, tmp_path / "newer")
    add(tmp_path / "newer")
    shutil.copy(tmp_path / "newer" / TRAJECTORY, path)
    ahead = found(worked, "trajectory")
    assert (ahead.status, ahead.facts["behind"]) == ("problem", -3)
    assert "lost rows" in str(ahead.remedy)


def test_a_long_last_line_is_read_whole(worked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "_TAIL_BYTES", 16)
    assert found(worked, "trajectory").status == "ok"


def test_tables_that_are_behind_are_a_note_and_others_a_problem(worked: Path) -> None:
    path = worked / TABLES
    for seq, status in ((1, "note"), (3, "ok"), (9, "problem")):
        db = apsw.Connection(str(path))
        db.execute("UPDATE watermark SET seq = ?", (seq,))
        db.close()
        assert found(worked, "tables").status == status
    path.write_bytes(b"garbage" * 1000)
    assert found(worked, "tables").status == "problem"
    path.unlink()
    assert found(worked, "tables").status == "ok"


def test_a_damaged_snapshot_costs_time_and_nothing_else(worked: Path) -> None:
    with Office(worked) as office:
        office.authority.snapshot()
    assert found(worked, "snapshot").facts == {"seq": 3, "rowsSince": 0}
    _execute(worked, "UPDATE snapshot SET image = x'00'")
    assert found(worked, "snapshot").status == "note"


def test_a_journal_from_the_future_is_a_note(worked: Path) -> None:
    assert found(worked, "clock").status == "ok"
    with Dispatch(worked, "--frozen-clock") as running:
        running.ask("issue.add", 4_000_000_000_000, title="t")
    note = found(worked, "clock")
    assert note.status == "note"
    assert note.facts["aheadMs"] > 0


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE journal SET changes = x'5b5d' WHERE seq = 2",
        "UPDATE journal SET changes = x'00' WHERE seq = 2",
        "DELETE FROM journal WHERE seq = 2",
        "DROP TABLE meta",
        "PRAGMA user_version = 99",
        "PRAGMA application_id = 1",
    ],
)
def test_a_damaged_journal_is_a_problem_with_the_class_of_its_damage(
    worked: Path, damage: str, call: Run
) -> None:
    _execute(worked, damage)
    problem = found(worked, "journal")
    assert (problem.status, problem.failure) == ("problem", Reason.JOURNAL_CORRUPT.wire)
    assert call("doctor").code == 9


@pytest.mark.parametrize("seed", range(4))
def test_bits_that_flip_never_pass_unseen_where_a_start_would_see_them(
    worked: Path, seed: int
) -> None:
    chance, path = random.Random(seed), worked / "journal.db"
    sound = path.read_bytes()
    for _ in range(40):
        data = bytearray(sound)
        for _ in range(chance.choice((1, 1, 50))):
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data[: chance.choice((len(data), len(data), chance.randrange(len(data))))])
        findings = list(examine(worked))
        assert not [each for each in findings if "cannot be looked at" in each.detail]
        wrong = any(each.status == "problem" for each in findings)
        assert wrong or not _start_fails(worked)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)


def _start_fails(state_dir: Path) -> bool:
    try:
        Office(state_dir, writable=False).close()
    except (Unavailable, ValueError, LookupError, TypeError):
        return True
    return False


def _execute(state_dir: Path, words: str) -> None:
    db = apsw.Connection(str(state_dir / "journal.db"))
    db.execute(words)
    db.close()
