"""A state directory, a repository, and issues whose work was done in it: for tests of the glue."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.fakes.policy import policy
from understudy.actors.descent import branch
from understudy.actors.descent.git import Git
from understudy.actors.descent.glue_desk import GlueDesk
from understudy.actors.descent.gluing import GluePass, GlueReport, GlueSettings
from understudy.actors.leasing.work_kind import WORK
from understudy.authority import create_state_dir, open_authority

Answer = dict[str, Any]
WHO = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "ada"), ("EMAIL", "ada@example.org"))
}
# A check that fails where both names are in one file, though each alone is well.
MEANING = "import pathlib,sys; t=''.join(p.read_text() for p in pathlib.Path().glob('*.txt'))"
MEANING += "; print('looked'); sys.exit('left' in t and 'right' in t)"


class GlueWorld:
    """Everything that a gluer meets; the clock and the processes are real."""

    def __init__(self, folder: Path) -> None:
        self.state_dir, self.folder = folder / "state", folder / "repository"
        create_state_dir(self.state_dir, "local")
        self.folder.mkdir()
        self.git = Git(self.folder)
        self.git.run("init", "-q", "-b", "main")
        self.base = self.commit({"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"})
        self.git.run("checkout", "-q", "--detach")

    # --- the authority --------------------------------------------------------------------------

    def ask(self, action: str, payload: Mapping[str, Any]) -> Answer:
        with open_authority(self.state_dir, "cli") as authority:
            return authority.ask(action, dict(payload))

    def accepted(self, action: str, **payload: Any) -> Answer:
        answer = self.ask(action, payload)
        assert answer["result"] == "accepted", answer
        return answer

    def status(self, issue_id: str) -> str:
        return str(self.accepted("issue.show", id=issue_id)["issue"]["status"])

    def handover(self, issue_id: str) -> str:
        """What the next holder of an issue is told."""
        shown = self.accepted("issue.show", id=issue_id)
        return str(shown["issue"]["handover"]["checkpoint"]["summary"])

    def shown(self, target: str = "main") -> Answer:
        return self.accepted("descent.show", target=target)

    def require(self, *words: str, check_id: str = "tests") -> None:
        """A policy by which every change requires this command."""
        check = {"checkId": check_id, "command": list(words), "timeoutSeconds": 60}
        rules = policy(
            checks=[check],
            rules=[],
            defaultChecks=[check_id],
            docsPaths=[],
            docsChecks=[],
            allowedChecks=[check_id],
            closeRequires="none",
        )
        self.accepted("policy.set", checks=rules)

    def require_python(self, program: str) -> None:
        self.require(sys.executable, "-I", "-S", "-c", program)

    # --- the repository -------------------------------------------------------------------------

    def commit(self, files: Mapping[str, str | None], parent: str | None = None) -> str:
        """A commit in the working tree, on whatever is checked out or on another commit."""
        if parent is not None:
            self.git.run("checkout", "-q", "--detach", parent)
        for name, text in files.items():
            path = self.folder / name
            if text is None:
                path.unlink()
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
        self.git.run("add", "-A")
        self.git.run("commit", "-q", "--allow-empty", "-m", "work", env=WHO)
        return self.git.text("rev-parse", "HEAD")

    @property
    def head(self) -> str:
        return branch.head(self.git, "main")

    def file(self, name: str, at: str = "main") -> str:
        return self.git.text("show", f"{at}:{name}")

    def files(self, at: str = "main") -> list[str]:
        return self.git.text("ls-tree", "-r", "--name-only", at).splitlines()

    def merges(self) -> list[str]:
        """Sections on the branch, the first glued first."""
        form = "--format=%(trailers:key=Understudy-Section,valueonly)"
        said = self.git.text("log", "--first-parent", "--reverse", "--merges", form, "main")
        return said.split()

    # --- work -----------------------------------------------------------------------------------

    def add(self, *issue_ids: str) -> None:
        for issue_id in issue_ids:
            self.accepted("issue.add", id=issue_id, title=f"do {issue_id}")

    def section(
        self, issue_id: str, files: Mapping[str, str | None], base: str | None = None
    ) -> str:
        """Claim the issue, change files, and record what came of it; the section's id."""
        if self.ask("issue.show", {"id": issue_id})["result"] != "accepted":
            self.add(issue_id)
        claim = self.accepted("issue.claim", id=issue_id, assignee="ada")
        base = base or self.head
        commit = self.commit(files, base)
        held = WORK["issue"].proof(WORK["issue"].held(claim["issue"]))
        fence = held["fence"]
        self.git.run("update-ref", f"refs/understudy/section/{issue_id}/{fence}", commit)
        self.accepted(
            "descent.section",
            **held,
            target="main",
            base=base,
            commit=commit,
            tree=self.git.text("rev-parse", f"{commit}^{{tree}}"),
            paths=sorted(files),
            pathCount=len(files),
            pathsDigest="paths1_0",
        )
        return f"{issue_id}/{fence}"

    # --- gluing ---------------------------------------------------------------------------------

    def claim(self, gluer: str = "gil", ttl_ms: int = 3_600_000) -> GlueDesk:
        answer = self.accepted("glue.claim", target="main", gluer=gluer, leaseDurationMs=ttl_ms)
        return GlueDesk(self.ask, WORK["glue"].held(answer["glue"]))

    def release(self, desk: GlueDesk) -> None:
        desk.act("glue.release")

    def glue(self, *, tell: Callable[[str], None] = lambda _: None, **settings: Any) -> GlueReport:
        """A whole pass in this process, with a lease of its own."""
        desk = self.claim()
        try:
            work = GluePass(desk, self.git, self.state_dir, GlueSettings(**settings), tell)
            return work.run()
        finally:
            self.release(desk)


def issues_of(section_ids: Sequence[str]) -> list[str]:
    return [each.partition("/")[0] for each in section_ids]
