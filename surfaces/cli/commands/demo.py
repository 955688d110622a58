"""`understudy demo`: a whole tree at work, with a worker killed, one frozen, and a zombie refused.

Twelve issues that wait for one another, four workers, all of them real processes. What happens to
them is written to the journal, and at the end the journal alone proves it. The second act, on a
repository, is in `demo_descent.py`.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click

from ....actors.tree import RUN_FOLDER, Plan, Tree, shell_command
from ....authority import TRAJECTORY, Office, create_state_dir
from ....authority.service import client
from ....authority.views import replay, trajectory
from ....contracts import Exit
from ...web.link_socket import SESSIONS
from ..render import coloured
from ..session import LeaveCommand, Session, common, print_json
from ..tree_text import CLEAR, painted
from ..web_options import PORT_DEFAULT
from . import demo_descent

_WORK = {
    "design": (),
    "grammar": ("design",),
    "lexer": ("grammar",),
    "parser": ("grammar",),
    "types": ("design",),
    "checker": ("parser", "types"),
    "codegen": ("checker",),
    "linker": ("design",),
    "docs": ("grammar",),
    "tests": ("parser",),
    "package": ("codegen", "linker", "tests"),
    "release": ("package", "docs"),
}
_KILLED, _FROZEN = "parser", "types"
_COMMAND = 'echo "working on $UNDERSTUDY_ISSUE"; exec sleep {:.1f}'
_JOB_SECONDS = 3  # then a worker that hangs is stopped
_PATIENCE_SECONDS = 180
_BROWSER_SECONDS = 120  # then the demo begins without one


@click.command()
@click.option(
    "--web",
    "port",
    type=click.IntRange(0, 65_535),
    is_flag=False,
    flag_value=PORT_DEFAULT,
    metavar="[PORT]",
    help=f"Show the first act in your browser, at a slower pace.  [{PORT_DEFAULT}]",
)
@common
def demo(session: Session, port: int | None) -> None:
    """Watch a tree work: one worker is killed, one frozen, and a late write is refused.

    Four workers take twelve issues in the order of their dependencies. One worker is killed in the
    middle (SIGKILL) and one frozen (SIGSTOP); others take their parts. Then the frozen one's fence
    is used to write, and refused.

    In the second act four workers share a git repository, in a worktree each. What fits is merged;
    what does not goes back with the reason; late work and a late move of the branch are refused.
    Everything happens in a folder that is removed at the end.

    With --web it prints a link to the console, waits for your browser, and plays there what is
    otherwise told here. The console stays until Ctrl-C.
    """
    with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder:
        first = Demo(Path(folder) / "state", quiet=session.as_json, port=port)
        with first.console() as stay:
            report = first.play()
            report["descent"] = second_act(Path(folder) / "descent", first.say)
            stay()
    if session.as_json:
        print_json(report)
    if "rejected" in (report["result"], report["descent"]["result"]):
        click.echo("error: the demo did not go as it should; this is a bug", err=True)
        raise LeaveCommand(Exit.FAILED)


def second_act(folder: Path, say: demo_descent.Say) -> dict[str, Any]:
    """What came of it, or why it was left out."""
    why = demo_descent.missing()
    say("", "")
    if why:
        say("descent", f"many workers on one repository: left out, {why}")
        return {"result": "skipped", "why": why}
    return demo_descent.DescentAct(folder, say).play()


class Demo:
    """Starts a tree, disturbs it, and proves what came of it."""

    def __init__(self, state_dir: Path, *, quiet: bool, port: int | None = None) -> None:
        self._state_dir, self._quiet = state_dir, quiet
        self._moves = sys.stdout.isatty() and not quiet and port is None
        self._begun = time.monotonic()
        self._told: list[str] = []
        self._terms: dict[int, dict[str, Any]] = {}  # by fence: those that were seen
        self._fences: dict[str, int] = {}  # of the workers that were killed or frozen
        self._frozen_pid = 0
        self._refusal: list[str] = []
        self._port = port  # of the console, if there is one
        self._console: subprocess.Popen[bytes] | None = None
        self._is_over = False  # there is no picture any more that lines would spoil
        create_state_dir(state_dir, "demo")

    def play(self) -> dict[str, Any]:
        self._prepare()
        plan = Plan(
            state_dir=self._state_dir,
            argv=shell_command(_COMMAND.format(0.8 * self._slowness)),
            slots=4,
            grace_ms=500,
            job_ms=_JOB_SECONDS * 1000 * self._slowness,
        )
        try:
            with Tree(plan) as tree:
                self.say("tree", "up: an authority, an evidence writer, a dispatcher, 4 workers")
                self._show()
                self._watch(tree)
        finally:
            self._thaw()
        return self._review()

    def _prepare(self) -> None:
        with Office(self._state_dir) as office:
            for name, waits_for in _WORK.items():
                office.ask("issue.add", {"id": name, "title": f"Do the {name}"})
                for other in waits_for:
                    office.ask("dep.add", {"id": name, "dependsOnId": other})
            if self._port is not None:
                office.ask("pause.set", {"byName": "demo", "reason": "until your browser is here"})

    @property
    def _slowness(self) -> int:
        """A person who watches needs more time than one who reads lines."""
        return 1 if self._port is None else 3

    # --- the console ----------------------------------------------------------------------------

    @contextmanager
    def console(self) -> Iterator[Callable[[], None]]:
        """In here a console may be shown; what it yields waits until the person has seen enough."""
        try:
            yield self._stay
        finally:
            if self._console is not None:
                self._console.terminate()
                self._console.wait()

    def _show(self) -> None:
        """Start the console beside the tree, and begin when a browser has come."""
        if self._port is None:
            return
        words = [sys.executable, "-m", "understudy", "web", "--port", str(self._port)]
        self._console = subprocess.Popen(  # noqa: S603 - this very program
            [*words, "--state-dir", str(self._state_dir)],
            stdin=subprocess.DEVNULL,
            stdout=None if not self._quiet else subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        come = self._state_dir / RUN_FOLDER / SESSIONS
        give_up = time.monotonic() + _BROWSER_SECONDS
        while not come.exists() and time.monotonic() < give_up:
            if self._console.poll() is not None:
                raise click.ClickException(f"no console: port {self._port} may be taken")
            time.sleep(0.1)
        with client.Client(self._state_dir, "cli") as door:
            door.ask("pause.clear", {})

    def _stay(self) -> None:
        if self._console is not None:
            self.say("", "")
            self.say("console", "is there until Ctrl-C")
            with suppress(KeyboardInterrupt):
                self._console.wait()

    # --- while it runs --------------------------------------------------------------------------

    def _watch(self, tree: Tree) -> None:
        closed: set[str] = set()
        while len(closed) < len(_WORK):
            reason = tree.wait(100)
            if reason is not None or time.monotonic() > self._begun + _PATIENCE_SECONDS:
                raise click.ClickException(f"the tree ended before its work did: {reason}")
            picture = tree.picture()
            self._look(picture["dispatcher"].get("terms", []))
            with Office(self._state_dir, writable=False) as office:
                states = office.authority.state.issues.values()
                done = {each.id for each in states if each.status == "closed"}
            for name in sorted(done - closed):
                self.say(name, "is done")
            closed = done
            if self._moves:
                click.echo(CLEAR + "\n".join([painted(picture), "", *self._told[-12:]]))

    def _look(self, terms: list[dict[str, Any]]) -> None:
        """Tell of what is new, and disturb the two that the plot wants disturbed."""
        for term in terms:
            name, fence, pid = term["issue"], term["fence"], term["pid"]
            if fence not in self._terms:
                again = f", attempt {term['attempt']}" if term["attempt"] > 1 else ""
                self.say(name, f"claimed by {term['worker']}, fence {fence}{again}")
            self._terms[fence] = term
            if name in (_KILLED, _FROZEN) and name not in self._fences and pid is not None:
                self._fences[name] = fence
                self._disturb(name, pid)
            elif name == _FROZEN and fence > self._fences.get(name, fence) and not self._refusal:
                self._write_late()

    def _disturb(self, name: str, pid: int) -> None:
        with suppress(ProcessLookupError):
            if name == _KILLED:
                os.kill(pid, signal.SIGKILL)
                self.say(name, coloured("its worker is killed (SIGKILL)", "red"))
            else:
                os.kill(pid, signal.SIGSTOP)
                self._frozen_pid = pid
                self.say(name, coloured("its worker is frozen (SIGSTOP)", "cyan"))

    def _thaw(self) -> None:
        if self._frozen_pid:
            with suppress(ProcessLookupError):
                os.kill(self._frozen_pid, signal.SIGCONT)

    def _write_late(self) -> None:
        """What the frozen worker would say if it woke up now, when another worker has its part."""
        fence = self._fences[_FROZEN]
        worker = self._terms[fence]["worker"]
        payload = {"id": _FROZEN, "assignee": worker, "leaseId": "mine", "fence": fence}
        with client.Client(self._state_dir, "mcp") as door:
            answer = door.ask("issue.update", payload | {"title": "I was first"})
        self.say(_FROZEN, f"the frozen one writes with fence {fence}")
        refused = coloured("REFUSED", "red", bold=True)
        self._refusal = answer["failureClasses"]
        self.say("", f"{refused} {self._refusal[0]}: {answer['diagnostic']}")

    # --- afterwards -----------------------------------------------------------------------------

    def _review(self) -> dict[str, Any]:
        """What the journal says about it, proved from the journal alone."""
        self._is_over = True
        with Office(self._state_dir, writable=False) as office:
            replayed = replay.replay(office.journal)
            chained, problem = trajectory.verify(self._state_dir / TRAJECTORY, office.journal)
            issues = office.authority.state.issues
            closed = [each.id for each in issues.values() if each.status == "closed"]
            attempts = {each.id: each.attempts for each in issues.values()}
        proved = replayed.mismatch is None and problem is None and chained == replayed.rows
        if proved:
            self.say("", "")
            self.say("replay", f"{replayed.rows} decisions, the same bytes again")
            self.say("verify", f"{chained} rows of evidence, chained to {replayed.head.digest}")
        disturbed = all(attempts[name] == 2 for name in (_KILLED, _FROZEN))
        good = proved and disturbed and len(closed) == len(_WORK) and self._refusal
        return {
            "result": "accepted" if good else "rejected",
            "rows": replayed.rows,
            "head": replayed.head.digest,
            "closed": len(closed),
            "attempts": attempts,
            "refusal": {"fence": self._fences.get(_FROZEN), "failureClasses": self._refusal},
        }

    def say(self, who: str, text: str) -> None:
        """A line of the run; without a name it goes on with the one before."""
        seconds = time.monotonic() - self._begun
        line = f"{seconds:5.1f} s  {coloured(f'{who:<8}', 'green')} {text}"
        line = line if who else f"{'':>18}{text}".rstrip()
        self._told.append(line)
        if not self._quiet and (not self._moves or self._is_over or not who):
            click.echo(line)
