"""Records that simulated clients keep for the checkers: what they asked for, published and received.

Bodies stay encoded until a checker asks, as most are never looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.model.body import decode_attributes, decode_id
from penstock.model.expiry import expires_at_ms
from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.protocol.frames import LATEST, Missing

__all__ = ["Acknowledged", "Delivery", "LostTicks", "Period", "Published", "Start", "SubscriptionRecord", "Visit"]


@dataclass(slots=True)
class Published:
    """A message that a client sent, once or several times."""

    sent_us: int
    """When it was sent for the first time; before that, when it was published."""
    body: bytes
    pubend: str = ""
    """The pubend that it is for."""
    is_guaranteed: bool = False
    """Whether it is sent again, on every connection, until it is acknowledged."""
    is_named: bool = False
    """Whether the application named the pubend, and did not leave the choice to the session."""
    was_sent: bool = False
    is_refused: bool = False
    """Whether the broker refused it."""
    acked_us: int | None = None
    """When it was acknowledged; None if it never was."""
    is_unconfirmed: bool = False
    """Whether the client has given up on learning its outcome."""

    @property
    def message_id(self) -> MessageId:
        """Its identifier."""
        return decode_id(self.body)

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """Its attributes."""
        return decode_attributes(self.body)

    @property
    def expires_at_ms(self) -> int | None:
        """When it expires, by the clock of the broker where it got its identifier; None for never."""
        return expires_at_ms(self.body, self.attributes)


class Delivery(NamedTuple):
    """A message that a client received for one of its subscriptions."""

    received_us: int
    subscription: int
    pubend: str
    """The pubend's name: numbers change from connection to connection."""
    tick: int
    body: bytes

    @property
    def message_id(self) -> MessageId:
        """Its identifier."""
        return decode_id(self.body)

    @property
    def attributes(self) -> dict[str, AttributeValue]:
        """Its attributes."""
        return decode_attributes(self.body)


@dataclass(slots=True)
class Period:
    """A time during which a subscription was in force on all paths."""

    from_us: int
    to_us: int | None = None
    """None while it lasts."""

    def covers(self, time_us: int) -> bool:
        """Whether the time lies in the period."""
        return self.from_us <= time_us and (self.to_us is None or time_us < self.to_us)


class LostTicks(NamedTuple):
    """Ticks that a broker said will never be known."""

    received_us: int
    pubend: str
    first: int
    last: int
    numbers: tuple[int, ...]
    """The subscriptions that may miss something."""


class Start(NamedTuple):
    """When, and at which tick, a subscription began to be owed everything from a pubend."""

    confirmed_us: int
    tick: int
    trimmed_below: int = 0
    """The tick below which the pubend's log had been given up for trimming by then."""


class Acknowledged(NamedTuple):
    """A position that was acknowledged for a durable subscription."""

    sent_us: int
    pubend: str
    tick: int


@dataclass(slots=True)
class Visit:
    """A subscription on one connection: what it stated, what it was told, how far it came."""

    asked_us: int
    broker: str = ""
    stated: dict[str, int] = field(default_factory=dict)
    """The first tick it wanted, by pubend."""
    starts: dict[str, Start] = field(default_factory=dict)
    """Where it begins by pubend, as the broker said."""
    ended_us: int | None = None
    reached: dict[str, int] = field(default_factory=dict)
    """The positions when it ended."""
    behind: dict[str, int] = field(default_factory=dict)
    """Positions at pubends where the line of a move began further ahead: another life of the name had got further."""


@dataclass(slots=True)
class SubscriptionRecord:
    """One subscription of a client, over all its connections."""

    number: int
    selector: str
    asked: dict[str, int] = field(default_factory=dict)
    """The ticks at which it wanted to begin, by pubend."""
    granted: str = ""
    """The selector that the broker granted, in canonical form; empty until it did."""
    pending: tuple[str, ...] = ()
    """Pubends that had not confirmed it when the broker did."""
    refused: str = ""
    """Why it was refused, if it was."""
    gone_us: int | None = None
    """When the broker said that nothing more would follow."""
    periods: list[Period] = field(default_factory=list)
    starts: dict[str, Start] = field(default_factory=dict)
    """Guaranteed pubends with their first confirmation: from then on nothing may ever be missing."""
    positions: dict[str, int] = field(default_factory=dict)
    """Guaranteed pubends with the tick below which it has got everything."""
    ended_us: int | None = None
    """When the client gave it up, or its process died."""
    otherwise: int = LATEST
    """The tick at which it wanted to begin at all other pubends."""
    missing: Missing = "fail"
    pubends: tuple[str, ...] = ()
    """The only pubends whose messages it wants; none for all."""
    durable: str = ""
    """Its name, if it is durable: then this is one of the lives of that name."""
    lag: int = 0
    """Messages that a durable subscription leaves unacknowledged."""
    every: int = 1
    """How many opportunities a durable subscription has for each acknowledgement."""
    acknowledged: list[Acknowledged] = field(default_factory=list)
    """The positions it acknowledged under its name, in order."""
    settled: dict[str, Acknowledged] = field(default_factory=dict)
    """Positions it had acknowledged when the world was last at rest: no broker may forget them."""
    is_manual: bool = False
    """Whether only what its application acknowledges counts."""
    is_single: bool = False
    """Whether its application acknowledges single messages, in any order."""
    done: dict[tuple[str, int], int] = field(default_factory=dict)
    """When its application acknowledged each message, by pubend and tick, if it is manual."""
    named: list[Acknowledged] = field(default_factory=list)
    """The single messages that it told brokers of, beyond its positions, in order."""
    kept: list[Acknowledged] = field(default_factory=list)
    """The messages of which its application was told that they do not come again, with the time of that."""
    visits: list[Visit] = field(default_factory=list)
    given_up: dict[str, int] = field(default_factory=dict)
    """When it was refused: by pubend at which it had not begun, the tick below which the log had been given up."""
    refused_rightly: bool = True
    """Whether the reason for its refusal was true, as far as a client's surroundings can tell."""

    @property
    def is_confirmed(self) -> bool:
        """Whether it is in force now."""
        return bool(self.periods) and self.periods[-1].to_us is None

    def begin(self, now_us: int) -> None:
        """Note that the broker says it is in force."""
        self.end(now_us)
        self.periods.append(Period(now_us))

    def end(self, now_us: int) -> None:
        """Note that it is no longer in force: unsubscribed, or the connection is lost."""
        if self.is_confirmed:
            self.periods[-1].to_us = now_us

    def wants(self, pubend: str) -> bool:
        """Whether it wants messages of a pubend."""
        return not self.pubends or pubend in self.pubends

    @property
    def looks_back(self) -> bool:
        """Whether it begins in the past even at pubends for which it states no position."""
        return bool(self.durable) or self.otherwise != LATEST

    def begins_now(self, pubend: str) -> bool:
        """Whether it wanted to begin with new messages at a pubend."""
        return self.otherwise == LATEST and pubend not in self.asked

    def open_visit(self, now_us: int, broker: str, stated: Mapping[str, int]) -> None:
        """Note that it was asked for on a connection."""
        self.visits.append(Visit(now_us, broker, dict(stated)))

    def start(self, pubend: str, start: Start) -> None:
        """Note where the broker says it begins, for the first time or again."""
        self.starts.setdefault(pubend, start)
        if self.visits:
            self.visits[-1].starts.setdefault(pubend, start)

    def close_visit(self, now_us: int) -> None:
        """Note that the connection is lost, or the subscription was given up on it."""
        if self.visits and self.visits[-1].ended_us is None:
            last = self.visits[-1]
            last.ended_us, last.reached = now_us, self.reached_in(last)

    def reached_in(self, visit: Visit) -> dict[str, int]:
        """How far it came on one connection, or has come so far."""
        return visit.reached if visit.ended_us is not None else {**self.positions, **visit.behind}

    def was_in_force(self, time_us: int) -> bool:
        """Whether it was in force at that time."""
        return any(period.covers(time_us) for period in self.periods)
