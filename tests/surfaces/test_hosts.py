"""State directories that share a journal in PostgreSQL, from the command line."""

from contextlib import closing
from pathlib import Path

import orjson
import pytest

from tests.authority.sidecar.peer import add
from tests.patience import eventually
from tests.surfaces.process import UNDERSTUDY, Program, Serve, commanded, report_of, understudy
from understudy.authority import Office, Unavailable
from understudy.authority.journal.journal_url import parsed
from understudy.authority.journal.postgres import PostgresJournal
from understudy.authority.service import fence_check
from understudy.authority.service.client import Client
from understudy.contracts import Exit, Reason, limits


@pytest.fixture
def homes(tmp_path: Path, url: str) -> list[Path]:
    found = [tmp_path / name for name in ("one", "two")]
    for home in found:
        assert report_of("init", "--state-dir", home, "--journal", url)["created"] is True
    return found


def refusal(*words: str | Path, code: Exit) -> str:
    done = commanded(*words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stderr.decode()


# --- one journal, several folders -----------------------------------------------------------------


def test_what_is_added_in_one_folder_is_there_in_the_other(homes: list[Path]) -> None:
    one, two = homes
    assert report_of("issue", "add", "t", "--id", "a", "--state-dir", one)["seq"] == 1
    assert report_of("issue", "add", "t", "--id", "b", "--state-dir", two)["seq"] == 2
    listed = report_of("issue", "list", "--state-dir", one)["issues"]
    assert [each["id"] for each in listed] == ["a", "b"]
    for home in homes:
        assert report_of("replay", "--state-dir", home)["rows"] == 2
        assert report_of("rebuild", "--state-dir", home)["rows"] == 2
        assert report_of("verify", "--state-dir", home)["rows"] == 2
        assert not (home / "journal.db").exists()


def test_a_lease_that_was_taken_in_one_folder_is_guarded_in_the_other(homes: list[Path]) -> None:
    one, two = homes
    report_of("issue", "add", "t", "--id", "a", "--state-dir", one)
    claim = report_of("issue", "claim", "a", "--assignee", "ada", "--state-dir", one)
    fence = str(claim["issue"]["lease"]["fence"])
    words = ("guard", "--resource", "issue/a", "--state-dir", two, "--fence")
    assert understudy(*words, fence).returncode == 0
    assert commanded(*words, "99").returncode == Exit.LEASE_LOST
    report_of("job", "schedule", "j", "--kind", "k", "--state-dir", one)
    claim = report_of("job", "claim", "j", "--worker", "ada", "--state-dir", one)
    fence = claim["job"]["lease"]["fence"]
    assert fence_check.glance(two, "job/j", fence).failure is None
    assert fence_check.glance(two, "job/j", fence - 1).failure == Reason.FENCE_STALE.wire


def test_the_doctor_names_the_database_and_what_is_wrong_with_it(homes: list[Path]) -> None:
    report_of("issue", "add", "t", "--state-dir", homes[0])
    done = commanded("doctor", "--state-dir", homes[0])
    assert done.returncode == Exit.CHECK_FAILED
    assert b"fsync is off on the server" in done.stdout, "as our servers for tests are"
    assert b"active: nobody yet" in done.stdout
    assert b"1 rows" in done.stdout


# --- passwords, and other URLs --------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["postgresql://ada:secret@db/x", "postgresql://db/x?password=secret"]
)
def test_a_password_is_not_written_down(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    words = refusal("init", "--state-dir", home, "--journal", url, code=Exit.CONFIG)
    assert "password" in words
    assert "secret" not in words
    assert not home.exists()


def test_a_password_that_was_written_down_is_refused(homes: list[Path]) -> None:
    (homes[0] / "journal.url").write_text("postgresql://ada:secret@db/x\n")
    words = refusal("issue", "list", "--state-dir", homes[0], code=Exit.CONFIG)
    assert "secret" not in words


def test_the_environment_may_have_the_password(tmp_path: Path, url: str) -> None:
    home, full = tmp_path / "home", url.replace(":///", "://understudy:secret@/")
    env = {"UNDERSTUDY_JOURNAL": full}
    assert understudy("init", "--state-dir", home, env=env).returncode == 0
    assert "secret" not in (home / "journal.url").read_text()
    assert understudy("issue", "add", "t", "--state-dir", home, env=env).returncode == 0
    assert report_of("issue", "list", "--state-dir", home)["issues"][0]["title"] == "t"


def test_a_folder_keeps_the_journal_that_it_has(tmp_path: Path, url: str) -> None:
    home = tmp_path / "home"
    report_of("init", "--state-dir", home)
    for words in (("init",), ("authority", "serve"), ("up", "--exec", "true")):
        refusal(*words, "--state-dir", home, "--journal", url, code=Exit.CONFIG)


@pytest.mark.parametrize(
    "url", ["mysql://db/x", "journal.db", "postgresql://[db/x", "postgresql://db/x?schema=A%20B"]
)
def test_what_is_no_url_of_a_journal_is_refused(tmp_path: Path, url: str) -> None:
    refusal("init", "--state-dir", tmp_path / "home", "--journal", url, code=Exit.CONFIG)


def test_a_database_that_does_not_answer_is_named(homes: list[Path], tmp_path: Path) -> None:
    (homes[0] / "journal.url").write_text(f"postgresql:///x?host={tmp_path}\n")
    words = refusal("issue", "list", "--state-dir", homes[0], code=Exit.UNREACHABLE)
    assert "journal_unreachable" in words


# --- one is active --------------------------------------------------------------------------------


def test_a_standby_says_whom_it_relays_to_and_takes_over_when_that_one_ends(
    homes: list[Path],
) -> None:
    one, two = homes
    with Serve(one).ready() as first, Serve(two).ready() as second:
        for words in ("authority", "status"), ("doctor",):
            said = commanded(*words, "--state-dir", two).stdout.decode()
            assert "as a standby: it relays to" in said
            assert f"process {first.pid}, epoch 1" in said
        assert report_of("issue", "add", "t", "--id", "a", "--state-dir", two)["seq"] == 1
        assert report_of("issue", "show", "a", "--state-dir", one)["issue"]["title"] == "t"
        assert first.terminate() == 0
        eventually(lambda: not _is_standby(two))
        assert report_of("issue", "add", "t", "--state-dir", two)["seq"] == 2
        assert second.terminate() == 0
    for home in homes:
        assert report_of("replay", "--state-dir", home)["rows"] == 2
    assert report_of("verify", "--state-dir", two)["rows"] == 2, "it had followed"


def test_a_command_without_a_sidecar_asks_the_active_one_too(homes: list[Path]) -> None:
    one, two = homes
    with Serve(one).ready():
        assert report_of("issue", "add", "t", "--id", "a", "--state-dir", two)["seq"] == 1
        lines = b"".join(orjson.dumps(add(mark)) + b"\n" for mark in range(300))
        done = understudy("dispatch", "--state-dir", two, stdin=lines)
        assert [orjson.loads(line)["id"] for line in done.stdout.splitlines()] == [*range(300)]
        again = understudy("issue", "add", "t", "--id", "a", "--state-dir", two)
        assert again.returncode == Exit.CONFLICT
    assert report_of("replay", "--state-dir", two)["rows"] == 302


def test_a_relay_whose_active_one_is_silent_names_it(
    homes: list[Path], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "ERRAND_PATIENCE_MS", 500)
    with (
        closing(PostgresJournal(parsed(url))) as silent,
        Office(homes[1], while_standby="relay") as office,
    ):
        silent.acquire_epoch()
        answer = office.ask("issue.add", {"title": "t"})
        assert answer["failureClasses"] == [Reason.AUTHORITY_STANDBY.wire]
        assert silent.who().rpartition(",")[0] in answer["diagnostic"]
    assert report_of("replay", "--state-dir", homes[1])["rows"] == 0


def test_a_command_waits_for_the_active_one_and_gives_up(
    homes: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Serve(homes[0]).ready():
        monkeypatch.setattr(limits, "LOCK_WAIT_MS", 100)
        with pytest.raises(Unavailable) as told:
            Office(homes[1])
        assert told.value.reason is Reason.AUTHORITY_STANDBY


def test_clients_follow_whatever_they_know(homes: list[Path]) -> None:
    with (
        Serve(homes[0]).ready() as first,
        Serve(homes[1]).ready(),
        Client(homes[1], "mcp", retry_seconds=60) as relayed,
        Client(homes[::-1], "mcp", retry_seconds=60) as client,
    ):
        assert relayed.server["standby"] is True
        assert client.server["pid"] == first.pid
        assert relayed.ask("issue.add", {"title": "t"})["seq"] == 1
        assert client.ask("issue.add", {"title": "t"})["seq"] == 2
        first.kill()
        assert relayed.ask("issue.add", {"title": "t"})["seq"] == 3
        assert client.ask("issue.add", {"title": "t"})["seq"] == 4
        assert client.server["pid"] != first.pid


def test_a_tree_works_while_another_host_is_active(homes: list[Path]) -> None:
    for name in "abc":
        report_of("issue", "add", "t", "--id", name, "--state-dir", homes[0])
    up = (UNDERSTUDY, "up", "--exec", "true", "--until-done", "--state-dir", homes[1])
    with Serve(homes[0]).ready() as first, Program(up) as tree:
        assert tree.wait() == 0, tree.complaint()
        assert first.process.poll() is None
        assert not _is_standby(homes[0])
        issues = report_of("issue", "list", "--state-dir", homes[0])["issues"]
    assert [each["status"] for each in issues] == ["closed"] * 3


def test_a_host_that_is_started_again_on_its_own_folder_need_not_wait(homes: list[Path]) -> None:
    with Serve(homes[0]).ready() as first:
        first.kill()
    with Serve(homes[0]).ready():
        assert not _is_standby(homes[0])


def _is_standby(home: Path) -> bool:
    try:
        with Client(home, "cli") as client:
            return bool(client.server.get("standby"))
    except Unavailable:
        return True
