"""Rows of SQL as text: a table with straight columns, JSON lines, or CSV. None holds all rows."""

import base64
import csv
import datetime as dt
import io
import json
import math
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain, islice
from typing import Any

import orjson

_LOOK_ROWS = 500  # that the widths of a table are taken from; later cells may stand out
_WIDTH_MAX = 60
_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t", "\\": "\\\\"}
Rows = Iterable[tuple[Any, ...]]
Form = Callable[[Sequence[str], Rows], Iterator[str]]


def table(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """Lines for people. What a terminal would act upon is spelled out."""
    coming = iter(rows)
    first = [[shown(cell) for cell in row] for row in islice(coming, _LOOK_ROWS)]
    numbers = [all(_is_number(cell) for cell in column) for column in zip(*first, strict=True)]
    heads = [shown(name) for name in columns]
    widths = [
        min(_WIDTH_MAX, max(map(_width, cells)))
        for cells in zip(heads, *first, strict=True)
    ]  # fmt: skip
    numbers = numbers or [False] * len(heads)
    yield _line(heads, widths, numbers)
    yield "  ".join("-" * width for width in widths)
    for cells in chain(first, ([shown(cell) for cell in row] for row in coming)):
        yield _line(cells, widths, numbers)


def json_lines(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """One object a row; numbers are numbers, and NULL is null."""
    names = _distinct(columns)
    for row in rows:
        members = dict(zip(names, map(_honest, row), strict=True))
        yield json.dumps(members, ensure_ascii=False, separators=(",", ":"), default=_honest)


def csv_lines(columns: Sequence[str], rows: Rows) -> Iterator[str]:
    """As RFC 4180 has it, but for the line ends; NULL is an empty field."""
    for row in chain([columns], rows):
        text = io.StringIO()
        cells = ["" if cell is None else _plain(cell) for cell in row]
        csv.writer(text, lineterminator="\n").writerow(cells)
        yield text.getvalue().removesuffix("\n")


def shown(value: object) -> str:
    """One cell, on one line."""
    if value is None:
        return "NULL"
    return "".join(_seen(each) for each in _plain(value))


def _plain(value: object) -> str:
    match value:
        case str():
            return value
        case bytes() | memoryview():
            return f"\\x{bytes(value).hex()}"
        case dict() | list():
            return orjson.dumps(value, default=str).decode()
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case _:
            return str(value)


def _seen(each: str) -> str:
    if each in _ESCAPES:
        return _ESCAPES[each]
    if unicodedata.category(each) in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return f"\\u{ord(each):04x}"
    return each


def _honest(value: object) -> object:
    """What JSON can say exactly; the rest as text."""
    match value:
        case None | bool() | int() | str() | dict() | list():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Decimal() if value.is_finite():
            whole = value == value.to_integral_value()
            exact = Decimal(repr(float(value))) == value
            return int(value) if whole else float(value) if exact else str(value)
        case bytes() | memoryview():
            return base64.b64encode(bytes(value)).decode()
        case _:
            return _plain(value)


def _distinct(columns: Sequence[str]) -> list[str]:
    """An object has each member once: the second `n` is `n_2`."""
    names: list[str] = []
    for column in columns:
        name, number = column, 1
        while name in names:
            number += 1
            name = f"{column}_{number}"
        names.append(name)
    return names


def _is_number(cell: str) -> bool:
    return cell == "NULL" or cell.removeprefix("-").replace(".", "", 1).isdecimal()


def _line(cells: Sequence[str], widths: Sequence[int], numbers: Sequence[bool]) -> str:
    padded = (
        f"{' ' * (width - _width(cell))}{cell}" if is_number
        else f"{cell}{' ' * (width - _width(cell))}"
        for cell, width, is_number in zip(cells, widths, numbers, strict=True)
    )  # fmt: skip
    return "  ".join(padded).rstrip()


def _width(text: str) -> int:
    """Columns on a terminal."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 2 if unicodedata.east_asian_width(each) in "WF" else 1
        for each in text
    )
