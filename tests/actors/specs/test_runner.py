"""The chain runner against an authority that says what a test wants."""

from itertools import chain, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.actors.specs.door import LOST, START_MS, Door, granted, lease, refused
from understudy.actors.leasing.holding import Timing
from understudy.actors.specs.lease_loop import Post
from understudy.actors.specs.runner import SPECS_MAX, ChainRunner, in_order

TTL_MS = 60_000
Answer = dict[str, Any]


class Specs:
    """What an authority knows of specs: their steps, and which have jobs."""

    def __init__(self, **sizes: int) -> None:
        self.steps = {
            name: {f"s{at}": [f"s{at - 1}"] if at else [] for at in range(size)}
            for name, size in sizes.items()
        }
        self.made: dict[str, list[str]] = {name: [] for name in sizes}
        self.fence = 0

    def list(self, payload: Answer) -> Answer:
        assert payload["query"] == "open"
        names = [name for name in self.steps if len(self.made[name]) < len(self.steps[name])]
        return granted(specs=[{"specId": name} for name in names], count=len(names))

    def claim(self, payload: Answer) -> Answer:
        self.fence += 1
        made = self.made[payload["specId"]]
        steps = [
            {"stepKey": key, "kind": "k", "dependsOn": needs}
            | ({"jobId": key} if key in made else {})
            for key, needs in self.steps[payload["specId"]].items()
        ]
        held = lease(f"spec/{payload['specId']}", self.fence)
        spec = {"specId": payload["specId"], "attempts": 1, "lease": held, "steps": steps}
        return granted(spec=spec)

    def materialize(self, payload: Answer) -> Answer:
        spec_id, keys = payload["specId"], payload["stepKeys"]
        created = [key for key in keys if key not in self.made[spec_id]]
        self.made[spec_id] += created
        done = len(self.made[spec_id]) == len(self.steps[spec_id])
        state = "materialized" if done else "in_progress"
        return granted(changed=True, created=created, existing=[], spec={"state": state})


def runner(specs: Specs, **says: Any) -> Door:
    machine = ChainRunner(Post("ada", "r1", TTL_MS))
    answers: dict[str, Any] = {
        "spec_list": specs.list,
        "spec_claim": specs.claim,
        "spec_materialize": specs.materialize,
        "spec_release": granted(changed=True),
    }
    return Door(machine, **(answers | says))


def of(door: Door) -> ChainRunner:
    assert isinstance(door.machine, ChainRunner)
    return door.machine


def test_a_spec_is_claimed_and_made_in_portions_in_order() -> None:
    specs = Specs(a=150)
    door = runner(specs)
    assert door.turns(3) == [["spec.list"], ["spec.claim"], ["spec.materialize"] * 3]
    portions = [each["stepKeys"] for each in door.payloads("spec.materialize")]
    assert [len(each) for each in portions] == [64, 64, 22]
    assert list(chain.from_iterable(portions)) == list(specs.steps["a"])
    assert (of(door).specs, of(door).jobs, of(door).is_idle) == (1, 150, True)


def test_steps_that_have_jobs_are_left_alone_when_a_spec_is_taken_over() -> None:
    specs = Specs(a=10)
    specs.made["a"] = ["s3", "s0"]
    door = runner(specs)
    door.turns(3)
    (payload,) = door.payloads("spec.materialize")
    assert set(payload["stepKeys"]) == set(specs.steps["a"]) - {"s0", "s3"}


def test_several_specs_are_in_flight_together_and_no_more_than_there_is_room_for() -> None:
    specs = Specs(**{f"a{number}": 1_000 for number in range(SPECS_MAX + 3)})
    door = runner(specs)
    assert door.turns(3)[1:] == [["spec.claim"], [*["spec.materialize"] * 4, "spec.claim"]]
    door.turns(2)
    assert len(of(door).terms) == SPECS_MAX
    door.turns(10)
    assert of(door).jobs == (SPECS_MAX + 3) * 1_000


def test_more_time_is_asked_for_at_a_third_of_the_term() -> None:
    door = runner(Specs(a=1_000))
    door.turns(2)
    claimed_ms = door.ms
    assert door.turn() == ["spec.materialize"] * 4
    door.ms = START_MS + TTL_MS // 3 + 100
    assert door.turn()[:5] == ["spec.claim", *["spec.materialize"] * 4]
    renewal = door.payloads("spec.claim")[-1]
    assert (renewal["fence"], renewal["leaseId"]) == (1, "spec/a/1")
    (term,) = of(door).terms.values()
    assert term.until_ms == Timing(TTL_MS).until_ms(door.ms)
    assert door.ms > claimed_ms


def test_nothing_is_asked_under_a_lease_that_has_lapsed_by_our_own_clock() -> None:
    door = runner(Specs(a=1_000))
    door.turns(2)
    door.ms += TTL_MS
    assert "spec.materialize" not in door.turn()
    assert of(door).reports[-1].what == "lapsed"


def test_a_term_counts_from_when_it_was_first_asked_for() -> None:
    door = runner(Specs(a=5))
    door.turns(1)
    door.ms = of(door).next_ms
    asked_ms = door.ms
    (claim,) = door.lost()
    door.ms += TTL_MS - 1_000
    assert door.turn() == ["spec.claim"]
    assert door.asked[-1] == claim, "under the same requestId"
    (term,) = of(door).terms.values()
    assert term.until_ms == Timing(TTL_MS).until_ms(asked_ms)


@pytest.mark.parametrize("name", ["authority_busy", "authority_standby", "journal_unreachable"])
def test_what_was_not_decided_is_asked_again_under_its_name_after_a_pause(name: str) -> None:
    specs = Specs(a=5)
    door = runner(specs, spec_materialize=refused(name))
    door.turns(3)
    assert door.turn() == [], "not at once"
    door.says["spec.materialize"] = specs.materialize
    door.turns(1)
    first, again = door.payloads("spec.materialize")
    assert first == again
    assert of(door).jobs == 5


@pytest.mark.parametrize("name", LOST)
def test_a_lease_that_is_lost_is_dropped_and_not_given_back(name: str) -> None:
    door = runner(Specs(a=500), spec_materialize=refused(name))
    door.turns(3)
    assert of(door).is_idle
    said = [] if name == "spec_materialized" else ["lost"]
    assert [each.what for each in of(door).reports] == said, "once, and not that it is done"
    assert not door.payloads("spec.release")


def test_a_spec_that_cannot_be_made_is_given_back_and_left_alone_for_a_while() -> None:
    door = runner(Specs(a=500), spec_materialize=refused("job_coordinator_required"))
    door.turns(4)
    (release, *more) = door.payloads("spec.release")
    assert not more
    assert "job_coordinator_required" in release["reason"]
    assert (release["leaseId"], release["fence"]) == ("spec/a/1", 1)
    claims = len(door.payloads("spec.claim"))
    while door.ms < START_MS + 1_000:
        door.turns(1)
        assert len(door.payloads("spec.claim")) == claims
    door.turns(2)
    assert len(door.payloads("spec.claim")) == claims + 1, "and then tried again"


def test_a_slower_runner_waits_and_then_picks_from_further_down() -> None:
    specs = Specs(**{f"a{number}": 1 for number in range(60)})
    door = runner(specs, spec_claim=refused("lease_contention_active"))
    door.dice = 900
    door.turns(2)
    contended_ms = door.ms
    assert len(door.payloads("spec.claim")) == 1
    assert door.turns(1) == [["spec.list"]]
    assert door.ms >= contended_ms + 90
    door.dice = 0
    door.turns(1)
    assert [each["specId"] for each in door.payloads("spec.claim")] == ["a0", "a1"]
    assert not of(door).reports, "that is no news"


def test_looks_that_find_nothing_come_less_often_until_there_is_news() -> None:
    door = runner(Specs())
    moments = []
    for _ in range(9):
        door.turns(1)
        moments.append(door.ms)
    pauses = [after - before for before, after in pairwise(moments)]
    assert pauses == [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]
    door.machine.wake(door.moment)
    assert door.machine.next_ms <= door.ms + 100


def test_a_refused_look_or_a_refused_name_is_not_repeated_at_once() -> None:
    door = runner(Specs(a=1, b=1), spec_claim=refused("job_node_unknown"))
    door.turns(2)
    assert [each.what for each in of(door).reports] == ["not granted"]
    assert door.machine.next_ms == door.ms + 1_000
    door.turns(2)
    assert door.machine.next_ms == door.ms + 2_000, "longer every time"


def test_a_stop_gives_everything_back_and_claims_nothing_more() -> None:
    door = runner(Specs(a=900, b=900))
    door.turns(3)
    door.machine.stop("it is late")
    assert door.turn() == ["spec.release"] * 2
    assert [each["reason"] for each in door.payloads("spec.release")] == ["it is late"] * 2
    assert door.machine.is_over
    assert door.turn() == []


def test_a_claim_that_is_granted_while_it_stops_is_given_back() -> None:
    door = runner(Specs(a=5))
    door.turns(1)
    door.ms = door.machine.next_ms
    door.lost()
    door.machine.stop("it is late")
    assert not door.machine.is_over
    assert door.turns(2) == [["spec.claim"], ["spec.release"]]
    assert door.machine.is_over


@pytest.mark.parametrize(
    ("name", "run", "ttl_ms"), [("", "r", 60_000), ("a", "r:", 60_000), ("a", "r", 29_999)]
)
def test_a_post_that_cannot_work_is_refused(name: str, run: str, ttl_ms: int) -> None:
    with pytest.raises(ValueError):
        Post(name, run, ttl_ms)


@given(st.data())
def test_steps_come_behind_what_they_depend_on(data: st.DataObject) -> None:
    keys = data.draw(st.permutations([f"s{number}" for number in range(8)]))
    steps: list[dict[str, Any]] = []
    for at, key in enumerate(keys):
        needs = st.lists(st.sampled_from(keys[:at]), unique=True) if at else st.just([])
        steps.append({"stepKey": key, "dependsOn": data.draw(needs)})
    shuffled = data.draw(st.permutations(steps))
    order = in_order(shuffled)
    assert sorted(order) == sorted(keys)
    for step in steps:
        for need in step["dependsOn"]:
            assert order.index(need) < order.index(step["stepKey"])


def test_a_circle_would_come_last_and_nothing_is_left_out() -> None:
    steps: list[dict[str, Any]] = [
        {"stepKey": "a", "dependsOn": ["b"]},
        {"stepKey": "b", "dependsOn": ["a"]},
        {"stepKey": "c"},
    ]
    assert in_order(steps) == ["c", "a", "b"]


def test_a_grant_without_a_step_to_make_is_given_back() -> None:
    specs = Specs(a=3)
    door = runner(specs)
    door.turns(1)
    specs.made["a"] = list(specs.steps["a"])  # by another runner, behind the list
    door.turns(2)
    assert door.turn() == ["spec.release"]
    assert of(door).is_idle
