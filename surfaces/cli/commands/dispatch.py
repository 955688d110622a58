"""`understudy dispatch`: one JSON request a line on stdin, one answer a line on stdout."""

import os
import sys
from collections.abc import Iterator

import click

from ....contracts import limits
from ..session import Session, common, print_bytes

_CHUNK_BYTES = 262_144


@click.command()
@click.option("--frozen-clock", is_flag=True, help="Let requests bring their own time in `now`.")
@common
def dispatch(session: Session, *, frozen_clock: bool) -> None:
    """JSON requests on stdin, answers on stdout, in order.

    \b
    A request:  {"id"?, "action", "payload", "context"?, "now"?}
    An answer:  {"id", "result", "failureClasses", "seq", "stamp", "effect", ...}

    Lines that arrive together are decided in order and committed together; an answer is printed
    after its decision is on disk. This door is an `mcp` door: `context.transport` may name a weaker
    transport, never a stronger one. Where a sidecar runs, the lines go to it.
    """
    with session.open("mcp", frozen_clock=frozen_clock) as authority:
        for lines in _batches():
            print_bytes(b"".join(answer + b"\n" for answer in authority.relay(lines)))
        if authority.garbage_count:
            click.echo(f"{authority.garbage_count} lines were no requests", err=True)


def _batches() -> Iterator[list[bytes]]:
    """Whatever has arrived, as far as it is whole lines, in batches of at most `BATCH_MAX`.

    Of a line that is too long only so much is kept that the parser says so.
    """
    if sys.stdin is None:  # our parent closed it
        return
    handle = sys.stdin.fileno()
    rest, skipping = b"", False
    while chunk := os.read(handle, _CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if skipping and lines:
            skipping = False
            del lines[0]
        batch = [line for line in lines if line.strip()]
        if len(rest) > limits.REQUEST_BYTES_MAX:
            if not skipping:
                batch.append(rest[: limits.REQUEST_BYTES_MAX + 1])
            rest, skipping = b"", True
        for start in range(0, len(batch), limits.BATCH_MAX):
            yield batch[start : start + limits.BATCH_MAX]
    if rest.strip() and not skipping:
        yield [rest]
