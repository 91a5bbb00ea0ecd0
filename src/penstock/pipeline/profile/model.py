"""The data of a profile: how much traffic every selector wants, and what every subscription costs where it is.

Rates over all archived messages are exact. What subscriptions have in common is estimated from bit vectors over a
sample ([PADRES] section 4.1); with n samples a share p is known to about ± 2 √(p (1 − p) / n).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from penstock.matching.covering_set import CoveringSet
from penstock.pipeline.profile.bits import Bits, overlaps, popcounts, union
from penstock.selectors.selector import Selector

__all__ = ["AttributeUse", "BrokerLoad", "Profile", "ProfiledSubscription", "Window"]

OVERLAPS_MAX: Final = 5
"""How many of the most similar selectors are listed for each."""
PAIRS_MAX: Final = 4_000
"""How many selectors, those with most traffic, are compared with each other: the comparison is quadratic."""


@dataclass(slots=True, frozen=True)
class Window:
    """The profiled time span and its messages."""

    first_ms: int
    last_ms: int
    publications: int
    bytes: int
    sampled: int

    @property
    def seconds(self) -> float:
        """Length of the span; at least a second, so that rates stay sensible."""
        return max(1.0, (self.last_ms - self.first_ms) / 1000)

    @property
    def rate(self) -> float:
        """Messages per second."""
        return self.publications / self.seconds


@dataclass(slots=True, frozen=True)
class ProfiledSubscription:
    """A subscription and its broker."""

    broker: str
    number: int
    subscriber: str
    is_durable: bool
    selector: int
    """The index of its selector."""


@dataclass(slots=True, frozen=True)
class AttributeUse:
    """How messages and selectors use an attribute."""

    name: str
    messages: int
    """Archived messages that have it."""
    values: int
    """Approximate number of distinct values."""
    subscriptions: int
    """Subscriptions that test it."""


@dataclass(slots=True, frozen=True)
class BrokerLoad:
    """The combined demand of one broker's subscriptions."""

    broker: str
    subscriptions: int
    covering: int
    """Members of its covering set (CSS)."""
    input_msg_s: float
    """Messages that any of them wants, counted once."""
    output_msg_s: float
    """Messages sent, counted once per subscription that wants them."""
    output_bytes_s: float


@dataclass(frozen=True)
class Profile:
    """A profile of a lake."""

    lake: str
    window: Window
    selectors: Sequence[str]
    messages: npt.NDArray[np.int64]
    """For each selector, how many archived messages it wants."""
    bytes: npt.NDArray[np.int64]
    bits: Bits = field(repr=False)
    """For each selector, one bit per sampled message."""
    subscriptions: Sequence[ProfiledSubscription]
    attributes: Sequence[AttributeUse]
    unrecorded: int = 0
    """Subscriptions whose selector is not recorded in the lake."""

    def rate(self, selector: int) -> float:
        """Messages per second that a selector wants."""
        return int(self.messages[selector]) / self.window.seconds

    def bytes_rate(self, selector: int) -> float:
        """Bytes per second that a selector wants."""
        return int(self.bytes[selector]) / self.window.seconds

    @cached_property
    def by_broker(self) -> Mapping[str, Sequence[ProfiledSubscription]]:
        """The subscriptions of each broker."""
        found: dict[str, list[ProfiledSubscription]] = {}
        for each in self.subscriptions:
            found.setdefault(each.broker, []).append(each)
        return dict(sorted(found.items()))

    @cached_property
    def brokers(self) -> Sequence[BrokerLoad]:
        """The combined demand of each broker's subscriptions."""
        return [self._load(broker, some) for broker, some in self.by_broker.items()]

    def _load(self, broker: str, some: Sequence[ProfiledSubscription]) -> BrokerLoad:
        wanted = int(popcounts(union(self.bits, {each.selector: None for each in some})))
        share = wanted / self.window.sampled if self.window.sampled else 0.0
        return BrokerLoad(
            broker,
            len(some),
            len(self.covering_of(broker)),
            share * self.window.rate,
            sum(self.rate(each.selector) for each in some),
            sum(self.bytes_rate(each.selector) for each in some),
        )

    def covering_of(self, broker: str) -> set[str]:
        """The covering set of a broker's subscriptions, as the broker itself would state it."""
        covering = CoveringSet()
        for number in {each.selector: None for each in self.by_broker[broker]}:
            covering.add(Selector.parse(self.selectors[number]))
        return {str(each) for each in covering}

    def alone_rates(self, broker: str) -> dict[int, float]:
        """For each selector at a broker, messages per second that would not arrive there without it."""
        numbers = [each.selector for each in self.by_broker[broker]]
        once = twice = np.zeros(self.bits.shape[1], np.uint64)
        for number in numbers:
            twice = twice | once & self.bits[number]
            once = once | self.bits[number]
        per_bit = self.window.rate / self.window.sampled if self.window.sampled else 0.0
        alone = once & ~twice
        return {number: float(popcounts(self.bits[number] & alone)) * per_bit for number in dict.fromkeys(numbers)}

    @cached_property
    def common(self) -> Mapping[int, list[tuple[int, int]]]:
        """For each selector, the others that share the most sampled messages with it, and how many."""
        busiest = np.argsort(-self.messages, kind="stable")[:PAIRS_MAX]
        wanted = [int(number) for number in busiest if self.messages[number]]
        return overlaps(self.bits, wanted, most=OVERLAPS_MAX) if wanted else {}
