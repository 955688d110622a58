"""Sections, covers and what is in their way, as lines of text: for `descent` and `status`."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

_BAD = ("conflict", "meaning")
_MARKS = {"agree": "=", "merge": "+", "conflict": "x", "meaning": "!"}
_LEGEND = "= agree  + agree after a merge  x conflict  ! conflict in meaning  . not looked at"
_PATHS_SHOWN = 3
_ENDS = {
    "return": "its issue is open again",
    "file": "an issue was filed for it",
    "stop": "its issue is blocked",
}
_AGREE = {"verdict": "agree"}
Shown = Mapping[str, Any]  # the answer of `descent.show`


def counts(shown: Shown) -> dict[str, Any]:
    """What waits and how it stands; for programs."""
    known = [_stand(shown, each["sectionId"]) for each in shown["sections"]]
    gluing = sum(len(each.get("pending", {}).get("sections", ())) for each in shown["targets"])
    found: dict[str, Any] = {
        "open": shown["count"],
        "agree": sum(bool(each) and not set(each) & set(_BAD) for each in known),
        "conflict": sum(bool(set(each) & set(_BAD)) for each in known),
        "gluing": gluing,
        "glued": sum(each["glued"] for each in shown["targets"]),
    }
    last = next(iter(shown["obstructions"]), None)
    return found | ({"lastObstruction": last} if last else {})


def summary(found: Mapping[str, Any]) -> str:
    """One line of `counts`."""
    said = f"{found['open']} sections wait, {found['agree']} agree, {found['conflict']} conflict, "
    said += f"{found['gluing']} gluing, {found['glued']} glued"
    last = found.get("lastObstruction")
    return f"{said}; last obstruction: {obstruction_line(last)}" if last else said


def status(shown: Shown) -> str:
    """Everything that waits, in its order, and what it waits for."""
    lines = [_target_line(each) for each in shown["targets"]]
    for place, each in enumerate(shown["sections"], 1):
        lines.append(f"{place:>3}  {_section_line(shown, each)}")
    for cover in shown["covers"]:
        members = ", ".join(_member(each) for each in cover["members"])
        lines.append(
            f"cover {cover['coverId']} into {cover['target']}: {cover['state']}: {members}"
        )
    return "\n".join([*lines, summary(counts(shown))])


def overlaps(sections: Sequence[str], records: Sequence[Mapping[str, Any]], target: str) -> str:
    """A matrix of who agrees with whom, and the paths where they do not."""
    if not sections:
        return "no sections wait"
    found = {(each["left"], each.get("right", "")): each for each in records}
    looked = {left for left, right in found if not right}  # what is left out of the pairs agrees
    width = max(len(each) for each in (*sections, target))
    head = " ".join(str(place % 100).rjust(2) for place in range(1, len(sections) + 1))
    lines = [f"{'':>3}  {'':<{width}}  {target}  {head}"]
    for place, one in enumerate(sections, 1):
        pairs = (
            found.get((one, it)) or found.get((it, one)) or ({one, it} <= looked and _AGREE)
            for it in sections
        )
        cells = [
            " \\" if it == one else _mark(each) for it, each in zip(sections, pairs, strict=True)
        ]
        first = _mark(found.get((one, ""))).rjust(len(target))
        lines.append(f"{place:>3}  {one:<{width}}  {first}  {' '.join(cells)}")
    for (left, right), each in sorted(found.items()):
        if each["verdict"] in _BAD:
            lines.append(f"{left} and {right or target}: {each['verdict']}: {_paths(each)}")
    return "\n".join([*lines, _LEGEND])


def obstruction_line(found: Mapping[str, Any]) -> str:
    """Which section, what with, and what became of its issue."""
    what = f"check {found['check']}" if found.get("check") else _paths(found)
    met = f" with {', '.join(found['others'][:_PATHS_SHOWN])}" if found["others"] else ""
    filed = f": {found['newId']}" if found.get("newId") else ""
    return f"{found['section']} {found['kind']}{met}: {what}; {_ENDS[found['end']]}{filed}"


def cover_text(answer: Mapping[str, Any]) -> str:
    """A cover that was made, and where its issues may meet."""
    cover = answer["cover"]
    said = f"{len(cover['members'])} issues into {cover['target']}, by {cover['order']}"
    lines = [f"{cover['coverId']}: {said}"]
    lines += [f"{place:>3}  {_member(each)}" for place, each in enumerate(cover["members"], 1)]
    for each in answer.get("meetingScopes", ()):
        lines.append(f"{each['left']} and {each['right']} may meet: {', '.join(each['scope'])}")
    return "\n".join(lines)


def _target_line(target: Mapping[str, Any]) -> str:
    at = f" at {target['head'][:12]}" if "head" in target else ""
    lease = target.get("lease")
    by = f", {lease['owner']} glues with fence {lease['fence']}" if lease else ""
    said = f"{target['target']}{at}, {target['glued']} sections glued{by}"
    if pending := target.get("pending"):
        ids = ", ".join(pending["sections"])
        said += f"\n  on its way: {pending['old'][:12]} to {pending['new'][:12]} with {ids}"
    return said


def _section_line(shown: Shown, section: Mapping[str, Any]) -> str:
    verdicts = _stand(shown, section["sectionId"])
    stand = "not looked at"
    if verdicts:
        stand = next((each for each in verdicts if each in _BAD), "agrees")
    name = section["sectionId"]
    if stand in _BAD:
        bad = [it for it in shown["overlaps"] if it["verdict"] in _BAD]
        met = [it for it in bad if name in (it["left"], it.get("right"))]
        others = [_other(it, name) or section["target"] for it in met]
        stand += f" with {', '.join(others[:_PATHS_SHOWN])}: {_paths(met[0])}"
    count = section["pathCount"]
    said = f"{name}  into {section['target']}  {count} path{'' if count == 1 else 's'}  {stand}"
    after = section.get("after", ())
    return f"{said}  waits for {', '.join(after)}" if after else said


def _stand(shown: Shown, section_id: str) -> list[str]:
    return [
        each["verdict"]
        for each in shown["overlaps"]
        if section_id in (each["left"], each.get("right"))
    ]


def _other(record: Mapping[str, Any], section_id: str) -> str:
    found = record.get("right", "") if record["left"] == section_id else record["left"]
    return str(found)


def _member(member: Mapping[str, Any]) -> str:
    out = ", taken out" if member.get("takenOut") else ""
    return f"{member['issueId']} {member['status'].replace('_', ' ')}{out}"


def _mark(record: Mapping[str, Any] | Literal[False] | None) -> str:
    return (_MARKS[record["verdict"]] if record else ".").rjust(2)


def _paths(record: Mapping[str, Any]) -> str:
    paths = record.get("paths", ())
    more = f" and {len(paths) - _PATHS_SHOWN} more" if len(paths) > _PATHS_SHOWN else ""
    return ", ".join(paths[:_PATHS_SHOWN]) + more if paths else "no common history"
