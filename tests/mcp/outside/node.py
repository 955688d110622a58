"""Node and the packages of `package.json`: found or installed once, for all tests of all runs.

N1  The first process installs; the others wait for the lock and find it done.
N2  A folder belongs to one lock file and one Node; another of either is another folder.
N3  Where Node or the registry is missing, `Missing` says what was tried; tried once per run.

`overrides` holds rolldown, which only the Inspector's web page would use, at a version whose parts
for all platforms are published: `npm ci` refuses a lock file that misses one of them.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tests.services.server import Missing

HERE = Path(__file__).parent
CACHE = HERE.parents[2] / "build" / "mcp-outside"
_OLDEST = (22, 19)
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_PATIENCE = ("--prefer-offline", "--fetch-retries=1", "--fetch-timeout=30000")
_PATIENCE_SECONDS = 100  # less than a test has
_WORDS_MAX = 400
_PACKAGES = "node_modules/@modelcontextprotocol"
CONFORMANCE = f"{_PACKAGES}/conformance/dist/index.js"
INSPECTOR = f"{_PACKAGES}/inspector/clients/launcher/build/index.js"


@cache
def node() -> Path:
    """The Node of the virtual environment, else one on the path that is new enough."""
    tried = []
    beside = str(Path(sys.executable).parent)
    for folders in (beside, os.environ.get("PATH", "")):
        found = shutil.which("node", path=folders)
        if found is None:
            continue
        said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        words = said.stdout.strip().removeprefix("v").split(".")
        if all(each.isdecimal() for each in words) and tuple(map(int, words[:2])) >= _OLDEST:
            return Path(found)
        tried.append(f"{found} is {said.stdout.strip() or 'no Node'}")
    raise Missing(
        f"no Node from {'.'.join(map(str, _OLDEST))} on; {'; '.join(tried) or 'none found'}"
    )


@cache
def packages(home: Path = HERE, script: str = "client.mjs") -> Path:
    """A folder in which the packages of a `package.json` are installed, with a script of ours."""
    wanted = hashlib.sha256((home / "package-lock.json").read_bytes() + bytes(node())).hexdigest()
    folder = CACHE / wanted[:16]
    done, given_up = folder / "done", folder / "given-up"
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder / "lock"):
        _lay(home, folder, script)  # ours, and found beside the packages that it imports
        if done.exists():
            return folder
        if given_up.exists() and given_up.read_text("utf-8").startswith(run):
            raise Missing(given_up.read_text("utf-8").removeprefix(run))  # N3
        _lay(home, folder, "package.json", "package-lock.json")
        try:
            _install(folder)
        except Missing as missing:
            given_up.write_text(f"{run}{missing}", "utf-8")
            raise
        done.touch()
    return folder


def _install(folder: Path) -> None:
    said = _run([node().with_name("npm"), *_INSTALL, *_PATIENCE], folder)
    if said.returncode != 0:
        raise Missing(f"npm ci: {said.stderr[:_WORDS_MAX]}")


def _lay(home: Path, folder: Path, *names: str) -> None:
    for name in names:
        shutil.copy(home / name, folder / f"{name}.new")
        (folder / f"{name}.new").replace(folder / name)


def _run(command: Sequence[str | Path], folder: Path) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, "PATH": f"{node().parent}:{os.environ.get('PATH', '')}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Missing(f"{command[0]}: {error}") from error


def run(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a script of the installed packages, or one of ours beside them."""
    return _run([node(), script, *arguments], packages())


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
