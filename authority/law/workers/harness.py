"""Which rule answers which harness action; those that look back are given the past as well."""

from collections.abc import Callable
from typing import Any

from ....contracts import Stamp
from ..checks import join
from ..outcome import Outcome
from ..state import State
from . import features, observe, session, steps
from .history import Past

RULES: dict[str, Callable[[State, Any, Stamp], Outcome]] = {
    "harness.session.read": session.read,
    "harness.session.write": session.write,
    "harness.session.bootstrap": session.bootstrap,
    "harness.feature.read": features.read,
    "harness.feature.write": features.write,
    "harness.feature.check": features.check,
    "harness.feature.next": features.next_,
    "harness.trajectory.append": steps.append,
    "harness.join.check": join.check,
}
LOOKING_BACK: dict[str, Callable[[State, Any, Stamp, Past], Outcome]] = {
    "harness.trajectory.query": steps.query,
    "observe.latest": observe.latest,
    "observe.needs_attention": observe.needs_attention,
    "observe.instruction": observe.instruction,
    "observe.projection": observe.projection,
}
