"""How a simulated client subscribes: what it wants, what came of it, and what it says of it on the next connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.broker.frames import Subscribe, Subscribed
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
        stated = self.positions.stated(record.number)
        record.open_session(self._clock.now_us, broker, dict(stated))
        return Subscribe(
            record.number,
            record.selector,
            stated,
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

    def on_refused(self, number: int, reason: str) -> None:
        """The broker refuses one, or ends it; it is not wanted any more then."""
        record = self.records[number]
        record.refused = reason
        if "not kept any more" in reason and record.sessions:
            stated = record.sessions[-1].stated
            record.refused_rightly = any(
                stated.get(pubend, record.otherwise) < below for pubend, below in self._given_up().items()
            )
        self._end(record)
        self.wanted.pop(number, None)

    def _end(self, record: SubscriptionRecord) -> None:
        record.end(self._clock.now_us)
        record.close_session(self._clock.now_us)
