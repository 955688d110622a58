"""A dispatcher that has started, for the tests of this room."""

import pytest

from tests.actors.dispatch.stage_hand import StageHand


@pytest.fixture
def hand() -> StageHand:
    return StageHand().started()
