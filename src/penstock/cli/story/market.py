"""What is published and asked for: a made-up stock market of four feeds, and selectors about its symbols ([PADRES] 5).

The feeds publish at different rates, so that a limit has somebody to spare. Of the paper's six templates of selectors
only those with a symbol are used: subscribers who want the whole market would be a tenth of all traffic each, and a
few of them moved would already balance the brokers. A feed quotes one symbol after the other, each from any day: in
every second each has its share of the traffic, so that within seconds there are loads to go by. Everything follows from
the seed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, cycle, islice
from random import Random
from typing import Final

from penstock.model.body import encode_body
from penstock.model.message import Message
from penstock.model.message_id import MessageId
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse
from penstock.sim.workloads import QuoteWorkload
from penstock.sim.workloads.quotes import Publication

__all__ = ["FEED", "FILLING", "MARK", "PUBENDS", "SENT_AT", "Feed", "Market", "with_mark"]

FEED: Final = "feed"
"""The attribute that says which feed a quote is of: the groups of the limit."""
MARK: Final = "demo_mark"
"""The attribute of the last message of each publisher, which everybody asks for as well."""
PUBENDS: Final = ("pb1.a", "pb1.b")
SENT_AT: Final = struct.Struct(">Q")
FILLING: Final = bytes(range(100 - SENT_AT.size))
"""What follows the time in every payload, so that damage shows."""
_SHARES: Final = {"gold": 0.4, "silver": 0.3, "bronze": 0.2, "iron": 0.1}
_DAYS: Final = 250
_SYMBOLS: Final = 20
_QUOTES: Final = 5_000
_PROBED: Final = 300
"""Quotes by which the traffic to come is estimated."""
_FRAME_BYTES: Final = 24
"""What a delivered message takes besides its body, about."""


@dataclass(slots=True, frozen=True)
class Feed:
    """One publisher."""

    name: str
    pubend: str
    rate: float
    """Messages per second that it would like to publish."""


class Market:
    """Quotes of four feeds, and the selectors of a crowd."""

    def __init__(self, seed: int, *, rate: float, subscribers: int) -> None:
        self._workload = QuoteWorkload(Random(seed), _SYMBOLS, days=_DAYS)
        pubends = cycle(PUBENDS)
        self.feeds = tuple(Feed(name, next(pubends), rate * share) for name, share in _SHARES.items())
        self.selectors = tuple(_selectors(self._workload, subscribers))
        self._rate = rate

    def quotes(self, feed: Feed) -> Iterator[Publication]:
        """The quotes of a feed, for ever."""
        own = self._rounds()[self.feeds.index(feed) :: len(self.feeds)]
        return ({**quote, FEED: feed.name} for quote in cycle(chain.from_iterable(own)))

    def delivered_bytes_s(self) -> float:
        """Bytes per second to all subscribers together, estimated: by which the power of brokers is chosen."""
        quotes = self._workload.sample(_PROBED)
        fits = [compile_condition(parse(text)) for text in self.selectors]
        total = 0
        for quote in quotes:
            size = len(encode_body(MessageId(1, 1, 1, 1), Message(quote, SENT_AT.pack(0) + FILLING))) + _FRAME_BYTES
            total += size * sum(fit(quote) is True for fit in fits)
        return total / len(quotes) * self._rate

    def _rounds(self) -> list[tuple[Publication, ...]]:
        """Rounds of quotes, each with one of every symbol."""
        by_symbol: dict[object, list[Publication]] = {}
        for quote in self._workload.sample(_QUOTES):
            by_symbol.setdefault(quote["symbol"], []).append(quote)
        return list(zip(*by_symbol.values(), strict=False))


def with_mark(selector: str) -> str:
    """The selector of a subscriber that wants the marks as well."""
    return f"({selector}) OR {MARK} IS NOT NULL"


def _selectors(workload: QuoteWorkload, count: int) -> list[str]:
    """The first selectors that name a symbol."""
    return list(islice((text for text in workload.subscriptions(4 * count) if "symbol" in text), count))
