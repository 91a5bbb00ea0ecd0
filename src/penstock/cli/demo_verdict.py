"""Judges a demo: evaluates every selector on every message, and compares the result with what was delivered.

It uses no index, no filter and no broker: conditions are evaluated as they were written. It compares the lists of
identifiers per publisher, so that losses, duplicates, strays and reordering all show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from penstock.model.message_id import MessageId
from penstock.model.values import AttributeValue
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse

__all__ = ["DemoVerdict", "Latency", "SentMessage", "judge", "latency_of"]

_PUBLISHER_BYTES: Final = 8
"""Length of the part of an identifier that says who published it, and at which broker."""


@dataclass(slots=True, frozen=True)
class SentMessage:
    """A message that the broker has accepted."""

    id: MessageId
    attributes: Mapping[str, AttributeValue]


@dataclass(slots=True, frozen=True)
class DemoVerdict:
    """What one subscriber should have received, and what it did receive."""

    matched: int
    delivered: int
    missing: int
    surplus: int
    in_order: bool
    """Whether the messages of each publisher came in the order in which they were published."""
    damaged: int = 0
    """Messages that differ from what was published."""

    @property
    def is_right(self) -> bool:
        """Whether the subscriber got exactly what it asked for."""
        return not self.missing and not self.surplus and not self.damaged and self.in_order

    @property
    def word(self) -> str:
        """The verdict in words."""
        wrong = [f"{self.missing:,} missing"] if self.missing else []
        wrong += [f"{self.surplus:,} too many"] if self.surplus else []
        wrong += [f"{self.damaged:,} damaged"] if self.damaged else []
        wrong += [] if self.in_order else ["out of order"]
        return ", ".join(wrong) or "exact"


@dataclass(slots=True, frozen=True)
class Latency:
    """Percentiles of delivery latency, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


def judge(selector: str, sent: Sequence[SentMessage], received: Sequence[bytes], *, damaged: int = 0) -> DemoVerdict:
    """Compare the received identifiers (as bytes, in order) with the messages that the selector matches."""
    fits = compile_condition(parse(selector))
    expected = [each.id.to_bytes() for each in sent if fits(each.attributes) is True]
    wanted, got = Counter(expected), Counter(received)
    # Order is judged only among expected messages, each counted once.
    known = [each for each in dict.fromkeys(received) if each in wanted]
    return DemoVerdict(
        matched=len(expected),
        delivered=len(received),
        missing=(wanted - got).total(),
        surplus=(got - wanted).total(),
        in_order=_by_publisher(known) == _by_publisher([each for each in expected if each in got]),
        damaged=damaged,
    )


def latency_of(latencies_ns: Sequence[int]) -> Latency | None:
    """Latency percentiles; None if nothing was measured."""
    if not latencies_ns:
        return None
    values = np.percentile(np.asarray(latencies_ns, dtype=np.float64) / 1e6, (50, 90, 99, 100))
    return Latency(*(round(float(each), 3) for each in values))


def _by_publisher(ids: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for each in ids:
        found.setdefault(each[:_PUBLISHER_BYTES], []).append(each)
    return found
