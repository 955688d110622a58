"""`understudy vectors`: run the conformance vectors, and say which do not hold."""

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from ....authority.conformance import (
    Result,
    UnknownBoundary,
    Vector,
    load_vectors,
    require_boundary,
    rewrite,
    run_vector,
)
from ....contracts import Exit
from ..session import LeaveCommand, print_json


@click.group()
def vectors() -> None:
    """Run the conformance vectors: proofs by example, each twice, byte for byte."""


@vectors.command("list")
@click.option("--suite", metavar="SUITE", help="Only this suite.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("names", nargs=-1)
def list_command(suite: str | None, names: tuple[str, ...], *, as_json: bool) -> None:
    """Show what each vector proves."""
    chosen = _chosen(suite, names)
    if as_json:
        rows = [_row(vector) for vector in chosen]
        print_json({"vectors": rows, "count": len(rows)})
        return
    for vector in chosen:
        click.echo(f"{vector.id}\n    {vector.body['why']} ({vector.body['clause']})")
    click.echo(f"{len(chosen)} vectors")


@vectors.command("run")
@click.option("--boundary", metavar="MODE", help="Who decides.  [default: reference]")
@click.option("--suite", metavar="SUITE", help="Only this suite.")
@click.option(
    "--rewrite", "refresh", is_flag=True, help="For developers: fill in the digests anew."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.argument("names", nargs=-1)
@click.pass_context
def run_command(
    ctx: click.Context,
    boundary: str | None,
    suite: str | None,
    names: tuple[str, ...],
    *,
    refresh: bool,
    as_json: bool,
) -> None:
    """Run all vectors, or those whose id contains one of NAMES.

    --rewrite changes the digests alone, and only where every expectation of the vector holds.
    """
    mode = boundary or (ctx.find_root().obj or {}).get("boundary") or "reference"
    try:
        require_boundary(mode)
    except UnknownBoundary as error:
        raise click.UsageError(str(error)) from None
    judge = rewrite if refresh else run_vector
    chosen = _chosen(suite, names)
    with _progress(len(chosen)) as step:
        results = []
        for vector in chosen:
            results.append(judge(vector, mode))
            step(vector.id)
    _finish(results, mode, as_json=as_json)


def _chosen(suite: str | None, names: Sequence[str]) -> list[Vector]:
    chosen = [
        vector
        for vector in load_vectors()
        if suite in (None, vector.suite) and (not names or any(name in vector.id for name in names))
    ]
    if not chosen:
        raise click.UsageError("no vector has this name; `understudy vectors list` shows all")
    return chosen


@contextmanager
def _progress(length: int) -> Iterator[Any]:
    """A bar on a terminal, and nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    with click.progressbar(
        length=length, label="vectors", file=sys.stderr, item_show_func=lambda name: name
    ) as bar:
        yield lambda name: bar.update(1, name)


def _finish(results: list[Result], boundary: str, *, as_json: bool) -> None:
    failed = [result for result in results if not result.ok]
    if as_json:
        report = {
            "boundary": boundary,
            "vectors": len(results),
            "passed": len(results) - len(failed),
            "failed": [
                {**_row(each.vector), "problems": [*each.problems, *each.stale]} for each in failed
            ],
        }
        print_json(report)
    else:
        _say(results, failed, boundary)
    if failed:
        raise LeaveCommand(Exit.CHECK_FAILED)


def _say(results: list[Result], failed: list[Result], boundary: str) -> None:
    total = Counter(result.vector.suite for result in results)
    broken = Counter(result.vector.suite for result in failed)
    width = max(map(len, total))
    for suite, count in sorted(total.items()):
        verdict = f"{broken[suite]} failed" if broken[suite] else "ok"
        click.echo(f"{suite:<{width}}  {count - broken[suite]:>4} of {count:<4} {verdict}")
    for result in failed:
        click.echo(f"\n{result.vector.id}: {result.vector.body['why']}", err=True)
        for problem in (*result.problems, *result.stale):
            click.echo(f"    {problem}", err=True)
    good = len(results) - len(failed)
    click.echo(f"{good} of {len(results)} vectors hold on the {boundary} boundary, twice each")


def _row(vector: Vector) -> dict[str, Any]:
    body = vector.body
    return {"id": vector.id, "kind": body["kind"], "why": body["why"], "clause": body["clause"]}
