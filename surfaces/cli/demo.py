"""`understudy demo`: two worker processes, one of them frozen past its lease, and one fence.

The workers are real processes, and the frozen one is stopped with SIGSTOP. Requests go through
`understudy dispatch` with a clock that runs faster, so that a lease of 30 seconds lapses in two.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, Any

import click

from ...authority import TRAJECTORY, Office, create_state_dir, replay, trajectory
from ...contracts import Exit
from .render import coloured
from .session import Leave, Session, common, print_json

_SPEED = 20  # seconds of the demo's clock in a real second
_PATIENCE_SECONDS = 60  # real time after which the demo gives up
_WORK = (
    ("parser", "Parse the configuration", None),
    ("schema", "Write the schema", None),
    ("loader", "Load and validate", "parser"),
    ("docs", "Document the format", "schema"),
)
_COLOURS = {"ada": "cyan", "bob": "magenta"}


@click.command()
@common
def demo(session: Session) -> None:
    """Two workers, one zombie, one fence: see the zombie's write refused.

    Ada claims an issue and is frozen in the middle of it. Her lease lapses, Bob takes the part,
    and when Ada wakes up and writes, the authority refuses her with the fence that won. Everything
    happens in a folder of its own, which is removed at the end.
    """
    with tempfile.TemporaryDirectory(prefix="understudy-demo-") as folder:
        stage = Stage(Path(folder) / "state", quiet=session.as_json)
        try:
            stage.play()
        finally:
            stage.end()
        report = stage.review()
    if session.as_json:
        print_json(report)
    if report["result"] != "accepted":
        click.echo("error: the demo did not go as it should; this is a bug", err=True)
        raise Leave(Exit.FAILED)


class Stage:
    """Starts the authority and the workers, carries their lines, and freezes one of them."""

    def __init__(self, state_dir: Path, *, quiet: bool) -> None:
        self._state_dir = state_dir
        self._quiet = quiet
        create_state_dir(state_dir, "demo")
        self._begun = time.monotonic()
        self._authority = _spawn(
            "understudy.surfaces.cli.main",
            "dispatch",
            "--frozen-clock",
            "--state-dir",
            str(state_dir),
        )
        self._workers: dict[str, subprocess.Popen[str]] = {}
        self._frozen: str | None = None  # the issue in whose middle Ada was stopped
        self._woken = False
        self.refusal: dict[str, Any] | None = None

    def play(self) -> None:
        self._say("", f"Two workers, four issues. The clock runs {_SPEED} times as fast.\n")
        for issue_id, title, blocker in _WORK:
            self._ask("issue.add", {"id": issue_id, "title": title})
            if blocker:
                self._ask("dep.add", {"id": issue_id, "dependsOnId": blocker})
        with selectors.DefaultSelector() as inbox:
            for name in _COLOURS:
                self._workers[name] = _spawn("understudy.surfaces.cli.player", name)
                inbox.register(_stdout(self._workers[name]), selectors.EVENT_READ, name)
            while not self._done():
                for key, _ in inbox.select(timeout=0.2):
                    self._serve(key.data)
                if time.monotonic() - self._begun > _PATIENCE_SECONDS:
                    raise click.ClickException("the demo took too long")

    def end(self) -> None:
        """Stop every process that was started, frozen ones too."""
        for process in (*self._workers.values(), self._authority):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.terminate()
            process.communicate()

    def review(self) -> dict[str, Any]:
        """What the journal says about it, proved from the journal alone."""
        with Office(self._state_dir, writable=False) as office:
            replayed = replay.replay(office.journal)
            chained, problem = trajectory.verify(self._state_dir / TRAJECTORY, office.journal)
            closed = [i for i in office.authority.state.issues.values() if i.status == "closed"]
        proved = replayed.mismatch is None and problem is None and chained == replayed.rows
        if proved:
            self._say("", "")
            self._say("replay", f"{replayed.rows} decisions, the same bytes again")
            self._say("verify", f"{chained} rows of evidence, chained to {replayed.head.digest}")
        good = proved and self.refusal is not None and len(closed) == len(_WORK)
        return {
            "result": "accepted" if good else "rejected",
            "rows": replayed.rows,
            "head": replayed.head.digest,
            "closed": len(closed),
            "refusal": self.refusal,
        }

    # --- one line from a worker -----------------------------------------------------------------

    def _serve(self, name: str) -> None:
        worker = self._workers[name]
        line = _stdout(worker).readline()
        if not line:
            raise click.ClickException(f"{name} ended before the demo did")
        request = json.loads(line)
        answer = self._ask(request["action"], request["payload"])
        self._tell(name, request, answer)
        assert worker.stdin is not None
        worker.stdin.write(json.dumps(answer) + "\n")
        worker.stdin.flush()
        self._direct(name, request, answer)

    def _direct(self, name: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        """The plot: freeze Ada in her first issue; wake her as soon as Bob holds it."""
        claimed = request["action"] == "issue.claim_next" and answer.get("issue", {}).get("id")
        if name == "ada" and claimed and self._frozen is None:
            self._frozen = claimed
            self._workers["ada"].send_signal(signal.SIGSTOP)
            self._say("ada", f"is frozen in the middle of {claimed} (SIGSTOP)")
        elif name == "bob" and claimed and claimed == self._frozen:
            self._woken = True
            self._workers["ada"].send_signal(signal.SIGCONT)
            self._say("ada", "wakes up (SIGCONT), sure that the work is still hers")
            self._serve("ada")

    def _tell(self, name: str, request: dict[str, Any], answer: dict[str, Any]) -> None:
        action, payload = request["action"], request["payload"]
        if answer["result"] != "accepted":
            self.refusal = {"by": name, "failureClasses": answer["failureClasses"]}
            self.refusal |= {"fence": payload.get("fence"), "current": answer["effect"]["fence"]}
            self._say(name, f"writes {payload['id']} with fence {payload['fence']}")
            refused = coloured("REFUSED", "red", bold=True)
            self._say("", f"{refused} {answer['failureClasses'][0]}: {answer['diagnostic']}")
        elif action == "issue.claim_next" and "issue" in answer:
            issue = answer["issue"]
            verb = "reclaims" if issue["attempts"] > 1 else "claims"
            self._say(name, f"{verb} {issue['id']}, fence {issue['lease']['fence']}")
        elif action == "issue.close":
            self._say(name, f"closes {payload['id']} with fence {payload['fence']}")

    # --- the authority --------------------------------------------------------------------------

    def _ask(self, action: str, payload: dict[str, Any]) -> dict[str, Any]:
        request = {"action": action, "payload": payload, "now": self._now_ms()}
        assert self._authority.stdin is not None
        self._authority.stdin.write(json.dumps(request) + "\n")
        self._authority.stdin.flush()
        line = _stdout(self._authority).readline()
        if not line:
            raise click.ClickException("the authority ended before the demo did")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _done(self) -> bool:
        listed = self._ask("issue.list", {"status": "closed"})
        return bool(self._woken) and len(listed["issues"]) == len(_WORK)

    def _now_ms(self) -> int:
        return 1_767_225_600_000 + int((time.monotonic() - self._begun) * 1000 * _SPEED)

    def _say(self, who: str, text: str) -> None:
        if self._quiet:
            return
        seconds = (time.monotonic() - self._begun) * _SPEED
        name = coloured(f"{who:<7}", _COLOURS.get(who, "green"))
        click.echo(f"{seconds:6.1f} s  {name} {text}" if who else f"{'':>18}{text}".rstrip())


def _spawn(module: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own modules
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,  # Ctrl-C is ours to handle
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )


def _stdout(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout
