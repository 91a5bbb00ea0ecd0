"""Keeps the records of a subscriber of the live fuzz, from which its next life continues.

The lines of its journal, K being the number of the subscription in its process:

    life PID                 the process began
    ask K START MISSING      it subscribes; START is a word, or ticks by pubend
    ready K                  the subscription is in force
    starts K TICKS           the ticks by pubend from which on nothing is missing, as far as they are known
    got K MESSAGES POSITIONS messages, each with pubend, tick, publisher and number; positions if they are stored
    at K POSITIONS           everything below these positions was read
    lost K PUBEND FIRST LAST the client has reported these ticks as lost
    refused K REASON         the broker has refused the subscription
    strange K WHAT           a message that nobody published like this
    left K                   the subscription was closed in order, in the middle of the round
    end K POSITIONS          everything was read up to the end of the round
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from bench.live_fuzz.journal import Journal, read_journal
from bench.live_fuzz.plan import SubscriberPlan, SubscriptionPlan
from bench.live_fuzz.quotes import draw_quote, payload_of
from penstock.session.positions import LostTicks
from penstock.session.received import Received

__all__ = ["Followed", "Reading", "SubscriberSpec", "stored_positions"]


class SubscriberSpec(msgspec.Struct, frozen=True):
    """What a subscriber process needs to know."""

    plan: SubscriberPlan
    seed: int
    urls: tuple[str, ...]
    """One URL for each of its brokers; each life starts with the next one."""


class Followed(Protocol):
    """What both kinds of subscriptions report about themselves."""

    @property
    def starts(self) -> dict[str, int]:
        """The first tick of the subscription, by pubend."""

    @property
    def positions(self) -> dict[str, int]:
        """The first tick not read yet, by pubend."""

    @property
    def lost(self) -> list[LostTicks]:
        """The newest notices of lost ticks."""

    @property
    def lost_count(self) -> int:
        """How many notices there were."""


class Reading:
    """Records what one subscription reads."""

    def __init__(self, number: int, plan: SubscriptionPlan, seed: int, journal: Journal) -> None:
        self.number, self.plan = number, plan
        self._seed, self._journal = seed, journal
        self._starts: dict[str, int] = {}
        self._positions: dict[str, int] = {}
        self._lost = 0
        self._is_storing = plan.keeping in {"stored", "durable-stored"}

    def write(self, kind: str, *fields: object) -> None:
        """Write a line about this subscription."""
        self._journal.write(kind, self.number, *fields)

    def began(self) -> None:
        """Forget the last subscription: the client subscribes again."""
        self._starts, self._positions, self._lost = {}, {}, 0

    def take(self, messages: Sequence[Received], followed: Followed) -> None:
        """Record messages that were read; where positions are stored, both become durable together."""
        self.observe_lost(followed)
        rows = [self._row(message) for message in messages]
        positions = followed.positions if self._is_storing else None
        self.write("got", rows, positions)

    def observe(self, followed: Followed) -> dict[str, int]:
        """Record where the subscription is, and return its positions; only the task that reads may call this."""
        self.observe_lost(followed)
        starts = followed.starts
        if starts != self._starts:
            self._starts = starts
            self.write("starts", starts)
        positions = followed.positions
        if positions != self._positions:
            self._positions = positions
            if self._is_storing:
                # Otherwise a subscription to rare messages would resume at an old position.
                self.write("got", [], positions)
            else:
                self.write("at", positions)
        return positions

    def observe_lost(self, followed: Followed) -> None:
        """Record what the client reports as lost."""
        new = followed.lost_count - self._lost
        if new:
            self._lost += new
            for lost in followed.lost[-new:]:
                self.write("lost", lost.pubend, lost.first, lost.last)

    def _row(self, message: Received) -> tuple[str, int, str, int]:
        attributes = message.attributes
        publisher, n = attributes.get("publisher"), attributes.get("n")
        if not isinstance(publisher, str) or not isinstance(n, int):
            self.write("strange", repr(message))
            return message.pubend, message.tick, "", 0
        expected = draw_quote(self._seed, publisher, n)
        if expected.attributes() != attributes or payload_of(publisher, n) != message.payload:
            self.write("strange", repr(message))
        return message.pubend, message.tick, publisher, n


def stored_positions(path: Path, number: int) -> dict[str, int]:
    """The positions stored by earlier lives; empty if there are none, or if the last subscription was refused."""
    stored: dict[str, int] = {}
    for line in read_journal(path):
        if line[0] == "got" and line[2] == number and line[4] is not None:
            stored = line[4]
        elif line[0] == "refused" and line[2] == number:
            stored = {}
    return stored
