"""Write the tables of the pages in `docs/` from the tables in the code.

`make docs` runs this; a test fails while a page says something else than the code. Text between
`<!-- generated: NAME -->` and `<!-- end -->` is replaced, the rest is written by hand.
"""

import re
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from understudy.actors.otp.restart import AFFECTED, VERDICTS
from understudy.authority.journal.tables import SCHEMA
from understudy.contracts import limits
from understudy.contracts.reason import FAILURES, Exit
from understudy.contracts.records.fiber import FIBER_TRANSITIONS
from understudy.contracts.records.job import JOB_TRANSITIONS
from understudy.contracts.records.spec import SPEC_TRANSITIONS
from understudy.contracts.records.transitions import TRANSITIONS
from understudy.contracts.requests.host_actions import host_actions
from understudy.contracts.retry import retry_policy
from understudy.surfaces.mcp.reading.guide import refusals, tools

PAGES = [
    Path(__file__).with_name(name)
    for name in ("protocol.md", "otp.md", "mcp.md", "jobs.md", "specs.md", "sql.md")
]
_BLOCK = re.compile(r"(<!-- generated: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def moves(table: Mapping[tuple[str, str], str], move: str = "move") -> str:
    rows = [f"| {state} | {by} | {after} |" for (state, by), after in table.items()]
    return _table(f"| from | {move} | to |", rows)


def guards() -> str:
    ladder = sorted((f for f in FAILURES.values() if f.guard), key=lambda f: f.guard or 0)
    rows = [f"| {f.guard} | {f.meaning} | `{f.wire}` | {f.retry} |" for f in ladder]
    return _table("| # | situation | class | try again |", rows)


def failures() -> str:
    rows = [
        f"| `{f.wire}` | {f.meaning} | {f.blame} | {f.retry} | {'yes' if f.ends_lease else ''} "
        f"| {int(f.exit)} |"
        for f in FAILURES.values()
    ]
    return _table("| class | meaning | blame | try again | ends the lease | exit |", rows)


def retries() -> str:
    policy = retry_policy()
    rows = [
        f"| {each.rule_id} | {each.max_attempts} | {each.backoff_class} "
        f"| {each.escalation_action} |"
        for each in dict.fromkeys([*policy.rules.values(), policy.default])
    ]
    return _table("| rule | attempts | pause | then |", rows)


def pauses() -> str:
    rows = [
        f"| {name} | {each.base_ms:,} ms | {each.factor} | {each.cap_ms:,} ms "
        f"| {each.jitter_permille / 10:g} % |"
        for name, each in retry_policy().backoff.items()
    ]
    return _table("| pause | first | factor | greatest | jitter |", rows)


def exits() -> str:
    rows = [f"| {code.value} | {code.name.lower().replace('_', ' ')} |" for code in Exit]
    return _table("| code | meaning |", rows)


def actions() -> str:
    rows = [
        f"| `{a.action}` | `{a.operation_id}` | {a.operation_class} | {a.world_id or ''} "
        f"| {', '.join(sorted(a.transports))} |"
        for _, a in sorted(host_actions().items())
    ]
    return _table("| action | operation | class | world | transports |", rows)


def bounds() -> str:
    names = [name for name in vars(limits) if name.isupper()]
    return _table("| limit | value |", [f"| {n} | {getattr(limits, n):,} |" for n in names])


def restarts() -> str:
    rows = [f"| {restart} | {end} | {verdict} |" for (restart, end), verdict in VERDICTS.items()]
    return _table("| restart | end | what becomes of the child |", rows)


def strategies() -> str:
    rows = [f"| {name} | {', '.join(places)} |" for name, places in AFFECTED.items()]
    return _table("| strategy | who is stopped and started again |", rows)


def tables() -> str:
    rows = []
    for table in SCHEMA:
        cells = [f"**`{name}`**" if name in table.key else f"`{name}`" for name, _ in table.columns]
        unique = f" Unique: `{', '.join(table.unique)}`." if table.unique else ""
        rows.append(f"| `{table.name}` | {table.about}{unique} | {' '.join(cells)} |")
    return _table("| table | what it shows | columns |", rows)


GENERATORS: dict[str, Callable[[], str]] = {
    "transitions": partial(moves, TRANSITIONS),
    "fibers": partial(moves, FIBER_TRANSITIONS),
    "jobs": partial(moves, JOB_TRANSITIONS, "operation"),
    "specs": partial(moves, SPEC_TRANSITIONS),
} | {
    each.__name__: each
    for each in (
        guards, failures, retries, pauses, exits, actions, bounds, restarts, strategies, tables,
        tools, refusals,
    )
}  # fmt: skip


def generated(page: str) -> str:
    """The page with every table as the code has it."""
    return _BLOCK.sub(lambda m: m[1] + "\n" + GENERATORS[m[2]]() + "\n" + m[3], page)


def _table(head: str, rows: list[str]) -> str:
    rule = "|" + " --- |" * (head.count("|") - 1)
    return "\n".join([head, rule, *rows]) + "\n"


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(generated(page.read_text()))
        sys.stdout.write(f"wrote {page.name}\n")
