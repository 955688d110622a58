"""The real command line, mostly in real processes: start, talk, stop, and leave none behind."""

import io
import os
import queue
import resource
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

import apsw
import orjson

from tests.authority.sidecar.peer import served_by
from tests.long import IS_LONG
from tests.patience import PATIENCE_SECONDS, eventually
from tests.surfaces.forks import Forked
from understudy.surfaces.cli.main import cli
from understudy.surfaces.cli.session import run

ROOT = Path(__file__).parents[2]
FAILPOINT = "UNDERSTUDY_FAILPOINT"  # read when the authority is imported
UNDERSTUDY = Path(sys.executable).with_name("understudy")
Words = Sequence[str | bytes | Path]


def environment(**changes: str) -> dict[str, str]:
    """Ours without what would change a command's behaviour or its speed."""
    drop = ("UNDERSTUDY_", "PYTHONDONTWRITEBYTECODE", "NO_COLOR", "COLUMNS")
    ours = {name: value for name, value in os.environ.items() if not name.startswith(drop)}
    return ours | changes


def understudy(
    *arguments: str | bytes | Path,
    stdin: bytes = b"",
    cwd: Path | None = None,
    env: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run a command to its end."""
    words = [UNDERSTUDY, *arguments]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = launched(words, stdin=subprocess.PIPE, stdout=out.fileno(), stderr=err.fileno(),
                           cwd=cwd, env=env or {})  # fmt: skip
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(stdin)
        try:
            code = process.wait(PATIENCE_SECONDS)
        finally:
            process.kill()
        for each in (out, err):
            each.seek(0)
        return subprocess.CompletedProcess(words, code, out.read(), err.read())


def launched(
    words: Words,
    *,
    stdin: int,
    stdout: int,
    stderr: int,
    cwd: Path | None = None,
    env: Mapping[str, str],
    prepare: Callable[[], None] | None = None,
) -> "subprocess.Popen[bytes] | Forked":
    """A process of ours: a fork, unless it matters how it starts."""
    known = all(name.startswith("UNDERSTUDY_") and name != FAILPOINT for name in env)
    if words[0] == UNDERSTUDY and known and prepare is None and not IS_LONG:
        return Forked(words, stdin=stdin, stdout=stdout, stderr=stderr,
                      cwd=str(cwd or Path.cwd()), env=environment(**env))  # fmt: skip
    return subprocess.Popen(
        words,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=environment(**env),
        preexec_fn=prepare,  # noqa: PLW1509 - it only sets a limit
    )


def commanded(*arguments: str | Path) -> subprocess.CompletedProcess[bytes]:
    """As `understudy`, in this process: for tests that ask what is so, and not how a process ends.

    What a command does not catch reaches the test.
    """
    words = [str(each) for each in arguments]
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    plain = mock.patch.dict(os.environ, environment(), clear=True)
    with plain, redirect_stdout(out), redirect_stderr(err):
        code = run(cli, words)
    said = [each.detach().getvalue() for each in (out, err)]
    return subprocess.CompletedProcess(words, int(code), *said)


def report_of(*arguments: str | Path) -> dict[str, Any]:
    """What a command says with --json; it must succeed."""
    done = commanded(*arguments, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    report: dict[str, Any] = orjson.loads(done.stdout)
    return report


def encoded(requests: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(orjson.dumps(request) + b"\n" for request in requests)


class Program:
    """A process of our own. Leaving the block ends it, whatever happened."""

    def __init__(
        self,
        words: Words,
        *,
        pipes: bool = False,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.process = launched(
            words,
            stdin=subprocess.PIPE if pipes else subprocess.DEVNULL,
            stdout=subprocess.PIPE if pipes else self._said.fileno(),
            stderr=self._said.fileno(),
            cwd=cwd,
            env=env or {},
            prepare=prepare,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._said.close()

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, number: signal.Signals) -> None:
        """To this process and no other."""
        if self.process.poll() is None:
            os.kill(self.pid, number)

    def halt(self) -> None:
        """Stop it where it stands, with all its threads."""
        self.signal(signal.SIGSTOP)
        threads = Path(f"/proc/{self.pid}/task")
        eventually(lambda: {_state(each) for each in threads.iterdir()} == {"T"})

    def wake(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """No goodbye; it is gone when we come back."""
        self.signal(signal.SIGKILL)
        self.wait()

    def terminate(self) -> int:
        """Ask it to end, and wait until it has."""
        self.signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        return self.process.wait(PATIENCE_SECONDS)

    def complaint(self) -> str:
        """What it has said, but for the answers on its standard output."""
        self._said.seek(0)
        return self._said.read().decode()

    def last_words(self) -> str:
        """How a process ended that should not have."""
        return f"{self.wait()}: {self.complaint()[-500:]}"


class Dialogue(Program):
    """A process that reads a request a line, and answers in lines."""

    def __init__(
        self,
        words: Words,
        *,
        env: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(words, pipes=True, env=env, prepare=prepare)
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def write(self, data: bytes) -> None:
        """Send bytes as they are; a process that is gone reads nothing."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send(self, *requests: dict[str, Any]) -> None:
        self.write(encoded(requests))

    def line(self) -> bytes:
        """The next answer without its line feed; nothing when there are no more."""
        line = self._lines.get(timeout=PATIENCE_SECONDS)
        if not line:
            self._lines.put(line)  # the end stays the end
        return line.removesuffix(b"\n")

    def answer(self) -> dict[str, Any]:
        line = self.line()
        assert line, self.complaint()
        value: dict[str, Any] = orjson.loads(line)
        return value

    def ask(self, action: str, now: int | None = None, /, **payload: object) -> dict[str, Any]:
        """One request, and its answer."""
        request: dict[str, Any] = {"action": action, "payload": payload}
        self.send(request if now is None else request | {"now": now})
        return self.answer()

    def hang_up(self) -> None:
        """No more requests."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def finish(self) -> int:
        """Hang up, and wait for the end; what was said meanwhile can still be read."""
        self.hang_up()
        return self.wait()

    def wait(self) -> int:
        code = super().wait()
        self._reader.join(PATIENCE_SECONDS)
        return code

    def kill(self) -> None:
        super().kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()

    def rest(self) -> list[bytes]:
        """All answers that are still to come; the process must be about to end."""
        lines = []
        while line := self.line():
            lines.append(line)
        return lines

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # what a kill cut off is no answer
                self._lines.put(line)
        self._lines.put(b"")


class Dispatch(Dialogue):
    """A running `understudy dispatch`."""

    def __init__(
        self,
        state_dir: Path,
        *flags: str,
        failpoint: str | None = None,
        file_bytes_max: int | None = None,
    ) -> None:
        changes = {} if failpoint is None else {FAILPOINT: failpoint}
        if file_bytes_max is not None:
            # A limit on files would also cut off the bytecode that Python writes.
            changes["PYTHONDONTWRITEBYTECODE"] = "1"
        super().__init__(
            [UNDERSTUDY, "dispatch", "--state-dir", state_dir, *flags],
            env=changes,
            prepare=None if file_bytes_max is None else lambda: _limit_files(file_bytes_max),
        )


class Serve(Program):
    """A running `understudy authority serve`; `program` may be another way to start ours."""

    def __init__(
        self,
        state_dir: Path,
        *flags: str,
        program: Words = (UNDERSTUDY,),
        env: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.state_dir = state_dir
        words: Words = [*program, "authority", "serve", "--state-dir", state_dir, *flags]
        super().__init__(words, cwd=ROOT, env=env, prepare=prepare)

    def ready(self) -> Self:
        """Wait until this process answers on the socket."""
        eventually(lambda: self.process.poll() is not None or self.serves())
        assert self.process.poll() is None, self.complaint()
        return self

    def serves(self) -> bool:
        return served_by(self.state_dir) == self.pid


def journal_rows(state_dir: Path) -> list[tuple[Any, ...]]:
    """Every row of the journal, read past our own code: seq, epoch, request, response."""
    db = apsw.Connection(str(state_dir / "journal.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        query = "SELECT seq, epoch, request, response FROM journal ORDER BY seq"
        return db.execute(query).fetchall()
    finally:
        db.close()


@contextmanager
def room_for_files(wanted: int) -> Iterator[int]:
    """As many open files as we want, if we may; how many there may be."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, allowed), hard))
    try:
        yield max(soft, allowed)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def _state(thread: Path) -> str:
    return (thread / "stat").read_text().rpartition(")")[2].split()[0]


def _limit_files(size: int) -> None:
    """Every write beyond this offset fails with EFBIG, as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
