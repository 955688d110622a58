"""Evidence: every decision, the chain that holds them together, and the proofs over all of it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from starlette.responses import JSONResponse, Response

from ....authority import GENESIS
from ....authority.conformance import NoVector, vector_of
from ....authority.journal import journal
from ....authority.views import evidence_index
from ....contracts import host_actions, limits
from ..markup import Child, Markup, joined, tag, url
from ..tasks import PROOFS, ProofTask
from ..view import Page, PageView
from .layout import csrf, plain
from .parts import (
    duration,
    facts,
    moment,
    row_link,
    section,
    state,
    table,
    told,
    work_link,
)

_DIGEST_SHOWN = 14
_JSON_LENGTH_MAX = 65_536  # shown of one part of a row
_VECTOR_ROWS_MAX = 256

Steps = Sequence[evidence_index.EvidenceStep]


async def page(view: PageView) -> Page:
    """The newest rows first, by filters in the address."""
    given = {name: view.asked(name) for name in ("action", "result", "work")}
    found = await view.desk.steps(
        view.asked_number("before"), limits.WEB_PAGE_ROWS + 1, **_asked(given)
    )
    shown = found[: limits.WEB_PAGE_ROWS]
    rows = await view.desk.rows([each.seq for each in shown])
    pager = None
    if len(found) > len(shown):
        target = url("/evidence", **given, before=shown[-1].seq)
        pager = tag("p", tag("a", "Older", href=target, rel="next"), class_="pager")
    main = joined(
        tag("h1", "Evidence"),
        section("Proofs", _proofs(view), id_="proofs"),
        _filters(given),
        _table(shown, rows),
        pager,
    )
    return Page("Evidence", main)


def _asked(given: Mapping[str, str]) -> dict[str, str]:
    work = given["work"]
    if work and "/" not in work:
        work = f"issue/{work}"
    return {"action": given["action"], "result": given["result"], "work": work}


def _filters(given: Mapping[str, str]) -> Markup:
    names = (tag("option", name, value=name) for name in sorted(host_actions()))
    results = (
        tag("option", name or "any", value=name, selected=name == given["result"])
        for name in dict.fromkeys(["", "accepted", "refused", given["result"]])
    )
    return tag(
        "form",
        tag("label", "Action ", _text("action", given["action"], "actions")),
        tag("datalist", names, id="actions"),
        tag("label", "Result ", tag("select", results, name="result")),
        tag("label", "Work ", _text("work", given["work"])),
        tag("button", "Show"),
        tag("a", "All", href="/evidence") if any(given.values()) else None,
        method="get",
        action="/evidence",
        class_="filters",
        role="search",
    )


def _text(name: str, value: str, choices: str | None = None) -> Markup:
    return tag("input", type="search", name=name, value=value, list=choices, size=16)


def _table(steps: Steps, rows: Mapping[int, journal.Row]) -> Markup:
    columns = ("row", "when", "action", "result", "work", "fence", "who", "chain")
    made = (
        [
            row_link(each.seq),
            moment(each.at_ms),
            tag("code", each.action),
            state("accepted") if not each.is_refused else tag("code", each.result, class_="bad"),
            work_link(each.work) if each.work else "",
            "" if each.fence is None else each.fence,
            plain(each.who),
            _link_of_chain(each.seq, rows),
        ]
        for each in steps
    )
    return table(columns, made, caption="Rows, newest first", empty="No row is so.")


def _link_of_chain(seq: int, rows: Mapping[int, journal.Row]) -> Child:
    """The digest of a row; loud where the next row was chained to another."""
    if seq not in rows:
        return ""
    digest = rows[seq].digest
    after = rows.get(seq + 1)
    if after is not None and _prev(after) != digest:
        return tag("strong", f"row {seq + 1} is chained to another row", class_="bad")
    return tag("code", digest[:_DIGEST_SHOWN], title=digest)


def _prev(row: journal.Row) -> str:
    found: str = orjson.loads(row.response)["effect"]["prev"]
    return found


# --- proofs ---------------------------------------------------------------------------------------


def _proofs(view: PageView) -> Markup:
    begin = (
        tag(
            "form",
            csrf(view.visitor),
            tag("input", type="hidden", name="back", value="/evidence"),
            tag("button", name.capitalize()),
            method="post",
            action=f"/prove/{name}",
        )
        for name in PROOFS
    )
    rows = ([*_proof_cells(view, each)] for each in view.tasks.tasks)
    columns = ("proof", "by", "began", "how far", "")
    made = table(columns, rows, caption="Proofs", empty="None was asked for yet.")
    words = "Verify holds the trajectory against the journal; replay decides every request again."
    return joined(tag("div", begin, tag("span", words), class_="bar"), made)


def _proof_cells(view: PageView, task: ProofTask) -> list[Child]:
    return [
        tag("a", f"{task.proof} {task.number}", href=f"/evidence/proof/{task.number}"),
        plain(task.by_name),
        moment(task.began_ms),
        _how_far(task),
        _stop(view, task),
    ]


def _how_far(task: ProofTask) -> Child:
    if task.is_running:
        most = max(1, task.of_rows)
        bar = tag(
            "progress",
            f"{task.rows} of {task.of_rows}",
            value=task.rows,
            max=most,
            data_proof=task.number,
            aria_label=f"{task.proof} {task.number}",
        )
        return joined(bar, f" {task.rows} of {task.of_rows or '?'} rows")
    report = task.report or {}
    if report.get("result") == "accepted":
        return joined(state("ok"), f" {report.get('rows', 0)} rows")
    return joined(state("problem"), f" {report.get('mismatch') or report.get('diagnostic', '')}")


def _stop(view: PageView, task: ProofTask) -> Child:
    if not task.is_running:
        return ""
    return tag(
        "form",
        csrf(view.visitor),
        tag("input", type="hidden", name="back", value="/evidence"),
        tag("button", "Stop", class_="quiet"),
        method="post",
        action=f"/prove/{task.number}/stop",
    )


async def proof_page(view: PageView) -> Page:
    """One proof: how far it is, and what it found."""
    task = view.tasks.find(view.request.path_params["number"])
    if task is None:
        return Page("No such proof", told("There is no such proof.", is_bad=True), 404)
    report = task.report or {}
    main = joined(
        tag("h1", f"{task.proof.capitalize()} {task.number}"),
        tag("p", _how_far(task), " ", _stop(view, task), class_="bar"),
        facts(
            [
                ("began", moment(task.began_ms)),
                ("took", duration(task.ended_ms - task.began_ms) if task.ended_ms else None),
                ("rows", str(report.get("rows", ""))),
                ("head", tag("code", str(report["head"])) if report.get("head") else None),
                ("differs", plain(str(report.get("mismatch") or ""))),
            ]
        ),
        tag("p", tag("a", "Look again", href=view.here)) if task.is_running else None,
        tag("p", tag("a", "All evidence", href="/evidence")),
    )
    return Page(task.proof.capitalize(), main)


# --- one row --------------------------------------------------------------------------------------


async def row_page(view: PageView) -> Page:
    """A row whole, with its neighbours in the chain."""
    seq = view.request.path_params["seq"]
    rows = await _near(view, seq)
    row = rows.get(seq)
    if row is None:
        said = f"There is no row {seq}; the last is {view.time.head}."
        return Page("No such row", told(said, is_bad=True), 404)
    request, answer = orjson.loads(row.request), orjson.loads(row.response)
    effect = answer["effect"]
    before = rows[seq - 1].digest if seq - 1 in rows else GENESIS
    broken = None
    if effect["prev"] != before:
        broken = told("It is chained to another row than the one before.", is_bad=True)
    work = effect["issueId"] and f"issue/{effect['issueId']}"
    work = work or (effect.get("jobId") and f"job/{effect['jobId']}") or ""
    main = joined(
        tag("h1", f"Row {seq}"),
        tag(
            "p",
            tag("a", "Before", href=f"/evidence/{seq - 1}", rel="prev") if seq > 1 else None,
            " ",
            tag("a", "After", href=f"/evidence/{seq + 1}", rel="next") if seq + 1 in rows else None,
            class_="pager",
        ),
        broken,
        facts(
            [
                ("action", tag("code", request["action"])),
                ("result", _result(answer)),
                ("why", plain(str(answer.get("diagnostic", "")))),
                ("work", work_link(work) if work else None),
                ("fence", str(effect["fence"]) if effect["fence"] is not None else None),
                ("door", f"{request['door']}"),
                ("when", moment(row.wall_ms)),
                ("stamp", f"{row.wall_ms}.{row.counter} of {row.node}, epoch {row.epoch}"),
                ("digest", tag("code", row.digest)),
                ("previous", tag("code", effect["prev"])),
                ("state", tag("code", row.state_digest)),
            ]
        ),
        _copying(seq),
        section("Request", _pretty(request)),
        section("Envelope", _pretty(effect)),
        section("Answer", _pretty({key: answer[key] for key in answer if key != "effect"})),
        section("Changes", _pretty(orjson.loads(row.changes))),
    )
    return Page(f"Row {seq}", main)


async def _near(view: PageView, seq: int) -> dict[int, journal.Row]:
    """A row and its neighbours; none where there can be no such row."""
    if not 0 < seq <= view.time.head:
        return {}
    return await view.desk.rows([seq - 1, seq, seq + 1])


def _result(answer: Mapping[str, Any]) -> Markup:
    if answer["result"] == "accepted":
        return state("accepted")
    return joined(state("refused"), " ", tag("code", ", ".join(answer["failureClasses"])))


def _copying(seq: int) -> Markup:
    if seq > _VECTOR_ROWS_MAX:
        said = f"A vector is a whole beginning, of at most {_VECTOR_ROWS_MAX} rows; "
        return tag("p", said, tag("code", "understudy replay"), " proves this one too.")
    target = f"/evidence/{seq}/vector"
    return tag(
        "p",
        tag("a", "As a vector", href=target, data_copy_url=target),
        f": the first {seq} rows, as the conformance tests have them",
    )


def _pretty(value: object) -> Markup:
    text = json.dumps(value, indent=2, ensure_ascii=False)
    cut = len(text) > _JSON_LENGTH_MAX
    more = f"\n… {len(text) - _JSON_LENGTH_MAX} characters more" if cut else ""
    return tag("pre", text[:_JSON_LENGTH_MAX] + more, class_="json", tabindex="0")


async def vector(view: PageView) -> Response:
    """The journal's beginning up to a row as a vector that holds, or why it makes none."""
    seq = view.request.path_params["seq"]
    if not 0 < seq <= min(_VECTOR_ROWS_MAX, view.time.head):
        return JSONResponse({"error": f"a vector has 1 to {_VECTOR_ROWS_MAX} rows"}, 404)
    rows = await view.desk.rows(range(1, seq + 1))
    try:
        body = await view.desk.in_thread(
            lambda: vector_of([rows[each] for each in sorted(rows)], f"row_{seq}")
        )
    except NoVector as error:
        return JSONResponse({"error": str(error)}, 409)
    name = f'attachment; filename="row_{seq}.json"'
    text = json.dumps(body, ensure_ascii=False, indent=2, sort_keys=True)
    return Response(text + "\n", 200, {"content-disposition": name}, "application/json")
