"""What leaves the house: the files in the sdist, and in the wheel that is built from it."""

import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.long import LONG

ROOT = Path(__file__).resolve().parents[2]
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))


LIBRARY = "understudy/authority/_lease.abi3.so"


pytestmark = LONG  # a wheel takes as long as hundreds of other tests


@dataclass(frozen=True, slots=True)
class Release:
    tag: str
    wheel: frozenset[str]
    sdist: frozenset[str]


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    return build(tmp_path_factory.mktemp("release"), {})


def build(scratch: Path, environment: dict[str, str]) -> Release:
    """Build from a copy, so that no test writes into the tree another one is reading."""
    tree, dist = scratch / "tree", scratch / "dist"
    unwanted = shutil.ignore_patterns(".*", "__pycache__", "build", "dist", "*.egg-info")
    shutil.copytree(ROOT, tree, symlinks=True, ignore=unwanted)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(dist), str(tree)]
    built = subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | environment
    )
    assert built.returncode == 0, built.stdout + built.stderr

    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    with zipfile.ZipFile(wheel) as archive:
        wheel_names = frozenset(archive.namelist())
    with tarfile.open(sdist) as tarball:
        files = [member.name for member in tarball.getmembers() if not member.isdir()]
    sdist_names = frozenset(name.partition("/")[2] for name in files)
    return Release(wheel.stem.split("-", 2)[2], wheel_names, sdist_names)


def library() -> set[str]:
    """The C library, if this machine can build one."""
    compiler = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return {LIBRARY} if shutil.which(compiler.split()[0]) else set()


def room_files() -> set[str]:
    """Code and data of all rooms, as paths from the root."""
    paths = (path for room in ROOMS for path in (ROOT / room).rglob("*"))
    kinds = {".py", ".pyi", ".json", ".js", ".css", ".svg"}
    return {str(path.relative_to(ROOT)) for path in paths if path.suffix in kinds}


def test_wheel_holds_the_front_door_and_the_rooms_and_nothing_else(release: Release) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    info = f"{project['name']}-{project['version']}.dist-info/"
    code = {name for name in release.wheel if not name.startswith(info)}
    front_door = {"understudy/__init__.py", "understudy/__main__.py", "understudy/py.typed"}
    assert code == front_door | {f"understudy/{name}" for name in room_files()} | library()
    assert f"{info}licenses/LICENSE" in release.wheel


def test_one_wheel_serves_every_python_from_3_11_on(release: Release) -> None:
    assert release.tag.startswith("cp311-abi3-")


def test_without_a_compiler_the_wheel_is_built_on_the_reference_alone(tmp_path: Path) -> None:
    bare = build(tmp_path, {"CC": str(tmp_path / "no-such-compiler")})
    assert LIBRARY not in bare.wheel
    assert {f"understudy/{name}" for name in room_files()} <= bare.wheel


def test_sdist_holds_everything_that_c_is_built_from(release: Release) -> None:
    paths = (path for path in (ROOT / "native").rglob("*") if path.suffix != ".pyc")
    native = {str(path.relative_to(ROOT)) for path in paths if path.is_file()}
    assert native | {"setup.py"} <= release.sdist


def test_sdist_holds_the_rooms_once_and_no_links(release: Release) -> None:
    assert room_files() <= release.sdist
    within = {name for name in release.sdist if name.startswith("src/understudy/")}
    names = ("__init__.py", "__main__.py", "py.typed")
    assert within == {f"src/understudy/{name}" for name in names}
