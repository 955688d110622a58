"""The reader and writer of canonical JSON in C, against `contracts.canonical`: the same documents
accepted, and for each of them the same bytes."""

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.long import tried
from tests.together import together
from understudy.authority.engine import ffi
from understudy.authority.engine.ffi import KernelFlaw
from understudy.contracts import canonical, documents, limits

N = limits.INTEGER_MAX


def by_reference(data: bytes) -> bytes | None:
    try:
        return canonical.encode(canonical.decode(data))
    except canonical.NotCanonical:
        return None


def by_native(data: bytes) -> bytes | None:
    try:
        return ffi.canonical(data)
    except ffi.Flawed:
        return None


def agree(data: bytes) -> bytes | None:
    """What both make of the bytes."""
    expected = by_reference(data)
    assert by_native(data) == expected, data
    return expected


def flaw_of(data: bytes, room_size: int | None = None) -> KernelFlaw | None:
    try:
        ffi.canonical(data, room_size)
    except ffi.Flawed as refused:
        return refused.flaw
    return None


# --- by hand ------------------------------------------------------------------------------------

SOUND = [
    b"0",
    b"-0",
    b" \t\r\n0 \t\r\n",
    b"null",
    b"true",
    b"false",
    b'""',
    b"[]",
    b"{}",
    b"[ ]",
    b"{ }",
    b"[[],{},[]]",
    b'{"":0}',
    b'{"b":1,"a":2}',
    b'{"a":1,"aa":2,"":3,"A":4,"a ":5}',
    b'{"\\u0062":1,"a":2}',
    b'{"\\"":1,"\\\\":2,"\\/":3,"\\n":4}',
    b'{"b":{"d":1,"c":2},"a":[{"f":1,"e":2}]}',
    b'{"a" : 1 , "b" :\n2}',
    b'":x"',  # the quick count of the reference once took this for a key
    b'{":":":"}',
    b'{"a":":b"}',
    b'{"a":"\\":"}',
    b'"\x7f"',
    b'"\\b\\f\\n\\r\\t\\"\\\\\\/"',
    b'"\\u0001\\u001f\\u007f\\u0080"',
    b'"\\ud83d\\ude00\\uD83D\\uDE00"',
    '"\u00e9\u20ac\U0001f600\u2028\ufeff\uffff\U0010ffff"'.encode(),
    b"\"plain, and long enough for several words of eight '\x7f'\"",
    str(N).encode(),
    str(-N).encode(),
]

FLAWED = [
    (b"", KernelFlaw.NOT_JSON),
    (b" ", KernelFlaw.NOT_JSON),
    (b"\xef\xbb\xbf0", KernelFlaw.NOT_JSON),
    (b"\x0c0", KernelFlaw.NOT_JSON),
    (b"\xc2\xa00", KernelFlaw.NOT_JSON),
    (b"0\x00", KernelFlaw.NOT_JSON),
    (b"0 0", KernelFlaw.NOT_JSON),
    (b"nul", KernelFlaw.NOT_JSON),
    (b"truex", KernelFlaw.NOT_JSON),
    (b"NaN", KernelFlaw.NOT_JSON),
    (b"nan", KernelFlaw.NOT_JSON),
    (b"-Infinity", KernelFlaw.NOT_JSON),
    (b"+1", KernelFlaw.NOT_JSON),
    (b"-", KernelFlaw.NOT_JSON),
    (b"--1", KernelFlaw.NOT_JSON),
    (b"01", KernelFlaw.NOT_JSON),
    (b"-01", KernelFlaw.NOT_JSON),
    (b"00", KernelFlaw.NOT_JSON),
    (b".5", KernelFlaw.NOT_JSON),
    (b"0x1", KernelFlaw.NOT_JSON),
    (b"1_0", KernelFlaw.NOT_JSON),
    (b"1.0", KernelFlaw.NOT_INTEGER),
    (b"1.", KernelFlaw.NOT_INTEGER),
    (b"1e2", KernelFlaw.NOT_INTEGER),
    (b"1E2", KernelFlaw.NOT_INTEGER),
    (b"-0.0", KernelFlaw.NOT_INTEGER),
    (b"-0e0", KernelFlaw.NOT_INTEGER),
    (b"1e400", KernelFlaw.NOT_INTEGER),
    (str(N + 1).encode(), KernelFlaw.INTEGER_BEYOND),
    (str(-N - 1).encode(), KernelFlaw.INTEGER_BEYOND),
    (b"18446744073709551615", KernelFlaw.INTEGER_BEYOND),
    (b"18446744073709551616", KernelFlaw.INTEGER_BEYOND),
    (b"9" * 5000, KernelFlaw.INTEGER_BEYOND),
    (b"[", KernelFlaw.NOT_JSON),
    (b"]", KernelFlaw.NOT_JSON),
    (b"[1", KernelFlaw.NOT_JSON),
    (b"[1,]", KernelFlaw.NOT_JSON),
    (b"[,1]", KernelFlaw.NOT_JSON),
    (b"[1 2]", KernelFlaw.NOT_JSON),
    (b"[1}", KernelFlaw.NOT_JSON),
    (b"[1]]", KernelFlaw.NOT_JSON),
    (b'{"a":1', KernelFlaw.NOT_JSON),
    (b'{"a":1,}', KernelFlaw.NOT_JSON),
    (b'{"a":1]', KernelFlaw.NOT_JSON),
    (b'{"a"}', KernelFlaw.NOT_JSON),
    (b'{"a",1}', KernelFlaw.NOT_JSON),
    (b'{"a":}', KernelFlaw.NOT_JSON),
    (b"{a:1}", KernelFlaw.NOT_JSON),
    (b"{1:1}", KernelFlaw.NOT_JSON),
    (b"'a'", KernelFlaw.NOT_JSON),
    (b"// 1\n1", KernelFlaw.NOT_JSON),
    (b'"', KernelFlaw.NOT_JSON),
    (b'"\\"', KernelFlaw.NOT_JSON),
    (b'"\\', KernelFlaw.NOT_JSON),
    (b'"a\nb"', KernelFlaw.NOT_JSON),
    (b'"a\x00b"', KernelFlaw.NOT_JSON),
    (b'"\\x41"', KernelFlaw.NOT_JSON),
    (b'"\\\x00"', KernelFlaw.NOT_JSON),
    (b'"\\u12"', KernelFlaw.NOT_JSON),
    (b'"\\u12g4"', KernelFlaw.NOT_JSON),
    (b'"\\U0041"', KernelFlaw.NOT_JSON),
    (b'"\\\xc3\xa9"', KernelFlaw.NOT_JSON),
    (b'"\xff"', KernelFlaw.NOT_UTF8),
    (b'"\x80"', KernelFlaw.NOT_UTF8),
    (b'"\xc0\x80"', KernelFlaw.NOT_UTF8),
    (b'"\xc1\xbf"', KernelFlaw.NOT_UTF8),
    (b'"\xe0\x9f\xbf"', KernelFlaw.NOT_UTF8),
    (b'"\xed\xa0\x80"', KernelFlaw.NOT_UTF8),
    (b'"\xf0\x8f\xbf\xbf"', KernelFlaw.NOT_UTF8),
    (b'"\xf4\x90\x80\x80"', KernelFlaw.NOT_UTF8),
    (b'"\xf5\x80\x80\x80"', KernelFlaw.NOT_UTF8),
    (b'"\xe2\x82"', KernelFlaw.NOT_UTF8),
    (b'"\xe2\x82', KernelFlaw.NOT_UTF8),
    (b'"\\ud800"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\udc00"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\ud83dA"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\ud83d\\n"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\ud83d\\u0041"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\ud83d\\ud83d"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\ude00\\ud83d"', KernelFlaw.TEXT_SURROGATE),
    (b'"\\u0000"', KernelFlaw.TEXT_NUL),
    (b'{"\\u0000":1}', KernelFlaw.TEXT_NUL),
    (b'{"\xc3\xa9":1}', KernelFlaw.KEY_NOT_ASCII),
    (b'{"\\u00e9":1}', KernelFlaw.KEY_NOT_ASCII),
    (b'{"a":1,"a":1}', KernelFlaw.KEY_TWICE),
    (b'{"a":1,"\\u0061":1}', KernelFlaw.KEY_TWICE),
    (b'{"b":1,"a":2,"b":3}', KernelFlaw.KEY_TWICE),
    (b'{"a":":b","a":1}', KernelFlaw.KEY_TWICE),
    (b'{"a" :1,"a":1}', KernelFlaw.KEY_TWICE),
    (b'{"":1,"":1}', KernelFlaw.KEY_TWICE),
    (b'[{"x":{"a":1,"b":2,"a":3}}]', KernelFlaw.KEY_TWICE),
]


@together("data", SOUND)
def test_a_document_inside_the_profile_is_written_as_the_reference_writes_it(data: bytes) -> None:
    assert agree(data) is not None


@together(("data", "flaw"), FLAWED)
def test_a_document_outside_the_profile_is_refused_for_what_it_is(
    data: bytes, flaw: KernelFlaw
) -> None:
    assert agree(data) is None
    assert flaw_of(data) in {flaw, KernelFlaw.NODES_FULL}


@pytest.mark.parametrize(("left", "right"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_ends_at_its_maximum(left: bytes, right: bytes) -> None:
    depth = limits.JSON_DEPTH_MAX
    assert agree(left * depth + b"0" + right * depth) is not None
    assert agree(left * (depth + 1) + b"0" + right * (depth + 1)) is None
    assert flaw_of(left * (depth + 1) + b"0" + right * (depth + 1)) is KernelFlaw.TOO_DEEP


# --- without end of a range ---------------------------------------------------------------------


def test_every_document_of_one_or_two_bytes_gets_one_verdict() -> None:
    for length in (1, 2):
        for data in itertools.product(range(256), repeat=length):
            agree(bytes(data))


def test_every_number_of_up_to_five_characters_gets_one_verdict() -> None:
    for length in range(1, 6):
        for text in itertools.product(b"-+019.eE", repeat=length):
            agree(bytes(text))


def test_every_escape_of_sixteen_bits_gets_one_verdict() -> None:
    accepted = sum(agree(b'"\\u%04x"' % unit) is not None for unit in range(0x10000))
    assert accepted == 0x10000 - 0x800 - 1  # surrogates, and NUL


def test_every_character_is_written_as_the_reference_writes_it() -> None:
    points = [point for point in range(1, 0x110000) if not 0xD800 <= point < 0xE000]
    for first in range(0, len(points), 97):
        text = "".join(map(chr, points[first : first + 97]))
        assert agree(orjson.dumps(text)) is not None
        assert agree(json.dumps(text).encode()) is not None


def test_every_start_of_a_character_gets_one_verdict() -> None:
    for first, second in itertools.product(range(0x80, 0x100), range(0x70, 0x100)):
        for tail in (b"", b"\x80", b"\x80\xbf"):
            agree(b'"' + bytes([first, second]) + tail + b'"')


def test_a_special_byte_is_found_at_every_place_of_a_string() -> None:
    for length, special in itertools.product(
        range(1, 26), [b"\x1f", b'"', b"\\", b"\x80", b"\x7f"]
    ):
        for place in range(length):
            text = b"a" * place + special + b"z" * (length - place - 1)
            agree(b'["' + text + b'"]')
            agree(b'["' + text.replace(special, b"\\" + special) + b'"]')
            agree(b'{"' + text + b'":1}')


# --- by chance ----------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
keys = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-N, N) | texts,
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(keys, inner, max_size=24),
    max_leaves=40,
)


@given(values, st.booleans(), st.sampled_from([None, 1]), st.sampled_from([",", " ,\t"]))
@tried(500)
def test_any_value_in_any_spelling_has_one_canonical_form(
    value: object, ascii_only: bool, indent: int | None, comma: str
) -> None:
    spelled = json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=(comma, "\r: "))
    assert agree(spelled.encode()) == canonical.encode(value)


@given(st.binary(max_size=60))
@tried(1000)
def test_any_bytes_get_one_verdict(data: bytes) -> None:
    agree(data)
    agree(b'"' + data + b'"')


@given(st.permutations([f"key{index:04d}" for index in range(300)]), st.booleans())
@tried(20)
def test_any_order_of_many_keys_is_sorted_and_any_repetition_found(
    names: list[str], repeat: bool
) -> None:
    if repeat:
        names = [*names, names[7]]
    data = b"{" + b",".join(b'"%s":1' % name.encode() for name in names) + b"}"
    assert (agree(data) is None) == repeat


def published() -> list[bytes]:
    """Every document and every request that the contract publishes, as indented and as one line."""
    found: list[bytes] = []
    for path in sorted(Path(documents.ROOT).rglob("*.json")):
        data = path.read_bytes()
        found += [data, *(orjson.dumps(request) for request in _requests(orjson.loads(data)))]
    return found


def _requests(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        for item in value:
            yield from _requests(item)
    if isinstance(value, dict):
        if "action" in value and "payload" in value:
            yield value
        for item in value.values():
            yield from _requests(item)


def test_everything_published_has_one_canonical_form() -> None:
    for data in published():
        agree(data)


TOKENS = [b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\\u0061", b"\\ud83d", b"\\ude00", b"0"]
TOKENS += [
    b"-",
    b"1e2",
    b"1.0",
    b"null",
    b" ",
    b"\t",
    b"\n",
    b"\x00",
    b"\x7f",
    b"\xc3\xa9",
    b"\xff",
]
TOKENS += [b'"a":1,', b'":', b"9007199254740991", b"9007199254740992", b"\xed\xa0\x80", b"[[[["]


def spoilt(data: bytes, chance: random.Random) -> bytes:
    """The same bytes with one to three small accidents."""
    for _ in range(chance.randint(1, 3)):
        place, end = sorted((chance.randint(0, len(data)), chance.randint(0, len(data))))
        match chance.randrange(5):
            case 0:
                data = data[:place] + chance.choice(TOKENS) + data[place:]
            case 1:
                data = data[:place] + chance.choice(TOKENS) + data[place + 1 :]
            case 2:
                data = data[:place] + data[place + chance.randint(1, 4) :]
            case 3:
                data = data[:end] + data[place : min(end, place + 40)] + data[end:]
            case _:
                data = data[:place] + bytes([chance.randrange(256)]) + data[place + 1 :]
    return data


@pytest.mark.parametrize("seed", range(8))
def test_five_thousand_spoilt_requests_get_one_verdict(seed: int) -> None:
    chance = random.Random(seed)
    models = [data for data in published() if len(data) < 600] + [data for data in SOUND if data]
    verdicts = [agree(spoilt(chance.choice(models), chance)) is not None for _ in range(5_000)]
    assert 250 < sum(verdicts) < 4_750  # both verdicts were tried


# --- room ---------------------------------------------------------------------------------------


def test_a_room_for_one_node_less_is_a_refusal_of_its_own() -> None:
    data = b"[" + b"0," * 99 + b"0]"
    enough = 101 * 26
    assert flaw_of(data, enough) is None
    assert flaw_of(data, enough - 2) is KernelFlaw.NODES_FULL
    assert flaw_of(data, 0) is KernelFlaw.NODES_FULL


def test_a_room_too_small_for_the_unescaped_text_is_a_refusal_of_its_own() -> None:
    data = b'["\\u0041\\u0041\\u0041"]'
    assert flaw_of(data) is None
    assert flaw_of(data, 2 * 26) is KernelFlaw.TEXT_FULL


@given(values)
def test_the_documented_room_is_enough_for_every_value(value: object) -> None:
    data = canonical.encode(value)
    assert ffi.canonical(data) == data
