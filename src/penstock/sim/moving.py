"""How a simulated client goes to another broker: as the client library does, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from penstock.protocol.frames import (
    Deliver,
    Frame,
    Goodbye,
    Horizons,
    Lost,
    Migrate,
    Moved,
    MoveFailed,
    PubendNames,
    Refused,
    Subscribed,
    Unsubscribe,
    Welcome,
)
from penstock.sim.arrival import Arrival
from penstock.sim.line import Line
from penstock.sim.link import End
from penstock.sim.overlap import Overlap
from penstock.sim.positions import unpacked

if TYPE_CHECKING:
    from penstock.protocol.frames import ControlFrame
    from penstock.sim.client import SimClient

__all__ = ["Moving", "Roads"]

_ARRIVE_US: Final = 20_000_000
_OVERLAP_US: Final = 500_000
_LEAVE_US: Final = 12_000_000


@dataclass(slots=True, frozen=True)
class Roads:
    """How a client reaches a broker by its address, and stops wanting to be there."""

    reach: Callable[[str], None]
    abandon: Callable[[str], None]


class Moving:
    """The moves of one client."""

    def __init__(self, client: SimClient) -> None:
        self._client = client
        self.roads: Roads | None = None
        """How it reaches brokers that it is asked to go to; None if it cannot."""
        self._arrival: Arrival | None = None
        self._leaving: Line | None = None
        self._overlap: Overlap | None = None
        self._old_names: dict[int, str] = {}
        self._displaced: dict[int, None] = {}
        self._claimed: dict[int, None] = {}
        self.is_pinned = False
        """Whether it refuses to go anywhere."""
        self.count = 0
        """How often it has moved."""
        self.failures: list[str] = []
        """Why it stayed, each time."""

    @property
    def is_busy(self) -> bool:
        """Whether it has two connections, or is about to."""
        return self._arrival is not None or self._leaving is not None

    # --- what the old broker, or the only one, says

    def on_order(self, order: Migrate) -> None:
        """The broker wants it to go elsewhere."""
        client = self._client
        problem = "moving already" if self.is_busy else "pinned" if self.is_pinned else ""
        if not problem and (client.publishing.published or self.roads is None):
            problem = "publishes" if client.publishing.published else "knows no way"
        if problem:
            self._say(MoveFailed(order.session, problem))
            return
        assert client.line is not None
        assert client.line.welcome is not None
        assert self.roads is not None
        client.note(f"is asked to go to {order.broker}")
        arrival = self._arrival = Arrival(order, client.line.welcome.broker)
        self._overlap = Overlap(client, self._overlap)
        self.roads.reach(order.address)
        client.clock.after(_ARRIVE_US, lambda: self._fail_if(arrival, "it took too long"))

    def takes(self, number: int, pubend: str, frame: Deliver) -> bool:
        """Whether a message over the client's own connection is taken care of here."""
        overlap = self._overlap
        if overlap is None:
            return False
        if self._arrival is not None or not overlap.is_final:
            overlap.deliver_old(number, pubend, frame)
        else:
            overlap.deliver_new(number, pubend, frame)
        if overlap.is_over:
            self._overlap = None
        return True

    def on_ready(self, number: int) -> None:
        """A subscription is in force at the old broker: it has positions to go on from."""
        self._claimed.pop(number, None)
        if self._arrival is not None and self._arrival.line is not None:
            self._open(self._arrival, number)
        self._look()

    def withdraw(self, number: int) -> None:
        """A subscription is given up."""
        arrival = self._arrival
        if arrival is not None and arrival.stated.pop(number, None) is not None and arrival.line is not None:
            arrival.line.say(Unsubscribe(number))
        self._look()

    def explains(self, frame: Refused) -> bool:
        """Whether the old broker ends a durable subscription because the new one has claimed it."""
        number, arrival = frame.number, self._arrival
        if "was taken over" not in frame.reason or number not in self._client.wanted:
            return False
        if arrival is not None and number in arrival.stated:
            self._displaced[number] = None
            # What the old broker says of all subscriptions from now on is not meant for this one.
            self._client.subscribing.positions.void(number)
            return True
        if number in self._claimed:
            self._come_back()
            return True
        return False

    # --- the other connection

    def on_connected(self, end: End, dialled: str) -> bool:
        """A connection was made; whether it is the new one of a move."""
        arrival = self._arrival
        if arrival is None or arrival.order.address != dialled:
            return False
        line = arrival.line = Line(self._client.clock, end, on_silent=lambda: self._on_silent(arrival, end))
        line.say(self._client.hello(arrival.order.session, arrival.origin))
        return True

    def _on_silent(self, arrival: Arrival, end: End) -> None:
        if self._arrival is arrival:
            self._fail_if(arrival, "nothing was heard")
        else:
            self._client.on_silent(end)

    def on_lost(self, end: End) -> None:
        """A connection is gone that is not the client's only one."""
        if self._arrival is not None and self._arrival.line is not None and self._arrival.line.end is end:
            self._fail_if(self._arrival, "the connection was lost")
        elif self._leaving is not None and self._leaving.end is end:
            self._finish()

    def on_frames(self, end: End, frames: list[Frame]) -> None:
        """Take what the broker at the other end of such a connection says."""
        for frame in frames:
            arrival, leaving = self._arrival, self._leaving
            if arrival is not None and arrival.line is not None and arrival.line.end is end:
                arrival.line.hear()
                self._on_arrival(arrival, arrival.line, frame)
            elif leaving is not None and leaving.end is end:
                self._on_leaving(leaving, frame)
            else:
                return

    def _on_arrival(self, arrival: Arrival, line: Line, frame: Frame) -> None:
        match frame:
            case Welcome():
                line.welcome = frame
                for number in list(self._client.wanted):
                    self._open(arrival, number)
            case PubendNames(names):
                arrival.names.update(names)
            case Subscribed(number) if number in arrival.stated:
                arrival.confirmed[number] = frame
            case Refused("subscribe", number, reason) if number in arrival.stated:
                self._on_refused(arrival, number, reason)
            case Horizons():
                self._on_horizons(arrival, frame)
            case Deliver():
                self._on_deliver(arrival, frame)
            case Goodbye(_, reason):
                self._fail_if(arrival, reason)
            case Lost():
                self._fail_if(arrival, "it cannot go on from here")
        self._look()

    def _on_refused(self, arrival: Arrival, number: int, reason: str) -> None:
        if "was taken over" in reason:
            del arrival.stated[number]
            self._client.subscribing.on_refused(number, reason)
        else:
            self._fail_if(arrival, reason)

    def _on_horizons(self, arrival: Arrival, frame: Horizons) -> None:
        pubend, named, overlap = arrival.names[frame.pubend], unpacked(frame.numbers), self._overlap
        assert overlap is not None
        for number in list(arrival.stated):
            key, record = (number, pubend), self._client.subscriptions[number]
            if frame.is_only and number in named:
                reached = self._client.subscribing.positions.next_tick(number, pubend, frame.tick)
                if overlap.covers(key):
                    if reached < frame.tick:
                        # A second horizon must not hide how far behind it was at the first.
                        record.sessions[-1].behind.setdefault(pubend, reached)
                else:
                    if reached < frame.tick:
                        self._fail_if(arrival, f"{pubend} begins there ahead of here")
                        return
                    record.positions.setdefault(pubend, frame.tick)
                    overlap.opens(key)
                arrival.begun[key] = None
            elif frame.is_only or number in named or key not in arrival.begun:
                continue
            record.positions[pubend] = max(frame.tick, record.positions.get(pubend, 0))

    def _on_deliver(self, arrival: Arrival, frame: Deliver) -> None:
        assert self._overlap is not None
        for number in unpacked(frame.numbers):
            if number in arrival.stated:
                self._overlap.deliver_new(number, arrival.names[frame.pubend], frame)

    def _on_leaving(self, line: Line, frame: Frame) -> None:
        if isinstance(frame, Goodbye):
            line.end.close()
            self._finish()
        elif isinstance(frame, PubendNames):
            self._old_names.update(frame.names)
        elif isinstance(frame, Deliver):
            assert self._overlap is not None
            for number in unpacked(frame.numbers):
                if number in self._client.wanted:
                    self._overlap.deliver_old(number, self._old_names[frame.pubend], frame)

    # --- the move

    def _open(self, arrival: Arrival, number: int) -> None:
        """Ask for a subscription at the new broker, once it is in force at the old one."""
        record, line = self._client.subscriptions[number], arrival.line
        if line is None or not arrival.is_welcome or number in arrival.stated or not record.is_confirmed:
            return
        frame = self._client.subscribing.continue_at(record)
        arrival.stated[number] = dict(frame.positions)
        arrival.asked_us[number] = self._client.clock.now_us
        assert self._overlap is not None
        for pubend in arrival.stated[number]:
            self._overlap.opens((number, pubend))
        line.say(frame)

    def _is_ready(self, arrival: Arrival) -> bool:
        if not arrival.is_welcome:
            return False
        for number in self._client.wanted:
            confirmed, record = arrival.confirmed.get(number), self._client.subscriptions[number]
            if confirmed is None or not self._is_covered(number):
                return False
            if not {*confirmed.pending} <= {*record.pending, *record.positions}:
                return False
        return True

    def _is_covered(self, number: int) -> bool:
        """Whether the new connection brings every stream in which a subscription has a position."""
        overlap, positions = self._overlap, self._client.subscriptions[number].positions
        return overlap is not None and all(overlap.covers((number, pubend)) for pubend in positions)

    def _look(self) -> None:
        arrival = self._arrival
        if arrival is not None and self._is_ready(arrival):
            self._client.clock.after(_OVERLAP_US, lambda: self._make_if(arrival))

    def _make_if(self, arrival: Arrival) -> None:
        if self._arrival is arrival and self._is_ready(arrival):
            if self._client.publishing.published:
                self._fail_if(arrival, "publishes")
            else:
                self._take_over(arrival)

    def rescue(self) -> bool:
        """The old connection is lost; whether the new one has taken its place."""
        arrival = self._arrival
        # Of a position that came after it was asked for there, the new broker knows nothing, and would begin later.
        if arrival is None or not arrival.is_welcome or not all(map(self._is_covered, arrival.stated)):
            self._abandon()
            self._displaced, self._claimed = {}, {}
            # All is stated anew on the next connection.
            if self._leaving is None:
                self._overlap = None
            elif self._overlap is not None:
                self._overlap.lose()
            return False
        self._take_over(arrival, is_rescue=True)
        return True

    def _take_over(self, arrival: Arrival, *, is_rescue: bool = False) -> None:
        client, line = self._client, arrival.line
        assert line is not None
        assert client.line is not None
        assert self.roads is not None
        client.note(f"goes on at {arrival.order.broker}")
        self._arrival, self._displaced, self._claimed = None, {}, {}
        assert self._overlap is not None
        self._overlap.is_final, self.count = True, self.count + 1
        old = client.line
        self.roads.abandon(arrival.origin)
        self._old_names = client.subscribing.positions.names()
        if not is_rescue:
            old.say(Moved(arrival.order.session))
            self._leaving = old
            client.clock.after(_LEAVE_US, lambda: self._cut_if(old))
        client.settle(line)
        client.subscribing.resume(arrival.names, arrival.begun)
        for number in list(client.wanted):
            if number in arrival.confirmed:
                asked_us, stated = arrival.asked_us[number], arrival.stated[number]
                client.subscribing.move(arrival.confirmed[number], arrival.order.broker, asked_us, stated)
            elif number in arrival.stated:
                client.subscribing.wait_for(number, arrival.order.broker, arrival.stated[number])
            else:
                line.say(client.subscribing.ask_for(client.subscriptions[number], arrival.order.broker))
        line.say(Moved(arrival.order.session))
        if is_rescue:
            self._finish()

    def _finish(self) -> None:
        """The old connection has brought its last."""
        leaving, self._leaving = self._leaving, None
        if leaving is not None:
            leaving.is_over = True
        if self._overlap is not None:
            self._overlap.finish()

    def _cut_if(self, line: Line) -> None:
        if self._leaving is line:
            line.end.abort(loud=True)
            self._finish()

    def _fail_if(self, arrival: Arrival, reason: str) -> None:
        """It stays, if that is not settled."""
        if self._arrival is not arrival:
            return
        self._client.note(f"stays, and does not go to {arrival.order.broker}: {reason}")
        self.failures.append(reason)
        displaced, self._displaced = self._displaced, {}
        self._claimed = {
            number: None
            for number in arrival.stated
            if self._client.subscriptions[number].durable and number not in displaced
        }
        overlap = self._overlap
        self._abandon()
        if self._client.is_connected and overlap is not None:
            self._overlap = overlap
            overlap.stay()
            self._say(MoveFailed(arrival.order.session, reason))
            if any(number in self._client.wanted for number in displaced):
                self._come_back()

    def drop(self, *, loud: bool) -> None:
        """The client loses all its connections."""
        self._abandon(loud=loud)
        leaving = self._leaving
        if leaving is not None:
            self._finish()
            leaving.end.abort(loud=loud)

    def _abandon(self, *, loud: bool = True) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            self._overlap = None
            assert self.roads is not None
            self.roads.abandon(arrival.order.address)
            if arrival.line is not None:
                arrival.line.is_over = True
                arrival.line.end.abort(loud=loud)

    def _come_back(self) -> None:
        """Claim durable names back on a connection of its own: what is still said on this one is about the past."""
        line = self._client.line
        assert line is not None
        self._client.clock.after(0, lambda: self._client.on_silent(line.end))

    def _say(self, frame: ControlFrame) -> None:
        assert self._client.line is not None
        self._client.line.say(frame)
