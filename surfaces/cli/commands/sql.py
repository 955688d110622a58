"""`understudy sql`: questions to the SQL tables, from the command line or at a prompt."""

import sys
from collections.abc import Iterator

import click

from ....authority.views import sql as tables
from ..options import milliseconds, read_stdin
from ..session import Session, common, print_bytes, print_json
from ..table_text import Form, csv_lines, json_lines, table

_PART_BYTES = 65_536  # written at once


@click.command()
@click.argument("query", required=False)
@click.option("--csv", "as_csv", is_flag=True, help="Print comma-separated values.")
@click.option(
    "--timeout",
    "timeout_ms",
    type=milliseconds("1ms", "24h"),
    default="60s",
    show_default=True,
    help="How long a question may take.",
)
@click.option(
    "--wait",
    "wait_ms",
    type=milliseconds(most="1h"),
    default="2s",
    show_default=True,
    help="Wait so long for tables in PostgreSQL that are behind.",
)
@common
def sql(
    session: Session, query: str | None, *, as_csv: bool, timeout_ms: int, wait_ms: int
) -> None:
    """Ask the SQL tables: QUERY, or statements on standard input, or at a prompt.

    Nothing can be changed here. Tables: issue, dependency, lease, sublease, instance, fiber,
    chain_spec, job, spec_lease, dispatch_lease; `.schema` at the prompt says what is in them. How
    many rows of the journal an answer knows of is said on standard error. With --json, one object
    a row.

    \b
    Jobs that are free or dispatched, by kind:
      understudy sql "SELECT kind, status, count(*) AS jobs FROM job
                      WHERE status IN ('pending', 'dispatched') GROUP BY kind, status"
    Who holds what until when:
      understudy sql "SELECT owner, resource, fence, deadline_ms FROM lease
                      ORDER BY owner, deadline_ms"
    Specs, and how far they are:
      understudy sql "SELECT spec_id, status, materialized, steps, (SELECT count(*) FROM job
                      WHERE job.spec_id = chain_spec.spec_id AND job.status = 'completed') AS done
                      FROM chain_spec ORDER BY submitted_ms"
    """
    if session.as_json and as_csv:
        raise click.UsageError("--json and --csv are two forms of one answer: name one")
    form = json_lines if session.as_json else csv_lines if as_csv else table
    with tables.opened(session.state_dir, timeout_ms / 1_000, wait_ms / 1_000) as inquiry:
        if query is None and sys.stdin is not None and sys.stdin.isatty():
            from ..sql_prompt import Shell  # most ask one thing

            Shell(inquiry, form).run()
            return
        statements = _statements(query)
        if not statements:
            raise click.UsageError("there is no question: name one, or send it on standard input")
        try:
            fresh = inquiry.freshen()
            for statement in statements:
                count = put(inquiry, statement, form)
                _tell(session, fresh, count)
        except tables.BadQuery as error:
            raise click.ClickException(f"{error} (`understudy sql --help` has examples)") from None


def put(inquiry: tables.Inquiry, statement: str, form: Form) -> int:
    """Ask, and print the answer as it comes; how many rows there were."""
    answer = inquiry.reader.ask(statement)
    count = 0

    def counted() -> Iterator[tuple[object, ...]]:
        nonlocal count
        for row in answer.rows:
            count += 1
            yield row

    part: list[bytes] = []
    size = 0
    for line in form(answer.columns, counted()):
        part.append(line.encode(errors="replace") + b"\n")
        size += len(part[-1])
        if size >= _PART_BYTES:
            print_bytes(b"".join(part))
            part, size = [], 0
    print_bytes(b"".join(part))
    return count


def said(fresh: tables.Freshness, count: int) -> str:
    """How much that was, and how old it is."""
    rows = "1 row" if count == 1 else f"{count} rows"
    behind = f", {fresh.behind} behind the journal" if fresh.behind else ""
    return f"({rows}; as of row {fresh.watermark}{behind})"


def _tell(session: Session, fresh: tables.Freshness, count: int) -> None:
    if session.as_json:
        facts = {"rows": count, "watermark": fresh.watermark, "head": fresh.head}
        print_json(facts | {"behind": fresh.behind}, to=sys.stderr)
    else:
        click.echo(said(fresh, count), err=True)


def _statements(query: str | None) -> list[str]:
    if query is None:
        query = read_stdin().decode(errors="replace")
    found, rest = tables.split(query)
    return [*found, rest.strip()] if tables.bare(rest) else found
