"""`understudy check`, also `world-registry-check`, and `understudy coherence`: does it all hold?"""

from pathlib import Path
from typing import Any

import click
import orjson

from ....contracts import Exit, check_all, documents, world_registry_check
from ..options import FILE, read_file
from ..request import Answer, read
from ..session import LeaveCommand, Session, common, print_json


@click.command()
@click.option("--site-input", type=FILE, help="World routes to check instead of our own.")
@click.option("--operations", type=FILE, help="Operation registry to check instead of our own.")
@click.option("--control-plane-contract", "contract", type=FILE, help="Contract likewise.")
@click.option("--required-route-family", "families", multiple=True, metavar="FAMILY")
@click.option("--required-route-binding", "bindings", multiple=True, metavar="FAMILY=OPERATION")
@common
def check(
    session: Session,
    *,
    site_input: Path | None,
    operations: Path | None,
    contract: Path | None,
    families: tuple[str, ...],
    bindings: tuple[str, ...],
) -> None:
    """Check the contract: schemas, digests, every route pinned to its operation and world.

    Without options everything that is shipped is checked. With options only the world routes of
    the given documents are. Exit code 0, or 9 and a report that names each deviation.
    """
    if site_input or operations or contract or families or bindings:
        report = world_registry_check(
            _load(site_input, documents.SITE_INPUT),
            _load(operations, documents.OPERATIONS),
            _load(contract, documents.CONTRACT),
            families,
            [_binding(text) for text in bindings],
        )
    else:
        report = check_all()
    if session.as_json:
        print_json(report)
    else:
        for issue in report["issues"]:
            click.echo(f"{issue['path']}: {issue['message']} ({issue['failureClass']})", err=True)
        click.echo(f"contract: {report['result']}")
    if report["result"] != "accepted":
        raise LeaveCommand(Exit.CHECK_FAILED)


@click.command()
@read("coherence.check")
def coherence(said: Answer) -> str:
    """Ask the authority whether contract, registries, routes, evidence and policies fit together.

    `check` looks at what is installed here; this is the authority's own word, with evidence. Exit
    code 0, or 9 and the first thing that is wrong.
    """
    found = said["coherence"]
    lines = [f"{each['obligation']}: {each['result']}" for each in found["obligations"]]
    return "\n".join([*lines, f"check policy: {found['checkPolicyDigest'] or 'none'}"])


def _load(path: Path | None, shipped: str) -> Any:
    if path is None:
        return documents.load(shipped)
    try:
        return orjson.loads(read_file(path)) or {}  # `null` is a document, and a bad one
    except orjson.JSONDecodeError as error:
        raise click.UsageError(f"{path} is not JSON: {error}") from None


def _binding(text: str) -> tuple[str, str]:
    family, equals, operation = text.partition("=")
    if not (family and equals and operation):
        raise click.UsageError(f"`{text}` is not FAMILY=OPERATION")
    return family, operation
