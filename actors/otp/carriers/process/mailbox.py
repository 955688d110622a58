"""Messages between cells: lanes with credit out, and a look at numbers in.

A lane leads to one cell. What is sent waits in it; one parcel of a lane is under way at a time,
with everything that waited, and the next one leaves when the receiver has taken it. So a burst
becomes a few large parcels, and what Thespian has in hand stays far below the marks where it
slows down, stops reading or drops.

    put -> lane [.....] --parcel--> wire --taken--> next parcel
                   |                   \\--not taken, but alive--> the same parcel again
               Overloaded

I1  Between two cells messages arrive in order, and each once.
I2  At most `UNDER_WAY_MAX` parcels are under way, one a lane.
I3  A lane is bounded: beyond that, sending fails with `Overloaded`. Signals are exempt.
"""

from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from ...cell import OtpError, Ref

UNDER_WAY_MAX: Final = 16  # Thespian itself takes 20 at a time, and queues the rest
LANE_MAX: Final = 10_000  # messages that wait for one cell
LANE_BYTES_MAX: Final = 67_108_864
PARCEL_MAX: Final = 256
PARCEL_BYTES_MAX: Final = 1_048_576
SENDERS_MAX: Final = 4_096  # whose last number is remembered; a repetition comes within seconds

Key = tuple[str, str]  # system and serial of a cell
Item = tuple[str, bytes]  # what it is, and itself
Fate = Literal["taken", "gone", "failed"]  # of a parcel: the receiver has it, is not there, or else


class Overloaded(OtpError):
    """A cell is not taking messages as fast as they are sent to it."""

    def __init__(self, ref: Ref, waiting: int) -> None:
        super().__init__(f"{ref.label or ref.serial}: {waiting} messages wait for it")
        self.ref = ref
        self.waiting = waiting

    def __reduce__(self) -> tuple[type[Self], tuple[Ref, int]]:
        return type(self), (self.ref, self.waiting)


@dataclass(frozen=True, slots=True)
class Parcel:
    """What travels: some items for one incarnation of a cell."""

    to: Key
    sender: Ref
    number: int
    items: tuple[Item, ...]


@dataclass(slots=True)
class MailLane:
    ref: Ref
    waiting: deque[Item] = field(default_factory=deque)
    size: int = 0
    parcel: Parcel | None = None  # loaded, and not known to be taken
    under_way: bool = False
    rests_until_ms: int = 0  # not to be tried before

    @property
    def is_idle(self) -> bool:
        return self.parcel is None and not self.waiting


class Outbox:
    def __init__(self, me: Ref) -> None:
        self._me = me
        self._lanes: dict[Key, MailLane] = {}
        self._turn: deque[Key] = deque()  # lanes with something to send, in fair order
        self._number = 0
        self.under_way = 0

    def __len__(self) -> int:
        """How many lanes have not got rid of everything."""
        return len(self._lanes)

    def waiting(self) -> int:
        return sum(len(lane.waiting) for lane in self._lanes.values())

    def put(self, ref: Ref, item: Item, *, exempt: bool = False) -> None:
        key = key_of(ref)
        lane = self._lanes.get(key)
        if lane is None:
            lane = self._lanes[key] = MailLane(ref)
            self._turn.append(key)
        full = len(lane.waiting) >= LANE_MAX or lane.size + len(item[1]) > LANE_BYTES_MAX
        if full and not exempt and lane.waiting:  # I3
            raise Overloaded(ref, len(lane.waiting))
        lane.waiting.append(item)
        lane.size += len(item[1])

    def ready(self, now_ms: int) -> Iterator[MailLane]:
        """Lanes that may send now, each once, as long as there is room (I2)."""
        for _ in range(len(self._turn)):
            if self.under_way >= UNDER_WAY_MAX:
                return
            key = self._turn.popleft()
            lane = self._lanes.get(key)
            if lane is None or lane.under_way:
                continue
            if lane.rests_until_ms > now_ms:
                self._turn.append(key)
                continue
            yield lane
            if not lane.under_way and key in self._lanes:
                self._turn.append(key)

    def load(self, lane: MailLane) -> Parcel:
        """The parcel to send: the one that was not taken, or a new one."""
        lane.under_way = True
        self.under_way += 1
        if lane.parcel is None:
            self._number += 1
            items = tuple(self._unloaded(lane))
            lane.parcel = Parcel(key_of(lane.ref), self._me, self._number, items)
        return lane.parcel

    @staticmethod
    def _unloaded(lane: MailLane) -> Iterator[Item]:
        size = 0
        for _ in range(PARCEL_MAX):
            if not lane.waiting or (size + len(lane.waiting[0][1]) > PARCEL_BYTES_MAX and size):
                return
            item = lane.waiting.popleft()
            size += len(item[1])
            lane.size -= len(item[1])
            yield item

    def taken(self, lane: MailLane) -> None:
        """The receiver has the parcel."""
        self._returned(lane)
        lane.parcel = None
        if lane.is_idle:
            self._lanes.pop(key_of(lane.ref), None)
        else:
            self._turn.append(key_of(lane.ref))

    def not_taken(self, lane: MailLane, rests_until_ms: int) -> None:
        """Whether the receiver has it is not known; the same again, later."""
        self._returned(lane)
        lane.rests_until_ms = rests_until_ms
        self._turn.append(key_of(lane.ref))

    def drop(self, lane: MailLane) -> None:
        """There is no receiver at the end of it."""
        if lane.under_way:
            self._returned(lane)
        if self._lanes.get(key_of(lane.ref)) is lane:
            del self._lanes[key_of(lane.ref)]

    def lane(self, ref: Ref) -> MailLane | None:
        return self._lanes.get(key_of(ref))

    def lanes_under_way(self) -> list[MailLane]:
        return [lane for lane in self._lanes.values() if lane.under_way]

    def resting_until_ms(self, now_ms: int) -> int | None:
        """When the first of the lanes that rest may be tried again."""
        resting = (lane.rests_until_ms for lane in self._lanes.values() if not lane.under_way)
        return min((until for until in resting if until > now_ms), default=None)

    def _returned(self, lane: MailLane) -> None:
        if lane.under_way:
            lane.under_way = False
            self.under_way -= 1


class Numbers:
    """The last number of every sender: a parcel that was sent twice is seen once (I1)."""

    def __init__(self) -> None:
        self._last: OrderedDict[Key, int] = OrderedDict()

    def take(self, parcel: Parcel) -> bool:
        """Note the parcel's number; False where it was seen before."""
        key = key_of(parcel.sender)
        if parcel.number <= self._last.get(key, 0):
            return False
        self._last[key] = parcel.number
        self._last.move_to_end(key)
        if len(self._last) > SENDERS_MAX:
            self._last.popitem(last=False)
        return True


def key_of(ref: Ref) -> Key:
    return ref.system, ref.serial
