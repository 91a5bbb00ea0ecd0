"""Records for the judges what a simulated client said and heard, line by line, without asking the session.

Brokers must obey one rule: on one line, the messages of a guaranteed pubend come to a subscription in ascending order,
and none below the position from which it resumes. The session must obey another: it drops only what came before on
another line. Breaking either rule is a breach, even if the application did not notice.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from penstock.model.expiry import EXPIRES
from penstock.protocol import frames as f
from penstock.protocol.frames import Frame
from penstock.session.inbox import Inbox
from penstock.sim.clock import Clock
from penstock.sim.records import Acknowledged, LostTicks, Start, SubscriptionRecord

__all__ = ["Witness", "unpacked"]

_Key = tuple[int, str]
"""A subscription, by its number on the wire, and a pubend."""
_EXPIRES = EXPIRES.encode()


@dataclass(slots=True)
class _Heard:
    """One line: what the client asked for on it, and what the broker said."""

    broker: str = ""
    names: dict[int, str] = field(default_factory=dict)
    asked_us: dict[int, int] = field(default_factory=dict)
    stated: dict[int, dict[str, int]] = field(default_factory=dict)
    least: dict[int, dict[str, int]] = field(default_factory=dict)
    """Stated positions below which nothing may come."""
    confirmed: dict[int, f.Subscribed] = field(default_factory=dict)
    begun: dict[_Key, None] = field(default_factory=dict)
    last: dict[_Key, int] = field(default_factory=dict)
    """The last tick that came, of guaranteed pubends."""
    best_effort: dict[_Key, set[int]] = field(default_factory=dict)
    """The ticks that came, of best-effort pubends."""
    taken: dict[_Key, int] = field(default_factory=dict)
    """The tick below which somebody else has got everything, under the same durable name."""
    starts: dict[_Key, int] = field(default_factory=dict)
    """The tick from which a subscription is to get everything."""
    promised: dict[_Key, int] = field(default_factory=dict)
    """Starts promised on the line before, which the client has believed: this line may begin earlier."""

    def passes_by(self, key: _Key, tick: int) -> bool:
        """Whether a message that comes on another line is no longer one for the application."""
        return tick <= self.last.get(key, -1) or tick < self.taken.get(key, 0)


class Witness:
    """The records of one client, over all its lines and lives."""

    def __init__(self, clock: Clock, given_up: Callable[[], Mapping[str, int]], note: Callable[[str], None]) -> None:
        """``given_up`` tells what logs gave up for trimming, by pubend; asked when something begins or is refused."""
        self._clock, self._given_up, self._note = clock, given_up, note
        self._records: dict[int, SubscriptionRecord] = {}
        """By the numbers on the wire, which start over in every life."""
        self._inboxes: dict[int, Inbox] = {}
        self._lines: dict[int, _Heard] = {}
        self._line = 0
        self._excused = self._repeated = 0
        self.breaches: list[str] = []
        """Rules that a broker or the session broke."""
        self.goodbyes: list[f.Goodbye] = []
        """The goodbyes with which brokers ended its lines."""
        self.lost: list[LostTicks] = []
        """The ticks that brokers reported as lost."""
        self.carriers: dict[tuple[int, str, int], list[tuple[str, int]]] = {}
        """Who brought a message with a lifetime, by subscription, pubend and tick: brokers, and when it asked them."""
        self.forgets: Counter[str] = Counter()
        """How often it has asked a broker to forget a name, repetitions on other connections included."""
        self.holds: list[str] = []
        """All reasons it was ever given for holding back publications."""
        self.told: dict[str, None] = {}
        """Brokers it was asked to move to, in this life or since it was placed somewhere."""
        self.failures: list[str] = []
        """Why it did not move where brokers wanted it."""
        self.welcomes = self.refused = 0

    # --- what the client does

    def add(self, record: SubscriptionRecord, inbox: Inbox) -> None:
        """Note a new subscription."""
        self._records[inbox.number], self._inboxes[inbox.number] = record, inbox

    def record_of(self, inbox: Inbox) -> SubscriptionRecord:
        """The record of a subscription."""
        return self._records[inbox.number]

    def give_up(self, inbox: Inbox) -> None:
        """Note that the application has given up a subscription."""
        record = self.record_of(inbox)
        self._end(inbox.number)
        record.ended_us = self._clock.now_us

    def die(self) -> None:
        """Note that the process has ended, and all it knew with it."""
        for inbox in self._inboxes.values():
            if not inbox.is_over:
                self.give_up(inbox)
        self._records, self._inboxes, self._lines = {}, {}, {}
        self._line = self._excused = self._repeated = 0

    def lose(self) -> None:
        """Note that the client has lost its connection."""
        for number in self._records:
            self._end(number)

    def settle(self, line: int) -> None:
        """Make this the client's line from now on: what was said on it counts."""
        heard, former = self._heard(line), self._lines.get(self._line)
        if former is not None and former is not heard:
            heard.promised = {**former.promised, **former.starts}
        self._line = line
        self.welcomes += 1
        for number in heard.asked_us:
            record, inbox = self._records[number], self._inboxes[number]
            if inbox.is_over or inbox.state == "closing":
                continue
            self.sync(number)
            record.close_visit(self._clock.now_us)
            record.open_visit(heard.asked_us[number], heard.broker, heard.stated[number])
            if number in heard.confirmed:
                self._confirm(number, heard.confirmed[number], is_going_on=record.is_confirmed)
            else:
                record.end(self._clock.now_us)

    def sync(self, number: int) -> None:
        """Update a record with the subscription's positions."""
        self._records[number].positions = self._inboxes[number].positions.known()

    def sync_all(self) -> None:
        """Update the records of all subscriptions with their positions."""
        for number in self._records:
            self.sync(number)

    def on_refused(self, inbox: Inbox) -> None:
        """Note that a broker has ended a subscription."""
        record = self.record_of(inbox)
        record.refused = inbox.reason
        # Where it has begun it can only continue, whatever is kept.
        elsewhere = [each for each in self._given_up() if each in record.starts or not record.wants(each)]
        record.given_up = {each: below for each, below in self._given_up().items() if each not in elsewhere}
        if "not kept any more" in inbox.reason and record.visits and not record.durable:
            stated = record.visits[-1].stated
            record.refused_rightly = any(
                stated.get(pubend, record.otherwise) < below for pubend, below in record.given_up.items()
            )
        self._end(inbox.number)

    def check_repeated(self, repeated: int) -> None:
        """Check the number of deliveries that the session has dropped so far because they had come before."""
        if repeated - self._repeated > self._excused:
            self.breaches.append(f"the session dropped a delivery that came on no other line ({repeated} in all)")
        self._excused = max(0, self._excused - (repeated - self._repeated))
        self._repeated = repeated

    # --- what it says

    def on_said(self, line: int, frame: Frame) -> None:
        """Note what the client says, as far as the judges need it."""
        heard, now_us = self._heard(line), self._clock.now_us
        match frame:
            case f.Subscribe(number):
                heard.asked_us[number], heard.stated[number] = now_us, dict(frame.positions)
                # If it does not resume, the register of a durable name may know better.
                heard.least[number] = dict(frame.positions) if frame.resumes else {}
                if line == self._line:
                    self._records[number].open_visit(now_us, heard.broker, heard.stated[number])
            case f.Join(number):
                heard.asked_us[number], heard.stated[number] = now_us, {}
                heard.least[number] = {}
                if line == self._line:
                    self._records[number].open_visit(now_us, heard.broker, {})
            case f.Acknowledge(positions, number) if number in self._records:
                acknowledged = self._records[number].acknowledged
                acknowledged += [Acknowledged(now_us, heard.names[pubend], tick) for pubend, tick in positions]
            case f.Settle(number, pubend, below, ticks) if number in self._records:
                name = heard.names[pubend]
                self._records[number].acknowledged.append(Acknowledged(now_us, name, below))
                self._records[number].named += [Acknowledged(now_us, name, tick) for tick in ticks]
            case f.Forget(_, durable):
                self.forgets[durable] += 1
            case f.MoveFailed(_, reason):
                self._note(f"stays: {reason}")
                self.failures.append(reason)
            case _:
                pass

    # --- what it hears

    def hear(self, line: int, frames: Iterable[Frame]) -> Iterator[Frame]:
        """Look at every frame just before the session gets it."""
        heard = self._heard(line)
        for frame in frames:
            if type(frame) is f.Deliver:
                self._on_deliver(line, heard, frame)
            else:
                self._on_other(line, heard, frame)
            yield frame

    def _on_deliver(self, line: int, heard: _Heard, frame: f.Deliver) -> None:
        if f.is_guaranteed_number(frame.pubend) and (pubend := heard.names.get(frame.pubend)) is not None:
            for tick, numbers, body in zip(frame.ticks, frame.numbers, frame.bodies, strict=True):
                expires = _EXPIRES in body
                for number in unpacked(numbers):
                    self._on_message(line, heard, (number, pubend), tick, expires=expires)
                    if expires and number in heard.asked_us:
                        self._note_carrier(heard, (number, pubend), tick)
        elif (loose := heard.names.get(frame.pubend)) is not None:
            for tick, numbers in zip(frame.ticks, frame.numbers, strict=True):
                for number in unpacked(numbers):
                    self._on_best_effort(heard, (number, loose), tick)
        for tick, numbers in zip(frame.ticks, frame.numbers, strict=True):
            self._note(f"gets {tick} for {numbers.hex()}")

    def _on_message(self, line: int, heard: _Heard, key: _Key, tick: int, *, expires: bool = False) -> None:
        number, pubend = key
        last = heard.last.get(key, -1)
        if tick <= last or tick < heard.least.get(number, {}).get(pubend, 0):
            self._complain(number, f"{pubend} {tick} came on line {line} behind {last}, or below its position")
        elif any(other.passes_by(key, tick) for other in self._lines.values() if other is not heard):
            self._excused += 1
        elif tick < self._began(line, heard, key):
            # The broker where the client is, or was, promised less than this one has.
            self._excused += 1
        elif expires and number in self._inboxes and tick < (self._inboxes[number].positions.get(pubend) or 0):
            # By the clock of another line's broker it had expired, and was passed over there.
            self._excused += 1
        heard.last[key] = max(last, tick)

    def _on_best_effort(self, heard: _Heard, key: _Key, tick: int) -> None:
        """The session drops what came before: another broker may bring it again, on a slower way."""
        lines = [each for each in self._lines.values() if each is not heard]
        if any(tick in each.best_effort.get(key, ()) for each in lines):
            self._excused += 1
        heard.best_effort.setdefault(key, set()).add(tick)

    def _note_carrier(self, heard: _Heard, key: _Key, tick: int) -> None:
        number, pubend = key
        place = (self._records[number].number, pubend, tick)
        self.carriers.setdefault(place, []).append((heard.broker, heard.asked_us[number]))

    def _began(self, line: int, heard: _Heard, key: _Key) -> int:
        """Where a subscription began according to a line other than this one."""
        return (heard.promised if line == self._line else self._heard(self._line).starts).get(key, 0)

    def _on_other(self, line: int, heard: _Heard, frame: Frame) -> None:
        match frame:
            case f.Welcome(_, broker):
                self._note(f"is welcomed by {broker} as {frame.publisher}")
                heard.broker = broker
            case f.PubendNames(names):
                heard.names.update(names)
            case f.Subscribed(number):
                self._on_subscribed(line, heard, frame)
            case f.Unsubscribed(number) if line == self._line:
                self._records[number].gone_us = self._clock.now_us
            case f.Refused(request, number, reason):
                self._note(f"is refused {request} {number}: {reason}")
                self.refused += 1
            case f.Goodbye(code):
                self._note(f"is told goodbye: {code}")
                self.goodbyes.append(frame)
            case f.HeldBack(reason):
                self._note(f"is held back: {reason}" if reason else "is held back no more")
                self.holds += [reason] if reason else []
            case f.Migrate(_, _, broker):
                self._note(f"is asked to go to {broker}")
                self.told[broker] = None
            case f.Horizons() if line != self._line:
                self._on_horizons(heard, frame)
            case f.Lost() if line == self._line:
                self._on_lost(heard, frame)
            case _:
                pass

    def _on_subscribed(self, line: int, heard: _Heard, frame: f.Subscribed) -> None:
        self._note(f"is subscribed {frame.number} pending {len(frame.pending)}")
        if frame.number in heard.asked_us:
            heard.confirmed[frame.number] = frame
            for pubend, tick in frame.starts:
                heard.starts.setdefault((frame.number, pubend), tick)
            inbox = self._inboxes[frame.number]
            if line == self._line and not inbox.is_over and inbox.state != "closing":
                self._confirm(frame.number, frame, is_going_on=False)

    def _confirm(self, number: int, frame: f.Subscribed, *, is_going_on: bool) -> None:
        record, now_us = self._records[number], self._clock.now_us
        record.granted, record.pending = frame.selector, frame.pending
        if not is_going_on:
            record.begin(now_us)
        trimmed_below = self._given_up()
        for pubend, tick in frame.starts:
            record.start(pubend, Start(now_us, tick, trimmed_below.get(pubend, 0)))

    def _on_horizons(self, heard: _Heard, frame: f.Horizons) -> None:
        """Note where a subscription begins on the new line of a move."""
        pubend = heard.names.get(frame.pubend)
        if not frame.is_only or pubend is None:
            return
        for number in unpacked(frame.numbers):
            if number not in heard.asked_us:
                continue
            reached = self._inboxes[number].positions.get(pubend)
            is_known = pubend in heard.stated[number] or (number, pubend) in heard.begun
            if is_known and reached is not None and reached < frame.tick:
                # Somebody else got further with its name. A second horizon must not hide how far behind it was.
                self._records[number].visits[-1].behind.setdefault(pubend, reached)
                if self._records[number].durable:
                    heard.taken[number, pubend] = frame.tick
            heard.begun[number, pubend] = None

    def _on_lost(self, heard: _Heard, frame: f.Lost) -> None:
        pubend = heard.names[frame.pubend]
        self._note(f"is told that {pubend} {frame.first} to {frame.last} are lost")
        numbers = tuple(self._records[number].number for number in frame.numbers)
        self.lost.append(LostTicks(self._clock.now_us, pubend, frame.first, frame.last, numbers))

    # --- internals

    def _heard(self, line: int) -> _Heard:
        heard = self._lines.get(line)
        if heard is None:
            heard = self._lines[line] = _Heard()
        return heard

    def _end(self, number: int) -> None:
        self.sync(number)
        record = self._records[number]
        record.end(self._clock.now_us)
        record.close_visit(self._clock.now_us)

    def _complain(self, number: int, what: str) -> None:
        inbox = self._inboxes.get(number)
        if inbox is None:
            self.breaches.append(f"{what}, for no subscription")
        elif inbox.state in ("asked", "ready"):
            self.breaches.append(f"{what}, subscription {self._records[number].number}")


@lru_cache(maxsize=4_096)
def unpacked(numbers: bytes) -> tuple[int, ...]:
    """The numbers of subscriptions in a frame."""
    return struct.unpack(f">{len(numbers) // 4}I", numbers)
