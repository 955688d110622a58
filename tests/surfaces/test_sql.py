"""`understudy sql`: questions to the tables in both engines, and nothing but questions."""

import os
import pty
import select
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import orjson
import pytest

from tests.authority.sidecar.peer import Peer, add
from tests.patience import PATIENCE_SECONDS, eventually
from tests.services.shared import Database, database
from tests.surfaces.conftest import Run, Said
from tests.surfaces.process import UNDERSTUDY, Program, Serve, environment, understudy
from understudy.authority import TABLES, Office, create_state_dir, open_journal
from understudy.authority.journal.tables import SCHEMA
from understudy.authority.journal.tables.inquiry import bare, split
from understudy.authority.views.sql import brought_up
from understudy.contracts import Exit

ENGINES = ("sqlite", "postgres")
ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)"
Ask = Callable[..., Said]


@pytest.fixture(scope="module")
def server() -> Iterator[Database]:
    with database() as found:
        yield found


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {}


@pytest.fixture
def home(
    request: pytest.FixtureRequest, homes: dict[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A state directory with work in it; a question leaves it as it is."""
    engine: str = request.param
    if engine not in homes:
        folder = tmp_path_factory.mktemp(engine) / "state"
        url = request.getfixturevalue("server").url() if engine == "postgres" else None
        create_state_dir(folder, "local", url)
        homes[engine] = folder
        _work(folder)
    return homes[engine]


def _work(folder: Path) -> None:
    steps = [
        {"stepKey": "root", "kind": "k.a"},
        {"stepKey": "step:2", "kind": "k.b", "dependsOn": ["root"]},
    ]
    with Office(folder) as office:
        for action, payload in (
            ("issue.add", {"id": "a", "title": "Ünï 漢字 🎭\u202e", "description": "two\nlines"}),
            ("issue.claim", {"id": "a", "assignee": "ann"}),
            ("job.schedule", {"jobId": "j", "kind": "k.x", "payload": {"n": 1}}),
            ("spec.submit", {"specId": "s", "title": "chain", "steps": steps}),
            ("spec.claim", {"specId": "s", "runner": "rex"}),
        ):
            answer = office.ask(action, payload, transport="cli")
            assert answer["result"] == "accepted", answer
        lease = answer["spec"]["lease"]
        held = {"specId": "s", "runner": "rex"} | {n: lease[n] for n in ("leaseId", "fence")}
        made = office.ask("spec.materialize", held | {"stepKeys": ["root"]}, transport="cli")
        assert made["created"] == ["s:root"]


@pytest.fixture
def ask(bare: Run, home: Path) -> Ask:
    def asked(*words: object) -> Said:
        return bare("sql", *words, "--state-dir", home)

    return asked


both = pytest.mark.parametrize("home", ENGINES, indirect=True)


def rows(said: Said) -> list[dict[str, Any]]:
    assert said.code == 0, said.err
    return [orjson.loads(line) for line in said.out.splitlines()]


# --- answers --------------------------------------------------------------------------------------


@both
def test_an_answer_has_straight_columns_and_says_how_old_it_is(ask: Ask) -> None:
    said = ask("SELECT job_id, spec_id, status, attempts FROM job ORDER BY job_id")
    assert said.out == (
        "job_id  spec_id  status   attempts\n"
        "------  -------  -------  --------\n"
        "j       NULL     pending         0\n"
        "s:root  s        pending         0\n"
    )
    assert said.err == "(2 rows; as of row 6)\n"


@both
def test_json_has_an_object_a_row_and_the_types_of_the_cells(ask: Ask) -> None:
    query = (
        "SELECT id, description, attempts, NULL AS missing, 1.5 AS part, 2 AS n, 3 AS n, '' AS bare"
    )
    said = ask(f"{query} FROM issue", "--json")
    assert rows(said) == [{
        "id": "a", "description": "two\nlines", "attempts": 1, "missing": None, "part": 1.5,
        "n": 2, "n_2": 3, "bare": "",
    }]  # fmt: skip
    assert orjson.loads(said.err) == {"rows": 1, "watermark": 6, "head": 6, "behind": 0}


@both
def test_csv_quotes_what_has_to_be(ask: Ask) -> None:
    said = ask("SELECT id, description, NULL AS n, 'a,\"b' AS q FROM issue", "--csv")
    assert said.out == 'id,description,n,q\na,"two\nlines",,"a,""b"\n'
    assert ask("SELECT 1", "--csv", "--json").code == Exit.USAGE


@both
def test_what_a_terminal_would_act_upon_is_spelled_out(ask: Ask) -> None:
    said = ask("SELECT title, description, '\x1b[31m' AS red FROM issue")
    assert said.out.splitlines()[2] == "Ünï 漢字 🎭\\u202e  two\\nlines   \\u001b[31m"
    assert rows(ask("SELECT title FROM issue", "--json")) == [{"title": "Ünï 漢字 🎭\u202e"}]


@both
def test_an_answer_without_rows_still_has_its_columns(ask: Ask) -> None:
    said = ask("SELECT id, title FROM issue WHERE id = 'nobody'")
    assert (said.out, said.err) == ("id  title\n--  -----\n", "(0 rows; as of row 6)\n")
    assert ask("SELECT id FROM issue WHERE id = 'x'", "--json").out == ""


@both
def test_every_table_can_be_asked_and_the_examples_work(ask: Ask) -> None:
    for table in SCHEMA:
        said = ask(f"SELECT * FROM {table.name}", "--csv")
        assert said.out.splitlines()[0] == ",".join(name for name, _ in table.columns)
    free = (
        "SELECT kind, status, count(*) AS jobs FROM job WHERE status IN ('pending', 'dispatched')"
    )
    found = rows(ask(f"{free} GROUP BY kind, status ORDER BY kind", "--json"))
    assert found == [
        {"kind": "k.a", "status": "pending", "jobs": 1},
        {"kind": "k.x", "status": "pending", "jobs": 1},
    ]
    held = rows(ask("SELECT owner, resource FROM lease ORDER BY owner", "--json"))
    assert held == [{"owner": "ann", "resource": "issue/a"}, {"owner": "rex", "resource": "spec/s"}]
    assert rows(ask("SELECT owner_id, spec_id FROM spec_lease", "--json")) == [
        {"owner_id": "rex", "spec_id": "s"}
    ]
    done = "SELECT spec_id, status, materialized, steps, (SELECT count(*) FROM job WHERE"
    done += " job.spec_id = chain_spec.spec_id) AS jobs FROM chain_spec ORDER BY submitted_ms"
    assert rows(ask(done, "--json")) == [
        {"spec_id": "s", "status": "in_progress", "materialized": 1, "steps": 2, "jobs": 1}
    ]


@both
def test_common_table_expressions_windows_and_plans_are_questions_too(ask: Ask) -> None:
    named = "WITH held AS (SELECT owner FROM lease) SELECT count(*) AS n FROM held"
    assert rows(ask(named, "--json")) == [{"n": 2}]
    ranked = "SELECT job_id, row_number() OVER (ORDER BY job_id) AS place FROM job"
    assert [row["place"] for row in rows(ask(ranked, "--json"))] == [1, 2]
    assert ask("VALUES (1)").code == 0
    assert ask("EXPLAIN SELECT * FROM job").code == 0
    assert ask("/* first */ -- then\nSELECT 1;").code == 0


def test_statements_come_on_standard_input_too(state_dir: Path) -> None:
    sent = b"SELECT 'a;b' AS one; -- a comment;\nSELECT 2 AS two"
    done = understudy("sql", "--json", "--state-dir", state_dir, stdin=sent)
    assert done.stdout == b'{"one":"a;b"}\n{"two":2}\n'
    nothing = understudy("sql", "--state-dir", state_dir, stdin=b" -- only a comment")
    assert nothing.returncode == Exit.USAGE
    assert b"there is no question" in nothing.stderr


# --- nothing is changed ---------------------------------------------------------------------------

WRITES = (
    "DELETE FROM job",
    "UPDATE watermark SET seq = 99",
    "INSERT INTO chain_spec (spec_id) VALUES ('x')",
    "DROP TABLE job",
    "CREATE TABLE mine (a text)",
    "CREATE TEMP TABLE mine (a text)",
    "ALTER TABLE job ADD COLUMN x text",
    "BEGIN",
    "COMMIT",
    "ATTACH 'other.db' AS other",
    "PRAGMA user_version = 7",
    "PRAGMA writable_schema = 1",
    "VACUUM",
    "SET transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "COPY job TO PROGRAM 'true'",
    "TRUNCATE job",
    "DO $$ BEGIN DELETE FROM job; END $$",
    "WITH gone AS (DELETE FROM job RETURNING *) SELECT * FROM gone",
    "EXPLAIN ANALYZE DELETE FROM job",
    "EXPLAIN ANALYZE INSERT INTO chain_spec (spec_id) VALUES ('x')",
    "SELECT * INTO mine FROM job",
    "SELECT * FROM job FOR UPDATE",
    "SELECT load_extension('x')",
    "SELECT clear_tables()",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT 1; DELETE FROM job",
    "SELECT E'\\'; DELETE FROM job; --'",
    "SELECT sql FROM sqlite_schema",
    "EXPLAIN SELECT 1; DELETE FROM job",
    "SELECT pg_read_file(name) FROM nothing",
)


@both
@pytest.mark.parametrize("query", WRITES)
def test_whatever_is_no_question_is_refused_and_changes_nothing(ask: Ask, query: str) -> None:
    said = ask(query, "--json")
    text = orjson.loads(said.out.splitlines()[-1])
    if query.startswith("SELECT E"):  # in PostgreSQL one text, and a question
        assert said.code in (0, Exit.USAGE)
    elif query.startswith("EXPLAIN ANALYZE") and "near" in text.get("diagnostic", ""):
        assert said.code == Exit.USAGE
    else:
        assert said.code == Exit.USAGE, said.out
        assert text["result"] == "rejected"
    count = "SELECT (SELECT count(*) FROM job) AS jobs, (SELECT seq FROM watermark) AS seq"
    assert rows(ask(count, "--json")) == [{"jobs": 2, "seq": 6}]


@pytest.mark.parametrize("home", ["postgres"], indirect=True)
def test_what_a_question_sets_is_gone_with_it(ask: Ask) -> None:
    """In one run, hence on one connection."""
    off = "SELECT set_config('default_transaction_read_only', 'off', false)"
    said = ask(f"{off}; WITH x AS (DELETE FROM job RETURNING 1) SELECT * FROM x")
    assert said.code == Exit.USAGE
    shown = ask(f"{off}; SELECT current_setting('transaction_read_only') AS now", "--json")
    assert rows(shown)[1] == {"now": "on"}


@both
@pytest.mark.parametrize("query", ["SELEC", "SELECT * FROM nowhere", "SELECT (", "SELECT 'x"])
def test_bad_sql_is_said_with_the_engines_words(ask: Ask, query: str) -> None:
    said = ask(query)
    assert (said.code, said.out) == (Exit.USAGE, "")
    assert said.err.startswith("Error: ")
    assert "Traceback" not in said.err


@both
def test_a_question_has_a_time(ask: Ask) -> None:
    said = ask(f"{ENDLESS} SELECT count(*) FROM c", "--timeout", "0.2")
    assert (said.code, said.out) == (Exit.USAGE, "")
    assert "no answer in 0.2 s" in said.err


# --- much, and not read to its end ----------------------------------------------------------------


@both
def test_an_endless_answer_is_streamed_and_can_be_interrupted(home: Path) -> None:
    words = (UNDERSTUDY, "sql", f"{ENDLESS} SELECT x, NULL AS n FROM c", "--json")
    with Program((*words, "--state-dir", home), pipes=True) as running:
        assert running.process.stdin is not None
        assert running.process.stdout is not None
        running.process.stdin.close()
        assert running.process.stdout.readline() == b'{"x":1,"n":null}\n'
        running.signal(signal.SIGINT)
        with running.process.stdout as rest:
            while rest.read(1_048_576):
                pass
        assert running.wait() == 130, running.complaint()
        assert "Traceback" not in running.complaint()


@both
def test_a_reader_that_reads_no_further_is_left_in_peace(home: Path) -> None:
    words = (UNDERSTUDY, "sql", f"{ENDLESS} SELECT x FROM c", "--state-dir", home)
    with Program(words, pipes=True) as running:
        assert running.process.stdin is not None
        assert running.process.stdout is not None
        running.process.stdin.close()
        assert running.process.stdout.readline().strip() == b"x"
        running.process.stdout.close()
        assert running.wait() == Exit.FAILED
        assert running.complaint() == ""


# --- how fresh ------------------------------------------------------------------------------------


def test_a_running_sidecar_is_asked_about_its_last_row(state_dir: Path) -> None:
    with Serve(state_dir).ready() as running:
        with Peer(state_dir) as peer:
            for number in range(1, 3):
                assert peer.ask(add(number))["result"] == "accepted"
                words = ("sql", "SELECT count(*) AS n FROM issue", "--json")
                done = understudy(*words, "--state-dir", state_dir)
                assert orjson.loads(done.stdout) == {"n": number}
        assert running.terminate() == 0


def test_the_tables_follow_a_sidecar_by_themselves(state_dir: Path) -> None:
    with Serve(state_dir).ready() as running:
        with Peer(state_dir) as peer:
            for number in range(1, 30):
                peer.ask(add(number))
        eventually(lambda: _watermark(state_dir) == 29)
        running.kill()
    with Serve(state_dir).ready() as again, Peer(state_dir) as peer:
        peer.ask(add(30))
        eventually(lambda: _watermark(state_dir) == 30)
        assert again.process.poll() is None


def _watermark(state_dir: Path) -> int:
    try:
        with closing(apsw.Connection(str(state_dir / TABLES))) as db:
            return int(db.execute("SELECT seq FROM watermark").get)
    except apsw.Error:
        return -1


def test_tables_in_the_database_follow_and_are_waited_for(server: Database, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    url = server.url()
    for folder in (one, two):
        create_state_dir(folder, "local", url)
    with Serve(one).ready() as running:
        with Peer(one) as peer:
            for number in range(1, 6):
                peer.ask(add(number))
        words = ("sql", "SELECT count(*) AS n FROM issue", "--json", "--wait", "60")
        done = understudy(*words, "--state-dir", two)  # from another host
        assert orjson.loads(done.stdout) == {"n": 5}
        assert not any((folder / TABLES).exists() for folder in (one, two))
        running.kill()
    with open_journal(one, read_only=False) as journal:
        journal.acquire_epoch()
        with closing(journal.tables(one)) as tables:
            tables.clear()
    assert brought_up(two, 0.0) == 5
    behind = understudy("sql", "SELECT 1", "--wait", "0", "--state-dir", two)
    assert b"as of row 0, 5 behind the journal" in behind.stderr
    assert understudy("doctor", "--state-dir", one).stdout.count(b"rows behind") >= 1


def test_tables_that_are_gone_or_of_another_version_are_made_anew(
    call: Run, state_dir: Path
) -> None:
    call("issue", "add", "t", "--id", "a")
    (state_dir / TABLES).unlink()
    assert rows(call("sql", "SELECT id FROM issue", "--json")) == [{"id": "a"}]
    with closing(apsw.Connection(str(state_dir / TABLES))) as db:
        db.execute("PRAGMA user_version = 1; DROP TABLE chain_spec; DROP TABLE job")
    assert rows(call("sql", "SELECT count(*) AS n FROM job", "--json")) == [{"n": 0}]
    (state_dir / TABLES).write_bytes(b"garbage" * 1_000)
    said = call("sql", "SELECT 1")
    assert said.code == Exit.USAGE
    assert "not a database" in said.err


# --- the prompt -----------------------------------------------------------------------------------


def test_the_prompt_asks_obeys_goes_on_and_leaves(state_dir: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    env = environment(XDG_STATE_HOME=str(tmp_path / "home"), TERM="dumb")
    words: list[str | Path] = [UNDERSTUDY, "sql", "--state-dir", state_dir]
    with subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, env=env) as running:
        os.close(theirs)
        try:
            _until(ours, b"understudy> ")
            os.write(ours, b"SELECT 6 * 7\n")
            _until(ours, b"...> ")
            os.write(ours, b"AS answer;\n")
            assert b"42" in _until(ours, b"as of row 0)")
            os.write(ours, b"SELEC;\n")
            _until(ours, b"error: near")
            os.write(ours, b".tables\n")
            assert b"chain_spec" in _until(ours, b"watermark")
            os.write(ours, b".schema job\n")
            assert b"UNIQUE (spec_id, step_key)" in _until(ours, b"STRICT;")
            os.write(ours, b".nonsense\n")
            _until(ours, b"is no command; see .help")
            os.write(ours, b"SELECT 'half\n")
            _until(ours, b"...> ")
            _interrupted(ours, running)
            os.write(ours, f"{ENDLESS} SELECT count(*) FROM c;\n".encode())
            _until(ours, b"FROM c;")
            eventually(lambda: _is_busy(running.pid))
            _interrupted(ours, running)
            os.write(ours, b"\x04")
            assert running.wait(PATIENCE_SECONDS) == 0
        finally:
            running.kill()
            os.close(ours)
    assert "SELECT 6 * 7" in (tmp_path / "home/understudy/sql_history").read_text()


def _interrupted(terminal: int, running: "subprocess.Popen[bytes]") -> None:
    """Ctrl-C until there is a prompt: one that comes just before the wait for a key is not heard
    by the interpreter's readline before the next key."""
    seen = b""

    def is_asked() -> bool:
        nonlocal seen
        running.send_signal(signal.SIGINT)
        while select.select([terminal], [], [], 1.0)[0]:
            seen += os.read(terminal, 65_536)
            if seen.endswith(b"understudy> "):
                return True
        return False

    eventually(is_asked)


def _until(terminal: int, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        try:
            part = os.read(terminal, 65_536)
        except OSError:  # the other end is gone
            part = b""
        assert part, seen.decode(errors="replace")
        seen += part
    return seen


def _is_busy(pid: int) -> bool:
    return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "R"


# --- text -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("a;b", ["a"], "b"),
        ("'x;y';", ["'x;y'"], ""),
        ("'it''s;';", ["'it''s;'"], ""),
        ('";";', ['";"'], ""),
        ("a -- ;\n;", ["a -- ;"], ""),
        ("/* ; */ a;", ["/* ; */ a"], ""),
        ("$x$ ; $x$;", ["$x$ ; $x$"], ""),
        ("E'\\';';", ["E'\\';'"], ""),
        ("';", [], "';"),
        (";;-- nothing\n;", [], ""),
    ],
)
def test_a_semicolon_ends_a_statement_unless_it_is_quoted(
    text: str, statements: list[str], rest: str
) -> None:
    assert split(text) == (statements, rest)
    assert bare("/* a */ -- b\n  c ") == "c"
