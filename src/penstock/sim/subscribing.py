"""How a simulated client subscribes: what it wants, what came of it, and what it says of it on the next connection."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from penstock.protocol.frames import Subscribe, Subscribed
from penstock.sim.clock import Clock
from penstock.sim.positions import Positions
from penstock.sim.records import SubscriptionRecord

__all__ = ["Subscribing"]


class Subscribing:
    """The subscriptions of one client, over all its connections and deaths."""

    def __init__(self, clock: Clock, given_up: Callable[[], Mapping[str, int]]) -> None:
        """What logs have given up for trimming, by pubend, is looked up when something begins or is refused."""
        self._clock, self._given_up = clock, given_up
        self.records: dict[int, SubscriptionRecord] = {}
        """All by number, also those that were given up."""
        self.wanted: dict[int, str] = {}
        """The selectors of those that are wanted now, by number."""
        self.positions = Positions(self.records, self.wanted)

    def add(self, record: SubscriptionRecord) -> None:
        """Want this, too."""
        self.records[record.number] = record
        self.wanted[record.number] = record.selector

    def ask_for(self, record: SubscriptionRecord, broker: str) -> Subscribe:
        """What to say to a broker to get it, or to go on with it."""
        frame = self.continue_at(record)
        record.open_session(self._clock.now_us, broker, dict(frame.positions))
        return frame

    def continue_at(self, record: SubscriptionRecord) -> Subscribe:
        """The same, of which nothing is kept until it is known what becomes of it."""
        return Subscribe(
            record.number,
            record.selector,
            self.positions.stated(record.number),
            resumes=self.positions.resumes(record.number),
            otherwise=record.otherwise,
            missing=record.missing,
            durable=record.durable,
        )

    def give_up(self, number: int) -> None:
        """Do not want it any more."""
        del self.wanted[number]
        record = self.records[number]
        self._end(record)
        record.ended_us = self._clock.now_us

    def disconnect(self) -> None:
        """The connection is gone."""
        for record in self.records.values():
            self._end(record)

    def on_subscribed(self, frame: Subscribed) -> None:
        """The broker says that one is in force."""
        if frame.number in self.wanted:
            record = self.records[frame.number]
            record.granted, record.pending = frame.selector, frame.pending
            record.begin(self._clock.now_us)
            self.positions.on_subscribed(frame, self._clock.now_us, self._given_up())

    def resume(self, names: Mapping[int, str], begun: Iterable[tuple[int, str]]) -> None:
        """Another connection takes over, on which this was said."""
        self.positions.resume(names, begun)

    def move(self, frame: Subscribed, broker: str, asked_us: int, stated: Mapping[str, int]) -> None:
        """One goes on at another broker, without having been out of force."""
        record, now_us = self.records[frame.number], self._clock.now_us
        record.close_session(now_us)
        record.open_session(asked_us, broker, stated)
        if not record.is_confirmed:
            record.begin(now_us)
        record.granted, record.pending = frame.selector, frame.pending
        self.positions.on_subscribed(frame, now_us, self._given_up())

    def wait_for(self, number: int, broker: str, stated: Mapping[str, int]) -> None:
        """One was asked for at another broker, and is in force nowhere until that has answered."""
        record = self.records[number]
        self._end(record)
        record.open_session(self._clock.now_us, broker, stated)

    def on_refused(self, number: int, reason: str) -> None:
        """The broker refuses one, or ends it; it is not wanted any more then."""
        record = self.records[number]
        record.refused = reason
        # Where it has begun it can only go on, whatever is kept.
        record.given_up = {each: below for each, below in self._given_up().items() if each not in record.starts}
        if "not kept any more" in reason and record.sessions and not record.durable:
            stated = record.sessions[-1].stated
            record.refused_rightly = any(
                stated.get(pubend, record.otherwise) < below for pubend, below in record.given_up.items()
            )
        self._end(record)
        self.wanted.pop(number, None)

    def _end(self, record: SubscriptionRecord) -> None:
        record.end(self._clock.now_us)
        record.close_session(self._clock.now_us)
