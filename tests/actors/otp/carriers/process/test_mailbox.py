"""Lanes and numbers, without a process."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.actors.otp import Ref
from understudy.actors.otp.carriers.process.mailbox import (
    LANE_BYTES_MAX,
    LANE_MAX,
    PARCEL_BYTES_MAX,
    PARCEL_MAX,
    SENDERS_MAX,
    UNDER_WAY_MAX,
    Numbers,
    Outbox,
    Overloaded,
    Parcel,
    key_of,
)

ME = Ref("s", "me")


def _sent(outbox: Outbox, now_ms: int = 0) -> list[Parcel]:
    return [outbox.load(lane) for lane in outbox.ready(now_ms)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.integers(0, 3)),
            st.tuples(st.just("pump"), st.just(0)),
            st.tuples(st.sampled_from(["taken", "lost", "repeated"]), st.integers(0, 20)),
        ),
        max_size=200,
    )
)
def test_what_is_put_arrives_once_and_in_order(events: list[tuple[str, int]]) -> None:
    outbox = Outbox(ME)
    numbers = {lane: Numbers() for lane in range(4)}
    refs = [Ref("s", str(number)) for number in range(4)]
    put: dict[int, list[bytes]] = {lane: [] for lane in range(4)}
    got: dict[int, list[bytes]] = {lane: [] for lane in range(4)}
    under_way: list[Parcel] = []

    def deliver(parcel: Parcel) -> None:
        lane = int(parcel.to[1])
        if numbers[lane].take(parcel):
            got[lane] += [value for _, value in parcel.items]

    def settle(parcel: Parcel, how: str) -> None:
        lane = outbox.lane(refs[int(parcel.to[1])])
        assert lane is not None
        if how != "lost":
            deliver(parcel)
        if how == "taken":
            outbox.taken(lane)
        else:
            outbox.not_taken(lane, 0)

    for count, (event, number) in enumerate(events):
        if event == "put":
            put[number].append(str(count).encode())
            outbox.put(refs[number], ("message", put[number][-1]))
        elif event == "pump":
            under_way += _sent(outbox)
        elif under_way:
            settle(under_way.pop(number % len(under_way)), event)
        assert outbox.under_way == len(under_way) <= UNDER_WAY_MAX
    while len(outbox):
        under_way += _sent(outbox)
        settle(under_way.pop(), "taken")
    assert got == put


def test_one_parcel_of_a_lane_is_under_way_and_takes_all_that_waits() -> None:
    outbox, ref = Outbox(ME), Ref("s", "1")
    outbox.put(ref, ("message", b"1"))
    (first,) = _sent(outbox)
    for number in range(PARCEL_MAX + 1):
        outbox.put(ref, ("message", str(number).encode()))
    assert _sent(outbox) == []
    lane = outbox.lane(ref)
    assert lane is not None
    outbox.taken(lane)
    (second,) = _sent(outbox)
    assert (len(first.items), len(second.items)) == (1, PARCEL_MAX)


def test_a_parcel_is_bounded_in_bytes_but_takes_one_item_of_any_size() -> None:
    outbox, ref = Outbox(ME), Ref("s", "1")
    for _ in range(2):
        outbox.put(ref, ("message", b"x" * (PARCEL_BYTES_MAX + 1)))
    (parcel,) = _sent(outbox)
    assert len(parcel.items) == 1


def test_a_lane_is_bounded_in_number_and_in_bytes() -> None:
    outbox, ref, other = Outbox(ME), Ref("s", "1"), Ref("s", "2")
    for _ in range(LANE_MAX):
        outbox.put(ref, ("message", b""))
    with pytest.raises(Overloaded, match=str(LANE_MAX)):
        outbox.put(ref, ("message", b""))
    outbox.put(ref, ("signal", b""), exempt=True)
    outbox.put(other, ("message", b"x" * LANE_BYTES_MAX))
    with pytest.raises(Overloaded):
        outbox.put(other, ("message", b"x"))


def test_lanes_take_turns_when_there_is_not_room_for_all() -> None:
    outbox = Outbox(ME)
    refs = [Ref("s", str(number)) for number in range(2 * UNDER_WAY_MAX)]
    for ref in refs:
        outbox.put(ref, ("message", b""))
    first = _sent(outbox)
    assert [parcel.to for parcel in first] == [key_of(ref) for ref in refs[:UNDER_WAY_MAX]]
    assert _sent(outbox) == []
    for ref in refs[:UNDER_WAY_MAX]:
        lane = outbox.lane(ref)
        assert lane is not None
        outbox.put(ref, ("message", b""))
        outbox.taken(lane)
    assert [parcel.to for parcel in _sent(outbox)] == [key_of(ref) for ref in refs[UNDER_WAY_MAX:]]


def test_a_lane_that_rests_is_tried_when_its_time_has_come() -> None:
    outbox, ref = Outbox(ME), Ref("s", "1")
    outbox.put(ref, ("message", b""))
    (first,) = _sent(outbox)
    lane = outbox.lane(ref)
    assert lane is not None
    outbox.not_taken(lane, 20)
    assert outbox.resting_until_ms(19) == 20
    assert _sent(outbox, 19) == []
    assert _sent(outbox, 20) == [first]


def test_the_memory_of_senders_is_bounded() -> None:
    numbers = Numbers()
    parcels = [Parcel(("s", "me"), Ref("s", str(n)), 1, ()) for n in range(SENDERS_MAX + 1)]
    assert all(numbers.take(parcel) for parcel in parcels)
    assert not numbers.take(parcels[-1])
    assert numbers.take(parcels[0])  # the oldest is forgotten
