"""Merges sections into what a target has, one commit for each, in the order given.

The same commits, words and stamp give the same commit id on every machine: nothing is taken from
the user's settings, the clock or the time zone. No branch moves here, and no working tree changes.

    the section is in already     nothing to do, the commit is `onto` itself
    it merges                     a commit with two parents, also where git could fast-forward
    it merges to the same tree    a commit all the same: the next one finds the section in it
    it does not merge             `Conflict`; a chain goes on without it
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from .git import Git, GitRefused
from .merge_tree import scratch
from .overlap import Agreement, Clash, SectionCommit, overlap

IDENTITY_MAX: Final = 200  # characters of a name or an address
_OUTSIDE: Final = frozenset("<>\n\r\0")


@dataclass(frozen=True, slots=True)
class Signature:
    """Who a merge is by, as git writes it."""

    name: str
    email: str


@dataclass(frozen=True, slots=True)
class MergeOrder:
    """A section to be merged, and the words of its commit."""

    section: SectionCommit
    message: str


@dataclass(frozen=True, slots=True)
class Merged:
    """What a section came to: its commit is the head for the next."""

    section: str
    commit: str
    tree: str
    is_new: bool  # else the section was in already
    is_empty: bool  # the tree is the one before


@dataclass(frozen=True, slots=True)
class Conflict:
    """Why a section stays out. There are no paths where the histories have nothing in common."""

    section: str
    onto: str
    clashes: tuple[Clash, ...]
    detail: str


def merge_commit(
    git: Git, onto: str, section: str, *, message: str, stamp_ms: int, author: Signature
) -> Merged | Conflict:
    """The commit that has both; it is held by nothing until `branch.keep` or a move."""
    who = _who(author, stamp_ms)
    onto, section = _commit(git, onto), _commit(git, section)
    common = git.run("merge-base", "--all", onto, section, allowed=(0, 1)).stdout.decode().split()
    before = git.text("rev-parse", f"{onto}^{{tree}}")
    if section in common:
        return Merged(section, onto, before, is_new=False, is_empty=True)
    if not common:
        detail = "the section and the target have no commit in common; make it anew from the target"
        return Conflict(section, onto, (), detail)
    with scratch(git, onto, is_kept=True) as place:
        merged = place.merge([(onto, section)])[0]
        if merged.is_clean:
            words = message.rstrip("\n").encode() + b"\n"
            commit = place.commit_tree(merged.tree, (onto, section), words, who)
            is_empty = merged.tree == before
            return Merged(section, commit, merged.tree, is_new=True, is_empty=is_empty)
    return _conflict(git, onto, section)


def chain(
    git: Git, onto: str, orders: Sequence[MergeOrder], *, stamp_ms: int, author: Signature
) -> list[Merged | Conflict]:
    """Each section merged upon those before it; what conflicts is left out, and says why."""
    found: list[Merged | Conflict] = []
    for order in orders:
        outcome = merge_commit(
            git,
            onto,
            order.section.commit,
            message=order.message,
            stamp_ms=stamp_ms,
            author=author,
        )
        if isinstance(outcome, Merged):
            onto = outcome.commit
        found.append(outcome)
    return found


def worded(subject: str, trailers: Mapping[str, str]) -> str:
    """A message: one line, and a trailer for each entry, which no value can forge another of."""
    lines = [f"{name}: {_one_line(value)}" for name, value in trailers.items()]
    return "\n".join([_one_line(subject), "", *lines]) + "\n"


def _one_line(text: str) -> str:
    """A text that stays on its line, whatever is in it; other lines stay as they are."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def _conflict(git: Git, onto: str, section: str) -> Conflict:
    """With the lines that do not merge."""
    found = overlap(git, onto, section)
    assert found.verdict is Agreement.CONFLICT  # the same merge said so a moment ago
    paths = ", ".join(each.path for each in found.clashes[:8])
    more = len(found.clashes) - 8
    tail = f" and {more} more" if more > 0 else ""
    return Conflict(section, onto, found.clashes, f"does not merge: {paths}{tail}")


def _who(author: Signature, stamp_ms: int) -> dict[str, str]:
    """Git's words for who and when; it would take them from the user's settings and the clock."""
    for part in (author.name, author.email):
        if not part.strip() or len(part) > IDENTITY_MAX or _OUTSIDE & set(part):
            raise GitRefused(f"{part!r}: a name or address of git is one line without < and >")
    if stamp_ms < 0:
        raise GitRefused(f"{stamp_ms}: git has no time before 1970")
    parts = {"NAME": author.name, "EMAIL": author.email, "DATE": f"@{stamp_ms // 1000} +0000"}
    return {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in parts.items()
    }


def _commit(git: Git, name: str) -> str:
    found = git.commit(name)
    if found is None:
        raise GitRefused(f"{name}: git knows no such commit; `git log --all` shows what there is")
    return found
