"""Makes up the workload: a stock market of four feeds, and selectors about its symbols ([PADRES] 5).

The feeds publish at different rates, so that a limit can spare some. Of the paper's six templates of selectors only
those with a symbol are used: subscribers to the whole market would each be a tenth of all traffic, and moving a few of
them would already balance the brokers. A feed quotes one symbol after the other, each from any day: every second each
symbol has its share of the traffic, so that loads are known within seconds. Everything follows from the seed.
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
"""The attribute that names the feed of a quote; feeds are the groups of the limit."""
MARK: Final = "demo_mark"
"""The attribute of the last message of each publisher, to which every subscriber subscribes as well."""
PUBENDS: Final = ("pb1.a", "pb1.b")
SENT_AT: Final = struct.Struct(">Q")
FILLING: Final = bytes(range(100 - SENT_AT.size))
"""Filler after the timestamp in every payload, so that damage shows."""
_SHARES: Final = {"gold": 0.4, "silver": 0.3, "bronze": 0.2, "iron": 0.1}
_DAYS: Final = 250
_SYMBOLS: Final = 20
_QUOTES: Final = 5_000
_PROBED: Final = 300
"""Quotes sampled to estimate the traffic."""
_FRAME_BYTES: Final = 24
"""Approximate size of a delivered message beside its body."""


@dataclass(slots=True, frozen=True)
class Feed:
    """The feed of one publisher."""

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
        """An endless stream of the quotes of a feed."""
        own = self._rounds()[self.feeds.index(feed) :: len(self.feeds)]
        return ({**quote, FEED: feed.name} for quote in cycle(chain.from_iterable(own)))

    def delivered_bytes_s(self) -> float:
        """Estimated bytes per second to all subscribers together, from which the power of brokers is chosen."""
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
    """Extend a selector to match the marks as well."""
    return f"({selector}) OR {MARK} IS NOT NULL"


def _selectors(workload: QuoteWorkload, count: int) -> list[str]:
    """The first selectors that name a symbol."""
    return list(islice((text for text in workload.subscriptions(4 * count) if "symbol" in text), count))
