"""The folders on disk, and every list in the build configuration that has to agree with them."""

import tomllib
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
SETUPTOOLS: dict[str, Any] = PROJECT["tool"]["setuptools"]
ROOMS = sorted(path.parent.name for path in ROOT.glob("*/__init__.py"))
VAGUE = {"base", "common", "helpers", "utils"}


def test_rooms_on_disk_are_the_rooms_that_are_mapped() -> None:
    mapped = {name: folder for name, folder in SETUPTOOLS["package-dir"].items() if "." in name}
    assert mapped == {f"understudy.{room}": room for room in ROOMS}


def test_every_package_on_disk_is_listed_for_the_wheel() -> None:
    found = {
        ".".join(["understudy", *path.parent.relative_to(ROOT).parts])
        for room in ROOMS
        for path in (ROOT / room).rglob("__init__.py")
    }
    assert set(SETUPTOOLS["packages"]) == {"understudy"} | found


def test_every_module_lies_in_a_package() -> None:
    stray = [
        path
        for room in ROOMS
        for path in (ROOT / room).rglob("*.py")
        if not path.with_name("__init__.py").exists()
    ]
    assert stray == []


def test_every_data_file_is_reached_by_a_package_data_glob() -> None:
    code = {".py", ".pyc", ".so"}
    found = {
        path
        for room in ROOMS
        for path in (ROOT / room).rglob("*")
        if path.is_file() and path.suffix not in code
    }
    reached = {
        path
        for package, globs in SETUPTOOLS["package-data"].items()
        for glob in globs
        for path in ROOT.joinpath(*package.split(".")[1:]).glob(glob)
    }
    assert found - reached == set()


@pytest.mark.skipif((ROOT / "PKG-INFO").exists(), reason="an sdist carries no links")
@pytest.mark.parametrize("room", ROOMS)
def test_static_tools_see_the_room(room: str) -> None:
    link = ROOT / "src" / "understudy" / room
    assert link.is_symlink(), "clone with `git config core.symlinks true`"
    assert PurePosixPath(link.readlink()) == PurePosixPath("../..", room)
    assert f"src/understudy/{room}" in PROJECT["tool"]["mypy"]["files"]


@pytest.mark.parametrize("room", ROOMS)
def test_sdist_leaves_out_the_link_to_the_room(room: str) -> None:
    manifest = (ROOT / "MANIFEST.in").read_text("utf-8").splitlines()
    assert f"prune src/understudy/{room}" in manifest


@pytest.mark.parametrize("room", ROOMS)
def test_the_bare_name_of_a_room_is_banned(room: str) -> None:
    assert room in PROJECT["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]


def test_no_file_has_a_vague_name() -> None:
    folders = ["src", "tests", "benchmarks", "native", *ROOMS]
    vague = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.stem.removeprefix("test_").strip("_") in VAGUE
    ]
    assert vague == []
