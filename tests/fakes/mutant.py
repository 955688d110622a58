"""A rule broken on purpose, to see whether the tests would notice."""

import inspect
import sys
import textwrap
from types import ModuleType
from typing import Any

import pytest

from understudy.authority.law.jobs.operations import _RULES
from understudy.authority.law.rules import RULES


def break_rule(
    patch: pytest.MonkeyPatch, module: ModuleType, where: str, right: str, wrong: str
) -> None:
    """Replace `right` by `wrong` in the source of one function or method (`Class.method`)."""
    holder: Any = module
    *path, name = where.split(".")
    for step in path:
        holder = getattr(holder, step)
    sound = getattr(holder, name)
    source = textwrap.dedent(inspect.getsource(sound))
    assert right in source, f"{where} does not say {right!r} any more"
    broken: dict[str, Any] = {}
    exec(
        compile(source.replace(right, wrong), f"<mutant of {where}>", "exec"), vars(module), broken
    )
    patch.setattr(holder, name, broken[name])
    for other in [each for key, each in sys.modules.items() if key.startswith("understudy.")]:
        if vars(other).get(name) is sound:  # others have it by name
            patch.setattr(other, name, broken[name])
    for action, rule in RULES.items():
        if rule is sound:  # tables have it by value
            patch.setitem(RULES, action, broken[name])
    for kind, (shape, member, rule) in _RULES.items():
        if rule is sound:
            patch.setitem(_RULES, kind, (shape, member, broken[name]))
