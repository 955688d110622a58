"""The lock names a hashed version of everything the project asks for, and says nothing else."""

import re
import tomllib
from importlib.metadata import PackageNotFoundError
from importlib.metadata import requires as metadata_requires
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PIN = r"([\w.-]+)(?:\[([\w,.-]+)\])?==(\S+)"
FOUND = re.findall(rf"^{PIN}", LOCK, flags=re.MULTILINE)
PINS = {name: version for name, _, version in FOUND}
EXTRAS = {name: set(filter(None, extras.split(","))) for name, extras, _ in FOUND}


def requires(name: str) -> list[str]:
    try:
        return metadata_requires(name) or []
    except PackageNotFoundError:  # for another platform
        return []


def test_every_requirement_has_a_pin_it_allows() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [
        *PROJECT["build-system"]["requires"],
        *PROJECT["project"]["dependencies"],
        *(each for extra in extras.values() for each in extra),
    ]
    others = [each for each in map(Requirement, wanted) if each.name != PROJECT["project"]["name"]]
    for requirement in others:
        pin = PINS.get(canonicalize_name(requirement.name))
        assert pin is not None, f"{requirement} is not locked; run `make lock`"
        assert requirement.specifier.contains(pin), f"{requirement} refuses {pin}; run `make lock`"


def test_a_pin_names_the_extras_that_are_asked_for() -> None:
    """A pin without them is passed over by older pips, which then take the newest release."""
    for name in PINS:
        for wanted in map(Requirement, requires(name)):
            if wanted.extras and (wanted.marker is None or wanted.marker.evaluate({"extra": ""})):
                assert wanted.extras <= EXTRAS[canonicalize_name(wanted.name)], f"{name}: {wanted}"


def test_lock_holds_pins_and_hashes_and_names_no_place_to_fetch_from() -> None:
    line = re.compile(rf"\s*#.*|{PIN}( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{{64}}( \\)?")
    odd = [text for text in LOCK.splitlines() if not line.fullmatch(text)]
    assert odd == []
    assert "://" not in LOCK


def test_every_pin_is_followed_by_a_hash() -> None:
    hashed = re.findall(rf"^{PIN}.*\\\n    --hash=sha256:", LOCK, flags=re.MULTILINE)
    assert {name for name, _, _ in hashed} == set(PINS)
