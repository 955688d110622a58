"""The life of a spec: the table is sound, and the name of a job leads back to its step."""

import re

from hypothesis import given
from hypothesis import strategies as st

from understudy.contracts import job_step, shapes, step_job
from understudy.contracts.records.spec import SPEC_TRANSITIONS, SpecMove, SpecState

S, M = SpecState, SpecMove


def test_every_state_can_be_reached_and_nothing_leaves_the_last() -> None:
    assert set(SPEC_TRANSITIONS.values()) == set(SpecState) - {S.UNSUBMITTED}
    assert {source for source, _ in SPEC_TRANSITIONS} == set(SpecState) - {S.MATERIALIZED}
    assert {move for _, move in SPEC_TRANSITIONS} == set(SpecMove)


def test_only_jobs_move_a_spec_and_never_back() -> None:
    order = list(SpecState)
    for (source, move), target in SPEC_TRANSITIONS.items():
        assert order.index(target) >= order.index(source)
        if move in (M.CLAIM, M.RELEASE):
            assert target is source
        if move is M.FINISH:
            assert target is S.MATERIALIZED


@given(
    st.from_regex(re.compile(shapes.ID_PATTERN), fullmatch=True),
    st.from_regex(re.compile(shapes.STEP_KEY_PATTERN), fullmatch=True),
)
def test_the_name_of_a_job_leads_back_to_its_step(spec_id: str, step_key: str) -> None:
    job_id = step_job(spec_id, step_key)
    assert job_step(job_id) == (spec_id, step_key)
    assert re.search(shapes.JOB_ID_PATTERN, job_id)
    assert not re.search(shapes.ID_PATTERN, job_id), "it cannot be scheduled by hand"
    assert job_step(spec_id) is None
