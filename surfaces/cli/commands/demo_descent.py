"""The second act of `understudy demo`: four workers on one repository, each in its own worktree.

Two of them write the same line, so one does not fit and is told why. One is killed in the middle,
and what it had written is kept. Then it says that its work is done, and a gluer of the past moves
the branch; both are refused, by the authority and by git.
"""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import click

from ....actors.descent import branch, leg, meeting
from ....actors.descent import git as gits
from ....actors.tree import Plan, Tree, shell_command
from ....authority import TRAJECTORY, Office, create_state_dir, open_authority
from ....authority.service import client
from ....authority.views import replay, trajectory
from ..render import coloured

Say = Callable[[str, str], None]

_TARGET: Final = "main"
_PAGE: Final = "".join(f"{line}\n" for line in ("# Page", *"abcdefgh", "the end"))
_ISSUES: Final = {  # in the order in which they are taken: what a worker does in its worktree
    "title": "both title heading; first",
    "heading": "both title heading; first",
    "style": "echo 'p { color: teal }' > style.css",
    "footer": "echo draft > footer.md; once sleep 60; echo footer > footer.md",
    "middle": "sed -i '5s/.*/middle/' page.md",
    "ending": "sed -i '10s/.*/ending/' page.md",
}
_PAIR, _KILLED = ("title", "heading"), "footer"
# `both` waits until the two work side by side; `first` writes the first line, or goes on with what
# is there once it was told to; `once` runs in the first attempt alone.
_COMMAND: Final = """\
said=$(cat)
both() { : > "$SIDE/$UNDERSTUDY_ISSUE"
  until [ -e "$SIDE/$1" ] && [ -e "$SIDE/$2" ]; do sleep 0.05; done; }
first() { case $said in
  *'"obstruction"'*) sed -i "1s/$/, $UNDERSTUDY_ISSUE/" page.md ;;
  *) sed -i "1s/.*/# $UNDERSTUDY_ISSUE/" page.md ;; esac; }
once() { [ -e "$SIDE/$UNDERSTUDY_ISSUE" ] || { : > "$SIDE/$UNDERSTUDY_ISSUE"; "$@"; }; }
case $UNDERSTUDY_ISSUE in
"""
_WHO: Final = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "demo"), ("EMAIL", "demo@localhost"))
}
_VERDICTS: Final = {"agree": "agrees", "merge": "agrees, after a merge within a file"}
_PATIENCE_SECONDS: Final = 90


def missing() -> str:
    """Why the act cannot be played; nothing where it can."""
    try:
        found = gits.version()
    except gits.GitRefused as error:
        return str(error)
    needed = ".".join(map(str, gits.MERGE_TREE))
    return (
        "" if found >= gits.MERGE_TREE else f"git {'.'.join(map(str, found))}; {needed} is needed"
    )


class DescentAct:
    """Makes a repository and a tree that works on it, disturbs both, and shows what came of it."""

    def __init__(self, folder: Path, say: Say) -> None:
        self._say = say
        self._state_dir, self._side = folder / "state", folder / "side"
        self._git = gits.Git(folder / "repository")
        self._begun = time.monotonic()
        self._fences: dict[str, int] = {}  # of those that were claimed, the first
        self._told: set[str] = set()
        self._refusals: dict[str, str] = {}
        for each in (self._side, self._git.folder):
            each.mkdir(parents=True)
        create_state_dir(self._state_dir, "demo")

    def play(self) -> dict[str, Any]:
        self._prepare()
        old_fence = self._glue_once()
        folder = self._git.folder
        gluer = (sys.executable, "-m", "understudy", "descent", "glue", "--follow", "--tree")
        plan = Plan(
            state_dir=self._state_dir,
            argv=shell_command(_command(self._side)),
            slots=4,
            grace_ms=500,
            leg=leg.LegSettings(folder=str(folder), target=_TARGET).words(),
            gluer=(*gluer, "--state-dir", str(self._state_dir), "--cwd", str(folder)),
            cwd=folder,
        )
        with Tree(plan) as tree:
            self._say("tree", "up again: 4 workers with a worktree each, and a gluer for `main`")
            self._watch(tree)
            if "section" not in self._refusals:  # its successor was too fast to be seen at work
                self._finish_late(_KILLED, "whoever", self._fences[_KILLED])
        self._move_late(old_fence)
        return self._review()

    def _prepare(self) -> None:
        git = self._git
        git.run("init", "--quiet", f"--initial-branch={_TARGET}")
        (git.folder / "page.md").write_text(_PAGE)
        git.run("add", "--all")
        git.run("commit", "--quiet", "--message=an empty page", env=_WHO)
        with Office(self._state_dir) as office:
            for name in _ISSUES:
                office.ask("issue.add", {"id": name, "title": f"Write the {name}"})

    def _glue_once(self) -> int:
        """A gluer that holds the branch before anything is done; its fence is the past's soon."""
        payload = {"target": _TARGET, "gluer": "sleeper"}
        with open_authority(self._state_dir, "cli") as authority:
            lease = authority.ask("glue.claim", payload)["glue"]["lease"]
            held = {"leaseId": lease["leaseId"], "fence": lease["fence"]}
            authority.ask("glue.release", payload | held)
        branch.register(self._git, _TARGET, lease["fence"])
        fence: int = lease["fence"]
        return fence

    # --- while it runs --------------------------------------------------------------------------

    def _watch(self, tree: Tree) -> None:
        closed: set[str] = set()
        while len(closed) < len(_ISSUES):
            reason = tree.wait(100)
            if reason is not None or time.monotonic() > self._begun + _PATIENCE_SECONDS:
                raise click.ClickException(f"the tree ended before its work did: {reason}")
            self._look(tree.picture()["dispatcher"].get("terms", []))
            with Office(self._state_dir, writable=False) as office:
                shown = office.ask("descent.show", {"target": _TARGET})
                issues = office.authority.state.issues.values()
                done = {each.id for each in issues if each.status == "closed"}
            self._tell_obstructions(shown["obstructions"])
            for name in sorted(done - closed):
                self._say(name, f"is in {_TARGET}")
            closed = done

    def _look(self, terms: list[dict[str, Any]]) -> None:
        for term in terms:
            name, fence, pid = term["issue"], term["fence"], term["pid"]
            first = self._fences.setdefault(name, fence)
            if name != _KILLED:
                continue
            if fence == first and (self._side / name).exists() and pid and name not in self._told:
                self._told.add(name)
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                self._say(name, coloured("its worker is killed (SIGKILL)", "red"))
            elif fence > first and "section" not in self._refusals:
                self._finish_late(name, term["worker"], first)

    def _finish_late(self, name: str, worker: str, fence: int) -> None:
        """What the killed one would say if it had only slept."""
        head = branch.head(self._git, _TARGET)
        payload = {
            "id": name, "assignee": worker, "leaseId": "mine", "fence": fence, "target": _TARGET,
            "base": head, "commit": head, "tree": head, "paths": ["footer.md"], "pathCount": 1,
            "pathsDigest": "paths1_0",
        }  # fmt: skip
        with client.Client(self._state_dir, "cli") as door:
            answer = door.ask("descent.section", payload)
        self._say(name, f"who had it before says with fence {fence} that it is done")
        self._refuse("section", answer["failureClasses"][0], answer["diagnostic"])

    def _tell_obstructions(self, found: list[dict[str, Any]]) -> None:
        for each in found:
            name = each["section"].partition("/")[0]
            if each["obstructionId"] not in self._told:
                self._told.add(each["obstructionId"])
                words = coloured("does not fit", "yellow")
                self._say(name, f"{words}: {', '.join(each['paths'])}, with {each['others'][0]}")
                self._say("", "goes back to a worker, which is told of it")

    def _move_late(self, fence: int) -> None:
        """A gluer that slept all the while moves the branch."""
        head = branch.head(self._git, _TARGET)
        words = ("commit-tree", "-p", head, "-m", "too late", f"{head}^{{tree}}")
        late = self._git.text(*words, env=_WHO)
        self._say("sleeper", f"a gluer that slept moves {_TARGET} with fence {fence}")
        try:
            branch.move(self._git, _TARGET, fence, head, late)
        except branch.Deposed as error:
            self._refuse("push", "by git", str(error))

    def _refuse(self, what: str, why: str, said: str) -> None:
        self._refusals[what] = why
        self._say("", f"{coloured('REFUSED', 'red', bold=True)} {why}: {said}")

    # --- afterwards -----------------------------------------------------------------------------

    def _review(self) -> dict[str, Any]:
        """What the repository has now, and what the journal proves."""
        with Office(self._state_dir, writable=False) as office:
            replayed = replay.replay(office.journal)
            chained, problem = trajectory.verify(self._state_dir / TRAJECTORY, office.journal)
            shown = office.ask("descent.show", {"target": _TARGET})
        proved = replayed.mismatch is None and problem is None and chained == replayed.rows
        kept = self._kept()
        self._say("", "")
        for line in self._graph(shown["obstructions"]):
            self._say("", line)
        self._say("", "")
        self._say("kept", ", ".join(kept))
        if proved:
            self._say("replay", f"{replayed.rows} decisions, the same bytes again")
            self._say("verify", f"{chained} rows of evidence, chained to {replayed.head.digest}")
        obstructed = [each["section"].partition("/")[0] for each in shown["obstructions"]]
        is_one = len(obstructed) == 1 and obstructed[0] in _PAIR
        good = proved and is_one and len(self._refusals) == 2 and kept and self._is_all_there()
        return {
            "result": "accepted" if good else "rejected",
            "rows": replayed.rows,
            "head": replayed.head.digest,
            "commit": branch.head(self._git, _TARGET),
            "obstructed": obstructed,
            "refusals": self._refusals,
            "kept": kept,
        }

    def _graph(self, obstructions: list[dict[str, Any]]) -> Iterator[str]:
        """The branch from its first commit on: what was merged into it, and what was not."""
        words = ("log", "--first-parent", "--reverse", "--format=%H %P", _TARGET)
        for line in self._git.text(*words).splitlines():
            commit, *parents = line.split()
            yield self._merge_line(commit, *parents) if parents else "*  an empty page"
            for each in obstructions:
                if each["onto"] == commit:
                    why = f"conflict in {', '.join(each['paths'])}, with {each['others'][0]}"
                    yield f"|x {each['section']:<12} {coloured(why, 'yellow')}"

    def _merge_line(self, commit: str, onto: str, section: str) -> str:
        git = self._git
        words = ("log", "-1", "--format=%(trailers:key=Understudy-Section,valueonly)", commit)
        base = git.text("merge-base", onto, section)
        paths = git.text("diff", "--name-only", base, section).splitlines()
        view = {
            "sectionId": git.text(*words).strip(),
            "base": base,
            "commit": section,
            "tree": git.text("rev-parse", f"{section}^{{tree}}"),
            "paths": paths,
            "pathCount": len(paths),
        }
        (met,) = meeting.Meetings().fresh(git, onto, [view])
        return f"|\\ {view['sectionId']:<12} {_VERDICTS[met['verdict']]}"

    def _kept(self) -> list[str]:
        words = ("for-each-ref", "--format=%(refname)", "refs/understudy/aside/")
        return self._git.text(*words).splitlines()

    def _is_all_there(self) -> bool:
        """Each change, once; of the pair, the second upon the first."""
        page = self._git.text("show", f"{_TARGET}:page.md").splitlines()
        files = self._git.text("ls-tree", "--name-only", _TARGET).split()
        is_paired = page[0] in ("# title, heading", "# heading, title")
        is_whole = (page[4], page[9]) == ("middle", "ending")
        return is_paired and is_whole and {"footer.md", "style.css"} <= {*files}


def _command(side: Path) -> str:
    """One shell command for all issues."""
    cases = "".join(f"{name}) {words} ;;\n" for name, words in _ISSUES.items())
    return f"SIDE={side}\n{_COMMAND}{cases}esac"
