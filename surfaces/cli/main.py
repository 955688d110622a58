"""`understudy`: the command line. Commands are imported when they are called."""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click
from click.exceptions import NoSuchCommand

from ... import __version__
from .evidence import help_evidence

# command -> module below `commands`, attribute, one line for `--help`
_COMMANDS = {
    "init": ("init", "init", "Make a state directory."),
    "where": ("where", "where", "Say which state directory is used here, and why."),
    "up": ("up", "up", "Start the supervision tree: claim, run, renew, retry, escalate."),
    "down": ("running", "down", "Stop the tree, and prove that nothing is left."),
    "status": ("running", "status", "Say in a line how the tree is."),
    "tree": ("running", "tree", "Draw the tree."),
    "top": ("running", "top", "Draw the tree again and again."),
    "cancel": ("steer", "cancel", "Give work up, and stop what runs for it."),
    "retry": ("steer", "retry", "Bring back what is blocked or cancelled, at once."),
    "reopen": ("steer", "reopen", "Open an issue again that is closed or cancelled."),
    "pause": ("steer", "pause", "Claim nothing new, everywhere or in one scope."),
    "unpause": ("steer", "unpause", "Let paused work go on."),
    "approve": ("steer", "approve", "Let work go on that waits for a person."),
    "reject": ("steer", "reject", "Refuse work that waits for a person."),
    "issue": ("issue", "issue", "Add, find, claim, change and close work."),
    "resume": ("handover", "resume", "Show what the last holder of an issue left."),
    "dep": ("dep", "dep", "Say which issue waits for which."),
    "sublease": ("sublease", "sublease", "Lend parts of a lease to subagents."),
    "instance": ("sublease", "instance", "Name the worktree or runtime that works under a lease."),
    "descent": ("descent", "descent", "Bring the work of many on one repository together."),
    "fiber": ("fiber", "fiber", "Run parts of one piece of work side by side."),
    "harness": ("harness", "harness", "Say where a worker stands, what it plans and did."),
    "observe": ("observe", "observe", "See the newest, what needs attention, and the whole."),
    "instruction": ("instruction", "instruction", "Have checks run that the policy allows."),
    "required": ("required", "required", "Which checks a change requires, and that they passed."),
    "coherence": ("check", "coherence", "Do contract, routes and policies fit together?"),
    "job": ("job", "job", "Schedule, claim and complete the jobs of a mesh."),
    "spec": ("spec", "spec", "Submit specs, whose steps become jobs, and see how far they are."),
    "schedule": ("schedule", "schedule", "Have jobs and specs made by themselves, by cron line."),
    "limit": ("schedule", "limit", "Limit how many jobs of a kind run at once, and how often."),
    "route": ("route", "route", "Say which node gets which kind of job."),
    "coordinator": ("route", "coordinator", "Say which node runs the derivation pass."),
    "node": ("route", "node", "Say which nodes take part, and what each may do."),
    "spend": ("spend", "spend", "Say what work has cost, and see what was spent."),
    "budget": ("spend", "budget", "Say what work may cost."),
    "policy": ("init", "policy", "Show or set how strict this authority is."),
    "authority": ("authority", "authority", "Run the authority as a process of its own."),
    "exec": ("exec", "exec_", "Run a command under a lease, and stop it when the lease is lost."),
    "guard": ("guard", "guard", "Exit 0 only while a fence is current: for hooks and scripts."),
    "hooks": ("hooks", "hooks", "Have git refuse a push by a worker whose lease is gone."),
    "worktree": ("worktree", "worktree", "See the git worktrees of leases, and what was left."),
    "logs": ("logs", "logs", "Show what a command printed, attempt by attempt."),
    "trace": ("trace", "trace", "Show what was done for work, as spans; send them to a collector."),
    "dispatch": ("dispatch", "dispatch", "JSON requests on stdin, answers on stdout."),
    "mcp": ("mcp", "mcp", "Serve an agent on standard streams: what MCP clients launch."),
    "web": ("web", "web", "Open the console: a page to see and steer everything."),
    "service": ("service", "service", "Have systemd keep a tree running."),
    "gateway": ("mcp", "gateway", "Serve all agents of a state directory on one socket."),
    "agent-guide": ("agent_guide", "agent_guide", "Print the page that an agent reads."),
    "import": (
        "import_export",
        "import_file",
        "Take over issues: a file of ours, of beads, or of GitHub.",
    ),
    "export": ("import_export", "export_file", "Write an issues.jsonl file."),
    "sql": ("sql", "sql", "Ask the SQL tables: jobs, specs, leases, issues. Read-only."),
    "journal": ("journal", "journal", "Say where the journal is; copy it to another engine."),
    "replay": ("replay", "replay", "Decide the whole journal again and compare the bytes."),
    "verify": ("replay", "verify", "Hold the trajectory against the journal, and replay it."),
    "rebuild": ("replay", "rebuild", "Make the tables and the trajectory anew."),
    "check": ("check", "check", "Check the contract: schemas, digests, routes, worlds."),
    "world-registry-check": ("check", "check", "The same as check."),
    "doctor": ("doctor", "doctor", "Say which mode is in use, and what is wrong."),
    "vectors": ("vectors", "vectors", "Run the conformance vectors."),
    "completion": ("completion", "completion", "Print what makes a shell complete our words."),
    "demo": ("demo", "demo", "A tree at work: a worker killed, one frozen, a zombie refused."),
    "help": ("help", "help_", "Show what a command does; `help all` lists the plumbing too."),
}
PLUMBING = "plumbing"  # what other commands use, and scripts
# what a person wants -> the commands for it
GROUPS = {
    "work": ("init", "issue", "dep", "resume", "import", "export"),
    "run": ("up", "down", "exec", "worktree", "descent", "logs", "demo"),
    "agents": ("mcp", "agent-guide", "harness", "sublease", "instance", "fiber"),
    "jobs and mesh": ("job", "spec", "schedule", "limit", "route", "coordinator", "node"),
    "operate": (
        "status", "tree", "top", "web", "trace", "observe", "cancel", "retry", "reopen",
        "pause", "unpause", "approve", "reject", "spend", "budget", "policy", "sql", "doctor",
        "where", "service", "completion", "help",
    ),
    "prove": ("verify", "replay", "guard", "hooks", "required", "instruction", "check"),
    PLUMBING: (
        "authority", "gateway", "dispatch", "journal", "rebuild", "coherence", "vectors",
        "world-registry-check",
    ),
}  # fmt: skip


class _Lazy(click.Group):
    """A group that knows its commands by name and imports one only to run it."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in _COMMANDS:
            raise NoSuchCommand(args[0], possibilities=_COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(f".commands.{module}", __package__), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """By what a person wants; the plumbing only for `understudy help all`."""
        for title, names in GROUPS.items():
            if title != PLUMBING or ctx.meta.get(PLUMBING):
                with formatter.section(title.capitalize()):
                    formatter.write_dl([(name, _COMMANDS[name][2]) for name in names])
        formatter.write_paragraph()
        formatter.write_text(
            "`understudy help COMMAND` says more; `understudy help all` lists all."
        )


@click.group(cls=_Lazy, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="understudy")
@help_evidence
@click.option(
    "--state-dir",
    metavar="DIR",
    help="Where the journal lives.  [default: UNDERSTUDY_STATE_DIR, or the nearest .premath]",
)
@click.option(
    "--boundary",
    metavar="MODE",
    help="reference, native or sidecar.  [default: the sidecar, if one runs]",
)
@click.pass_context
def cli(ctx: click.Context, /, **root: Any) -> None:
    """Exactly one worker holds each piece of work, and every decision can be replayed.

    \b
    Begin here:
      understudy init
      understudy issue add "Write the parser"
      understudy issue next --as alice
      understudy issue close us-1 --as alice --lease-id LEASE --fence FENCE

    \b
    Exit codes: 0 ok, 1 failed, 2 usage, 3 not found, 4 denied, 5 conflict,
      6 fence or lease lost, 7 unreachable, 8 frozen, 9 check failed,
      10 nothing ready, 11 work is blocked, 12 work keeps failing,
      13 done, but evidence is behind, 75 try later, 78 configuration.
    Every command takes --json and then prints one JSON object.
    """
    ctx.obj = root


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code."""
    from .session import run  # click first, so that usage errors stay fast

    sys.exit(run(cli, arguments))


if __name__ == "__main__":
    main()
