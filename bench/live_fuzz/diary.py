"""Keeps the records of a publisher of the live fuzz about its messages.

Every line has the name of the client, C, since children of a fork share a journal:

    client C                  a client was made, which numbers its messages from 1, or continues the numbers of C
    sent C N PUBEND ATTRS     it is about to publish message N; the client chooses the pubend if PUBEND is empty
    took C FIRST LAST         the call returned: the client has accepted these messages
    doubt C FIRST LAST WHY    the call was cancelled or failed: these messages may or may not arrive
    blocked C N               the client refused to accept N: it must never arrive
    acked C N                 a flush returned: all messages up to N that the client had accepted are acknowledged
    unsure C N WHY            a flush failed: the messages up to N that were not acknowledged before are in doubt
    cancelled C WHAT          a call was cancelled
"""

from __future__ import annotations

from typing import Final

import msgspec

from bench.live_fuzz.journal import Journal
from bench.live_fuzz.plan import PublisherPlan
from bench.live_fuzz.quotes import Quote, draw_quote
from penstock.session.settings import ClientSettings

__all__ = ["PATIENT", "Diary", "PublisherSpec"]

PATIENT: Final = ClientSettings(backoff_max_ms=500, close_ms=3_000)
"""Clients reconnect soon: rounds are short."""


class PublisherSpec(msgspec.Struct, frozen=True):
    """What a publisher process needs to know."""

    plan: PublisherPlan
    seed: int
    url: str
    fork_first: bool
    """Whether a forked publisher makes its client before the fork."""


class Diary:
    """Numbers the messages of one client, and records what becomes of them."""

    def __init__(self, journal: Journal, seed: int, name: str, last: int = 0) -> None:
        self.name = name
        self._journal, self._seed = journal, seed
        self._last = last
        journal.write("client", name)

    def issue(self, pubend: str) -> Quote:
        """Make the next message, which is about to be published."""
        self._last += 1
        quote = draw_quote(self._seed, self.name, self._last)
        self._journal.write("sent", self.name, self._last, pubend, quote.attributes())
        return quote

    def took(self, first: Quote, last: Quote) -> None:
        """Record that the client has accepted these messages."""
        self._journal.write("took", self.name, first.n, last.n)

    def doubt(self, first: Quote, last: Quote, why: str) -> None:
        """Record that the client may or may not have accepted these messages."""
        self._journal.write("doubt", self.name, first.n, last.n, why)

    def blocked(self, quote: Quote) -> None:
        """Record that the client has refused this message."""
        self._journal.write("blocked", self.name, quote.n)

    def acked(self) -> None:
        """Record that a flush has returned."""
        self._journal.write("acked", self.name, self._last)

    def unsure(self, why: str) -> None:
        """Record that a flush has failed."""
        self._journal.write("unsure", self.name, self._last, why)

    def cancelled(self, what: str) -> None:
        """Record that a call was cancelled."""
        self._journal.write("cancelled", self.name, what)
