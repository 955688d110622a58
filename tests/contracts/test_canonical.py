"""Canonical JSON against an independent RFC 8785, and against everything that has no such form."""

import hashlib
from typing import Any

import msgspec
import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from tests.together import together
from understudy.authority.law.image import dump
from understudy.authority.law.outcome import (
    Answered,
    Change,
    DependencyAdded,
    IssueAdded,
    IssueSet,
    LeasePut,
    encode_changes,
)
from understudy.authority.law.state import State, apply
from understudy.contracts import canonical, limits
from understudy.contracts.records.records import Dependency, Issue, Lease

# Everything that a string may hold: control characters, DEL, all of Unicode, no lone surrogates.
texts = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from(
    ["", "\x00"[:0], "\x01\x1f", "\x7f", "\x80\x9f", "\u2028\u2029", "\ufffe", "\U0010ffff", '"\\/']
)
plain_texts = texts.filter(lambda text: "\0" not in text)
keys = st.text(st.characters(min_codepoint=1, max_codepoint=127), max_size=8)
numbers = st.integers(-limits.INTEGER_MAX, limits.INTEGER_MAX)
scalars = st.none() | st.booleans() | numbers | plain_texts
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4)
)


# --- one value, one sequence of bytes -------------------------------------------------------------


@given(values)
def test_our_bytes_are_those_of_rfc_8785(value: Any) -> None:
    assert canonical.encode(value) == rfc8785.dumps(value)


@given(values)
def test_what_is_encoded_is_decoded_to_itself(value: Any) -> None:
    data = canonical.encode(value)
    assert canonical.decode(data) == value


@pytest.mark.parametrize("text", [":", ":x", ": :"])
def test_a_text_may_begin_with_a_colon(text: str) -> None:
    assert canonical.decode(canonical.encode({"title": text})) == {"title": text}


@given(values)
def test_the_struct_encoder_gives_the_same_bytes_as_the_value_encoder(value: Any) -> None:
    assert msgspec.json.encode(value, order="sorted") == canonical.encode(value)


@together("point", [*range(1, 0x21), 0x7F, 0x80, 0x9F, 0xE9, 0x2028, 0x1F600])
def test_every_odd_character_is_spelled_as_rfc_8785_spells_it(point: int) -> None:
    value = {"k": chr(point)}
    assert canonical.encode(value) == rfc8785.dumps(value)
    assert msgspec.json.encode(value, order="sorted") == rfc8785.dumps(value)


@given(st.lists(plain_texts, min_size=6, max_size=6), numbers.map(abs))
def test_changes_and_states_are_written_in_canonical_bytes(words: list[str], number: int) -> None:
    title, notes, owner, lease_id, who, label = words
    moment = "2027-01-15T08:00:00Z"
    issue = Issue(
        id="a", title=title, notes=notes, owner=owner, labels=(label,),
        created_at=moment, updated_at=moment,
    )  # fmt: skip
    lease = Lease(
        resource="issue/a", lease_id=lease_id, owner=owner, fence=number, ttl_ms=1,
        granted_ms=1, deadline_ms=number,
    )  # fmt: skip
    changes: tuple[Change, ...] = (
        IssueAdded(issue),
        IssueSet("a", {"notes": who, "updated_at": moment}),
        LeasePut(lease),
        DependencyAdded(Dependency("a", "b", "related", who)),
        Answered("r", "issue.claim", "he1_", number),
    )
    data = encode_changes(changes)
    assert data == canonical.encode(orjson.loads(data)) == rfc8785.dumps(orjson.loads(data))
    state = State()
    apply(state, changes)
    image = dump(state)
    assert image == canonical.encode(orjson.loads(image))


def test_a_digest_is_a_prefix_and_the_sha_256_of_the_data() -> None:
    assert canonical.digest("he1", b"{}") == "he1_" + hashlib.sha256(b"{}").hexdigest()


# --- what has no canonical form -------------------------------------------------------------------

REFUSED = [
    (b'{"a":1,"a":2}', "twice"),
    (b'{"a":1,"b":{"c":1,"c":1}}', "twice"),
    (b'[{"a":1,"a":1}]', "twice"),
    (b'{"a":1,"\\u0061":2}', "twice"),
    (b'{"\\u0061":1,"\\u0061":2}', "twice"),
    (b'{"a" :1,"a" :2}', "twice"),
    (b'{"a"\n:1,"a"\t:2}', "twice"),
    (b'{"a":1, "a":2}', "twice"),
    (b'{"a":" :","a":2}', "twice"),
    (b'{"a":"\\"","a":2}', "twice"),
    (b'{"":1,"":2}', "twice"),
    (b"1.0", "integer"),
    (b"1e2", "integer"),
    (b"1E400", "JSON"),
    (b"-0.0", "integer"),
    (b"[0.5]", "integer"),
    (b"9007199254740992", "beyond"),
    (b"-9007199254740992", "beyond"),
    (b"18446744073709551615", "beyond"),
    (b"18446744073709551616", "integer"),
    (b"1" * 400, "integer|JSON"),
    (b"NaN", "JSON"),
    (b"[Infinity]", "JSON"),
    (b"-Infinity", "JSON"),
    (b'{"a":"\\u0000"}', "NUL"),
    (b'{"\\u0000":1}', "ASCII"),
    (b'"\x00"', "JSON"),
    ('{"é":1}'.encode(), "ASCII"),
    (b'{"\\u00e9":1}', "ASCII"),
    (b'"\xff"', "JSON"),
    (b'"\xc0\x80"', "JSON"),
    (b'"\xed\xa0\x80"', "JSON"),
    (b'"\\ud800"', "JSON"),
    (b'"\\udc00\\ud800"', "JSON"),
    (b"\xef\xbb\xbf{}", "JSON"),
    ('{"a":1}'.encode("utf-16"), "JSON"),
    (b"", "JSON"),
    (b" ", "JSON"),
    (b"{", "JSON"),
    (b"{} {}", "JSON"),
    (b"{'a':1}", "JSON"),
    (b"[1,]", "JSON"),
    (b"01", "JSON"),
    (b"+1", "JSON"),
    (b"0x10", "JSON"),
    (b"undefined", "JSON"),
    (b"// c\n1", "JSON"),
]


@together(("data", "words"), REFUSED, ids=[repr(data[:24]) for data, _ in REFUSED])
def test_bytes_outside_the_profile_are_refused_with_the_reason(data: bytes, words: str) -> None:
    with pytest.raises(canonical.NotCanonical, match=words):
        canonical.decode(data)


ACCEPTED = [
    (b"9007199254740991", 2**53 - 1),
    (b"-9007199254740991", 1 - 2**53),
    (b' {"a" : [1, 2] } ', {"a": [1, 2]}),
    (b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}),
    (b'[{"a":1},{"a":1}]', [{"a": 1}, {"a": 1}]),
    (b'{"a":"\\":","b":"a\\": "}', {"a": '":', "b": 'a": '}),
    (b'{"a":" :"}', {"a": " :"}),
    (b'"\\ud83d\\ude00"', "\U0001f600"),
    (b'"\\u007f"', "\x7f"),
    (b'"\x7f"', "\x7f"),
    (b"null", None),
]


@together(("data", "value"), ACCEPTED, ids=[repr(data[:24]) for data, _ in ACCEPTED])
def test_other_spellings_of_a_value_inside_the_profile_are_read(data: bytes, value: object) -> None:
    assert canonical.decode(data) == value


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_is_read_up_to_the_limit_and_not_one_deeper(opening: bytes, closing: bytes) -> None:
    def nested(depth: int) -> bytes:
        return opening * depth + b"1" + closing * depth

    canonical.decode(nested(limits.JSON_DEPTH_MAX))
    with pytest.raises(canonical.NotCanonical, match="deeper"):
        canonical.decode(nested(limits.JSON_DEPTH_MAX + 1))
    with pytest.raises(canonical.NotCanonical):
        canonical.decode(nested(200_000))


@given(st.binary(max_size=64))
def test_any_bytes_are_a_value_or_a_refusal_and_nothing_else(data: bytes) -> None:
    try:
        value = canonical.decode(data)
    except canonical.NotCanonical:
        return
    assert canonical.decode(canonical.encode(value)) == value


@given(st.lists(st.tuples(keys, scalars), min_size=1, max_size=5), st.data())
def test_a_key_that_comes_twice_is_always_found(
    members: list[tuple[str, Any]], data: st.DataObject
) -> None:
    members.append((data.draw(st.sampled_from(members))[0], 0))
    colon = data.draw(st.sampled_from([":", " :", "\t: ", ": "]))
    spell = data.draw(st.sampled_from([_plainly, _with_escapes]))
    body = ",".join(spell(key) + colon + orjson.dumps(value).decode() for key, value in members)
    with pytest.raises(canonical.NotCanonical, match="twice"):
        canonical.decode(("{" + body + "}").encode())


def _plainly(text: str) -> str:
    return orjson.dumps(text).decode()


def _with_escapes(text: str) -> str:
    return '"' + "".join(f"\\u{ord(each):04x}" for each in text) + '"'
