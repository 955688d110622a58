"""What is in the way of a section, for the authority's record and for whoever works on it next.

The record names what does not fit by content. The text names paths, lines or the check, with which
sections it does not fit, where the work is kept, and what to do next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ...contracts import Reason, limits, retry_decision, retry_policy
from .git import Git
from .glue_desk import GlueDesk, GlueRefused
from .merge import Conflict
from .rehearsal import FailedCheck

SECTION_TRAILER: Final = "Understudy-Section"
End = Literal["return", "file", "stop"]
# A policy may have rules for these; where it has none, it was a failed attempt like others.
_CLASSES: Final = {"conflict": "descent_conflict", "meaning": "descent_meaning"}
_FAILED: Final = "job_failed"
_LOG_MAX: Final = 512  # merges that are looked through
_PATHS_SHOWN_MAX: Final = 8
_HUNKS_LENGTH_MAX: Final = 1_800


@dataclass(frozen=True, slots=True)
class EndRule:
    """What becomes of an issue; one that goes back does so at most so often."""

    end: End = "return"
    attempts: int | None = None  # None: as the retry policy says


@dataclass(frozen=True, slots=True)
class Obstacle:
    """A section and what it does not fit to: paths of a merge, or a check on its result."""

    section: Mapping[str, Any]  # as `descent.show` has it
    onto: str
    what: Conflict | FailedCheck
    witness: str = ""

    @property
    def kind(self) -> str:
        return "conflict" if isinstance(self.what, Conflict) else "meaning"

    @property
    def paths(self) -> tuple[str, ...]:
        if not isinstance(self.what, Conflict):
            return ()
        paths = (each.path[: limits.REF_LENGTH_MAX] for each in self.what.clashes)
        return tuple(dict.fromkeys(paths))


def obstruct(desk: GlueDesk, git: Git, obstacle: Obstacle, wanted: EndRule) -> dict[str, Any]:
    """Record it; the issue goes back, or waits for a person or another issue. The record."""
    section = obstacle.section
    others = [each for each in glued_since(git, obstacle) if each != section["sectionId"]]
    members = {
        "section": section["sectionId"],
        "kind": obstacle.kind,
        "onto": obstacle.onto,
        "ontoTree": git.text("rev-parse", f"{obstacle.onto}^{{tree}}"),
        "paths": list(obstacle.paths[: limits.OVERLAP_PATHS_MAX]),
        "check": obstacle.what.check_id if isinstance(obstacle.what, FailedCheck) else "",
        "witness": obstacle.witness,
        "end": end_of(desk, obstacle, wanted),
        "summary": summary(desk.target, obstacle, others),
    }
    others = others[: limits.GLUE_SECTIONS_MAX]
    try:
        answer = desk.act("descent.obstruct", others=others, **members)
    except GlueRefused as error:
        if error.failure != Reason.DESCENT_PAYLOAD_INVALID.wire:
            raise
        # One of them was worked on again since, and the authority knows its newest section alone.
        answer = desk.act("descent.obstruct", **members)
    found: dict[str, Any] = answer["obstruction"]
    return found


def end_of(desk: GlueDesk, obstacle: Obstacle, wanted: EndRule) -> End:
    """What was asked for; an issue goes back as often as it may be tried."""
    if wanted.end != "return":
        return wanted.end
    issue = desk.read("issue.show", id=obstacle.section["issueId"]).get("issue", {})
    attempt = max(1, issue.get("attempts", 1) - issue.get("excused", 0))
    if wanted.attempts is not None:
        return "return" if attempt < wanted.attempts else "stop"
    classes = (_CLASSES[obstacle.kind], _FAILED)
    return "return" if retry_decision(retry_policy(), classes, attempt).retry else "stop"


def glued_since(git: Git, obstacle: Obstacle) -> list[str]:
    """Sections on the branch that this one did not have: of a conflict, those with its paths."""
    base = obstacle.section["base"]
    if git.commit(base) is None:
        return []
    words = ["log", "--first-parent", "--no-patch", f"--max-count={_LOG_MAX}"]
    words += [f"--format=%(trailers:key={SECTION_TRAILER},valueonly)", f"{base}..{obstacle.onto}"]
    paths = [f":(literal){each}" for each in obstacle.paths if not each.startswith('"')]
    if isinstance(obstacle.what, Conflict) and not paths:
        return []
    said = git.run(*words, "--", *paths).stdout.decode(errors="replace").split()
    return list(dict.fromkeys(reversed(said)))


def summary(target: str, obstacle: Obstacle, others: Sequence[str]) -> str:
    """For the next holder; the end of it, which says what to do, is never cut off."""
    section = obstacle.section
    kept = f"refs/understudy/section/{section['sectionId']}"
    first, detail = _what(target, obstacle)
    met = ", ".join(others[:_PATHS_SHOWN_MAX])
    head = [first, f"Glued since it began: {met}." if met else ""]
    steps = f"The work is kept as {kept} ({section['commit'][:12]}). Next: begin at {target} as it "
    steps += f"is now, bring it in with `understudy worktree adopt` or `git merge {kept}`, settle "
    steps += "what is named above, and finish as before."
    room = limits.SUMMARY_LENGTH_MAX - sum(map(len, head)) - len(steps) - 8
    lines = [*head, detail[: max(0, min(room, _HUNKS_LENGTH_MAX))], steps]
    text = "\n".join(line for line in lines if line)[: limits.SUMMARY_LENGTH_MAX]
    return "".join(each if each.isprintable() or each in "\n\t" else " " for each in text)


def _what(target: str, obstacle: Obstacle) -> tuple[str, str]:
    """In a line, and the lines of the files or of the check's output."""
    name, at = obstacle.section["sectionId"], f"{target} at {obstacle.onto[:12]}"
    what = obstacle.what
    if isinstance(what, FailedCheck):
        ended = what.status if what.exit_code is None else f"{what.status}, exit {what.exit_code}"
        first = f"{name} merges with {at}, but check `{what.check_id}` does not pass on the result"
        detail = f"The last of its output:\n{what.tail}" if what.tail else "It printed nothing."
        return f"{first} ({ended}).", detail
    shown = [f"{each.path} ({each.kind})" for each in what.clashes[:_PATHS_SHOWN_MAX]]
    more = len(what.clashes) - len(shown)
    listed = ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    if not shown:
        return f"{name} does not merge with {at}: {what.detail}.", ""
    hunks = "\n".join(f"{each.path}:\n{each.hunks}" for each in what.clashes if each.hunks)
    return f"{name} does not merge with {at}: {listed}.", hunks
