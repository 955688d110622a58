"""`understudy hooks`, and the hooks that it writes, at real commits and real pushes."""

import os
import re
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.surfaces.conftest import Run
from tests.surfaces.process import UNDERSTUDY, environment
from tests.surfaces.test_guard import LONG_AGO_MS, submit
from understudy.surfaces.cli import hook_folder, hook_scripts

PAGE = Path(__file__).parents[2] / "docs" / "hooks.md"
Worker = dict[str, str]
Done = subprocess.CompletedProcess[str]


class Repository:
    """A clone in which work is done, and the bare repository that it pushes to."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.far = folder / "clone", folder / "far"
        folder.mkdir(exist_ok=True)
        self.env = {"PATH": f"{UNDERSTUDY.parent}:{os.environ['PATH']}", **plain_git()}
        self.run(folder, ["git", "init", "-q", "--bare", "--initial-branch=main", "far"])
        self.run(folder, ["git", "clone", "-q", "far", "clone"])
        self.git("symbolic-ref", "HEAD", "refs/heads/main")

    def git(self, *words: str, **env: str) -> Done:
        return self.run(self.folder, ["git", *words], **env)

    def commit(self, name: str, *words: str, **env: str) -> Done:
        (self.folder / name).write_text(name)
        assert self.git("add", name).returncode == 0
        return self.git("commit", "-q", "-m", name, *words, **env)

    def push(self, *words: str, **env: str) -> Done:
        return self.git("push", "-q", "origin", *(words or ("HEAD:main",)), **env)

    def moved(self, *words: str, **env: str) -> None:
        """A push that must succeed."""
        done = self.push(*words, **env)
        assert done.returncode == 0, done.stderr

    def far_head(self, branch: str = "main") -> str:
        words = ["git", "rev-parse", "-q", "--verify", f"refs/heads/{branch}"]
        return self.run(self.far, words).stdout.strip()

    def head(self) -> str:
        return self.git("rev-parse", "HEAD").stdout.strip()

    def hook(self, name: str, text: str, mode: int = 0o755) -> Path:
        """A hook of the user."""
        path = self.folder / ".git" / "hooks" / name
        path.write_text(text)
        path.chmod(mode)
        return path

    def run(self, folder: Path, words: list[str], **env: str) -> Done:
        return subprocess.run(
            words, cwd=folder, env=environment(**(self.env | env)), check=False,
            capture_output=True, text=True,
        )  # fmt: skip


def plain_git() -> dict[str, str]:
    """No configuration of the user who runs the tests."""
    who = {f"GIT_{who}_{what}": "ada@example.org"
           for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}  # fmt: skip
    return {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", **who}


@pytest.fixture(autouse=True)
def _git_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in plain_git().items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


@pytest.fixture
def guarded(bare: Run, repository: Repository) -> Repository:
    """A clone with both hooks."""
    assert bare("hooks", "install", repository.folder, "--pre-commit").code == 0
    return repository


@pytest.fixture
def served(call: Run, repository: Repository) -> Repository:
    """A bare repository that guards `main`."""
    said = call("hooks", "install", repository.far)
    assert (said.code, said.err) == (0, "")
    return repository


def worker(call: Run, state_dir: Path, assignee: str, issue: str = "x") -> Worker:
    """What a worker is started with."""
    answer = call("issue", "claim", issue, "--assignee", assignee, "--json").json
    return {
        "UNDERSTUDY_ISSUE": issue,
        "UNDERSTUDY_FENCE": str(answer["issue"]["lease"]["fence"]),
        "UNDERSTUDY_LEASE": answer["issue"]["lease"]["leaseId"],
        "UNDERSTUDY_STATE_DIR": str(state_dir),
    }


def trailers(of: Worker) -> list[str]:
    pairs = ("Issue", of["UNDERSTUDY_ISSUE"]), ("Fence", of["UNDERSTUDY_FENCE"])
    return [word for name, value in pairs for word in ("--trailer", f"Understudy-{name}: {value}")]


@pytest.fixture
def ada(call: Run, state_dir: Path) -> Worker:
    assert call("issue", "add", "work", "--id", "x").code == 0
    return worker(call, state_dir, "ada")


def broken(call: Run, ada: Worker) -> str:
    assert call("issue", "break", "x", "--reason", "it is gone").code == 0
    return "lease_missing"


def released(call: Run, ada: Worker) -> str:
    proof = ("--lease-id", ada["UNDERSTUDY_LEASE"], "--fence", ada["UNDERSTUDY_FENCE"])
    assert call("issue", "release", "x", "--as", "ada", *proof).code == 0
    return "lease_missing"


def taken_over(call: Run, ada: Worker) -> str:
    broken(call, ada)
    assert call("issue", "claim", "x", "--as", "bob").code == 0
    return "lease_fence_stale"


def closed(call: Run, ada: Worker) -> str:
    proof = ("--lease-id", ada["UNDERSTUDY_LEASE"], "--fence", ada["UNDERSTUDY_FENCE"])
    assert call("issue", "close", "x", "--as", "ada", *proof).code == 0
    return "lease_issue_closed"


Ending = Callable[[Run, Worker], str]
ENDINGS = pytest.mark.parametrize("ending", [broken, released, taken_over, closed])


def lapsed(state_dir: Path) -> Worker:
    """A worker whose lease ran out long ago."""
    submit(state_dir, "issue.add", {"id": "x", "title": "t"}, LONG_AGO_MS)
    claim = {"id": "x", "assignee": "ada", "leaseTtlSeconds": 30}
    answer = submit(state_dir, "issue.claim", claim, LONG_AGO_MS)
    return {
        "UNDERSTUDY_ISSUE": "x",
        "UNDERSTUDY_FENCE": str(answer["issue"]["lease"]["fence"]),
        "UNDERSTUDY_STATE_DIR": str(state_dir),
    }


# --- in a working repository ----------------------------------------------------------------------


def test_people_are_not_asked(guarded: Repository) -> None:
    assert guarded.commit("a").returncode == 0
    guarded.moved()


@ENDINGS
def test_a_worker_commits_and_pushes_while_its_fence_is_current(
    call: Run, guarded: Repository, ada: Worker, ending: Ending
) -> None:
    done = guarded.commit("a", **ada)
    assert done.returncode == 0, done.stderr
    guarded.moved(**ada)
    failure, head = ending(call, ada), guarded.head()
    late = guarded.commit("b", **ada)
    assert late.returncode != 0
    assert failure in late.stderr
    assert "x is no longer yours; nothing is committed" in late.stderr
    assert guarded.head() == head
    assert guarded.commit("b").returncode == 0
    refused = guarded.push(**ada)
    assert refused.returncode != 0
    assert failure in refused.stderr
    assert "x is no longer yours; nothing is pushed" in refused.stderr
    assert guarded.push("HEAD:refs/heads/side", **ada).returncode != 0, "to no branch at all"
    assert guarded.far_head() == head


def test_a_lease_that_has_lapsed_pushes_nothing(guarded: Repository, state_dir: Path) -> None:
    assert guarded.commit("a").returncode == 0
    refused = guarded.push(**lapsed(state_dir))
    assert refused.returncode != 0
    assert "lease_stale" in refused.stderr
    assert guarded.far_head() == ""


def test_a_worker_on_a_job_commits_while_its_fence_is_current(
    call: Run, state_dir: Path, guarded: Repository
) -> None:
    assert call("job", "schedule", "j", "--kind", "k").code == 0
    answer = call("job", "claim", "j", "--worker", "ada", "--json").json
    lease = answer["job"]["lease"]
    own = {"UNDERSTUDY_JOB": "j", "UNDERSTUDY_STATE_DIR": str(state_dir)}
    own["UNDERSTUDY_FENCE"] = str(lease["fence"])
    done = guarded.commit("a", **own)
    assert done.returncode == 0, done.stderr
    proof = ("--worker", "ada", "--lease-id", lease["leaseId"], "--fence", lease["fence"])
    assert call("job", "complete", "j", *proof).code == 0
    late = guarded.commit("b", **own)
    assert late.returncode != 0
    assert "job_completed" in late.stderr
    assert "j is no longer yours; nothing is committed" in late.stderr


def test_an_authority_that_cannot_be_asked_lets_no_worker_push(
    guarded: Repository, ada: Worker, tmp_path: Path
) -> None:
    assert guarded.commit("a").returncode == 0
    refused = guarded.push(**ada | {"UNDERSTUDY_STATE_DIR": str(tmp_path / "gone")})
    assert refused.returncode != 0
    assert "it could not be asked whether x is still yours; nothing is pushed" in refused.stderr


def test_an_authority_that_is_named_at_the_installation_is_the_one_that_is_asked(
    call: Run, repository: Repository, ada: Worker, tmp_path: Path
) -> None:
    assert call("hooks", "install", repository.folder).code == 0
    assert repository.commit("a").returncode == 0
    repository.moved(**ada | {"UNDERSTUDY_STATE_DIR": str(tmp_path / "gone")})


def test_a_zombie_s_commit_is_not_pushed_by_its_successor(
    call: Run, state_dir: Path, guarded: Repository, ada: Worker
) -> None:
    first = guarded.commit("a", *trailers(ada), **ada)
    assert first.returncode == 0, first.stderr
    broken(call, ada)
    bob = worker(call, state_dir, "bob")
    refused = guarded.push(**bob)
    assert refused.returncode != 0
    fences = ada["UNDERSTUDY_FENCE"], bob["UNDERSTUDY_FENCE"]
    assert "made under fence {}, the current one is {}".format(*fences) in refused.stderr
    assert guarded.git("update-ref", "-d", "HEAD").returncode == 0
    assert guarded.commit("b", *trailers(bob), **bob).returncode == 0
    for branch in ("HEAD:main", "HEAD:refs/heads/other", ":refs/heads/other", "HEAD:main"):
        guarded.moved(branch, **bob)


def test_a_commit_of_another_issue_is_pushed_whatever_its_fence(
    call: Run, state_dir: Path, guarded: Repository, ada: Worker
) -> None:
    assert guarded.commit("a", *trailers(ada), **ada).returncode == 0
    assert call("issue", "add", "more", "--id", "y").code == 0
    bob = worker(call, state_dir, "bob", "y")
    guarded.moved(**bob)


def test_what_is_pushed_may_be_named_with_spaces(
    call: Run, guarded: Repository, ada: Worker, state_dir: Path
) -> None:
    assert guarded.commit("a b", *trailers(ada), **ada).returncode == 0
    guarded.moved(":/a b:refs/heads/one", **ada)
    broken(call, ada)
    bob = worker(call, state_dir, "bob")
    assert guarded.git("remote", "remove", "origin").returncode == 0
    far = str(guarded.far)
    refused = guarded.git("push", "-q", far, ":/a b:refs/heads/two", **bob)
    assert (refused.returncode != 0, "was made under fence" in refused.stderr) == (True, True)


def test_strict_hooks_ask_people_for_a_fence_on_guarded_branches_alone(
    bare: Run, repository: Repository, ada: Worker
) -> None:
    words = ("--strict", "--guard", "main", "--guard", "refs/heads/we'ird$(x)")
    assert bare("hooks", "install", repository.folder, *words).code == 0
    assert repository.commit("a").returncode == 0
    repository.moved("HEAD:refs/heads/side")
    for branch in ("main", "we'ird$(x)"):
        refused = repository.push(f"HEAD:refs/heads/{branch}")
        assert refused.returncode != 0
        said = f"{branch} is guarded, and this push has no fence; nothing is pushed"
        assert said in refused.stderr
        repository.moved(f"HEAD:refs/heads/{branch}", **ada)
    assert repository.push(":refs/heads/main").returncode != 0, "nor does a person delete it"


def test_a_worker_that_has_lost_its_fence_is_no_person(guarded: Repository) -> None:
    assert guarded.commit("a").returncode == 0
    refused = guarded.push(UNDERSTUDY_ISSUE="x")
    assert (refused.returncode != 0, "this push has no fence" in refused.stderr) == (True, True)
    guarded.moved("HEAD:refs/heads/side", UNDERSTUDY_ISSUE="x")


def test_a_command_under_exec_commits(call: Run, state_dir: Path, guarded: Repository) -> None:
    assert call("issue", "add", "work", "--id", "x").code == 0
    (guarded.folder / "a").write_text("a")
    script = 'git add a && git commit -q -m a --trailer "Understudy-Fence: $UNDERSTUDY_FENCE"'
    words = [str(UNDERSTUDY), "exec", "x", "--state-dir", str(state_dir), "--", "sh", "-c", script]
    done = guarded.run(guarded.folder, words)
    assert done.returncode == 0, done.stderr
    shown = guarded.git("log", "--format=%(trailers:key=Understudy-Fence,valueonly)").stdout
    assert shown.strip() == "2"


# --- on the server's side -------------------------------------------------------------------------


def test_a_guarded_branch_moves_to_a_commit_under_a_current_fence(
    served: Repository, ada: Worker
) -> None:
    for name in ("a", "b"):
        assert served.commit(name, *trailers(ada)).returncode == 0
        served.moved()
        assert served.far_head() == served.head()


@ENDINGS
def test_a_zombie_does_not_move_a_guarded_branch(
    call: Run, served: Repository, ada: Worker, ending: Ending
) -> None:
    assert served.commit("a", *trailers(ada)).returncode == 0
    served.moved()
    head = served.head()
    assert served.commit("b", *trailers(ada)).returncode == 0
    failure = ending(call, ada)
    refused = served.push(**ada)
    assert refused.returncode != 0
    assert failure in refused.stderr
    assert "main did not move" in refused.stderr
    assert served.far_head() == head
    served.moved("HEAD:refs/heads/side")


def test_a_lapsed_fence_does_not_move_a_guarded_branch(served: Repository, state_dir: Path) -> None:
    assert served.commit("a", *trailers(lapsed(state_dir))).returncode == 0
    refused = served.push()
    assert (refused.returncode != 0, "lease_stale" in refused.stderr) == (True, True)
    assert served.far_head() == ""


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["Understudy-Issue: x"],
        ["Understudy-Fence: 2"],
        ["Understudy-Issue: x", "Understudy-Fence: 2", "Understudy-Fence: 3"],
        ["Understudy-Issue: x", "Understudy-Issue: y", "Understudy-Fence: 2"],
        ["Understudy-Issue: x", "Understudy-Fence: 02"],
        ["Understudy-Issue: x", "Understudy-Fence: -2"],
        ["Understudy-Issue: x", "Understudy-Fence: 2 or 3"],
        ["Understudy-Issue: x", "Understudy-Fence: 20000000000000000"],
        ["Understudy-Glue: main"],
    ],
)
def test_a_commit_that_does_not_name_one_lease_moves_nothing(
    served: Repository, ada: Worker, words: list[str]
) -> None:
    assert ada["UNDERSTUDY_FENCE"] == "2"
    options = [word for each in words for word in ("--trailer", each)]
    assert served.commit("a", *options).returncode == 0
    refused = served.push(**ada)
    assert refused.returncode != 0
    assert "must name the one lease it was made under" in refused.stderr
    assert served.far_head() == ""


def test_a_glue_for_one_branch_does_not_move_another(served: Repository) -> None:
    glue = ("--trailer", "Understudy-Glue: dev", "--trailer", "Understudy-Glue-Fence: 1")
    assert served.commit("a", *glue).returncode == 0
    assert "was glued for dev, not for main" in served.push().stderr
    assert served.far_head() == ""


def test_the_gluer_s_fence_is_asked_for_and_kept_where_the_gluer_keeps_it(
    repository: Repository, tmp_path: Path
) -> None:
    program, asked = tmp_path / "program", tmp_path / "asked"
    program.write_text(f'#!/bin/sh\necho "$@" >> {asked}\n')
    program.chmod(0o755)
    settings = hook_scripts.HookSettings(
        ("main",), strict=True, state_dir="/state", program=str(program)
    )
    found = hook_folder.look(hook_folder.find(repository.far), "update")
    assert hook_folder.put_in(found, settings, chain=False) == "installed"

    def glued(name: str, fence: int) -> Done:
        section = ("--trailer", "Understudy-Issue: x", "--trailer", "Understudy-Issue: y")
        glue = (
            "--trailer",
            "Understudy-Glue: main",
            "--trailer",
            f"Understudy-Glue-Fence: {fence}",
        )
        assert repository.commit(name, *section, *glue).returncode == 0
        return repository.push()

    assert glued("a", 7).returncode == 0
    kept = ["git", "cat-file", "blob", "refs/understudy/fence/main"]
    assert repository.run(repository.far, kept).stdout == "7\n"
    assert "fence 6 of glue/main is older than 7" in glued("b", 6).stderr
    assert glued("c", 12).returncode == 0
    assert repository.run(repository.far, kept).stdout == "12\n"
    lines = [f"guard --state-dir /state --resource glue/main --fence {each}" for each in (7, 12)]
    assert asked.read_text().splitlines() == lines


def test_a_guarded_branch_is_neither_deleted_nor_rewound_by_a_push(
    served: Repository, ada: Worker
) -> None:
    for name in ("a", "b"):
        assert served.commit(name, *trailers(ada)).returncode == 0
    served.moved()
    head = served.head()
    lenient = ["git", "config", "receive.denyDeleteCurrent", "ignore"]
    assert served.run(served.far, lenient).returncode == 0
    assert "main is guarded, and is not deleted" in served.push(":main").stderr
    assert "main is guarded, and only moves on" in served.push("-f", "HEAD~:main").stderr
    assert served.git("commit", "-q", "--amend", "-m", "c", *trailers(ada)).returncode == 0
    assert served.push("-f").returncode != 0
    assert served.far_head() == head


def test_an_authority_that_cannot_be_asked_moves_nothing(
    served: Repository, ada: Worker, state_dir: Path
) -> None:
    assert served.commit("a", *trailers(ada)).returncode == 0
    state_dir.rename(state_dir.with_name("away"))
    refused = served.push(**ada)
    assert refused.returncode != 0
    assert "the authority could not be asked (exit code 78), so main did not move" in refused.stderr
    assert "understudy doctor" in refused.stderr
    state_dir.with_name("away").rename(state_dir)
    served.moved()


def test_an_older_fence_is_refused_by_a_repository_that_has_seen_a_newer_one(
    call: Run, served: Repository, ada: Worker, state_dir: Path
) -> None:
    assert served.commit("a", *trailers(ada)).returncode == 0
    broken(call, ada)
    bob = worker(call, state_dir, "bob")
    assert served.git("switch", "-q", "--orphan", "bob").returncode == 0
    assert served.commit("b", *trailers(bob)).returncode == 0
    served.moved()
    state_dir.rename(state_dir.with_name("away"))
    assert served.commit("c", *trailers(ada)).returncode == 0
    refused = served.push()
    fences = ada["UNDERSTUDY_FENCE"], bob["UNDERSTUDY_FENCE"]
    assert "fence {} of issue/x is older than {}".format(*fences) in refused.stderr
    assert "could not be asked" not in refused.stderr


def test_two_holders_of_two_issues_move_one_branch_in_any_order(
    call: Run, served: Repository, ada: Worker, state_dir: Path
) -> None:
    assert call("issue", "add", "more", "--id", "y").code == 0
    bob = worker(call, state_dir, "bob", "y")
    for name, each in (("a", bob), ("b", ada), ("c", bob)):
        assert served.commit(name, *trailers(each)).returncode == 0
        served.moved()


def test_the_memory_of_fences_takes_no_push_and_fails_closed(
    served: Repository, ada: Worker
) -> None:
    assert served.commit("a", *trailers(ada)).returncode == 0
    served.moved()
    listed = ["git", "for-each-ref", "--format=%(refname)", "refs/understudy"]
    (kept,) = served.run(served.far, listed).stdout.split()
    for words in ([f":{kept}"], ["-f", f"HEAD:{kept}"], ["HEAD:refs/understudy/fence/main"]):
        refused = served.push(*words)
        assert (refused.returncode != 0, "takes no push" in refused.stderr) == (True, True)
    assert served.run(served.far, ["git", "update-ref", kept, "main"]).returncode == 0
    assert served.commit("b", *trailers(ada)).returncode == 0
    assert f"{kept} holds no fence, so main did not move" in served.push().stderr


def test_another_name_for_a_guarded_branch_is_guarded_too(served: Repository, ada: Worker) -> None:
    assert served.commit("a", *trailers(ada)).returncode == 0
    served.moved()
    alias = ["git", "symbolic-ref", "refs/heads/alias", "refs/heads/main"]
    assert served.run(served.far, alias).returncode == 0
    assert served.commit("b").returncode == 0
    assert served.push("HEAD:refs/heads/alias").returncode != 0
    assert served.far_head() != served.head()


def test_a_replaced_commit_lends_no_trailers(served: Repository, ada: Worker) -> None:
    assert served.commit("a", *trailers(ada)).returncode == 0
    good = served.head()
    assert served.commit("b").returncode == 0
    bad = served.head()
    served.moved(f"{good}:refs/replace/{bad}")
    assert served.push("HEAD:main").returncode != 0
    assert served.far_head() == ""


def test_a_branch_of_an_odd_name_is_guarded(call: Run, repository: Repository, ada: Worker) -> None:
    odd = "we'ird\"$(x)`;&|é"
    assert call("hooks", "install", repository.far, "--guard", odd).code == 0
    assert repository.commit("a").returncode == 0
    refused = repository.push(f"HEAD:refs/heads/{odd}")
    assert "is guarded: its newest commit must name" in refused.stderr
    repository.moved()
    assert repository.commit("b", *trailers(ada)).returncode == 0
    repository.moved(f"HEAD:refs/heads/{odd}")
    assert repository.far_head(odd) == repository.head()


def test_an_issue_of_an_odd_name_is_asked_about_as_it_is(served: Repository, ada: Worker) -> None:
    odd = "x --fence 2 $(touch y) 'z\" ü"
    assert served.commit("a", *trailers(ada | {"UNDERSTUDY_ISSUE": odd})).returncode == 0
    refused = served.push()
    assert (refused.returncode != 0, "main did not move" in refused.stderr) == (True, True)
    assert odd in refused.stderr
    assert not (served.far / "y").exists()


# --- installing -----------------------------------------------------------------------------------


def test_paths_with_spaces_quotes_and_newlines(bare: Run, tmp_path: Path) -> None:
    folder = tmp_path / "a b'\"$(x)\nc"
    repository = Repository(folder)
    state_dir = folder / "st ate"
    assert bare("init", "--state-dir", state_dir).code == 0
    assert bare("issue", "add", "w", "--id", "x", "--state-dir", state_dir).code == 0
    claim = bare("issue", "claim", "x", "--as", "ada", "--json", "--state-dir", state_dir).json
    fence = str(claim["issue"]["lease"]["fence"])
    for place in (repository.folder, repository.far):
        said = bare("hooks", "install", place, "--state-dir", state_dir, "--json")
        assert said.json["hooks"][0]["done"] == "installed"
    ada = {"UNDERSTUDY_ISSUE": "x", "UNDERSTUDY_FENCE": fence}
    assert repository.commit("a", *trailers(ada)).returncode == 0
    repository.moved(**ada)
    refused = repository.push(**ada | {"UNDERSTUDY_FENCE": "1"})
    assert "x is no longer yours" in refused.stderr


def test_to_install_twice_changes_nothing(bare: Run, repository: Repository) -> None:
    first = bare("hooks", "install", repository.folder)
    path = repository.folder / ".git" / "hooks" / "pre-push"
    written = path.stat().st_ino, path.read_bytes()
    second = bare("hooks", "install", repository.folder)
    assert (first.out.split(":")[0], second.out.split(":")[0]) == ("installed", "unchanged")
    assert (path.stat().st_ino, path.read_bytes()) == written
    third = bare("hooks", "install", repository.folder, "--strict", "--json").json
    assert [(each["done"], each["strict"]) for each in third["hooks"]] == [("rewritten", True)]
    assert bare("hooks", "list", repository.folder).out == (
        "pre-commit  none\npre-push  installed  guards main  strict\n"
    )


def test_a_hook_of_the_user_is_kept(bare: Run, repository: Repository) -> None:
    own = repository.hook("pre-push", "#!/bin/sh\nexit 0\n")
    said = bare("hooks", "install", repository.folder, "--pre-commit", "--json")
    assert (said.code, said.json["failureClasses"]) == (5, ["hook_exists"])
    assert "--chain" in said.json["diagnostic"]
    assert own.read_text() == "#!/bin/sh\nexit 0\n"
    assert not (own.parent / "pre-commit").exists(), "all or none"
    assert bare("hooks", "list", repository.folder).out == "pre-commit  none\npre-push  not ours\n"
    kept = bare("hooks", "remove", repository.folder)
    assert (kept.code, kept.out.split(":")[0]) == (0, "kept")
    assert own.exists()


def test_a_chained_hook_is_called_first_with_all_that_git_says(
    bare: Run, repository: Repository, ada: Worker
) -> None:
    seen = repository.folder.parent / "seen"
    text = f'#!/bin/sh\necho "$@" > {seen}\ncat >> {seen}\n[ ! -e {seen}.no ] || exit 7\n'
    own = repository.hook("pre-push", text)
    said = bare("hooks", "install", repository.folder, "--chain", "--json").json
    assert [(each["done"], each["chained"]) for each in said["hooks"]] == [("chained", True)]
    assert bare("hooks", "install", repository.folder, "--chain").out.startswith("unchanged: ")
    assert repository.commit("a").returncode == 0
    repository.moved(**ada)
    zeros = "0" * 40
    line = f"HEAD {repository.head()} refs/heads/main {zeros}"
    assert seen.read_text().splitlines() == [f"origin {repository.far}", line]
    refused = repository.push("HEAD:refs/heads/side", **ada | {"UNDERSTUDY_FENCE": "1"})
    assert "x is no longer yours" in refused.stderr
    Path(f"{seen}.no").touch()
    assert repository.push("HEAD:refs/heads/side").returncode != 0
    listed = bare("hooks", "list", repository.folder).out
    assert "installed  guards main  before it pre-push.before-understudy" in listed
    assert bare("hooks", "remove", repository.folder).out == f"restored: {own}\n"
    assert own.read_text() == text
    assert not own.with_name("pre-push.before-understudy").exists()


def test_a_chained_hook_of_a_bare_repository_is_called_first(
    call: Run, repository: Repository, ada: Worker
) -> None:
    path = repository.far / "hooks" / "update"
    path.write_text('#!/bin/sh\ncase "$1" in */no) echo not this one; exit 3 ;; esac\n')
    path.chmod(0o755)
    assert call("hooks", "install", repository.far, "--chain").code == 0
    assert repository.commit("a", *trailers(ada)).returncode == 0
    repository.moved()
    repository.moved("HEAD:refs/heads/side")
    assert "not this one" in repository.push("HEAD:refs/heads/no").stderr


def test_a_hook_that_was_edited_is_the_person_s(bare: Run, guarded: Repository) -> None:
    path = guarded.folder / ".git" / "hooks" / "pre-push"
    path.write_text(path.read_text() + "echo mine\n")
    said = bare("hooks", "install", guarded.folder)
    assert (said.code, "edited by hand" in said.err) == (5, True)
    assert "pre-push  edited by hand\n" in bare("hooks", "list", guarded.folder).out
    assert bare("hooks", "remove", guarded.folder).code == 0
    assert path.read_text().endswith("echo mine\n")
    assert bare("hooks", "install", guarded.folder, "--chain").code == 0
    path.write_text("#!/bin/sh\n")
    refused = bare("hooks", "install", guarded.folder, "--chain")
    assert (refused.code, "is there already: make one of the two" in refused.err) == (5, True)


def test_what_is_removed_is_gone_and_people_and_workers_push(
    call: Run, bare: Run, guarded: Repository, ada: Worker
) -> None:
    names = ("pre-commit", "pre-push")
    removed = bare("hooks", "remove", guarded.folder, "--json").json["hooks"]
    assert [(each["name"], each["done"]) for each in removed] == [(n, "removed") for n in names]
    assert bare("hooks", "remove", guarded.folder).out == "there is no hook of ours\n"
    broken(call, ada)
    assert guarded.commit("a", **ada).returncode == 0
    guarded.moved(**ada)


def test_an_installation_that_was_cut_off_is_mended_by_either(
    bare: Run, repository: Repository
) -> None:
    own = repository.hook("pre-push.before-understudy", "#!/bin/sh\nexit 7\n")
    assert bare("hooks", "install", repository.folder).code == 0
    assert repository.commit("a").returncode == 0
    assert repository.push().returncode != 0, "the user's hook is still asked"
    own.with_name("pre-push").unlink()
    assert bare("hooks", "remove", repository.folder).out.startswith("restored: ")
    assert own.with_name("pre-push").read_text() == "#!/bin/sh\nexit 7\n"


@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_nobody_but_its_owner_can_change_a_hook(
    call: Run, repository: Repository, umask: int
) -> None:
    for folder in (repository.folder / ".git", repository.far):
        for each in (folder / "hooks").iterdir():
            each.unlink()
        (folder / "hooks").rmdir()
    before = os.umask(umask)
    try:
        for place in (repository.folder, repository.far):
            assert call("hooks", "install", place).code == 0
    finally:
        os.umask(before)
    for path in (
        repository.folder / ".git" / "hooks" / "pre-push",
        repository.far / "hooks/update",
    ):
        modes = [stat.S_IMODE(each.stat().st_mode) for each in (path, path.parent)]
        assert modes == [0o755, 0o755]
        assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_program_that_has_moved_is_looked_for_in_the_path(
    repository: Repository, ada: Worker, tmp_path: Path
) -> None:
    settings = hook_scripts.HookSettings(("main",), strict=False, state_dir=None, program="/gone/x")
    found = hook_folder.look(hook_folder.find(repository.folder), "pre-push")
    hook_folder.put_in(found, settings, chain=False)
    assert repository.commit("a").returncode == 0
    repository.moved(**ada)
    (tmp_path / "bin").mkdir()
    for name in ("git", "sh", "cat"):
        (tmp_path / "bin" / name).symlink_to(_which(name))
    refused = repository.push("HEAD:main", **ada | {"PATH": str(tmp_path / "bin")})
    assert refused.returncode != 0
    assert "it could not be asked" in refused.stderr


def _which(name: str) -> str:
    done = subprocess.run(["sh", "-c", f"command -v {name}"], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_core_hookspath_is_respected(bare: Run, repository: Repository) -> None:
    assert repository.git("config", "core.hooksPath", "my hooks").returncode == 0
    (repository.folder / "below").mkdir()
    said = bare("hooks", "install", repository.folder / "below", "--strict")
    assert said.code == 0
    assert "is in the working tree; do not commit" in said.out
    assert (repository.folder / "my hooks" / "pre-push").exists()
    assert repository.commit("a").returncode == 0
    assert "main is guarded" in repository.push().stderr


def test_hooks_that_other_repositories_share_are_left_alone_unless_it_is_said(
    bare: Run, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    (tmp_path / "config").write_text(f"[core]\n\thooksPath = {shared}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    said = bare("hooks", "install", repository.folder)
    assert (said.code, "set in the global configuration of git" in said.err) == (5, True)
    assert not shared.exists()
    assert bare("hooks", "install", repository.folder, "--shared").code == 0
    assert (shared / "pre-push").exists()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    assert repository.git("config", "core.hooksPath", os.devnull).returncode == 0
    off = bare("hooks", "install", repository.folder)
    assert (off.code, "hooks are switched off here" in off.err) == (3, True)


def test_a_linked_worktree_has_the_hooks_of_its_repository(
    bare: Run, repository: Repository, tmp_path: Path
) -> None:
    assert repository.commit("a").returncode == 0
    assert repository.git("worktree", "add", "-q", "-b", "side", "../side").returncode == 0
    said = bare("hooks", "install", tmp_path / "side", "--json").json
    assert said["hooks"][0]["path"] == str(repository.folder / ".git" / "hooks" / "pre-push")
    assert said["hooks"][0]["guard"] == ["main"], "not what is checked out by chance"


def test_the_branch_of_the_remote_is_guarded(bare: Run, repository: Repository) -> None:
    assert repository.commit("a").returncode == 0
    repository.moved("HEAD:refs/heads/trunk")
    assert repository.git("remote", "set-head", "origin", "trunk").returncode == 0
    said = bare("hooks", "install", repository.folder, "--json").json
    assert said["hooks"][0]["guard"] == ["trunk"]


def test_what_is_wrong_is_said_with_the_next_step(
    bare: Run, call: Run, repository: Repository, tmp_path: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for words, code, text in (
        ([tmp_path / "empty"], 3, "is in no git repository; name one"),
        ([tmp_path / "none"], 3, "there is no such folder"),
        ([repository.folder / ".git"], 3, "name the working tree that it is of"),
        ([repository.folder, "--guard", "a b"], 2, "`a b` is no name of a branch"),
        ([repository.folder, "--guard", ""], 2, "is no name of a branch"),
        ([repository.far, "--pre-commit"], 2, "nobody commits in"),
    ):
        said = call("hooks", "install", *words)
        assert (said.code, text in said.err) == (code, True), said.err
    said = bare("hooks", "install", repository.far)
    assert (said.code, "is no state directory" in said.err) == (78, True)
    assert repository.commit("a").returncode == 0
    assert repository.git("checkout", "-q", "--detach").returncode == 0
    said = bare("hooks", "install", repository.folder)
    assert (said.code, "say which to guard: --guard main" in said.err) == (2, True)
    for name in ("list", "remove"):
        assert bare("hooks", name, tmp_path / "empty").code == 3


def test_a_folder_that_may_not_be_written_is_named(
    bare: Run, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(path: Path, *_: object) -> int:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("understudy.surfaces.cli.hook_folder.os.open", denied)
    said = bare("hooks", "install", repository.folder)
    assert (said.code, "run it as the owner of the repository" in said.err) == (4, True)
    assert str(repository.folder / ".git" / "hooks") in said.err


# --- in a script ----------------------------------------------------------------------------------


def test_the_script_stops_at_the_guard(
    call: Run, tmp_path: Path, repository: Repository, ada: Worker
) -> None:
    (script,) = re.findall(r"```sh\n(set -e\n.*?)```", PAGE.read_text(), re.DOTALL)
    for name in ("make", "deploy"):
        path = tmp_path / name
        path.write_text(f'#!/bin/sh\necho {name} "$@" >> done\n')
        path.chmod(0o755)
    search = f"{tmp_path}:{repository.env['PATH']}"
    env = environment(**(repository.env | {"PATH": search}), **ada)
    assert subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, check=False).returncode == 0
    assert call("issue", "break", "x", "--reason", "it is gone").code == 0
    assert subprocess.run(["sh", "-c", script], cwd=tmp_path, env=env, check=False).returncode == 6
    lines = ["make release", f"deploy --fence {ada['UNDERSTUDY_FENCE']}", "make release"]
    assert (tmp_path / "done").read_text().splitlines() == lines
