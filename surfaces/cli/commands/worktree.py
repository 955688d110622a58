"""`understudy worktree`: the git worktrees of leases, and what their holders left in them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from ....actors.descent import git, repository
from ....actors.descent import worktree as trees
from ....authority.service import fence_check
from ....contracts import Exit
from .. import known_ids
from ..session import Session, common

_REFUSED = "git_refused"
_PATHS_MAX = 16  # of a worktree, for people

issue_id = click.argument("issue_id", metavar="ISSUE", shell_complete=known_ids.issues)
own_issue_id = click.argument(
    "issue_id", metavar="[ISSUE]", envvar="UNDERSTUDY_ISSUE", shell_complete=known_ids.issues
)


@click.group()
def worktree() -> None:
    """See the git worktrees of leases, and what was left in those that are gone.

    A tree with --worktrees gives each claim a worktree and a branch of its own. When the lease is
    over, what is in the worktree is kept under a ref, and the next holder may adopt it.

    \b
    understudy worktree list
    understudy worktree adopt us-1
    understudy worktree prune --dry-run
    """


@worktree.command("list")
@common
def list_(session: Session) -> None:
    """List all worktrees, whether the lease of each is current, and what was left."""
    with _git_may_refuse(session):
        place = _repository(session)
        _say(session, trees.list_worktrees(place), trees.asides(place), _line)


@worktree.command()
@issue_id
@common
def show(session: Session, issue_id: str) -> None:
    """Show the worktrees of ISSUE, what is not committed in them, and what was left."""
    with _git_may_refuse(session):
        place = _repository(session)
        found = trees.list_worktrees(place, issue_id), trees.asides(place, issue_id)
        if not any(found):
            said = f"issue {issue_id} has no worktree, and nothing was left of one"
            session.refuse(Exit.NOT_FOUND, None, f"{said}; `understudy worktree list` lists all")
        _say(session, *found, _lines)


@worktree.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@common
def prune(session: Session, *, dry_run: bool) -> None:
    """Remove the worktrees whose lease is over; what is in them is kept under a ref first.

    The worktree of a current lease stays. One that cannot be set aside stays too, and the command
    then ends with exit code 1.
    """
    with _git_may_refuse(session):
        known = trees.list_worktrees(_repository(session))
    done = _prune(session, known, dry_run=dry_run)
    text = "\n".join(_pruned(done, dry_run=dry_run)) or "no worktrees"
    if done["refused"]:
        session.refuse(Exit.FAILED, _REFUSED, text, dryRun=dry_run, **done)
    session.accept(text, dryRun=dry_run, **done)


@worktree.command()
@own_issue_id
@click.option("--fence", type=click.IntRange(min=1), help="Of the worktree.  [the newest]")
@click.option("--left", type=click.IntRange(min=1), help="Of who left it.  [the newest but it]")
@common
def adopt(session: Session, issue_id: str, fence: int | None, left: int | None) -> None:
    """Bring what an earlier holder of ISSUE left into the worktree of its holder.

    The worktree must have no changes yet. What was left is merged into it, and not committed. Where
    it does not merge, nothing is changed. A command that works under a lease adopts for its own
    issue, unless another is named.
    """
    with _git_may_refuse(session):
        place = _repository(session)
        into = _into(place, issue_id, fence)
        found = _left(place, into, left)
        paths = trees.adopt(into, found.ref)
    count = f"{len(paths)} path{'s' * (len(paths) != 1)}"
    text = f"adopted {count} of fence {found.fence} into {into.path}"
    session.accept(text, **_named(into), path=str(into.path), aside=found.ref, paths=paths)


def put_away(session: Session, folder: Path) -> list[str]:
    """Remove the worktrees whose lease is over, as `prune` does; what there is to say about it."""
    try:
        known = trees.list_worktrees(repository.locate(folder, session.state_dir))
    except git.GitRefused as error:
        return [str(error)]
    done = _prune(session, known, dry_run=False)
    return [*_pruned(done | {"current": []}, dry_run=False)]


def _prune(
    session: Session, known: list[trees.Worktree], *, dry_run: bool
) -> dict[str, list[dict[str, Any]]]:
    done: dict[str, list[dict[str, Any]]] = {"removed": [], "current": [], "refused": []}
    for each in known:
        row: dict[str, Any] = _named(each) | {"path": str(each.path)}
        if _is_current(session, each):
            done["current"].append(row)
            continue
        try:
            kept = None if dry_run else trees.remove(each)
        except (git.GitRefused, OSError) as error:
            done["refused"].append(row | {"diagnostic": str(error)})
        else:
            done["removed"].append(row | {"aside": kept})
    return done


# --- which ones -----------------------------------------------------------------------------------


@contextmanager
def _git_may_refuse(session: Session) -> Iterator[None]:
    try:
        yield
    except git.GitRefused as error:
        session.refuse(Exit.CONFIG, _REFUSED, str(error))


def _repository(session: Session) -> repository.Repository:
    return repository.locate(Path.cwd(), session.state_dir)


def _into(place: repository.Repository, issue_id: str, fence: int | None) -> trees.Worktree:
    known = [each for each in trees.list_worktrees(place, issue_id) if each.is_whole]
    chosen = [each for each in known if fence in (None, each.fence)]
    if not chosen:
        which = "" if fence is None else f" under fence {fence}"
        raise git.GitRefused(
            f"issue {issue_id} has no worktree{which}; claim it with a worktree first"
        )
    return chosen[-1]


def _left(place: repository.Repository, into: trees.Worktree, fence: int | None) -> trees.Aside:
    """What the newest other holder left, or the one that is named."""
    known = trees.asides(place, into.issue_id)
    if fence is None:
        chosen = [each for each in known if each.fence != into.fence]
    else:
        chosen = [each for each in known if each.fence == fence]
    if not chosen:
        raise git.GitRefused(
            f"nothing was left of issue {into.issue_id}"
            f"{'' if fence is None else f' under fence {fence}'}; "
            f"`understudy worktree show {into.issue_id}` shows what was"
        )
    return chosen[-1]


def _is_current(session: Session, each: trees.Worktree) -> bool:
    """As `guard` sees it."""
    resource = f"issue/{each.issue_id}"
    standing = fence_check.glance(session.state_dir, resource, each.fence, session.boundary)
    return standing.failure is None


# --- what is said ---------------------------------------------------------------------------------


def _say(session: Session, known: list[trees.Worktree], left: list[trees.Aside], line: Any) -> None:
    rows = [_row(session, each) for each in known]
    kept = [_aside(each) for each in left]
    text = "\n".join([*map(line, rows), *map(_left_line, kept)])
    session.accept(text or "no worktrees", worktrees=rows, asides=kept)


def _named(each: trees.Worktree | trees.Aside) -> dict[str, Any]:
    return {"issueId": each.issue_id, "fence": each.fence}


def _row(session: Session, each: trees.Worktree) -> dict[str, Any]:
    changed = [git.spelled(path) for _, path in trees.status(each)] if each.is_whole else []
    return _named(each) | {
        "branch": each.branch,
        "base": each.base,
        "path": str(each.path),
        "state": _state(each),
        "dirty": bool(changed),
        "changed": changed,
        "current": _is_current(session, each),
    }


def _state(each: trees.Worktree) -> str:
    if each.is_whole:
        return "whole"
    return "half made" if each.git_dir is None else "gone"


def _aside(each: trees.Aside) -> dict[str, Any]:
    return _named(each) | {"ref": each.ref, "commit": each.commit}


def _line(row: dict[str, Any]) -> str:
    words = [row["issueId"], f"fence {row['fence']}", "current" if row["current"] else "over"]
    tidy = "dirty" if row["dirty"] else "clean"
    words.append(tidy if row["state"] == "whole" else row["state"])
    return "  ".join([*words, row["branch"], os.path.relpath(row["path"])])


def _lines(row: dict[str, Any]) -> str:
    more = len(row["changed"]) - _PATHS_MAX
    lines = [_line(row), f"  base  {row['base']}"]
    lines += [f"  not committed  {path}" for path in row["changed"][:_PATHS_MAX]]
    return "\n".join([*lines, *([f"  and {more} more"] if more > 0 else [])])


def _left_line(row: dict[str, Any]) -> str:
    return f"{row['issueId']}  fence {row['fence']}  left  {row['ref']}"


def _pruned(done: dict[str, list[dict[str, Any]]], *, dry_run: bool) -> Iterator[str]:
    for row in done["removed"]:
        verb = "would remove" if dry_run else "removed"
        kept = f"; kept under {row['aside']}" if row["aside"] else ""
        yield f"{verb} {row['issueId']}, fence {row['fence']}{kept}"
    for row in done["current"]:
        yield f"stays: {row['issueId']}, fence {row['fence']} is current"
    for row in done["refused"]:
        yield f"stays: {row['issueId']}, fence {row['fence']}: {row['diagnostic']}"
