"""The lock names a hashed version of everything the project asks for, and says nothing else."""

import re
import tomllib
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
LOCK = (ROOT / "requirements.lock").read_text("utf-8")
PINS = dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK, flags=re.MULTILINE))


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


def test_lock_holds_pins_and_hashes_and_names_no_place_to_fetch_from() -> None:
    line = re.compile(r"\s*#.*|[\w.-]+==\S+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    odd = [text for text in LOCK.splitlines() if not line.fullmatch(text)]
    assert odd == []
    assert "://" not in LOCK


def test_every_pin_is_followed_by_a_hash() -> None:
    hashed = re.findall(r"^([\w.-]+)==.*\\\n    --hash=sha256:", LOCK, flags=re.MULTILINE)
    assert set(hashed) == set(PINS)
