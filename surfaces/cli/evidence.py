"""The options of evidence: every change takes them, and `--help-evidence` alone shows them."""

import click

# member of the context -> its option, and what it says
OPTIONS = {
    "policy_digest": ("--policy-digest", "The policy that this change is bound to."),
    "instruction_ref": ("--instruction", "The instruction behind this change."),
    "capability_claims": ("--capability", "A capability that you claim; repeatable."),
}


def _show(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        click.echo(_section())
        ctx.exit()


def _section() -> str:
    formatter = click.HelpFormatter()
    formatter.write_text(
        "Every command that changes something takes these options, and keeps them with the row of "
        "its change. They are needed where `understudy policy show` says instruction-linked."
    )
    with formatter.section("Evidence"):
        formatter.write_dl([(f"{option} TEXT", text) for option, text in OPTIONS.values()])
    return formatter.getvalue().rstrip("\n")


help_evidence = click.option(
    "--help-evidence",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show,
    help="Show the options of evidence, and leave.",
)
