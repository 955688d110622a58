"""Every command of `understudy`, for people and for programs, and what they all have in common."""

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click
import orjson
import pytest

from tests.long import LONG
from tests.surfaces.conftest import Run, Scene
from tests.surfaces.process import UNDERSTUDY, environment, journal_rows, understudy
from understudy.contracts.requests.host_actions import contract_digest
from understudy.surfaces.cli.main import GROUPS, PLUMBING, cli

# Leaf command -> what it is given in the scene, and what it then says to people.
COMMANDS: dict[str, tuple[list[str], str]] = {
    "init": ([], "exists: "),
    "where": ([], "the option --state-dir names it"),
    "issue add": (
        ["new", "--type", "epic", "--label", "x", "--owner", "o", "--scope", "src/**"],
        "added us-",
    ),
    "issue list": ([], "a  P1  open"),
    "issue ready": ([], "a  P1  open"),
    "issue blocked": ([], "waits for a"),
    "issue show": (["w"], "what is to be done"),
    "issue leases": ([], "contended"),
    "issue claim": (["a", "--assignee", "bob", "--ttl", "60"], "holder  bob"),
    "issue next": (["--assignee", "bob", "--label", "red"], "a  in_progress  first"),
    "issue renew": (["w", "HOLDER", "--ttl", "90"], "fence   "),
    "issue release": (["w", "HOLDER"], "released w"),
    "issue reconcile": (["t", "TORN"], "reconciled t"),
    "issue break": (["w", "--reason", "gone"], "broke the lease of w"),
    "issue update": (["w", "HOLDER", "--notes", "half"], "updated w"),
    "issue discover": (["w", "found", "HOLDER", "--new-id", "n"], "discovered n"),
    "issue handover": (["w", "HOLDER", "--summary", "half", "--next", "more"], "left for w, row "),
    "resume": (["t"], "left by tim, fence 1"),
    "issue close": (["w", "HOLDER", "--reason", "done"], "closed w"),
    "dep add": (["a", "w", "--type", "related"], "a related w"),
    "dep remove": (["b", "a"], "no longer: b waits for a"),
    "dep replace": (["b", "a", "w"], "b waits for w"),
    "dep diagnostics": ([], "no cycles, nothing missing"),
    "sublease grant": (["w", "HOLDER", "--holder", "s", "--scope", "issue.close"], "of s: issue"),
    "sublease revoke": (["w", "s1", "HOLDER"], "revoked s1"),
    "instance open": (["w", "tree2", "HOLDER"], "opened tree2"),
    "instance close": (["w", "tree1", "HOLDER"], "closed tree1"),
    "fiber spawn": (["w", "HOLDER", "--task", "lint", "--fiber-id", "f9"], "spawned f9"),
    "fiber join": (["t", "f1", "f2", "TORN", "--result", "rejected"], "joined f2, f1"),
    "fiber cancel": (["t", "f1", "TORN", "--reason", "slow"], "cancelled f1, f2"),
    "fiber list": (["t"], "f1  running  lint\n  f2  running  one file\n"),
    "harness session write": (["--worker", "ada", "--summary", "far"], "hs1_ada_"),
    "harness session read": (["--worker", "tim"], "active  t  half"),
    "harness session bootstrap": (["--worker", "tim"], "attach hs1_tim_"),
    "harness feature write": (["g", "--worker", "tim", "--status", "blocked"], "g  blocked"),
    "harness feature read": (["--worker", "tim"], "f  in_progress"),
    "harness feature check": (["--worker", "tim"], "1 features, sound"),
    "harness feature next": (["--worker", "tim"], "f\n"),
    "harness trajectory append": (
        ["--worker", "tim", "--action", "lint", "--result", "ok"],
        "harness.trajectory.append",
    ),
    "harness trajectory query": (["--worker", "tim"], "harness.feature.write  accepted"),
    "harness join-check": (["--issue", "t", "--issue", "w"], "the join is closed"),
    "observe latest": ([], "  issues    4: "),
    "observe attention": ([], "t  contended_lease  tim holds it"),
    "observe instruction": (["instr-1"], "  session   hs1_tim_"),
    "observe projection": ([], "issue/w  ada  fence "),
    "job schedule": (["q", "--kind", "k", "--after", "p"], "q  waiting  k  waits for complete/p"),
    "job claim": (["p", "--worker", "bob", "--duration-ms", "60000"], "lease   claim/p/17"),
    "job complete": (
        ["j", "JOB", "--artifact", '{"artifactId":"x","artifactType":"t"}'],
        "completed j",
    ),
    "job yield": (["j", "JOB", "--reason", "sleepy"], "j  pending  k.x  sleepy"),
    "job expire": (["j", "--worker", "bob", "--claim", "claim/j/1", "--fence", "1"], "j  claimed"),
    "job admit": (["ops.jsonl"], "accepted  ClaimWork  bob"),
    "job show": (["p"], '{"n": 1}'),
    "job roster": (["--kind", "k.", "--worker", "bob"], "p  pending  k.x"),
    "job log export": (["log.jsonl"], "wrote 3 operations"),
    "job log fold": (["log.jsonl"], "3 operations: 1 pending, 1 claimed"),
    "job log import": (["log.jsonl"], "scheduled 0, completed 0, routed 0"),
    "spec submit": (["n.yaml", "--id", "m"], "m  pending  0/2 jobs  Nightly"),
    "spec status": (["n"], "  root  pending  s.build\n  test  -  s.test  after root"),
    "spec list": (["--query", "all"], "n  in_progress  1/2 jobs  [ada, fence 18, active]"),
    "spec claim": (["n", "SPEC"], "lease    spec/n/18"),
    "spec materialize": (["n", "root", "test", "SPEC"], "existed  n:root\nn  materialized"),
    "spec release": (
        ["n", "SPEC", "--reason", "tired"],
        "n  in_progress  1/2 jobs  Nightly  tired",
    ),
    "job dispatch claim": (["n:root", "DISPATCH"], "lease   dispatch/n:root/20"),
    "job dispatch complete": (
        ["n:root", "DISPATCH", "--file", "f.json", "--digest", "d"],
        "n:root  pending  s.build  dispatched to f.json",
    ),
    "job dispatch release": (["n:root", "DISPATCH"], "n:root  pending  s.build\n"),
    "job dispatch roster": ([], "nothing"),
    "route set": (["k.", "--to", "gpu", "--audited"], "k.  to gpu  audited"),
    "route clear": (["k."], "k.  to anybody"),
    "budget set": (["*", "--per", "day", "--usd", "0.25"], "* per day: 0.250000 USD"),
    "budget clear": (["label/x"], "cleared label/x per work"),
    "budget list": ([], "label/x per work: 9 tokens"),
    "spend report": ([], "label/x per work: 9 tokens"),
    "coordinator designate": (["ann"], "coordinator: ann"),
    "node register": (["ann", "--may", "job.claim"], "ann  job.claim"),
    "node list": ([], "no nodes: any name may work\ncoordinator: "),
    "node unregister": (["ann"], "unregistered ann"),
    "route list": ([], "no routes"),
    "job list": (["--kind", "k."], "j  claimed  k.x"),
    "limit set": (["k.", "--concurrency", "2", "--timeout", "1h"], "k.  1 of 2 held  at most 3600"),
    "limit list": ([], "mail  30 a minute, 1 at once"),
    "limit clear": (["mail"], "mail  no limit"),
    "schedule add": (["every 10m", "--id", "poll", "--kind", "k"], "poll  every 600 s  UTC  k"),
    "schedule list": ([], "daily  0 3 * * *  Europe/Berlin  k.x  fired 0  next "),
    "schedule fire": (["past", "--due-ms", "1000"], "made past@1000"),
    "schedule remove": (["daily"], "removed daily"),
    "policy show": ([], "mutations: open; reads: not journaled"),
    "policy set": (["--evidence-reads"], "reads: journaled"),
    "guard": (["--resource", "issue/w", "--fence", "FENCE"], "is current, for "),
    "hooks install": (["--guard", "main"], "installed: "),
    "hooks list": ([], "pre-push  none"),
    "hooks remove": ([], "there is no hook of ours"),
    "agent-guide": ([], "# Understudy for agents"),
    "import": (["more.jsonl"], "imported 1, skipped 0"),
    "export": (["out.jsonl"], "wrote 4 issues"),
    "journal where": ([], "active: whoever has the lock"),
    "journal copy": (["--to", "copy"], "understudy replay --state-dir copy"),
    "replay": ([], "rows replay to the same bytes"),
    "verify": ([], "rows are chained without a gap"),
    "rebuild": ([], "rebuilt from "),
    "check": ([], "contract: accepted"),
    "coherence": ([], "contract: accepted\ncheck policy: none\n"),
    "required delta": (["b.py", "a.py", "b.py"], "a.py\nb.py\n2 paths  delta1_"),
    "world-registry-check": ([], "contract: accepted"),
    "doctor": ([], "0 wrong"),
    "trace show": (["w"], "fence "),
    "descent status": ([], "0 sections wait, 0 agree, 0 conflict, 0 gluing, 0 glued"),
    "descent obstructions": ([], "nothing was in the way"),
    "cancel": (["a"], "cancel: a"),
    "pause": (["--label", "ui"], "paused  label/ui"),
    "issue prioritize": (["a", "0"], "priority 0: a"),
    "completion": (["fish"], "_UNDERSTUDY_COMPLETE=fish_complete"),
    "help": (["issue", "claim"], "Usage: understudy issue claim "),
    "issue search": (["a"], "a  P"),
}
# They need no state directory, take their time, or print what others say; most have own files.
APART = {
    "dispatch", "vectors list", "vectors run", "demo", "authority serve", "authority evidence",
    "authority status", "exec", "logs", "up", "down", "status", "tree", "top", "mcp", "gateway",
    "web", "service install", "service uninstall", "service show",
    "instruction check", "instruction run", "required projection", "required gate-ref",
    "retry", "reopen", "issue reopen", "unpause", "approve", "reject", "issue ask",
    "worktree list", "worktree show", "worktree prune", "worktree adopt",
    "trace export", "descent start", "descent overlaps", "descent glue", "descent abort",
    "sql", "required witness", "required verify", "required decide", "required verify-decision",
}  # fmt: skip
EXIT_CODES = (
    "0 ok", "1 failed", "2 usage", "3 not found", "4 denied", "5 conflict",
    "6 fence or lease lost", "7 unreachable", "8 frozen", "9 check failed",
    "10 nothing ready", "11 work is blocked", "12 work keeps failing",
    "13 done, but evidence is behind", "75 try later", "78 configuration",
)  # fmt: skip


def _specs(scene: Scene, tmp_path: Path) -> None:
    """A spec with one of its two jobs, which is being handed on: rows 17 to 20."""
    (tmp_path / "n.yaml").write_text(
        "specId: n\ntitle: Nightly\nsteps:\n  - {stepKey: root, kind: s.build}\n"
        "  - {stepKey: test, kind: s.test, dependsOn: [root]}\n"
    )
    held = ("--runner", "ada", "--lease-id", "spec/n/18", "--fence", "18")
    for words in (
        ("spec", "submit", "n.yaml"),
        ("spec", "claim", "n", "--runner", "ada"),
        ("spec", "materialize", "n", "root", *held),
        ("job", "dispatch", "claim", "n:root", "--dispatcher", "ada"),
    ):
        assert scene.run(*words).code == 0


def _owner_says(scene: Scene) -> None:
    """Limits, schedules and two nodes."""
    for words in (
        ("limit", "set", "mail", "--rate", "30"),
        ("schedule", "add", "0 3 * * *", "--id", "daily", "--kind", "k.x", "--timezone",
         "Europe/Berlin"),
        ("schedule", "add", "every 1s", "--id", "past", "--kind", "k.x", "--start",
         "1970-01-01T00:00:00Z"),
        ("node", "register", "ann"),
        ("node", "register", "bob"),
    ):  # fmt: skip
        assert scene.run(*words).code == 0


def _arguments(scene: Scene, name: str, tmp_path: Path) -> list[str]:
    (tmp_path / "more.jsonl").write_bytes(b'{"id":"m","title":"more"}\n')
    (tmp_path / "ops.jsonl").write_bytes(
        b'{"kind":"ClaimWork","author":"bob","stamp":{"wallMs":1,"counter":0,"node":"bob"},'
        b'"payload":{"jobId":"p"}}\n'
    )
    if name in ("job log fold", "job log import"):
        assert scene.run("job", "log", "export", "log.jsonl").code == 0
    if name.startswith(("budget ", "spend ")):
        capped = ("label/x", "--per", "work", "--tokens", "9")
        assert scene.run("budget", "set", *capped).code == 0
    if name.startswith(("spec ", "job dispatch ")):
        _specs(scene, tmp_path)
    if name.startswith(("schedule ", "limit ")) or name == "node unregister":
        _owner_says(scene)
    if name.startswith("hooks "):
        subprocess.run(["git", "init", "-q", tmp_path], check=True)
    words = name.split()
    known = {
        "HOLDER": scene.holder,
        "TORN": scene.torn_holder,
        "FENCE": (str(scene.fence),),
        "SPEC": ("--runner", "ada", "--lease-id", "spec/n/18", "--fence", "18"),
        "DISPATCH": (
            "--dispatcher",
            "ada",
            "--lease-id",
            "dispatch/n:root/20",
            "--fence",
            "20",
        ),
        "JOB": ("--worker", "ada", "--lease-id", "claim/j/16", "--fence", "16"),
    }
    for word in COMMANDS[name][0]:
        words += known.get(word, (word,))
    return words


def _leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    ctx = click.Context(command)
    for name in command.list_commands(ctx):
        leaf = command.get_command(ctx, name)
        assert leaf is not None
        yield from _leaves(leaf, (*path, name))


# --- every command ------------------------------------------------------------------------------


def test_every_command_is_tried_here() -> None:
    assert set(_leaves(cli)) == set(COMMANDS) | APART


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_speaks_to_people(scene: Scene, name: str, tmp_path: Path) -> None:
    said = scene.run(*_arguments(scene, name, tmp_path))
    assert (said.code, said.err) == (0, "")
    assert COMMANDS[name][1] in said.out
    assert said.out.endswith("\n")
    assert "\x1b" not in said.out, "colour is for terminals"


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_speaks_to_programs(scene: Scene, name: str, tmp_path: Path) -> None:
    said = scene.run(*_arguments(scene, name, tmp_path), "--json")
    assert (said.code, said.err) == (0, "")
    assert said.json["result"] == "accepted"


@pytest.mark.parametrize(
    "name",
    [*COMMANDS, "dispatch", "authority serve", "authority status", "exec", "logs", "worktree list"],
)
def test_a_command_explains_itself(bare: Run, name: str) -> None:
    said = bare(*name.split(), "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"Usage: understudy {name} ")
    assert "--json" in said.out
    assert "--state-dir" in said.out


def test_the_first_help_names_commands_exit_codes_and_a_beginning(bare: Run) -> None:
    for arguments in (["--help"], ["-h"], ["issue", "-h"]):
        assert bare(*arguments).code == 0
    said, whole = bare("--help").out, bare("help", "all").out
    for name in {name.split()[0] for name in {*COMMANDS, *APART}}:
        assert f"\n  {name} " in whole
        assert (f"\n  {name} " in said) is (name not in GROUPS[PLUMBING])
    for code in EXIT_CODES:
        assert code in " ".join(said.split())
    assert "understudy init" in said


def test_every_command_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(cli.list_commands(click.Context(cli)))


@pytest.mark.parametrize(
    ("words", "said"),
    [(["nope"], "No such command 'nope'"), (["issue", "nope"], "No such command 'nope'"),
     (["where", "more"], "has no commands of its own")],
)  # fmt: skip
def test_help_of_what_is_no_command_is_refused(bare: Run, words: list[str], said: str) -> None:
    found = bare("help", *words)
    assert found.code == 2
    assert said in found.err


def test_the_options_of_evidence_are_shown_apart_and_still_taken(bare: Run, call: Run) -> None:
    evidence = ("--policy-digest", "--instruction", "--capability")
    for words in (("--help-evidence",), ("issue", "claim", "--help-evidence")):
        said = bare(*words)
        assert all(each in said.out for each in evidence)
    shown = bare("issue", "claim", "--help").out
    assert "--help-evidence" in shown
    assert not any(each in shown for each in evidence)
    assert call("issue", "add", "X", "--instruction", "i1").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ["vectors", "run", "--suite", "fence"],
        ["vectors", "list"],
        pytest.param(["demo"], marks=LONG),
        ["doctor"],
    ],
    ids=" ".join,
)
def test_a_command_that_needs_no_state_directory_speaks_to_people_and_programs(
    tmp_path: Path, words: list[str]
) -> None:
    with ThreadPoolExecutor() as pool:  # a demo mostly waits
        said = pool.map(lambda more: understudy(*words, *more, cwd=tmp_path), ([], ["--json"]))
        to_people, to_programs = said
    assert to_people.returncode == to_programs.returncode == 0, to_people.stderr.decode()
    assert to_people.stdout.decode().count("\n") > 1
    assert isinstance(orjson.loads(to_programs.stdout), dict)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_the_version_is_printed(bare: Run) -> None:
    said = bare("--version")
    assert (said.code, said.out.split()[0]) == (0, "understudy,")


# --- programs -----------------------------------------------------------------------------------


def test_issues_are_listed_for_programs_under_issues(scene: Scene) -> None:
    listed = scene.run("issue", "list", "--json").json
    assert [issue["id"] for issue in listed["issues"]] == ["a", "b", "t", "w"]
    assert listed["issues"][3]["lease"]["fence"] == scene.fence


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        (["--status", "in_progress"], ["w"]),
        (["--label", "red"], ["a"]),
        (["--type", "epic"], []),
        (["--assignee", "ada"], ["w"]),
        (["--status", "open", "--label", "blue"], []),
    ],
)
def test_a_list_is_filtered(scene: Scene, options: list[str], ids: list[str]) -> None:
    listed = scene.run("issue", "list", *options, "--json").json
    assert [issue["id"] for issue in listed["issues"]] == ids


def test_nothing_is_said_as_nothing(call: Run) -> None:
    for words, text in (
        (["issue", "list"], "nothing\n"),
        (["issue", "leases"], "no leases\n"),
    ):
        said = call(*words)
        assert (said.code, said.out) == (0, text)
    said = call("issue", "next", "--assignee", "ada")
    assert (said.code, said.out) == (10, "nothing is ready\n")
    to_programs = call("issue", "next", "--assignee", "ada", "--json")
    assert (to_programs.code, to_programs.json["result"]) == (10, "accepted")


def test_a_read_leaves_no_row_unless_reads_are_evidence(scene: Scene, state_dir: Path) -> None:
    rows = len(journal_rows(state_dir))
    scene.run("issue", "list")
    assert len(journal_rows(state_dir)) == rows
    scene.run("policy", "set", "--evidence-reads")
    scene.run("issue", "list")
    assert len(journal_rows(state_dir)) == rows + 2
    assert scene.run("replay").code == scene.run("verify").code == 0


def test_the_same_request_id_gets_the_same_answer(scene: Scene) -> None:
    words = ("issue", "add", "once", "--request-id", "r1", "--json")
    assert scene.run(*words).out == scene.run(*words).out
    other = scene.run("issue", "add", "twice", "--request-id", "r1", "--json")
    assert (other.code, other.json["failureClasses"]) == (5, ["request_id_conflict"])


@pytest.mark.parametrize("action", ["renew", "release"])
def test_commands_for_actions_of_the_mcp_door_escalate_and_the_evidence_says_so(
    scene: Scene, action: str
) -> None:
    effect = scene.run("issue", action, "w", *scene.holder, "--json").json["effect"]
    assert (effect["transport"], effect["escalatedFrom"]) == ("mcp", "cli")
    assert effect["resultClass"] == "accepted"


@pytest.mark.parametrize("name", ["issue close", "issue update", "sublease revoke"])
def test_other_commands_are_of_the_command_line_door(
    scene: Scene, name: str, tmp_path: Path
) -> None:
    effect = scene.run(*_arguments(scene, name, tmp_path), "--json").json["effect"]
    assert effect["transport"] == "cli"
    assert "escalatedFrom" not in effect


def test_a_change_brings_its_evidence_along(scene: Scene) -> None:
    assert scene.run("policy", "set", "--mutation", "instruction-linked").code == 0
    bare_add = scene.run("issue", "add", "x", "--json")
    assert (bare_add.code, bare_add.json["failureClasses"]) == (
        4,
        ["mutation.use_evidence_missing"],
    )
    evidence = ("--policy-digest", contract_digest(), "--instruction", "instruction://1")
    missing = scene.run("issue", "add", "x", *evidence, "--json").json
    assert missing["failureClasses"] == ["mutation.capability_claim_missing"]
    claims = ("--capability", "capabilities.change_morphisms.all")
    added = scene.run("issue", "add", "x", *evidence, *claims, "--json").json
    assert added["effect"]["instructionRef"] == "instruction://1"


# --- where the state is -------------------------------------------------------------------------


def test_the_state_directory_is_named_before_or_after_the_command_or_in_the_environment(
    bare: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders = {name: tmp_path / name for name in ("first", "second", "third", ".premath")}
    for name, folder in folders.items():
        assert bare("init", "--state-dir", folder).code == 0
        assert bare("issue", "add", name, "--id", name.strip("."), "--state-dir", folder).code == 0

    def listed(*words: object) -> str:
        return str(bare(*words, "--json").json["issues"][0]["title"])

    assert listed("issue", "list") == ".premath"
    monkeypatch.setenv("UNDERSTUDY_STATE_DIR", str(folders["third"]))
    assert listed("issue", "list") == "third"
    assert listed("--state-dir", folders["first"], "issue", "list") == "first"
    assert listed("issue", "list", "--state-dir", folders["second"]) == "second"
    nearer = ("--state-dir", folders["first"], "issue", "list", "--state-dir", folders["second"])
    assert listed(*nearer) == "second", "the nearer one wins"


def test_init_makes_a_directory_once(bare: Run, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "er"
    first = bare("init", "--state-dir", folder, "--node", "n1", "--json").json
    second = bare("init", "--state-dir", folder, "--node", "n2", "--json").json
    assert (first["created"], second["created"]) == (True, False)
    assert folder.stat().st_mode & 0o077 == 0, "no other user reads it"
    stamp = bare("issue", "add", "x", "--state-dir", folder, "--json").json["stamp"]
    assert stamp["node"] == "n1"


# --- a worker's environment ---------------------------------------------------------------------


@pytest.fixture
def worker_environment(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_up(**changes: str) -> None:
        known = {"ISSUE": "w", "LEASE": "lease-w", "FENCE": str(scene.fence), "ASSIGNEE": "ada"}
        for name, value in (known | changes).items():
            monkeypatch.setenv(f"UNDERSTUDY_{name}", value)

    return set_up


@pytest.mark.parametrize(
    "words",
    [
        ["issue", "update", "w", "--notes", "x"],
        ["issue", "renew", "w"],
        ["issue", "release", "w"],
        ["issue", "discover", "w", "found"],
        ["issue", "close", "w"],
        ["dep", "add", "w", "a"],
        ["sublease", "revoke", "w", "s1"],
        ["instance", "close", "w", "tree1"],
    ],
    ids=" ".join,
)
def test_a_worker_s_environment_names_the_holder_of_its_own_issue(
    scene: Scene, worker_environment: Callable[..., None], words: list[str]
) -> None:
    assert scene.run(*words).code != 0
    worker_environment()
    assert scene.run(*words).code == 0


def test_a_worker_s_environment_says_nothing_about_other_issues(
    scene: Scene, worker_environment: Callable[..., None]
) -> None:
    worker_environment(ISSUE="a")
    refused = scene.run("issue", "close", "w", "--json")
    assert (refused.code, refused.json["failureClasses"]) == (6, ["lease_fence_missing"])
    worker_environment()
    assert scene.run("issue", "update", "a", "--notes", "free").code == 0, "not leased, no holder"


def test_what_is_said_on_the_command_line_beats_the_environment(
    scene: Scene, worker_environment: Callable[..., None]
) -> None:
    worker_environment(FENCE="1", LEASE="another", ASSIGNEE="bob")
    assert scene.run("issue", "close", "w").code == 6
    assert scene.run("issue", "close", "w", *scene.holder).code == 0


@pytest.mark.parametrize("fence", ["", "x", "-1", "1.5", "²"])
def test_a_fence_in_the_environment_that_is_no_number_is_no_fence(
    scene: Scene, worker_environment: Callable[..., None], fence: str
) -> None:
    worker_environment(FENCE=fence)
    refused = scene.run("issue", "close", "w", "--json")
    assert (refused.code, refused.json["failureClasses"]) == (6, ["lease_fence_missing"])


def test_a_claim_takes_its_name_from_the_environment(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_ASSIGNEE", "eve")
    assert scene.run("issue", "next", "--json").json["issue"]["lease"]["owner"] == "eve"


# --- speed --------------------------------------------------------------------------------------


def test_a_simple_command_costs_little_more_than_its_libraries(
    scene: Scene, state_dir: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    commands = {
        "python": [sys.executable, "-c", "pass"],
        "libraries": [sys.executable, "-c", "import apsw, click, msgspec, orjson"],
        "issue list": [str(UNDERSTUDY), "issue", "list", "--state-dir", str(state_dir)],
    }
    best = {name: min(_cpu_seconds(words) for _ in range(5)) for name, words in commands.items()}
    with capsysbinary.disabled():
        print("\nCPU:", *(f"{name} {cost * 1000:.0f} ms" for name, cost in best.items()))
    # A bare interpreter is no yardstick: what it costs hangs on what else its venv loads.
    assert best["issue list"] < 3 * best["libraries"]


def _cpu_seconds(command: list[str]) -> float:
    before = _children()
    subprocess.run(command, env=environment(), capture_output=True, check=True)
    return _children() - before


def _children() -> float:
    usage: Any = resource.getrusage(resource.RUSAGE_CHILDREN)
    return float(usage.ru_utime + usage.ru_stime)


def test_a_dependency_is_said_the_way_it_works(scene: Scene) -> None:
    assert scene.run("dep", "add", "a", "w").out == "a waits for w\n"
    assert "waits for w" in scene.run("issue", "blocked").out
    assert scene.run("dep", "add", "a", "t", "--type", "waits-for").out == (
        "a waits for t (waits-for)\n"
    )
    assert scene.run("dep", "add", "a", "b", "--type", "related").out == "a related b\n"
    shown = scene.run("issue", "show", "a").out
    assert "  after     w\n" in shown
    assert "  related   b\n" in shown
    assert "blocks" not in shown
