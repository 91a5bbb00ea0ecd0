"""What should have been delivered in a demo, by asking every selector about every message, beside what was.

No index, no filter, no broker takes part in this: conditions are evaluated as they were written. What counts is the
list of identifiers per publisher, so that a loss, a repetition, a stray and a change of order all show.
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

__all__ = ["Latency", "SentMessage", "Verdict", "judge", "latency_of"]

_PUBLISHER_BYTES: Final = 8
"""The beginning of an identifier that says who published it, and where."""


@dataclass(slots=True, frozen=True)
class SentMessage:
    """A message that the broker has taken over."""

    id: MessageId
    attributes: Mapping[str, AttributeValue]


@dataclass(slots=True, frozen=True)
class Verdict:
    """What one subscriber should have got, and what it did."""

    matched: int
    delivered: int
    missing: int
    surplus: int
    in_order: bool
    """Whether the messages of each publisher came in the order in which they were published."""
    damaged: int = 0
    """Messages that were not as they were published."""

    @property
    def is_right(self) -> bool:
        """Whether the subscriber got exactly what it asked for."""
        return not self.missing and not self.surplus and not self.damaged and self.in_order

    @property
    def word(self) -> str:
        """The verdict for people."""
        wrong = [f"{self.missing:,} missing"] if self.missing else []
        wrong += [f"{self.surplus:,} too many"] if self.surplus else []
        wrong += [f"{self.damaged:,} damaged"] if self.damaged else []
        wrong += [] if self.in_order else ["out of order"]
        return ", ".join(wrong) or "exact"


@dataclass(slots=True, frozen=True)
class Latency:
    """How long messages took, in milliseconds."""

    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float


def judge(selector: str, sent: Sequence[SentMessage], received: Sequence[bytes], *, damaged: int = 0) -> Verdict:
    """Compare what was received (identifiers as bytes, in their order) with what the selector says."""
    fits = compile_condition(parse(selector))
    expected = [each.id.to_bytes() for each in sent if fits(each.attributes) is True]
    wanted, got = Counter(expected), Counter(received)
    # Only what should have come, and once each, has an order to speak of.
    known = [each for each in dict.fromkeys(received) if each in wanted]
    return Verdict(
        matched=len(expected),
        delivered=len(received),
        missing=(wanted - got).total(),
        surplus=(got - wanted).total(),
        in_order=_by_publisher(known) == _by_publisher([each for each in expected if each in got]),
        damaged=damaged,
    )


def latency_of(latencies_ns: Sequence[int]) -> Latency | None:
    """Percentiles; none if there was nothing to measure."""
    if not latencies_ns:
        return None
    values = np.percentile(np.asarray(latencies_ns, dtype=np.float64) / 1e6, (50, 90, 99, 100))
    return Latency(*(round(float(each), 3) for each in values))


def _by_publisher(ids: Sequence[bytes]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for each in ids:
        found.setdefault(each[:_PUBLISHER_BYTES], []).append(each)
    return found
