"""Which scopes a piece of work is in: what operators say of a scope, they say of all work in it.

*           all work
label/L     issues with this label
kind/K      jobs of this kind, or with a dot at its end of all kinds below
issue/ID    one issue
job/ID      one job
tree/NAME   what is held under this name, or under one that begins with it and a slash
"""

from collections.abc import Iterator

from ...contracts import Issue, JobRecord, issue_resource, job_resource

ALL = "*"
FAMILIES = frozenset({"label", "kind", "issue", "job", "tree"})


def scopes_of(work: Issue | JobRecord) -> tuple[str, ...]:
    """Every scope that the work is in whoever holds it, the narrowest first."""
    if isinstance(work, JobRecord):
        kinds = (f"kind/{each}" for each in _kinds_above(work.kind))
        return (job_resource(work.job_id), *kinds, ALL)
    return (issue_resource(work.id), *(f"label/{each}" for each in work.labels), ALL)


def trees_of(work: Issue | JobRecord, owner: str | None) -> tuple[str, ...]:
    """The tree that holds the work, if one does: its workers are called after it, and claim jobs
    under its very name."""
    name, slash, _ = (owner or "").partition("/")
    return (f"tree/{name}",) if slash or (name and isinstance(work, JobRecord)) else ()


def is_scope(text: str) -> bool:
    family, slash, name = text.partition("/")
    return text == ALL or (family in FAMILIES and bool(slash) and bool(name.strip()))


def _kinds_above(kind: str) -> Iterator[str]:
    """The kind itself, then its prefixes, the longest first."""
    yield kind
    end = kind.rfind(".", 0, len(kind) - 1)
    while end >= 0:
        yield kind[: end + 1]
        end = kind.rfind(".", 0, end)
