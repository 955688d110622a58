"""The pass of a gluer: everything that waits for one branch and fits, in its order; then it ends.

    register the fence --> settle what an earlier gluer left
    until nothing waits:   hold sections against each other, and record it
                           merge the next ones onto the head, and run the checks on the result
                           authorise --> move the branch --> seal      what fits
                           obstruct                                    the first that does not

    an authorised glue, found later       what the next gluer does
    the branch is at `new`, or behind it  seal it as moved
    the branch is at `old`                move it, and seal it
    it is elsewhere                       void it: its sections wait again

G1  The branch moves only between `descent.glue` and `descent.seal`, and only while the fence in the
    repository is ours; so it is always known what a dead gluer may have done.
G2  A section is obstructed only against what is on the branch for good, never against others that
    may yet be taken out.
G3  A merge commit follows from the section and the commit it is merged onto. It has the section's
    fence in its trailers and not the gluer's: a glue that is done again gives the same commits.
"""

import os
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from ...authority.journal import failpoint as failpoints
from ...contracts import Exit, Reason, limits, rfc3339
from . import branch
from .checkout import Checkout, Dirty
from .git import MERGE_TREE, Git, GitRefused, version
from .glue_desk import Answer, GlueDesk, GlueRefused, GlueStopped
from .meeting import Meetings, SectionView, batches
from .merge import Conflict, Merged, Signature, merge_commit, worded
from .obstacle import SECTION_TRAILER, End, EndRule, Obstacle, obstruct
from .rehearsal import CheckStage, FailedCheck, MergePrefix

AUTHOR: Final = Signature("understudy", "understudy@localhost")
LATER: Final = int(Exit.TRY_LATER)  # what a team's own command ends with to be asked again
_OVER: Final = ("closed", "blocked", "cancelled")  # of issues that no section will come from
_STALE: Final = (Reason.SECTION_NOT_OPEN.wire, Reason.GLUE_OUT_OF_ORDER.wire)
_STALE_MAX: Final = 8  # times in a row
_OUTPUT_MAX: Final = 600  # bytes of a command's words in a text


class GlueLater(Exception):
    """Nothing can be glued now; it may be tried again without a person."""


@dataclass(frozen=True, slots=True)
class GlueSettings:
    """What an operator wants of a gluer."""

    speculate: int = 1  # prefixes whose checks run side by side
    command: str = ""  # is run in place of a move
    on_obstruction: End = "return"
    accepts_moved: bool = False  # a branch that was rewritten by hand
    setup: str = ""  # is run in every worktree before its checks
    attempts: int | None = None  # of an issue that goes back; None: as the retry policy says


@dataclass(slots=True)
class GlueReport:
    """What a pass has done so far."""

    target: str
    head: str = ""
    glued: list[str] = field(default_factory=list)
    settled: list[str] = field(default_factory=list)  # by an earlier gluer's authority
    obstructions: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _WindowMember:
    """A section in a window, and the commit that has it and all before it."""

    section: SectionView
    merged: Merged

    @property
    def section_id(self) -> str:
        return str(self.section["sectionId"])


class GluePass:
    """One pass under one lease."""

    def __init__(
        self,
        desk: GlueDesk,
        git: Git,
        state_dir: Path,
        settings: GlueSettings,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.report = GlueReport(desk.target)
        self._desk, self._git, self._settings, self._tell = desk, git, settings, tell
        self._target, self._fence = desk.target, desk.held.fence
        self._stage = CheckStage(desk, git, state_dir, settings.setup)
        self._meetings = Meetings()
        self._said: set[str] = set()

    def run(self) -> GlueReport:
        """Glue until nothing waits. Raises `GlueStopped`, `GlueLater`, `LeaseOver`, `Deposed`."""
        if version() < MERGE_TREE:
            needed = ".".join(map(str, MERGE_TREE))
            raise GlueStopped(f"git {'.'.join(map(str, version()))} is too old; use {needed}")
        self._register()
        self._stage.clear()
        shown = self._desk.look()
        self._settle(shown["glue"])
        self._meetings.learn(shown["overlaps"], branch.head(self._git, self._target))
        has_policy = self._stage.has_policy()
        size = max(1, self._settings.speculate) if has_policy else limits.GLUE_SECTIONS_MAX
        tries = 0
        while queue := ready(shown := self._desk.look()):
            try:
                self._step(shown, queue, min(size, limits.GLUE_SECTIONS_MAX))
                tries = 0
            except GlueRefused as error:
                tries += 1
                if error.failure not in _STALE or tries == _STALE_MAX:
                    raise
                # A person took a section away, or brought one, while it was merged: look again.
        self.report.head = branch.head(self._git, self._target)
        return self.report

    def _register(self) -> None:
        try:
            branch.register(self._git, self._target, self._fence)
        except branch.Deposed:
            lease = self._desk.look()["glue"].get("lease", {})
            if (lease.get("fence"), lease.get("state")) != (self._fence, "active"):
                raise
            ref = branch.fence_ref(self._git, self._target)
            found = branch.registered_fence(self._git, self._target)
            raise GlueStopped(
                f"{self._target}: the repository has fence {found}, and this authority is at "
                f"{self._fence}: another state directory glued here. If that is over, "
                f"`git update-ref -d {ref}` lets this one go on. Nothing was moved"
            ) from None

    # --- what an earlier gluer left -------------------------------------------------------------

    def _settle(self, glue: Mapping[str, Any]) -> None:
        pending = glue.get("pending")
        if pending is None:
            return
        git, old, new = self._git, pending["old"], pending["new"]
        at = branch.head(git, self._target)
        words = f"the glue {old[:12]} to {new[:12]} that a gluer with fence {pending['fence']} left"
        if pending["byCommand"]:
            # Whether its command had done its work is not known, unless the branch has all of it.
            is_in = old != new and all(self._has(at, each) for each in self._commits(pending, new))
            self._sealed(pending["sections"], at if is_in else None, old)
        elif self._has(at, new):
            self._sealed(pending["sections"], new, old)
        elif at == old and git.commit(new) is not None:
            self._carry_out(old, new, pending["sections"])
        else:
            self._sealed(pending["sections"], None, old)
        done = "sealed" if self.report.glued else "void, and its sections wait again"
        self.report.settled = list(pending["sections"])
        self._note(f"{words}: {done}")

    def _commits(self, pending: Mapping[str, Any], new: str) -> list[str]:
        """The commits of the sections in a glue: second parents on the way to its end."""
        words = ("rev-list", "--first-parent", "--merges", "--parents")
        if self._git.commit(new) is None:
            return [new]
        rows = self._git.text(*words, f"{pending['old']}..{new}").splitlines()
        return [row.split()[2] for row in rows] or [new]

    def _has(self, commit: str, older: str) -> bool:
        words = ("merge-base", "--is-ancestor", older, commit)
        return self._git.run(*words, allowed=(0, 1, 128)).returncode == 0

    # --- the next sections ----------------------------------------------------------------------

    def _step(self, shown: Answer, queue: Sequence[SectionView], size: int) -> None:
        head = branch.head(self._git, self._target)
        is_moved = self._check_head(shown["glue"].get("head", ""), head)
        if not self._settings.command:
            self._refuse_dirty(head)
        self._record_overlaps(head, shown["sections"])
        members, conflict = self._window(head, queue[:size])
        if not members:
            assert conflict is not None
            self._obstruct(Obstacle(queue[0], head, conflict))
            return
        prefixes = [MergePrefix(each.section_id, head, each.merged.commit) for each in members]
        rehearsed = self._stage.rehearse(prefixes, self._tell)
        passed = [each.is_run and each.failed is None for each in rehearsed]
        count = next((place for place, good in enumerate(passed) if not good), len(members))
        if count:
            self._glue(head, members[:count], rehearsed[count - 1].witness, is_moved=is_moved)
        if count == len(members) or rehearsed[count].failed is None:
            return
        failed = rehearsed[count].failed
        assert failed is not None
        onto = members[count - 1].merged.commit if count else head
        alone = MergePrefix(members[count].section_id, onto, members[count].merged.commit)
        self._refuse_broken(alone, failed)
        self._obstruct(Obstacle(members[count].section, onto, failed, rehearsed[count].witness))

    def _record_overlaps(self, head: str, waiting: Sequence[SectionView]) -> None:
        """For people; what is glued does not hang on it."""
        try:
            for each in batches(self._meetings.fresh(self._git, head, waiting)):
                self._desk.act("descent.overlap", overlaps=each)
        except GlueRefused as error:
            if error.failure != Reason.OVERLAPS_FULL.wire:
                raise
            self._note(str(error))

    def _check_head(self, known: str, head: str) -> bool:
        """Whether the branch is elsewhere than the last glue left it; a rewritten one is refused
        unless that is accepted."""
        if known in ("", head):
            return False
        if self._has(head, known):
            self._note(
                f"{self._target} was moved by hand, from {known[:12]} to {head[:12]}; "
                "sections are merged onto that"
            )
        elif self._settings.accepts_moved:
            self._note(f"{self._target} was rewritten; sections are merged onto {head[:12]}")
        else:
            raise GlueStopped(
                f"{self._target} was rewritten: it is at {head[:12]}, and {known[:12]}, where the "
                "last glue left it, is not in it. Nothing was moved. Bring that commit back, or go "
                "on from where it is: understudy descent glue --accept-moved"
            )
        return True

    def _refuse_dirty(self, head: str) -> None:
        """Before checks are run for a move that would be refused."""
        for each in branch.checked_out(self._git, self._target):
            try:
                Checkout(each).ahead(head, head)
            except Dirty as error:
                raise GlueLater(str(error)) from None

    def _window(
        self, head: str, queue: Sequence[SectionView]
    ) -> tuple[list[_WindowMember], Conflict | None]:
        """The next sections merged one upon the other, up to the first that does not merge."""
        members: list[_WindowMember] = []
        onto = head
        for section in queue:
            failpoints.failpoint("glue.merging")
            merged = self._merged(onto, section)
            failpoints.failpoint("glue.merged")
            if isinstance(merged, Conflict):
                return members, merged
            members.append(_WindowMember(section, merged))
            onto = merged.commit
        return members, None

    def _merged(self, onto: str, section: SectionView) -> Merged | Conflict:
        name = section["sectionId"]
        if self._git.commit(section["commit"]) is None:
            raise GlueStopped(
                f"section {name}: this repository has no commit {section['commit']}. Fetch it to "
                f"refs/understudy/section/{name}, or have the issue done again: "
                f"understudy issue update {section['issueId']} --status open"
            )
        stamp_ms = rfc3339.parse_ms(section["recordedAt"])
        assert stamp_ms is not None, "the authority says when"
        trailers = {
            "Understudy-Issue": section["issueId"],
            "Understudy-Fence": str(section["fence"]),
            "Understudy-Lease": self._lease_of(section["commit"]),
            SECTION_TRAILER: name,
            "Understudy-Glue": self._target,
        }
        message = worded(
            f"Glue {name} into {self._target}",
            {key: value for key, value in trailers.items() if value},
        )
        return merge_commit(
            self._git, onto, section["commit"], message=message, stamp_ms=stamp_ms, author=AUTHOR
        )

    def _lease_of(self, commit: str) -> str:
        """The lease that the section's own commit names."""
        words = ("log", "-1", "--format=%(trailers:key=Understudy-Lease,valueonly)", commit)
        return self._git.text(*words).strip().partition("\n")[0]

    def _refuse_broken(self, prefix: MergePrefix, failed: FailedCheck) -> None:
        """A check that cannot run, or fails without the section, is none of its faults."""
        if failed.status == "unavailable":
            raise GlueStopped(
                f"check `{failed.check_id}` cannot be run here: its command was not found. Nothing "
                "was moved; install it, or change the check policy: understudy policy show"
            )
        before = self._stage.fails_at(prefix, failed.check_id)
        if before is not None:
            raise GlueStopped(
                f"{self._target} itself does not pass check `{failed.check_id}` at "
                f"{prefix.old[:12]} ({before.status}), so no section can. Nothing was moved; mend "
                f"{self._target}, then glue again. The last of its output:\n{before.tail}"
            )

    # --- what fits ------------------------------------------------------------------------------

    def _glue(
        self, old: str, members: Sequence[_WindowMember], witness: str, *, is_moved: bool
    ) -> None:
        new, tree = members[-1].merged.commit, members[-1].merged.tree
        ids = [each.section_id for each in members]
        branch.keep(self._git, self._target, self._fence, new)
        failpoints.failpoint("glue.asking")
        self._desk.act(
            "descent.glue",
            sections=ids,
            old=old,
            new=new,
            tree=tree,
            moved=is_moved,
            byCommand=bool(self._settings.command),
            witness=witness,
        )
        failpoints.failpoint("glue.authorized")
        if self._settings.command:
            self._hand_over(old, new, members)
            self._sealed(ids, branch.head(self._git, self._target), old)
            return
        self._carry_out(old, new, ids)

    def _carry_out(self, old: str, new: str, ids: Sequence[str]) -> None:
        """Move the branch and seal that; a person who was faster makes it void."""
        try:
            self._move(old, new, ids)
        except branch.Moved as error:
            self._note(str(error))
            self._sealed(ids, None, old)
        else:
            self._sealed(ids, new, old)

    def _move(self, old: str, new: str, ids: Sequence[str]) -> None:
        """Move it, or say that it will not move and why not."""
        failpoints.failpoint("glue.moving")
        try:
            branch.move(self._git, self._target, self._fence, old, new)
        except (branch.Deposed, branch.Moved):
            raise
        except Dirty as error:
            self._sealed(ids, None, old)
            raise GlueLater(str(error)) from None
        except GitRefused as error:
            self._sealed(ids, None, old)
            raise GlueStopped(str(error)) from None
        failpoints.failpoint("glue.moved")

    def _sealed(self, ids: Sequence[str], head: str | None, old: str) -> None:
        """Say where the branch is now; without that, that it did not move, and will not.

        What is void leaves the branch at `old` in the record: if it was moved by hand meanwhile,
        that is found out, and said, like any other time.
        """
        failpoints.failpoint("glue.sealing")
        self._desk.act("descent.seal", result="void" if head is None else "moved", head=head or old)
        failpoints.failpoint("glue.sealed")
        if head is not None:
            self.report.glued += ids
            self._tell(f"{self._target} is at {head[:12]}, with {', '.join(ids)}")

    def _hand_over(self, old: str, new: str, members: Sequence[_WindowMember]) -> None:
        """Have the team's own command do it; whatever it says, the glue is settled."""
        ids = [each.section_id for each in members]
        listed = orjson.dumps([dict(each.section) for each in members])
        known = {"UNDERSTUDY_OLD": old, "UNDERSTUDY_NEW": new}
        known |= {"UNDERSTUDY_SECTIONS": listed.decode(), "UNDERSTUDY_FENCE": str(self._fence)}
        with tempfile.TemporaryFile() as output:
            ran = subprocess.run(  # noqa: S603 - the operator's own words
                ["/bin/sh", "-c", self._settings.command],
                cwd=self._git.folder,
                env=dict(os.environ) | known,
                input=listed + b"\n",
                stdout=output,
                stderr=output,
                check=False,
            )
            output.seek(max(0, output.seek(0, os.SEEK_END) - _OUTPUT_MAX))
            said = output.read().decode(errors="replace").strip()
        if ran.returncode == 0:
            return
        self._sealed(ids, None, old)
        tail = f" The last of its output:\n{said}" if said else ""
        if ran.returncode == LATER:
            raise GlueLater(f"the glue command asks to be run later (exit {LATER}).{tail}")
        raise GlueStopped(
            f"the glue command ended with {ran.returncode} for {', '.join(ids)}. They wait as "
            f"before; look at what it did, then glue again.{tail}"
        )

    # --- what does not --------------------------------------------------------------------------

    def _obstruct(self, obstacle: Obstacle) -> None:
        wanted = EndRule(self._settings.on_obstruction, self._settings.attempts)
        found = obstruct(self._desk, self._git, obstacle, wanted)
        self.report.obstructions.append(found)
        what = found.get("check") or ", ".join(found["paths"][:3]) or "no common history"
        self._tell(f"{found['section']}: {found['kind']}: {what}; {found['end']}")

    def _note(self, words: str) -> None:
        if words not in self._said:
            self._said.add(words)
            self.report.notes.append(words)
            self._tell(words)


def ready(shown: Mapping[str, Any]) -> list[SectionView]:
    """The sections that may be glued now, one after the other; the authority has the last word.

    A section of a cover waits for those before it whose issues may still bring one.
    """
    before: dict[str, list[str]] = {}
    for cover in shown["covers"]:
        if cover["state"] != "open":
            continue
        earlier: list[str] = []
        for member in cover["members"]:
            before[member["issueId"]] = list(earlier)
            if not member.get("takenOut") and member["status"] not in _OVER:
                earlier.append(member["issueId"])
    taken: set[str] = set()
    found: list[SectionView] = []
    for section in shown["sections"]:
        if taken.issuperset(before.get(section["issueId"], ())):
            taken.add(section["issueId"])
            found.append(section)
    return found
