"""The day's covers, sections and glue, and what does not fit."""

import pytest

from tests.contracts.day.day import Day, Document
from understudy.contracts import limits
from understudy.contracts.reason import Reason

BASE, HEAD, AHEAD, TREE = (letter * 40 for letter in "abcd")
MAIN = {"target": "main"}


def glued(day: Day, patch: pytest.MonkeyPatch) -> None:
    """Two issues of a cover, from their claims to a branch that has both."""
    day.grant("issue.add", id="g1", title="First", scope=["src/**", "src/**", "docs/*"])
    day.grant("issue.add", id="g2", title="Second", scope=["src/a.py"])
    cover = {"coverId": "both", **MAIN, "base": BASE, "issues": ["g2", "g1"]}
    met = day.grant("descent.cover", **cover)["meetingScopes"]
    assert met == [{"left": "g1", "right": "g2", "scope": ["src/**"]}]
    day.refuse(Reason.COVER_EXISTS, "descent.cover", **cover)
    day.refuse(Reason.COVER_ISSUE_TAKEN, "descent.cover", **cover | {"coverId": "more"})
    with patch.context() as lowered:
        lowered.setattr(limits, "COVERS_MAX", 1)
        day.refuse(Reason.COVERS_FULL, "descent.cover", **cover | {"coverId": "more"})
    ann = day.claim("g1")
    day.refuse(Reason.SECTION_EMPTY, "descent.section", "cli", **ann, **made())
    day.refuse(Reason.SECTION_OUT_OF_SCOPE, "descent.section", "cli", **ann, **made("x"))
    unsorted = made("src/b", "src/a")
    day.refuse(Reason.DESCENT_PAYLOAD_INVALID, "descent.section", "cli", **ann, **unsorted)
    other = made("src/a.py", target="next")
    day.refuse(Reason.SECTION_TARGET_OTHER, "descent.section", "cli", **ann, **other)
    day.refuse(Reason.TRANSPORT_FORBIDDEN, "descent.section", **ann, **made("src/a.py"))
    first = day.grant(
        "descent.section", "cli", **ann, **made("src/a.py"), witness="dec1_x"
    )  # the lease is over
    day.refuse(Reason.LEASE_MISSING, "descent.section", "cli", **ann, **made("src/a.py"))
    day.refuse(Reason.ISSUE_GLUING, "issue.claim", id="g1", assignee="bob")
    second = day.grant("descent.section", "cli", **day.claim("g2", "bob"), **made("src/a.py"))
    ids = [answer["section"]["sectionId"] for answer in (first, second)]
    _move(day, _gluer(day), ids)
    day.refuse(Reason.COVER_NOT_OPEN, "descent.abort", coverId="both")
    day.refuse(Reason.COVER_NOT_FOUND, "descent.abort", coverId="nowhere")
    for asked in ({}, MAIN, {"coverId": "both"}):
        day.grant("descent.show", **asked)
    day.refuse(Reason.COVER_NOT_FOUND, "descent.show", coverId="nowhere")


def _gluer(day: Day, target: str = "main") -> Document:
    """Claim a branch, and give back what its gluer must show from now on."""
    lease = day.grant("glue.claim", "cli", target=target, gluer="ann")["glue"]["lease"]
    held = {"target": target, "gluer": "ann", "fence": lease["fence"]}
    return held | {"leaseId": lease["leaseId"]}


def _move(day: Day, held: Document, ids: list[str]) -> None:
    day.refuse(Reason.LEASE_CONTENDED, "glue.claim", "cli", target="main", gluer="bob")
    day.grant("glue.claim", "cli", target="main", gluer="ann", fence=held["fence"])
    met = {"left": ids[0], "right": ids[1], "onto": HEAD, "verdict": "merge", "tree": TREE}
    onto = {"left": ids[0], "onto": BASE, "verdict": "conflict", "paths": ["src/a.py"]}
    day.grant("descent.overlap", "cli", **held, overlaps=[met, onto])
    alone = met | {"right": ids[0]}
    day.refuse(Reason.DESCENT_PAYLOAD_INVALID, "descent.overlap", "cli", **held, overlaps=[alone])
    day.grant("descent.show")
    move = {"old": BASE, "new": HEAD, "tree": TREE}
    day.refuse(Reason.GLUE_OUT_OF_ORDER, "descent.glue", "cli", **held, **move, sections=ids[1:])
    day.refuse(Reason.SECTION_NOT_OPEN, "descent.glue", "cli", **held, **move, sections=["g1/1"])
    seal = {"result": "moved", "head": HEAD}
    day.refuse(Reason.GLUE_NOT_PENDING, "descent.seal", "cli", **held, **seal)
    day.grant("descent.glue", "cli", **held, **move, sections=ids, witness="wit1_x")
    day.refuse(Reason.GLUE_PENDING, "descent.glue", "cli", **held, **move, sections=ids)
    day.grant("descent.show", **MAIN)
    day.refuse(Reason.GLUE_TARGET_MOVED, "descent.seal", "cli", **held, **seal | {"head": AHEAD})
    assert day.grant("descent.seal", "cli", **held, **seal)["closed"] == ["g1", "g2"]
    day.grant("glue.release", "cli", **held)
    day.refuse(Reason.LEASE_MISSING, "glue.release", "cli", **held)


def obstructed(day: Day) -> None:
    """Three sections that do not fit, with the three ends that this can have."""
    for issue_id in ("o1", "o2", "o3"):
        day.grant("issue.add", id=issue_id, title=f"Work {issue_id}", priority=3)
    cover = {**MAIN, "base": HEAD, "issues": ["o1", "o2"], "order": "journal"}
    cover_id = day.grant("descent.cover", **cover)["cover"]["coverId"]
    ids = [
        day.grant("descent.section", "cli", **day.claim(issue_id), **made(issue_id))["section"][
            "sectionId"
        ]
        for issue_id in ("o1", "o2", "o3")
    ]
    held = _gluer(day)
    day.refuse(Reason.SECTION_NOT_OPEN, "descent.overlap", "cli", **held, overlaps=[_of("x/1")])
    wrong = {"old": AHEAD, "new": BASE, "tree": TREE, "sections": ids[:1]}
    day.refuse(Reason.GLUE_TARGET_MOVED, "descent.glue", "cli", **held, **wrong)
    day.grant("descent.glue", "cli", **held, **wrong, moved=True)
    day.grant("descent.seal", "cli", **held, result="void", head=AHEAD)
    found = {"kind": "conflict", "onto": HEAD, "ontoTree": TREE, "paths": ["src/a.py"]}
    none = found | {"section": ids[0], "others": ["x/1"]}
    day.refuse(Reason.DESCENT_PAYLOAD_INVALID, "descent.obstruct", "cli", **held, **none)
    filed = found | {"section": ids[0], "others": ids[1:2], "end": "file", "summary": "both a.py"}
    day.grant("descent.obstruct", "cli", **held, **filed)
    failed = found | {"kind": "meaning", "paths": [], "check": "tests", "witness": "wit1_y"}
    day.grant("descent.obstruct", "cli", **held, **failed, section=ids[2], end="stop")
    day.grant("descent.show", coverId=cover_id)
    day.grant("descent.abort", coverId=cover_id, reason="too many")
    back = day.claim("o2")
    again = day.grant("descent.section", "cli", **back, **made("o2"))["section"]["sectionId"]
    day.grant("descent.obstruct", "cli", **held, **found, section=again)
    day.refuse(Reason.SECTION_NOT_OPEN, "descent.obstruct", "cli", **held, **found, section=again)
    day.grant("descent.show")
    day.grant("glue.release", "cli", **held)


def full(day: Day, patch: pytest.MonkeyPatch) -> None:
    day.grant("issue.add", id="f1", title="t")
    section = day.grant("descent.section", "cli", **day.claim("f1"), **made("a"))["section"]
    held = _gluer(day)
    with patch.context() as lowered:
        lowered.setattr(limits, "OVERLAPS_MAX", 0)
        many = [_of(section["sectionId"])]
        day.refuse(Reason.OVERLAPS_FULL, "descent.overlap", "cli", **held, overlaps=many)
        lowered.setattr(limits, "TARGETS_MAX", 1)
        day.refuse(Reason.TARGETS_FULL, "glue.claim", "cli", target="next", gluer="ann")


def _of(section_id: str) -> Document:
    return {"left": section_id, "onto": HEAD, "verdict": "agree"}


def made(*paths: str, target: str = "main") -> Document:
    """What git says of a section."""
    count = len(paths)
    named = {"paths": list(paths), "pathCount": count, "pathsDigest": f"paths of {count}"}
    return {"target": target, "base": BASE, "commit": HEAD, "tree": TREE} | named
