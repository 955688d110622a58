"""The check policy: what is one, what changed paths require, and what results mean."""

import json
import re
from fnmatch import translate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fakes.policy import envelope, policy
from tests.together import together
from understudy.contracts import (
    CheckPolicy,
    Flaw,
    canonical,
    check_policy,
    policy_digest,
    project,
    read_instruction,
    verdict,
)
from understudy.contracts.checks.check_policy import STATUSES, document_of, matches, path_problem
from understudy.contracts.checks.instruction import Instruction
from understudy.contracts.reason import Reason
from understudy.contracts.registry.check import validator
from understudy.contracts.requests.shapes import CheckResult
from understudy.contracts.retry import retry_policy

STRANGERS: tuple[object, ...] = (
    None,
    True,
    0,
    -1,
    "",
    " ",
    "a",
    [],
    {},
    ["a", "a"],
    [1],
    {"a": 1},
    "x" * 2_000,
)


def taken(**members: object) -> CheckPolicy:
    found = check_policy(policy(**members))
    assert isinstance(found, CheckPolicy), found
    return found


# --- the document ---------------------------------------------------------------------------------


def test_a_policy_comes_back_as_it_went_in() -> None:
    document = policy()
    assert canonical.encode(document_of(taken())) == canonical.encode(document)
    assert validator("check-policy").is_valid(document)


def test_the_policy_on_the_page_is_one() -> None:
    page = Path(__file__).parents[2].joinpath("docs/checks.md").read_text()
    example = re.search(r"```json\n(.*?)```", page, re.DOTALL)
    assert example is not None
    document = json.loads(example[1])
    assert isinstance(
        check_policy({**document, "policyDigest": policy_digest(document)}), CheckPolicy
    )


@together("member", sorted(policy()))
def test_whatever_a_member_is_schema_and_parser_agree_on_its_shape(member: str) -> None:
    judge = validator("check-policy")
    missing = {name: value for name, value in policy().items() if name != member}
    for document in (missing, *({**policy(), member: value} for value in STRANGERS)):
        found = check_policy(document)
        shapeless = isinstance(found, Flaw) and found.reason is Reason.INSTRUCTION_POLICY_SHAPE
        if judge.is_valid(document) and shapeless:
            assert isinstance(found, Flaw)
            assert "there is no check" in found.detail, document  # what no schema can say
        elif not judge.is_valid(document):
            assert isinstance(found, Flaw), document


def test_a_changed_byte_changes_the_digest() -> None:
    changed = {**policy(), "policyId": "policy.other"}
    found = check_policy(changed)
    assert isinstance(found, Flaw)
    assert found.reason is Reason.INSTRUCTION_POLICY_DIGEST


# --- envelopes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("member", [*sorted(envelope()), "typingPolicy", "capabilityClaims"])
def test_an_envelope_that_is_taken_is_one_by_its_schema(member: str) -> None:
    judge, rules = validator("instruction-envelope"), taken()
    assert judge.is_valid(envelope())
    for value in STRANGERS:
        document = {**envelope(), member: value}
        found = read_instruction("i-1", document, rules)
        assert not isinstance(found, Instruction) or judge.is_valid(document), document


# --- paths ----------------------------------------------------------------------------------------


@together(
    ("glob", "path", "expected"),
    [
        ("*.py", "a.py", True), ("*.py", "src/a.py", False), ("**/*.py", "a.py", True),
        ("**/*.py", "src/deep/a.py", True), ("src/**", "src/a/b", True), ("src/**", "src", True),
        ("src/**", "srcs/a", False), ("**", "any/thing", True), ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True), ("a/**/b", "a/x/y", False), ("a?c", "abc", True),
        ("a?c", "a/c", False), ("*", "", True), ("a*b*c", "axxbyyc", True), ("[ab]", "a", False),
        ("**/x/**/y", "x/x/y/z/y", True), ("", "a", False), ("a**b", "axb", True),
    ],
)  # fmt: skip
def test_globs_take_what_they_should(glob: str, path: str, expected: bool) -> None:
    assert matches(glob, path) is expected


@given(st.text("ab*?", max_size=8), st.text("ab", max_size=8))
def test_within_a_part_a_glob_is_what_shells_take_it_for(glob: str, part: str) -> None:
    if "**" not in glob:
        assert matches(glob, part) is (re.match(translate(glob), part) is not None)


def test_a_hostile_glob_takes_no_time() -> None:
    assert not matches("*a" * 500 + "b", "a" * 1_024)
    assert not matches("/".join(["**", "a"] * 250 + ["b"]), "/".join("a" * 500))


@pytest.mark.parametrize("path", ["a", "a/b", ".hidden", "a b", "ü/ñ", "..a", "a..b/c"])
def test_a_path_below_the_tree_is_one(path: str) -> None:
    assert path_problem(path) is None


PATHS = st.lists(st.sampled_from(["a.py", "b.txt", "docs/a.md", "README.md", "gen/x", "Makefile"]))


@given(PATHS, PATHS)
def test_more_paths_require_no_less_unless_they_were_documentation(
    some: list[str], more: list[str]
) -> None:
    rules = taken()
    before, after = project(rules, some), project(rules, some + more)
    if some:
        assert set(before["requiredChecks"]) <= set(after["requiredChecks"])
    assert project(rules, [*reversed(some), *some]) == before or not some


# --- results --------------------------------------------------------------------------------------


def test_every_end_of_a_check_has_a_meaning_and_its_class_a_rule() -> None:
    status = next(each for each in CheckResult.__annotations__.items() if each[0] == "status")[1]
    assert set(status.__args__) == STATUSES.keys()
    for name, (failure_class, _) in STATUSES.items():
        assert (failure_class is None) is (name == "passed")
        assert failure_class is None or failure_class in retry_policy().rules


def test_nothing_run_is_nothing_failed() -> None:
    assert verdict([])["verdictClass"] == "accepted"
