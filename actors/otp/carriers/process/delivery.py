"""Mail out of one cell: where each lane leads, and what becomes of a parcel.

A route is learned from mail that comes in, from a `Ref` that was made by its own cell, or from the
roll. Before a parcel leaves, the kernel is asked whether its receiver is alive, so that nothing is
sent to a port that may be another's by now.
"""

from collections.abc import Callable
from typing import Final

from ...cell import Ref
from .birth import Wire
from .mailbox import Fate, Item, Key, MailLane, Outbox, Parcel, key_of
from .registry import RegistryFolder, Roll

SOON_MS: Final = 5  # when to look again for a cell that is being born
_AGAIN_MS: Final = 20
_LOST_MS: Final = 30_000  # for a parcel of which nothing is heard, not even that it failed
_LOOK_MS: Final = 200  # Thespian tells of a refused connection at its next event, not before
_ROUTES_MAX: Final = 4_096


class Delivery:
    def __init__(self, me: Ref, roll: Roll, wire: Wire, lost: Callable[[Ref], None]) -> None:
        """`lost` hears of receivers that turn out to be gone."""
        self.changed: Callable[[], None] = lambda: None  # called when a parcel has come through
        self._node: str = me.place.node
        self._roll = roll
        self._wire = wire
        self._lost = lost
        self._outbox = Outbox(me)
        self._routes: dict[Key, RegistryFolder] = {}
        self._sent_ms: dict[Key, int] = {}
        self._now_ms = 0

    @property
    def is_done(self) -> bool:
        return not len(self._outbox)

    def waiting(self) -> int:
        return self._outbox.waiting()

    def put(self, ref: Ref, item: Item, now_ms: int, *, exempt: bool = False) -> None:
        self._outbox.put(ref, item, exempt=exempt)
        self.pump(now_ms)

    def learned(self, sender: Ref, host: str, port: int) -> None:
        place: RegistryFolder = sender.place
        if len(self._routes) >= _ROUTES_MAX:
            del self._routes[next(iter(self._routes))]
        self._routes[key_of(sender)] = RegistryFolder(
            place.node, place.pid, place.ticks, host, port
        )

    def knows(self, ref: Ref) -> bool:
        return bool(key_of(ref) in self._routes or ref.place.port)

    def forget(self, ref: Ref) -> None:
        """Its cell is gone, and so is what waits for it."""
        self._routes.pop(key_of(ref), None)
        lane = self._outbox.lane(ref)
        if lane is not None:
            self._outbox.drop(lane)

    def pump(self, now_ms: int) -> None:
        self._now_ms = now_ms
        for lane in self._outbox.ready(now_ms):
            place = self._place(lane.ref)
            if place is None:
                self.forget(lane.ref)
            elif not place.port:
                lane.rests_until_ms = now_ms + SOON_MS
            else:
                self._post(lane, place)

    def next_ms(self, now_ms: int) -> int | None:
        """When to pump again, if nothing happens before."""
        if self._outbox.under_way:
            self._look_for_lost(now_ms)
        resting = self._outbox.resting_until_ms(now_ms)
        if not self._outbox.under_way:
            return resting
        return min(now_ms + _LOOK_MS, resting or now_ms + _LOOK_MS)

    def _post(self, lane: MailLane, place: RegistryFolder) -> None:
        parcel = self._outbox.load(lane)
        self._sent_ms[parcel.to] = self._now_ms
        self._wire.post(
            place.host, place.port, parcel, lambda fate: self._returned(lane, parcel, fate)
        )

    def _place(self, ref: Ref) -> RegistryFolder | None:
        """Where a cell takes its mail; with no port while it is being born, None if it is gone."""
        place: RegistryFolder | None = self._routes.get(key_of(ref)) or ref.place
        assert place is not None
        if not place.port and ref.system == self._roll.system:
            entry = self._roll.find(ref.serial)
            place = place if entry is None else entry.place
        if place.node == self._node and not place.identity.is_alive:
            return None
        if place.node and place.node != self._node and not place.port:
            return None  # of another system, and we were not told where
        if place.port:
            self._routes[key_of(ref)] = place
        return place

    def _returned(self, lane: MailLane, parcel: Parcel, fate: Fate) -> None:
        if lane.parcel is not parcel or not lane.under_way:
            return  # it was given up
        if fate == "taken":
            self._outbox.taken(lane)
        elif (place := self._place(lane.ref)) is None or (
            fate == "gone" and place.node != self._node
        ):
            self.forget(lane.ref)
            self._lost(lane.ref)
        else:
            self._outbox.not_taken(lane, self._now_ms + _AGAIN_MS)
        self.changed()

    def _look_for_lost(self, now_ms: int) -> None:
        """Thespian drops a parcel without a word if its own code raises."""
        for lane in self._outbox.lanes_under_way():
            assert lane.parcel is not None
            if now_ms - self._sent_ms.get(lane.parcel.to, now_ms) > _LOST_MS:
                self._outbox.not_taken(lane, now_ms)
