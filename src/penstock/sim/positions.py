"""How far a simulated client has got, by subscription and pubend: what it states when it comes back, and acknowledges.

Positions belong to guaranteed pubends only, and those are the ones with which a broker has ever confirmed the
subscription. They outlive connections; the broker's numbers for pubends do not.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from functools import lru_cache

from penstock.protocol.frames import Acknowledge, Horizons, Subscribed, is_guaranteed_number
from penstock.sim.records import Acknowledged, Start, SubscriptionRecord

__all__ = ["Positions", "unpacked"]


class Positions:
    """The positions of one client."""

    def __init__(self, records: Mapping[int, SubscriptionRecord], wanted: Mapping[int, str]) -> None:
        """Share the client's subscriptions, and those it wants now."""
        self._records, self._wanted = records, wanted
        # Deliveries may come before the confirmation that tells whether their pubend is guaranteed.
        self._heard: dict[tuple[int, str], int] = {}
        self.loose: dict[tuple[int, str], int] = {}
        """By subscription and best-effort pubend, the tick behind the last message that came: no position."""
        self._names: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._begun: dict[tuple[int, str], None] = {}
        self._acknowledged: dict[str, int] = {}
        # For durable subscriptions: what was acknowledged on this connection, and what has come and was not, over all.
        self._durably: dict[tuple[int, str], int] = {}
        self._kept_back: dict[tuple[int, str], deque[int]] = {}
        self._opportunities = 0

    def connect(self) -> None:
        """Forget what was said on the last connection."""
        self._names, self._numbers, self._begun, self._acknowledged, self._durably = {}, {}, {}, {}, {}

    def void(self, number: int) -> None:
        """Forget what was said of one subscription on this connection: it is asked for again."""
        self._begun = {key: None for key in self._begun if key[0] != number}
        self._durably = {key: tick for key, tick in self._durably.items() if key[0] != number}

    def learn(self, names: tuple[tuple[int, str], ...]) -> None:
        """The broker numbers pubends."""
        self._names.update(names)
        self._numbers.update((name, number) for number, name in names if is_guaranteed_number(number))

    def name(self, number: int) -> str:
        """The pubend that the broker means by a number."""
        name = self._names.get(number)
        assert name is not None, f"the broker has never said what pubend {number} is"
        return name

    def names(self) -> dict[int, str]:
        """What the broker of this connection means by which number."""
        return dict(self._names)

    def heard(self, number: int, pubend: str) -> int:
        """The tick behind the last message that came for a subscription; 0 if none has."""
        return self._heard.get((number, pubend), 0)

    def next_tick(self, number: int, pubend: str, otherwise: int) -> int:
        """The first tick that has not come for a subscription, as far as anything is known of that."""
        known = self._records[number].positions.get(pubend), self._heard.get((number, pubend))
        return max([tick for tick in known if tick is not None], default=otherwise)

    def resume(self, names: Mapping[int, str], begun: Iterable[tuple[int, str]]) -> None:
        """Another connection takes over, on which this was said."""
        self.connect()
        self.learn(tuple(names.items()))
        self._begun = dict.fromkeys(begun)

    def stated(self, number: int) -> tuple[tuple[str, int], ...]:
        """What a subscription states when it begins, or is resumed: how far it is, or where it wants to begin."""
        record = self._records[number]
        # What came before the first confirmation must not come again.
        asked = {pubend: max(tick, self._heard.get((number, pubend), 0)) for pubend, tick in record.asked.items()}
        if record.looks_back:
            asked |= {pubend: tick for (each, pubend), tick in self._heard.items() if each == number}
        return tuple({**asked, **record.positions}.items())

    def resumes(self, number: int) -> bool:
        """Whether a subscription has got something, or was told that it would, so that it can only go on."""
        record = self._records[number]
        return bool(record.periods) or (record.looks_back and any(each == number for each, _ in self._heard))

    def on_subscribed(self, frame: Subscribed, now_us: int, trimmed_below: Mapping[str, int] | None = None) -> None:
        """The broker confirms: nothing will be missing from these ticks on."""
        record = self._records[frame.number]
        for pubend, tick in frame.starts:
            record.start(pubend, Start(now_us, tick, (trimmed_below or {}).get(pubend, 0)))
            # A position there is stays, even below the start: deliveries up to it may still be under way, as control
            # frames overtake them.
            heard = self._heard.get((frame.number, pubend), 0)
            record.positions.setdefault(pubend, max(tick, heard))

    def on_deliver(self, number: int, pubend: str, tick: int) -> None:
        """A message has come for a subscription."""
        self._heard[number, pubend] = tick + 1
        record = self._records.get(number)
        if record is not None and record.positions.get(pubend, tick + 1) <= tick:
            record.positions[pubend] = tick + 1
        if record is not None and record.durable:
            self._kept_back.setdefault((number, pubend), deque()).append(tick)

    def on_horizons(self, frame: Horizons) -> Acknowledge | None:
        """Everything below a tick has been sent to some subscriptions; answers with what can be acknowledged now."""
        pubend, named = self.name(frame.pubend), unpacked(frame.numbers)
        if frame.is_only:
            # One that was given up ignores deliveries that are still under way, so it gets no further.
            numbers = [number for number in named if number in self._wanted]
            self._begun.update(dict.fromkeys((number, pubend) for number in numbers))
        else:
            # Of those that were not named on this connection yet, the broker may not have known when it said this.
            numbers = [each for each in self._wanted if each not in named and (each, pubend) in self._begun]
        for number in numbers:
            positions = self._records[number].positions
            if positions.get(pubend, frame.tick) < frame.tick:
                positions[pubend] = frame.tick
        return self._acknowledgement()

    def _acknowledgement(self) -> Acknowledge | None:
        risen: list[tuple[int, int]] = []
        records = [self._records[number].positions for number in self._wanted if not self._records[number].durable]
        for pubend, number in self._numbers.items():
            if records and all(pubend in positions for positions in records):
                tick = min(positions[pubend] for positions in records)
                if tick > self._acknowledged.get(pubend, -1):
                    self._acknowledged[pubend] = tick
                    risen.append((number, tick))
        return Acknowledge(tuple(risen)) if risen else None

    def durable_acknowledgements(self, now_us: int) -> list[Acknowledge]:
        """What durable subscriptions acknowledge now, each as its habit is."""
        self._opportunities += 1
        risen: list[Acknowledge] = []
        for number in self._wanted:
            record = self._records[number]
            if record.durable and self._opportunities % record.every == 0:
                risen += self._acknowledgement_of(record, now_us)
        return risen

    def _acknowledgement_of(self, record: SubscriptionRecord, now_us: int) -> list[Acknowledge]:
        risen: list[tuple[int, int]] = []
        for pubend, position in record.positions.items():
            key = (record.number, pubend)
            kept_back = self._kept_back.get(key, deque())
            while len(kept_back) > record.lag:
                kept_back.popleft()
            tick = kept_back[0] if kept_back else position
            if pubend in self._numbers and tick > self._durably.get(key, -1):
                self._durably[key] = tick
                record.acknowledged.append(Acknowledged(now_us, pubend, tick))
                risen.append((self._numbers[pubend], tick))
        return [Acknowledge(tuple(risen), record.number)] if risen else []


@lru_cache(maxsize=4_096)
def unpacked(numbers: bytes) -> tuple[int, ...]:
    """The numbers of subscriptions in a frame."""
    return struct.unpack(f">{len(numbers) // 4}I", numbers)
