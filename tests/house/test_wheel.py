"""What leaves the house: the files in the sdist, and in the wheel that is built from it."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


@dataclass(frozen=True, slots=True)
class Release:
    wheel: frozenset[str]
    sdist: frozenset[str]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    """Build from a copy, so that no test writes into the tree another one is reading."""
    scratch = tmp_path_factory.mktemp("release")
    tree, dist = scratch / "tree", scratch / "dist"
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=unwanted)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(tree)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr

    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        wheel_names = frozenset(archive.namelist())
    with tarfile.open(sdist) as tarball:
        files = [member.name for member in tarball.getmembers() if not member.isdir()]
    return Release(wheel_names, frozenset(name.partition("/")[2] for name in files))


def room_files() -> set[str]:
    """Code and data of all rooms, as paths from the root."""
    paths = (path for room in ROOMS for path in (ROOT / room).rglob("*"))
    return {str(path.relative_to(ROOT)) for path in paths if path.suffix in {".py", ".json"}}


def test_wheel_holds_the_front_door_and_the_rooms_and_nothing_else(release: Release) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    info = f"{project['name']}-{project['version']}.dist-info/"
    code = {name for name in release.wheel if not name.startswith(info)}
    front_door = {"understudy/__init__.py", "understudy/py.typed"}
    assert code == front_door | {f"understudy/{name}" for name in room_files()}
    assert f"{info}licenses/LICENSE" in release.wheel


def test_sdist_holds_the_rooms_once_and_no_links(release: Release) -> None:
    assert room_files() <= release.sdist
    within = {name for name in release.sdist if name.startswith("src/understudy/")}
    assert within == {"src/understudy/__init__.py", "src/understudy/py.typed"}
