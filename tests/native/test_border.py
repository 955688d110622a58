"""What Python believes about the C library, and what the header says."""

import importlib
import re
import sys
from pathlib import Path

import pytest

from understudy.authority.engine import ffi, native_engine
from understudy.authority.journal import journal
from understudy.contracts import STRENGTH, Reason, limits

HEADER = Path(__file__).parents[2] / "native" / "lease.h"
JSON_HEADER = HEADER.with_name("json.h")
STUB = Path(__file__).parents[2] / "authority" / "_lease.pyi"


def declared() -> str:
    return HEADER.read_text("utf-8").split("/* cffi: begin */")[1].split("/* cffi: end */")[0]


def test_every_flaw_has_the_number_of_the_header() -> None:
    enum = re.search(r"enum us_flaw \{(.*?)\};", declared(), re.DOTALL)
    assert enum is not None
    numbers = {name: int(number) for name, number in re.findall(r"US_(\w+) = (\d+)", enum[1])}
    assert numbers == {"SOUND": 0} | {flaw.name: flaw.value for flaw in ffi.KernelFlaw}


def test_every_stop_has_the_number_of_the_header() -> None:
    assert numbers("us_stop", "US_STOP_") == {stop.name: stop.value for stop in ffi.KernelStop}


def test_every_reason_of_c_has_the_number_of_the_contract() -> None:
    found = numbers("us_reason", "US_REASON_")
    assert found.pop("NONE") == 0
    assert found == {name: Reason[name].value for name in found}
    (count,) = re.findall(r"#define US_REASON_COUNT (\d+)", declared())
    assert int(count) == max(found.values()) + 1 == native_engine._REASON_COUNT


def test_doors_actions_and_states_have_the_numbers_of_the_header() -> None:
    doors = numbers("us_door", "US_")
    assert {name.lower().replace("_", "-"): number for name, number in doors.items()} == STRENGTH
    assert list(numbers("us_action", "US_").values()) == list(range(len(native_engine.HOT)))
    status = {name.lower(): number for name, number in numbers("us_status", "US_").items()}
    assert status == native_engine._STATUS | {"other": native_engine._STATUS_OTHER}
    flags = dict(re.findall(r"#define (US_ISSUE_\w+) (\d+)u", declared()))
    assert [int(number) for number in flags.values()] == [
        native_engine._FOREIGN, native_engine._TORN, native_engine._WAITING, native_engine._AWAITED,
    ]  # fmt: skip


def test_rows_are_read_as_they_are_laid_out() -> None:
    (size,) = re.findall(r"_Static_assert\(sizeof\(us_row\) == (\d+)", HEADER.read_text("utf-8"))
    assert int(size) == journal._PACKED.size == 4 * ffi._ROW_WORDS


def numbers(enum: str, prefix: str) -> dict[str, int]:
    found = re.search(rf"enum {enum} \{{(.*?)\}};", declared(), re.DOTALL)
    assert found is not None
    return {name: int(number) for name, number in re.findall(rf"{prefix}(\w+) = (\d+)", found[1])}


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
    assert int(defines["US_ABI"]) == ffi.ABI


def test_only_the_border_imports_the_library() -> None:
    root = Path(__file__).parents[2]
    rooms = [path.parent for path in root.glob("*/__init__.py")]
    files = {path for room in rooms for path in room.rglob("*.py")}
    importing = {
        path
        for path in files
        if re.search(r"import.*\b_lease\b|_lease import", path.read_text("utf-8"))
    }
    assert importing == {root / "authority" / "engine" / "ffi.py"}


def test_without_the_library_the_border_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    name = "understudy.authority._lease"
    monkeypatch.setitem(sys.modules, name, None)
    spec = importlib.util.find_spec("understudy.authority.engine.ffi")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert not module.available()
    assert module.why_not().startswith("the C library was not built: ")
    assert ffi.available()
    assert ffi.why_not() is None


def test_a_slab_that_is_looked_at_is_not_written_over() -> None:
    slabs = ffi.Slabs(1_000_000)
    first = slabs.slab
    first[0] = 7
    seen = slabs.lend(100_000)
    assert isinstance(seen, memoryview)

    assert slabs.slab is not first

    second = slabs.slab
    slabs.slab[0] = 8
    assert seen[0] == 7
    del seen
    slabs.lend(100_000)
    assert slabs.slab is not second


def test_a_slab_that_is_not_looked_at_is_used_again() -> None:
    slabs = ffi.Slabs(1_000_000)
    first = slabs.slab
    part = slabs.lend(100_000)[50:60]
    other = slabs.slab
    again = slabs.lend(100_000)
    assert slabs.slab not in (first, other)

    del part

    last = slabs.lend(100_000)
    assert slabs.slab is first
    assert len(again) == len(last) == 100_000


def test_a_little_is_copied() -> None:
    slabs = ffi.Slabs(1_000_000)
    first = slabs.slab
    slabs.slab[0] = 7

    assert slabs.lend(10)[0] == 7
    assert isinstance(slabs.lend(10), bytes)
    assert slabs.slab is first
