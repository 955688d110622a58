"""`understudy import` and `understudy export`: the file that other tools read and write."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import click
import orjson

from ....authority.views import foreign_issues, issues_file
from ....contracts import BY_WIRE, FAILURES, Door, Exit, Reason, build, canonical, limits, rfc3339
from ..options import context, mutation, read_file
from ..session import LeaveCommand, Session, common, print_bytes, print_json


@click.command("import")
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.option(
    "--from",
    "source",
    type=click.Choice(sorted(foreign_issues.FORMATS)),
    help="The tracker that FILE comes from.  [our own]",
)
@click.option("--skip-bad", is_flag=True, help="Import the good lines of a damaged file.")
@click.option("--skip-existing", is_flag=True, help="Leave issues alone that exist already.")
@mutation
@common
def import_file(
    session: Session,
    file: Path | None,
    *,
    source: str | None,
    skip_bad: bool,
    skip_existing: bool,
    **options: Any,
) -> None:
    """Take over FILE (default: issues.jsonl in the state directory), whole or not at all.

    Members that we do not know and comment lines survive, and come out again with an export. A
    lease comes along with its owner, id and deadline, and gets a fence: `understudy issue leases`.
    An issue of type bug, feature or chore becomes a task with that label.

    With --from beads FILE is a `.beads/issues.jsonl`: types that we lack become labels, comments go
    to the notes, and a parent waits for its children. With --from github FILE is what this prints:

    \b
      gh issue list --state all --limit 1000 --json number,title,body,state,labels,\\
        assignees,comments,createdAt,updatedAt,closedAt,url > issues.json
    """
    file = file or session.state_dir / "issues.jsonl"
    data = read_file(file, limits.IMPORT_FILE_BYTES_MAX)
    now_text = rfc3339.record_text(time.time_ns() // 1_000_000)
    if source is not None:
        try:
            data = foreign_issues.FORMATS[source](data)
        except issues_file.BadLine as error:
            session.refuse(Exit.FAILED, Reason.IMPORT_LINE_INVALID.wire, f"{file}: {error}")
    records, problems, retyped = issues_file.read_issues(data, now_text)
    report: dict[str, Any] = {
        "result": "accepted",
        "failureClasses": [],
        "file": str(file),
        "imported": 0,
        "skipped": 0,
        "retyped": {},
        "problems": [
            {"line": one.line, "failureClass": one.reason.wire, "message": one.message}
            for one in problems
        ],
    }
    if problems and not skip_bad:
        report["result"] = "rejected"
        report["failureClasses"] = sorted({one.reason.wire for one in problems})
        _finish(session, report, Exit.FAILED)
    with session.office() as office:
        known = office.authority.state.issues
        if skip_existing:
            fresh = [record for record in records if record["id"] not in known]
            report["skipped"], records = len(records) - len(fresh), fresh
        taken = [record["id"] for record in records if record["id"] in known]
        if taken:
            report["result"], report["failureClasses"] = "rejected", ["issue_id_exists"]
            report["problems"] += [
                {"line": None, "failureClass": "issue_id_exists", "message": f"{one} exists"}
                for one in taken
            ]
            _finish(session, report, Exit.CONFLICT)
        found = Counter(retyped[each["id"]] for each in records if each["id"] in retyped)
        report["retyped"] = dict(found)
        door = Door("cli")
        evidence = context(options)
        batch = [
            build({"action": "issue.import", "payload": payload, "context": evidence}, door)
            for payload in issues_file.import_payloads(records)
        ]
        for answer in map(orjson.loads, office.submit(batch)):
            if answer["result"] != "accepted":
                # The records were examined above; what is left is who asks, the same for all rows.
                reason = BY_WIRE[answer["failureClasses"][0]]
                report["result"], report["failureClasses"] = "rejected", [reason.wire]
                problem = {"line": None, "failureClass": reason.wire}
                report["problems"].append(problem | {"message": answer["diagnostic"]})
                _finish(session, report, FAILURES[reason].exit)
            report["imported"] += answer["imported"]
    _finish(session, report, Exit.OK)


@click.command("export")
@click.argument("file", required=False)
@common
def export_file(session: Session, file: str | None) -> None:
    """Write all issues to FILE (default: issues.jsonl in the state directory; - is stdout).

    The same issues always give the same bytes; the file is replaced whole or not at all.
    """
    with session.office(writable=False) as office:
        data = issues_file.export_issues(office.authority.state)
        count, seq = len(office.authority.state.issues), office.authority.head.seq
    if file == "-":
        print_bytes(data)
        return
    path = Path(file) if file else session.state_dir / "issues.jsonl"
    issues_file.write_file(path, data, is_private=not file)
    ref = canonical.digest("iss1", data)
    if session.as_json:
        said = {"result": "accepted", "file": str(path), "issues": count, "seq": seq, "ref": ref}
        print_json(said)
    else:
        click.echo(f"wrote {count} issues to {path} ({ref})")


def _finish(session: Session, report: dict[str, Any], code: Exit) -> None:
    if session.as_json:
        print_json(report)
    else:
        for one in report["problems"]:
            where = f"line {one['line']}: " if one["line"] else ""
            click.echo(f"{where}{one['message']} ({one['failureClass']})", err=True)
        if code is Exit.OK:
            click.echo(f"imported {report['imported']}, skipped {report['skipped']}")
            for name, number in sorted(report["retyped"].items()):
                click.echo(f"{number} of type {name}: a task with the label {name}")
        else:
            remedy = FAILURES[BY_WIRE[report["failureClasses"][0]]].remedy
            click.echo(f"error: nothing was imported; {remedy}", err=True)
    if code is not Exit.OK:
        raise LeaveCommand(code)
