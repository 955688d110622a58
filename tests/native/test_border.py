"""What Python believes about the C library, and what the header says."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from understudy.authority import native
from understudy.contracts import limits

HEADER = Path(__file__).parents[2] / "native" / "lease.h"
JSON_HEADER = HEADER.with_name("json.h")
STUB = Path(__file__).parents[2] / "authority" / "_lease.pyi"


def declared() -> str:
    return HEADER.read_text("utf-8").split("/* cffi: begin */")[1].split("/* cffi: end */")[0]


def test_every_flaw_has_the_number_of_the_header() -> None:
    enum = re.search(r"enum us_flaw \{(.*?)\};", declared(), re.DOTALL)
    assert enum is not None
    numbers = {name: int(number) for name, number in re.findall(r"US_(\w+) = (\d+)", enum[1])}
    assert numbers == {"SOUND": 0} | {flaw.name: flaw.value for flaw in native.Flaw}


def test_the_stub_names_what_the_header_declares_and_nothing_else() -> None:
    header, stub = declared(), STUB.read_text("utf-8")
    constants = set(re.findall(r"\b(US_\w+) =", header)) | set(re.findall(r"#define (\w+)", header))
    functions = set(re.findall(r"\b(us_\w+)\(", header))
    assert set(re.findall(r"^    (US_\w+): int$", stub, re.MULTILINE)) == constants
    assert set(re.findall(r"def (us_\w+)\(", stub)) == functions


def test_the_limits_of_c_are_the_limits_of_the_contract() -> None:
    text = HEADER.read_text("utf-8") + JSON_HEADER.read_text("utf-8")
    defines = dict(re.findall(r"#define (US_\w+) (\d+)", text))
    assert int(defines["US_WALL_MS_MAX"]) == limits.WALL_MS_MAX
    assert int(defines["US_JSON_INTEGER_MAX"]) == limits.INTEGER_MAX
    assert int(defines["US_JSON_DEPTH_MAX"]) == limits.JSON_DEPTH_MAX
    assert int(defines["US_ABI"]) == native.ABI


def test_only_the_border_imports_the_library() -> None:
    root = Path(__file__).parents[2]
    rooms = [path.parent for path in root.glob("*/__init__.py")]
    files = {path for room in rooms for path in room.rglob("*.py")}
    importing = {
        path
        for path in files
        if re.search(r"import.*\b_lease\b|_lease import", path.read_text("utf-8"))
    }
    assert importing == {root / "authority" / "native.py"}


def test_without_the_library_the_border_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "understudy.authority._lease"
    monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.find_spec("understudy.authority.native")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.available()
    assert module.why_not().startswith("the C library was not built: ")
    assert native.available()
    assert native.why_not() is None
