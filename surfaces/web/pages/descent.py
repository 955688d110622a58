"""Descent: the sections that wait for a branch, which of them overlap, and what did not fit."""

from collections.abc import Mapping, Sequence
from typing import Any

from ..markup import Child, Markup, joined, tag
from ..view import Page, PageView
from .layout import plain
from .parts import moment, section, state, table, told, work_link

_MATRIX_MAX = 40  # sections in each direction
_WORDS = {
    "agree": ("=", "agree", "good"),
    "merge": ("+", "agree after a merge", "good"),
    "conflict": ("x", "conflict", "bad"),
    "meaning": ("!", "conflict in meaning", "bad"),
}
Shown = Mapping[str, Any]


async def page(view: PageView) -> Page:
    shown = await view.desk.ask("descent.show", {})
    if shown["result"] != "accepted":
        return Page("Descent", told(str(shown["diagnostic"]), is_bad=True))
    done = await view.desk.query(
        "SELECT issue_id, status, target, commit_id, owner, fence, path_count, recorded_ms "
        "FROM section ORDER BY seq DESC LIMIT 50"
    )
    if not (done or shown["targets"] or shown["sections"] or shown["obstructions"]):
        return Page("Descent", _empty())
    main = joined(
        tag("h1", "Descent"),
        section("Branches", _targets(shown["targets"])),
        section("Sections that wait", _sections(shown["sections"])),
        section("Overlaps", _matrix(shown["sections"], shown["overlaps"])),
        section("Obstructions", _obstructions(shown["obstructions"])),
        section("Covers", _covers(shown["covers"])) if shown["covers"] else None,
        section("Newest sections", _newest(done)),
    )
    return Page("Descent", main)


def _empty() -> Markup:
    return joined(
        tag("h1", "Descent"),
        tag("p", "Here many workers' changes to one git repository come together on a branch."),
        tag("p", "Nothing has been recorded. This begins it:"),
        tag("pre", "understudy up --worktrees --workers 4 --exec 'my-agent'"),
    )


def _targets(targets: Sequence[Shown]) -> Markup:
    rows = (
        [
            plain(each["target"]),
            tag("code", plain(str(each.get("head", "")))[:14]),
            each.get("glued", 0),
            _pending(each.get("pending")),
            plain(str(each.get("lease", {}).get("owner", ""))),
        ]
        for each in targets
    )
    columns = ("branch", "left at", "glued", "authorised", "gluer")
    return table(columns, rows, caption="Branches", empty="No branch yet.")


def _pending(pending: Shown | None) -> Child:
    if not pending:
        return ""
    names = ", ".join(map(str, pending.get("sections", ())))
    return joined(state("gluing"), " ", plain(names))


def _sections(sections: Sequence[Shown]) -> Markup:
    rows = (
        [
            place,
            work_link(f"issue/{_issue(each)}"),
            plain(each["target"]),
            plain(str(each.get("owner", ""))),
            each.get("fence", ""),
            tag("code", plain(str(each.get("commit", "")))[:14]),
            len(each.get("paths", ())) or each.get("pathCount", ""),
            plain(str(each.get("waitsFor", "") or "")),
        ]
        for place, each in enumerate(sections, 1)
    )
    columns = ("turn", "issue", "to", "by", "fence", "commit", "paths", "waits for")
    return table(columns, rows, caption="Sections that wait", empty="None waits.")


def _issue(each: Shown) -> str:
    return str(each.get("issueId") or str(each["sectionId"]).partition("/")[0])


def _matrix(sections: Sequence[Shown], overlaps: Sequence[Shown]) -> Markup:
    """Who agrees with whom; a pair that was looked at and is not named agrees."""
    names = [str(each["sectionId"]) for each in sections][:_MATRIX_MAX]
    if not names:
        return tag("p", "No two sections wait.", class_="empty")
    found = {(each["left"], each.get("right") or ""): each for each in overlaps}
    looked = {left for left, right in found if not right}
    head = tag("tr", tag("td", ""), (tag("th", plain(each), scope="col") for each in names))
    lines = (
        tag(
            "tr",
            tag("th", plain(one), scope="row"),
            (_cell(one, two, found, looked) for two in names),
        )
        for one in names
    )
    made = tag(
        "table",
        tag(
            "caption",
            "= agree, + after a merge, x conflict, ! conflict in meaning, . not looked at",
        ),
        tag("thead", head),
        tag("tbody", lines),
        class_="matrix",
    )
    rest = len(sections) - len(names)
    return joined(
        tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="Overlaps"),
        tag("p", f"{rest} more wait.") if rest > 0 else None,
    )


def _cell(one: str, two: str, found: Mapping[tuple[str, str], Shown], looked: set[str]) -> Markup:
    if one == two:
        each = found.get((one, ""))
        verdict = str(each["verdict"]) if each else ""
    else:
        each = found.get((one, two)) or found.get((two, one))
        verdict = str(each["verdict"]) if each else ("agree" if {one, two} <= looked else "")
    mark, words, tone = _WORDS.get(verdict, (".", "not looked at", "dim"))
    paths = ", ".join(map(str, (each or {}).get("paths", ())))[:200]
    said = f"{one} and {two}: {words}" + (f": {paths}" if paths else "")
    return tag(
        "td", tag("span", mark, aria_hidden="true"), tag("span", words, class_="unseen"),
        class_=tone, title=plain(said),
    )  # fmt: skip


def _obstructions(obstructions: Sequence[Shown]) -> Markup:
    rows = (
        [
            state("obstructed"),
            work_link(f"issue/{_issue(each)}"),
            plain(str(each.get("kind", ""))),
            plain(str(each.get("target", ""))),
            plain(", ".join(map(str, each.get("paths", ()))))[:300],
            plain(str(each.get("ended", "") or "open")),
            work_link(f"issue/{each['newId']}") if each.get("newId") else "",
        ]
        for each in obstructions
    )
    columns = ("state", "issue", "kind", "branch", "paths", "ended with", "filed as")
    return table(columns, rows, caption="Obstructions", empty="Nothing was in the way.")


def _covers(covers: Sequence[Shown]) -> Markup:
    rows = (
        [
            plain(each["coverId"]),
            state(str(each["state"])),
            plain(each["target"]),
            plain(", ".join(str(member.get("issueId", "")) for member in each["members"])),
        ]
        for each in covers
    )
    return table(("cover", "state", "to", "issues"), rows, caption="Covers")


def _newest(rows: Sequence[Shown]) -> Markup:
    made = (
        [
            work_link(f"issue/{each['issue_id']}"),
            state(each["status"]),
            plain(each["target"]),
            tag("code", plain(each["commit_id"])[:14]),
            plain(each["owner"]),
            each["fence"],
            each["path_count"],
            moment(each["recorded_ms"]),
        ]
        for each in rows
    )
    columns = ("issue", "state", "to", "commit", "by", "fence", "paths", "recorded")
    return table(columns, made, caption="Newest sections")
