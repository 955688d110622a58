"""`understudy spend` and `understudy budget`: what work costs, and what it may cost."""

from collections.abc import Callable
from typing import Any

import click

from ....contracts import usd_micros
from .. import known_ids
from ..options import Decorator, context, exact_ms, lease_by, mutation, payload, stack, with_holder
from ..render import amount_text
from ..request import Answer, change, read
from ..session import Session, common

_PERS = ("attempt", "work", "label", "tree", "day")


class Exact(click.ParamType[int]):
    """A decimal number, taken over exactly as a whole number of small units."""

    def __init__(self, name: str, scale: Callable[[str], int]) -> None:
        self.name = name
        self._scale = scale

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return self._scale(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


USD, TIME = Exact("USD", usd_micros), Exact("TIME", exact_ms)


def amounts(suffix: str, words: str) -> Decorator:
    """The three units, each as the member of a payload."""
    return stack(
        click.option("--tokens", f"tokens{suffix}", type=int, help=f"Tokens{words}."),
        click.option("--usd", f"usd_micros{suffix}", type=USD, help=f"Dollars{words}: 0.25."),
        click.option("--seconds", f"milliseconds{suffix}", type=TIME, help=f"Time{words}: 90s."),
    )


@click.group(invoke_without_command=True)
@click.option(
    "--issue",
    "id",
    envvar="UNDERSTUDY_ISSUE",
    shell_complete=known_ids.issues,
    help="The issue.  [what you work on]",
)
@click.option(
    "--job",
    "job_id",
    envvar="UNDERSTUDY_JOB",
    shell_complete=known_ids.jobs,
    help="Or the job.",
)
@amounts("", " spent")
@lease_by("holder_name", "issue or the job", "--assignee", "--worker")
@mutation
@common
@click.pass_context
def spend(ctx: click.Context, /, session: Session, **options: Any) -> None:
    """Say what the work that you hold has cost since you said so last.

    At 80 % of a budget the answer warns; at 100 % the lease ends, and the command is stopped.
    A command that `up` or `exec` runs needs no options but the amounts. It can as well write lines
    such as `tokens=1200 usd=0.012 seconds=3.5` to the file that UNDERSTUDY_SPEND_FILE names.

    \b
      understudy spend --tokens 1200 --usd 0.012
      understudy spend report
    """
    if ctx.invoked_subcommand is not None:
        return
    if options["id"] is not None and options["job_id"] is not None:
        raise click.UsageError("--issue and --job: say one of them")
    absent, role = ("job_id", "assignee") if options["job_id"] is None else ("id", "worker")
    options[role] = options.pop("holder_name")
    given = with_holder({name: value for name, value in options.items() if name != absent})
    answer = session.ask("spend.report", payload(given), context(given))
    session.finish(answer, _reported)


@spend.command()
@click.option("--issue", "id", shell_complete=known_ids.issues, help="Of this issue.")
@click.option("--job", "job_id", shell_complete=known_ids.jobs, help="Of this job.")
@read("spend.show")
def report(said: Answer) -> str:
    """Show what was spent, and the budgets; of one issue or job, how much of each is used up."""
    if "total" not in said:
        lines = [_spent_line(said["spend"])] if "spend" in said else ["nothing was spent"]
        return "\n".join([*lines, *map(_used, said["budgets"])])
    rows = [(each["scope"], each["total"], each["today"]) for each in said["tallies"]]
    width = max((len(scope) for scope, _, _ in rows), default=0)
    lines = [f"{scope:<{width}}  {amount_text(total)}  (last day: {amount_text(today)})"
             for scope, total, today in rows]  # fmt: skip
    lines += [_spent_line(each) for each in said["spends"]]
    return "\n".join([*lines, *map(_capped, said["budgets"])]) or "nothing was spent"


@click.group()
def budget() -> None:
    """Say what work may cost. A budget stays until it is cleared.

    SCOPE is * for all work, label/L, kind/K (with a dot at its end, all kinds below), tree/NAME,
    issue/ID or job/ID.
    """


@budget.command("set")
@click.argument("scope")
@click.option("--per", type=click.Choice(_PERS), required=True, help="What is summed up.")
@amounts("_max", " at most")
@change("budget.set")
def set_(said: Answer) -> str:
    """Cap what SCOPE may cost; what was spent before counts."""
    return _capped(said["budgets"][0])


@budget.command()
@click.argument("scope", shell_complete=known_ids.scopes)
@click.option("--per", type=click.Choice(_PERS), help="Only this one.  [all of the scope]")
@change("budget.clear")
def clear(said: Answer) -> str:
    """Take a budget away. Issues that it blocked stay blocked until they are opened."""
    return "\n".join(f"cleared {each['scope']} per {each['per']}" for each in said["budgets"])


@budget.command("list")
@read("budget.list")
def list_(said: Answer) -> str:
    """Show all budgets."""
    return "\n".join(map(_capped, said["budgets"])) or "no budgets"


# --- budgets by options of other commands ---------------------------------------------------------

_CAPS = {"usd": (USD, "usdMicrosMax"), "tokens": (click.INT, "tokensMax")}
_CAPS |= {"seconds": (TIME, "millisecondsMax")}
_OPTIONS = {"attempt": "attempt", "issue": "work", "label": "label", "tree": "tree", "day": "day"}


def capped(*pers: str) -> Decorator:
    """`--max-usd-per-issue` and so on, for commands that run work."""
    return stack(
        *(
            click.option(
                f"--max-{unit}-per-{per}",
                type=kind,
                help=f"Set the budget: {unit} for each {per}.",
            )
            for per in pers
            for unit, (kind, _) in _CAPS.items()
        )
    )


def set_budgets(session: Session, scope: str, options: dict[str, Any]) -> None:
    """The budgets that options ask for; a refusal ends the command."""
    for per, summed in _OPTIONS.items():
        caps = {
            member: options[f"max_{unit}_per_{per}"]
            for unit, (_, member) in _CAPS.items()
            if options.get(f"max_{unit}_per_{per}") is not None
        }
        if caps:
            answer = session.ask("budget.set", {"scope": scope, "per": summed} | caps)
            if answer["result"] != "accepted":
                session.finish(answer, str)


# --- text for people ------------------------------------------------------------------------------


def _reported(said: Answer) -> str:
    lines = [_spent_line(said["spend"]), *map(_used, said["budgets"])]
    if said["stopped"]:
        lines.append("the budget is used up: the lease has ended")
    return "\n".join(lines)


def _spent_line(spend: dict[str, Any]) -> str:
    total, attempt = amount_text(spend["total"]), amount_text(spend["attempt"])
    return f"{spend['resource']}  {total}  (last attempt: {attempt})"


def _used(use: dict[str, Any]) -> str:
    mark = {"warning": "  warning", "exceeded": "  exceeded"}.get(use["state"], "")
    return f"{use['percent']} % of {_capped(use)}{mark}"


def _capped(one: dict[str, Any]) -> str:
    caps = {name: one[f"{name}Max"] for name in _UNITS if f"{name}Max" in one}
    return f"{one['scope']} per {one['per']}: {amount_text(caps)}"


_UNITS = ("usdMicros", "tokens", "milliseconds")
