"""One request, two judges: the published schema, and the decoder that does the work.

Documents are made from the schema, then spoilt in every way that a schema can object to, and shown
to both. A document that divides them is reported by what was done to it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple
from unittest.mock import ANY

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema.protocols import Validator
from msgspec import Meta

from tests.long import IS_LONG, SCALED, SHARE, tried
from tests.together import together
from understudy.contracts import Reason, canonical, documents, limits, shapes
from understudy.contracts.registry.check import validator
from understudy.contracts.requests.host_actions import host_actions
from understudy.contracts.requests.request import Door, Request, parse
from understudy.contracts.requests.shapes import SHAPES, descent

Node = Mapping[str, Any]
SCHEMA: Node = documents.load("schemas/request.schema.json")
ACTIONS = sorted(SHAPES)
DOOR = Door("mcp", frozen_clock=True)  # a door that lets `now` in
CALENDAR = (Reason.SCHEDULE_CRON_INVALID, Reason.SCHEDULE_ZONE_UNKNOWN)


# --- the two judges -----------------------------------------------------------------------------


class Verdict(NamedTuple):
    schema: bool
    decoder: bool


def verdict(document: object) -> Verdict | None:
    """What the two say; None for a document outside the canonical profile, which has no say."""
    data = canonical.encode(document)
    parsed = parse(data, DOOR)
    # A calendar is asked after the decoder, and no schema can.
    decoder = isinstance(parsed, Request) or parsed.reason in CALENDAR
    try:
        decoded = canonical.decode(data)
    except canonical.NotCanonical:
        assert not decoder
        return None
    if len(data) > limits.REQUEST_BYTES_MAX:
        assert not decoder
        return None
    return Verdict(judge_of(decoded).is_valid(decoded), decoder)


def judge_of(document: object) -> Validator:
    """The published schema, without the rules for other actions where the action is a known one."""
    action = document.get("action") if isinstance(document, dict) else None
    return _judge(action) if isinstance(action, str) and action in SHAPES else validator("request")


@cache
def _judge(action: str) -> Validator:
    """They would say nothing: each has an action as its one condition, as is shown below."""
    whole = validator("request")
    rules = [rule for rule in SCHEMA["allOf"] if action in _listed(rule)]
    return whole.evolve(schema={**SCHEMA, "allOf": rules})


def disputes(cases: Iterable[tuple[str, Any]], tally: Counter[bool]) -> Iterator[str]:
    """What divides the judges; the tally counts how often the schema said yes and no."""
    for done, document in cases:
        both = verdict(document)
        if both is None:
            continue
        tally[both.schema] += 1
        if both.schema != both.decoder:
            yield f"{done}: the schema says {both.schema}, the decoder {both.decoder}"


def agree(cases: Iterable[tuple[str, Any]]) -> Counter[bool]:
    """Fail with every document that divides the judges; how many they took and refused."""
    tally: Counter[bool] = Counter()
    found = list(disputes(cases, tally))
    assert not found, "\n".join(found)
    return tally


# --- walking the schema -------------------------------------------------------------------------


def branches(node: Node) -> list[Node]:
    """The plain nodes that a node allows: references followed, alternatives side by side."""
    if "$ref" in node:
        return branches(SCHEMA["$defs"][node["$ref"].removeprefix("#/$defs/")])
    if "anyOf" in node:
        return [branch for each in node["anyOf"] for branch in branches(each)]
    if isinstance(node.get("type"), list):
        return [{**node, "type": kind} for kind in node["type"]]
    return [node]


def branch_of(node: Node, kind: str) -> Node | None:
    return next((each for each in branches(node) if each.get("type") == kind), None)


@cache
def request_node(action: str) -> Node:
    """The schema of a request for one action, without the choice between actions."""
    rule = next(rule for rule in SCHEMA["allOf"] if action in _listed(rule))
    properties = SCHEMA["properties"] | rule["then"]["properties"]
    properties["action"] = {"enum": [action]}
    required = ["action", *rule["then"].get("required", ())]
    return {"type": "object", "properties": properties, "required": required}


def _listed(rule: Node) -> list[str]:
    action = rule["if"]["properties"]["action"]
    return [action["const"]] if "const" in action else list(action["enum"])


def payload_branch(action: str) -> Node:
    branch = branch_of(request_node(action)["properties"]["payload"], "object")
    assert branch is not None
    return branch


# --- sound documents ----------------------------------------------------------------------------


def least(node: Node) -> Any:
    """The smallest value that a node allows."""
    return _sample(node, lambda branch: set(branch.get("required", ())))


def most(node: Node) -> Any:
    """A value with every member, and one item in every list."""
    return _sample(node, lambda branch: set(branch["properties"]), items=1)


def _sample(node: Node, members: Callable[[Node], set[str]], items: int = 0) -> Any:
    branch = branches(node)[0]
    if "enum" in branch:
        return branch["enum"][0]
    match branch["type"]:
        case "object" if "properties" not in branch:
            return {}  # any object at all
        case "object":
            wanted = sorted(members(branch))
            return {name: _sample(branch["properties"][name], members, items) for name in wanted}
        case "array":
            return [_sample(branch["items"], members, items)] * items
        case "string" if branch.get("pattern") in STOCK:
            return STOCK[branch["pattern"]]
        case "string":
            return "a" * max(1, branch.get("minLength", 0))
        case "integer":
            return max(0, branch["minimum"])
        case "boolean":
            return False
        case kind:
            raise AssertionError(f"the test knows no {kind}")


# The patterns that no row of letters fits.
STOCK = {descent.COMMIT_PATTERN: "0" * 40, descent.SECTION_PATTERN: "a/1"}
LETTERS = "ABCXYZabcxyz019"
ID = st.builds(
    str.__add__, st.sampled_from(LETTERS), st.text(LETTERS + "._-", max_size=127)
)  # as `shapes.ID_PATTERN` has it
STEP_KEY = st.builds(str.__add__, st.sampled_from(LETTERS), st.text(LETTERS + "._:-", max_size=127))
FIRED_ID = ID | st.builds("{}@{}".format, ID, st.integers(0, 10**16 - 1))
JOB_ID = FIRED_ID | st.builds("{}:{}".format, ID, STEP_KEY)
SCHEDULE_ID = ID.map(lambda text: text[:64])
HEX = "0123456789abcdef"
OBJECT_ID = st.text(HEX, min_size=40, max_size=40) | st.text(HEX, min_size=64, max_size=64)
SECTION_ID = st.builds("{}/{}".format, ID, st.integers(1, 10**16 - 1))
BRANCH = st.text(LETTERS + "/.-\u00e9", min_size=1, max_size=200)
ANY_CHARACTER = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
LINE_CHARACTER = st.characters(
    exclude_categories=["Cs"], exclude_characters="".join(map(chr, [*range(32), 127]))
)


def sound(node: Node) -> st.SearchStrategy[Any]:
    """Values that a node allows."""
    return st.one_of([_sound(branch) for branch in branches(node)])


def _sound(branch: Node) -> st.SearchStrategy[Any]:
    if "enum" in branch:
        return st.sampled_from(branch["enum"])
    match branch["type"]:
        case "object" if "properties" not in branch:
            return st.dictionaries(st.text(LETTERS, max_size=4), st.booleans(), max_size=2)
        case "object":
            parts = {name: sound(part) for name, part in branch["properties"].items()}
            required = {name: parts.pop(name) for name in branch.get("required", ())}
            return st.fixed_dictionaries(required, optional=parts)
        case "array":
            least = branch.get("minItems", 0)
            return st.lists(sound(branch["items"]), min_size=least, max_size=2)
        case "string":
            return _sound_string(branch)
        case "integer":
            low, high = branch["minimum"], branch["maximum"]
            return st.sampled_from([low, high]) | st.integers(low, high)
        case "boolean":
            return st.booleans()
        case "null":
            return st.none()
        case kind:
            raise AssertionError(f"the test knows no {kind}")


def _sound_string(branch: Node) -> st.SearchStrategy[str]:
    pattern = branch.get("pattern")
    if pattern == shapes.ID_PATTERN:
        return ID
    if pattern == shapes.STEP_KEY_PATTERN:
        return STEP_KEY
    if pattern == shapes.JOB_ID_PATTERN:
        return JOB_ID
    if pattern == shapes.PLAIN_JOB_ID_PATTERN:
        return FIRED_ID
    if pattern == shapes.SCHEDULE_ID_PATTERN:
        return SCHEDULE_ID
    if pattern == descent.COMMIT_PATTERN:
        return OBJECT_ID
    if pattern == descent.SECTION_PATTERN:
        return SECTION_ID
    if pattern == descent.BRANCH_PATTERN:
        return BRANCH
    assert pattern in (shapes.LINE_PATTERN, None), f"teach the test {pattern}"
    alphabet = LINE_CHARACTER if pattern else ANY_CHARACTER
    return st.text(alphabet, min_size=branch.get("minLength", 0), max_size=8)


# --- spoilt documents ---------------------------------------------------------------------------

STRANGERS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, "", "a", "1", "null", [], {}, [None], ["a"], [[]], {"a": 1},
)  # fmt: skip
# Control characters, the newlines and blanks of other alphabets, what ids allow and what they
# allow only inside, and letters that some engines count twice. NUL is outside the profile.
CHARACTERS = (
    *"\x01\t\n\r\x1f\x7f", *"\x80\x85\u2028\xa0 ", *"-._/$", *"\u00e9\u0661\u4e2d\U0001f600",
)  # fmt: skip
KEYS = ("", "a", "surprise", "Id", "ID", "id ", "__class__", "$ref", "constructor")


def changes(node: Node, value: Any, at: str = "$") -> Iterator[tuple[str, Any]]:
    """Everything that can be done to a value: what was done, and the value after it."""
    for other in (*STRANGERS, *(edge for branch in branches(node) for edge in edges(branch))):
        yield f"{at} := {_short(other)}", other
    branch = branch_of(node, "object")
    if isinstance(value, dict) and branch is not None and "properties" in branch:
        yield from _member_changes(branch, value, at)
        for name, part in branch["properties"].items():
            old = value.get(name, least(part))
            for done, new in changes(part, old, f"{at}.{name}"):
                yield done, {**value, name: new}
    if isinstance(value, list) and (branch := branch_of(node, "array")):
        item = most(branch["items"])
        yield f"{at}: the same twice", [item, item]
        for done, new in changes(branch["items"], item, f"{at}[]"):
            yield done, [new]


def _member_changes(branch: Node, value: dict[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    for name in value:
        yield f"{at}: drop {name}", {key: value[key] for key in value if key != name}
    for name in (*KEYS, *_misspelt(branch["properties"])):
        yield f"{at}: add {name!r}", {**value, name: None}


def _misspelt(parts: Mapping[str, Any]) -> list[str]:
    """Members as another convention would write them."""
    snake = {"".join(f"_{c.lower()}" if c.isupper() else c for c in name) for name in parts}
    camel = {name[0] + name.title().replace("_", "")[1:] for name in parts}
    return sorted((snake | camel) - parts.keys())


def edges(branch: Node) -> Iterator[Any]:
    """Values on both sides of every bound of a plain node."""
    if "enum" in branch:
        yield from _words(tuple(SHAPES.values()))
        for word in filter(None, branch["enum"]):
            yield from (word, word.upper(), word[:-1], f"{word}s", f" {word}", f"{word}\n")
        return
    match branch["type"]:
        case "string":
            yield from _string_edges(branch)
        case "integer":
            for bound in (branch["minimum"], branch["maximum"]):
                yield from (bound - 1, bound, bound + 1, str(bound))
        case "array":
            item, length = least(branch["items"]), branch.get("maxItems", 300)
            yield from ([item] * count for count in (1, length, length + 1))
        case _:
            return  # a boolean or null has no bounds


def _string_edges(branch: Node) -> Iterator[str]:
    low, high = branch.get("minLength", 0), branch.get("maxLength", limits.ID_LENGTH_MAX)
    for length in (max(0, low - 1), low, low + 1, high - 1, high, high + 1):
        yield "a" * length
    yield from ("\U0001f600" * high, "\U0001f600" * (high + 1))
    yield from ("a" * high + "\n", "a" * (high - 1) + "\n")
    for character in CHARACTERS:
        yield from (f"a{character}", f"{character}a")


@cache
def _words(known: tuple[type[shapes.Shape], ...]) -> list[str]:
    """Every word that the decoder knows from a list, wherever it stands."""
    words: set[str] = set()
    ahead: list[Any] = [msgspec.json.schema_components([*known, shapes.Context])[1]]
    while ahead:
        here = ahead.pop()
        if isinstance(here, dict):
            words |= {word for word in here.get("enum", ()) if isinstance(word, str)}
            ahead += here.values()
        elif isinstance(here, list):
            ahead += here
    return sorted(words)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:40]}... of length {len(value)}"  # type: ignore[arg-type]  # a long text has a length


def payload_changes(action: str) -> Iterator[tuple[str, Any]]:
    """Requests for an action, with everything done to a full payload, and more to a small one."""
    branch = payload_branch(action)
    small, full = least(branch), most(branch)
    yield "small", {"action": action, "payload": small}
    for done, payload in (*_member_changes(branch, small, "small"), *changes(branch, full, "full")):
        yield done, {"action": action, "payload": payload}


# --- the decoder knows what the schema knows ----------------------------------------------------


def test_schema_decoder_and_registry_have_the_same_actions() -> None:
    assert sorted(SCHEMA["properties"]["action"]["enum"]) == ACTIONS == sorted(host_actions())
    assert sorted(name for rule in SCHEMA["allOf"] for name in _listed(rule)) == ACTIONS


@together("action", ACTIONS)
def test_an_action_has_the_same_members_in_both(action: str) -> None:
    fields = msgspec.structs.fields(SHAPES[action])
    branch = payload_branch(action)
    assert sorted(branch["properties"]) == sorted(each.encode_name for each in fields)
    needed = sorted(each.encode_name for each in fields if each.required)
    assert sorted(branch.get("required", ())) == needed
    assert branch["additionalProperties"] is False


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("context", shapes.Context),
        ("stamp", shapes.CallerStamp),
        ("recordedIssue", shapes.RecordedIssue),
        ("recordedLease", shapes.RecordedLease),
        ("recordedDependency", shapes.RecordedDependency),
        ("checkpoint", shapes.Checkpoint),
        ("ledger", shapes.Ledger),
        ("ledgerFeature", shapes.LedgerFeature),
        ("checkResult", shapes.CheckResult),
    ],
)
def test_a_part_has_the_same_members_in_both(name: str, shape: type[msgspec.Struct]) -> None:
    fields = msgspec.structs.fields(shape)
    assert sorted(SCHEMA["$defs"][name]["properties"]) == sorted(f.encode_name for f in fields)


def test_every_definition_is_used_and_objects_are_closed() -> None:
    text = canonical.encode(SCHEMA).decode()
    for name, node in SCHEMA["$defs"].items():
        assert f'"#/$defs/{name}"' in text, name
        if node.get("type") == "object" and name not in ("document", "jobPayload"):  # as they come
            assert node["additionalProperties"] is False, name
            assert node["title"], name


def test_patterns_are_those_of_the_decoder() -> None:
    nodes = [branch for node in SCHEMA["$defs"].values() for branch in branches(node)]
    patterns = {node["pattern"] for node in nodes if "pattern" in node}
    assert patterns == {
        shapes.ID_PATTERN,
        shapes.JOB_ID_PATTERN,
        shapes.LINE_PATTERN,
        shapes.PLAIN_JOB_ID_PATTERN,
        shapes.SCHEDULE_ID_PATTERN,
        shapes.STEP_KEY_PATTERN,
        descent.BRANCH_PATTERN,
        descent.COMMIT_PATTERN,
        descent.SECTION_PATTERN,
    }


def test_a_rule_is_for_the_actions_that_it_lists_and_no_other() -> None:
    for rule in SCHEMA["allOf"]:
        (key,) = rule["if"]["properties"]["action"]
        assert key in ("const", "enum")
        condition = {"properties": {"action": {key: ANY}}, "required": ["action"]}
        assert rule == {"if": condition, "then": ANY}


# --- and judges as the schema judges ------------------------------------------------------------


@SCALED
@pytest.mark.parametrize("action", ACTIONS)
def test_whatever_is_done_to_a_payload_the_two_agree(action: str) -> None:
    tally = agree(islice(payload_changes(action), 0, None, 1 if IS_LONG else SHARE))
    assert min(tally[True], tally[False]) > 0, "without both answers nothing is shown"


@pytest.mark.parametrize("action", ["issue.ready", "issue.show"])
def test_whatever_is_done_around_a_payload_the_two_agree(action: str) -> None:
    node = request_node(action)
    tally = agree([*_member_changes(node, least(node), "$"), *changes(node, most(node))])
    assert min(tally[True], tally[False]) > 100


@pytest.mark.parametrize("action", ["issue", "issue.Claim", "issue.claim.", ".", "a"])
def test_an_action_that_there_is_not_is_taken_by_neither(action: str) -> None:
    for payload in ({}, {"id": "a"}, None):
        assert verdict({"action": action, "payload": payload}) == (False, False)


@together("document", STRANGERS)
def test_what_is_no_request_at_all_is_taken_by_neither(document: object) -> None:
    assert verdict(document) == (False, False)


def test_a_payload_can_be_left_out_where_all_of_its_members_can() -> None:
    for action in ACTIONS:
        expected = not payload_branch(action).get("required")
        assert verdict({"action": action}) == (expected, expected), action
        for nothing in ({"payload": None}, {"payload": dict[str, Any]()}):
            document = {"action": action, **nothing}
            assert verdict(document) == (expected, expected), action


EVERY_TIME_THE_SAME = settings(
    tried(8),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
picks = st.lists(st.integers(0, 2**32), min_size=6, max_size=6)


@pytest.mark.parametrize("action", ACTIONS)
@EVERY_TIME_THE_SAME
@given(data=st.data())
def test_any_sound_request_is_taken_and_any_spoilt_one_judged_alike(
    action: str, data: st.DataObject
) -> None:
    node = request_node(action)
    document = data.draw(sound(node))
    assert verdict(document) == (True, True)
    assert validator("request").is_valid(document), "with the rules for other actions as well"
    once = list(changes(node, document))
    agree(once[pick % len(once)] for pick in data.draw(picks))
    done, spoilt = once[data.draw(st.integers(0, 2**32)) % len(once)]
    twice = list(changes(node, spoilt, f"{done} then $"))
    agree(twice[pick % len(twice)] for pick in data.draw(picks))


@pytest.mark.parametrize("action", [" issue.ready", "issue.ready\n", "\u3000issue.ready\x1f"])
def test_spaces_around_an_action_are_judged_alike(action: str) -> None:
    assert verdict({"action": action}) == (False, False)


@pytest.mark.parametrize("context", [False, 0, "", []])
def test_an_empty_context_of_another_type_is_judged_alike(context: object) -> None:
    assert verdict({"action": "issue.ready", "context": context}) == (False, False)


# --- a decoder that differs is found ------------------------------------------------------------

Wide = Annotated[str, Meta(pattern=shapes.LINE_PATTERN, max_length=limits.NAME_LENGTH_MAX + 1)]
Narrow = Annotated[str, Meta(pattern=shapes.LINE_PATTERN, max_length=limits.NAME_LENGTH_MAX - 1)]
Loose = Annotated[str, Meta(pattern=shapes.ID_PATTERN.removesuffix(r"(?!\n)"))]
Open = Annotated[str, Meta(pattern=r"^[^\u0000-\u001f]*$(?!\n)", max_length=256)]
Below = Annotated[int, Meta(ge=-1, le=limits.INTEGER_MAX)]
Scope = Annotated[tuple[shapes.Name, ...], Meta(max_length=limits.CAPABILITIES_MAX + 1)]


class WideName(shapes.ClaimIssue, frozen=True, kw_only=True):
    assignee: Wide = ""


class NarrowName(shapes.ClaimIssue, frozen=True, kw_only=True):
    assignee: Narrow = ""


class LastNewline(shapes.ClaimIssue, frozen=True, kw_only=True):
    id: Loose


class Delete(shapes.ClaimIssue, frozen=True, kw_only=True):
    assignee: Open = ""


class NullName(shapes.ClaimIssue, frozen=True, kw_only=True):
    assignee: shapes.Name | None = ""  # type: ignore[assignment]  # what a shape must not do


class NeededName(shapes.ClaimIssue, frozen=True, kw_only=True):
    assignee: shapes.Name


class SpareId(shapes.ClaimIssue, frozen=True, kw_only=True):
    id: shapes.Id = "a"


class NegativeFence(shapes.ClaimIssue, frozen=True, kw_only=True):
    fence: Below | None = None


class AnyTtl(shapes.ClaimIssue, frozen=True, kw_only=True):
    lease_ttl_seconds: int | bool | None = None


class AnyMember(shapes.ClaimIssue, frozen=True, kw_only=True, forbid_unknown_fields=False):
    pass


class WideScope(shapes.GrantSublease, frozen=True, kw_only=True):
    capability_scope: Scope


class NewWord(shapes.ListIssues, frozen=True, kw_only=True):
    issue_type: Literal["epic", "task", "story"] | None = None  # type: ignore[assignment]  # what a shape must not do


class EmptyLabel(shapes.ListIssues, frozen=True, kw_only=True):
    label: shapes.Name | None = None


class DeepLoose(shapes.ImportIssues, frozen=True, kw_only=True):
    class Record(shapes.RecordedIssue, frozen=True, kw_only=True):
        priority: int = 2

    records: Annotated[tuple[Record, ...], Meta(max_length=limits.IMPORT_RECORDS_MAX)]


@pytest.mark.parametrize(
    ("action", "shape"),
    [
        ("issue.claim", WideName),
        ("issue.claim", NarrowName),
        ("issue.claim", LastNewline),
        ("issue.claim", Delete),
        ("issue.claim", NullName),
        ("issue.claim", NeededName),
        ("issue.claim", SpareId),
        ("issue.claim", NegativeFence),
        ("issue.claim", AnyTtl),
        ("issue.claim", AnyMember),
        ("sublease.grant", WideScope),
        ("issue.list", NewWord),
        ("issue.list", EmptyLabel),
        ("issue.import", DeepLoose),
    ],
)
def test_a_shape_that_differs_by_one_is_found(
    monkeypatch: pytest.MonkeyPatch, action: str, shape: type[shapes.Shape]
) -> None:
    monkeypatch.setitem(SHAPES, action, shape)
    assert next(disputes(payload_changes(action), Counter()), None) is not None
