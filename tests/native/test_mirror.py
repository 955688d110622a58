"""The two ladders as text: C has the reference's functions in its order, with its numbers."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LAW = (ROOT / "authority" / "law" / "lease.py").read_text("utf-8")
WORK = (ROOT / "authority" / "law" / "issues" / "work.py").read_text("utf-8")
MIRROR = (ROOT / "native" / "lease.c").read_text("utf-8")
SUBLEASES = 10  # the guard that only subleases meet; they are the reference's

# Functions of the reference, in the order of the file, and what they are called in C.
NAMES = {
    "is_live": "is_live",
    "grant": "grant",
    "extend": "extend",
    "hold": "us_hold",
    "touch": "us_touch",
    "claim": "us_claim",
    "_obstacle": "obstacle",
    "_derived_id": "derived_id",
    "_token": "put_token",
    "renew": "us_renew",
    "release": "us_release",
    "_drop": "drop",
    "deadline_of": "deadline",
}


def law(name: str) -> str:
    """The source of a function of the reference."""
    for node in ast.parse(LAW).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return "\n".join(LAW.splitlines()[node.lineno - 1 : node.end_lineno])
    raise LookupError(name)


def mirror(name: str) -> str:
    """The source of a function in C: from its head to the brace in the first column."""
    found = re.search(
        rf"^[^\n;]*\b{name}\([^;{{]*\)\n\{{\n.*?^\}}$", MIRROR, re.MULTILINE | re.DOTALL
    )
    assert found is not None, name
    return found[0]


def guards(source: str, number: str, reason: str) -> list[tuple[int, str, str]]:
    """Number, remark and reason of each numbered guard."""
    found = []
    for match in re.finditer(number, source):
        after = re.search(reason, source[match.end() :])
        assert after is not None
        found.append((int(match[1]), (match[2] or "").strip(), after[1]))
    return found


def test_the_numbered_guards_are_the_same_in_the_same_order() -> None:
    ladder = "\n".join([law("hold").partition("held = ")[0], law("fenced")])
    wanted = guards(ladder, r"if .*:  # (\d+)(?:: (.*))?", r"Reason\.(\w+)")
    found = guards(
        mirror("us_hold"), r"if \(.*\) (?:\{ )?/\* (\d+)(?:: (.*?))? \*/", r"US_REASON_(\w+)"
    )
    assert found == wanted
    assert [guard[0] for guard in wanted] == list(range(1, SUBLEASES))


def test_functions_come_in_the_order_of_the_reference() -> None:
    places = [MIRROR.index(mirror(name)) for name in NAMES.values()]
    assert places == sorted(places)
    lines = [LAW.index(law(name)) for name in NAMES]
    assert lines == sorted(lines)


@pytest.mark.parametrize("name", ["claim", "_obstacle", "renew", "release", "deadline_of"])
def test_every_function_refuses_for_the_same_reasons_in_the_same_order(name: str) -> None:
    wanted = re.findall(r"Refused\(Reason\.(\w+)", law(name))
    found = re.findall(r"return US_REASON_(?!NONE)(\w+)", mirror(NAMES[name]))
    assert found == wanted


def test_closing_is_a_touch_and_nothing_else() -> None:
    assert re.search(r"lease = touch\(turn, request, \"issue\.close\"\)", WORK)
    assert "us_touch(k, request, stamp, outcome)" in (ROOT / "native/work.c").read_text("utf-8")
