"""`understudy guard`: exit 0 only while a fence is current."""

import os

import click

from ....authority.service import fence_check
from ....contracts import limits
from ..entry import yes
from ..session import Session, common, print_bytes


@click.command()
@click.option(
    "--resource",
    metavar="FAMILY/ID",
    help="issue/ID, job/ID, spec/ID, dispatch/JOB or glue/BRANCH.  "
    "[default: UNDERSTUDY_ISSUE, _JOB or _GLUE]",
)
@click.option(
    "--fence",
    type=click.IntRange(1, limits.INTEGER_MAX),
    help="The fence, from the claim.  [default: UNDERSTUDY_FENCE]",
)
@common
def guard(session: Session, resource: str | None, fence: int | None) -> None:
    """Exit 0 only while that fence is current, and not past its deadline.

    For git hooks, and for scripts before they touch what the authority cannot protect. Without
    options it guards the issue or job that its process was started for, by `understudy exec` or a
    worker.
    It reads, takes no lock and leaves no row, and asks the sidecar where one runs.

    Exit codes: 0 current; 6 fence or lease lost; 5 the work is done; 3 no such resource.
    """
    held, number = _named(session, resource, fence)
    standing = fence_check.glance(session.state_dir, held, number, session.boundary)
    if standing.failure is None:
        print_bytes(yes(standing, as_json=session.as_json))
        return
    refusal = {
        "result": "rejected",
        "failureClasses": [standing.failure],
        "diagnostic": standing.diagnostic,
        "resource": held,
        "fence": number,
        "current": standing.fence or None,
    }
    session.finish(refusal, str)


def _named(session: Session, resource: str | None, fence: int | None) -> tuple[str, int]:
    """What to guard: as it is said, or as a worker's environment says it; never half and half."""
    known = " or ".join(f"{each}/ID" for each in fence_check.families())
    if resource is None and fence is None:
        own, text = fence_check.own_resources(), os.environ.get("UNDERSTUDY_FENCE", "")
        if len(own) > 1:
            raise click.UsageError(f"say --resource and --fence; the environment names {own}")
        if own and not fence_check.is_at_home(session.state_dir):
            said = f"the lease in the environment is of another authority than {session.state_dir}"
            raise click.UsageError(f"{said}; say --resource and --fence")
        if own and text.isascii() and text.isdecimal():
            return own[0], int(text)
        raise click.UsageError(f"say --resource {known} --fence N; the environment names neither")
    if resource is None or fence is None:
        raise click.UsageError("--resource and --fence belong together")
    if not fence_check.is_resource(resource):
        raise click.UsageError(f"no resource `{resource}`; resources are named {known}")
    return resource, fence
