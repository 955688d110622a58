"""The rule table: one rule for every action, one way to call it."""

import inspect
from typing import get_type_hints

import pytest

from understudy.authority.law.outcome import Outcome
from understudy.authority.law.rules import LOOKS_BACK, RULES
from understudy.authority.law.turn import Turn
from understudy.contracts.requests.host_actions import host_actions
from understudy.contracts.requests.shapes import SHAPES


def test_every_action_has_one_rule_and_every_rule_an_action() -> None:
    assert RULES.keys() == host_actions().keys()
    assert len(set(RULES.values())) == len(RULES), "no rule answers two actions"


def test_only_reads_look_back() -> None:
    assert {action for action in LOOKS_BACK if not host_actions()[action].mutates} == LOOKS_BACK


@pytest.mark.parametrize("action", sorted(RULES))
def test_a_rule_takes_a_turn_and_the_shape_of_its_action(action: str) -> None:
    rule = RULES[action]
    turn, request = inspect.signature(rule).parameters
    assert turn in ("turn", "_")
    assert request in ("request", "_")
    hints = get_type_hints(rule)
    assert hints == {turn: Turn, request: SHAPES[action], "return": Outcome}
