"""Measures how long deliveries paused after each blow.

A pause is the time between two deliveries at a subscriber to everything, while publishers publish all the time. So it
has all that can hold messages up, from the publisher's broker to the subscriber. It belongs to the blow before which it
did not end. The longest one counts, at both hosts and of all pubends, also of those whose holder was left alone.

After the death of the primary no broker can do anything before the standby is promoted, and when that happens is up to
the operator's tool. So the pause of a pubend that goes on with what the database has (``replicas_min = 0``) counts from
when the standby was told to become the primary. A pubend that insists on a standby must wait for a new one, however
long it takes to make it: its pause counts from when the primary was told to let commits wait for it. What this leaves
out is measured, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf
from typing import TypeAlias

from penstock.lab.failover.plan import Kind
from penstock.lab.failover.servers import Holder

__all__ = ["Deliveries", "Outcome", "longest_gap"]

Deliveries: TypeAlias = Mapping[tuple[str, str], Sequence[float]]
"""When messages arrived, in order, by host and pubend."""


@dataclass(slots=True, frozen=True)
class Outcome:
    """A blow that was dealt, and what followed from it."""

    kind: Kind
    target: str
    """The broker that was struck; empty if it was only the database."""
    struck_s: float
    until_s: float
    """When the next blow came, or the end."""
    counts_from_s: Mapping[str, float]
    """For pubends that had to wait for others: from when on their pause counts."""
    before: Mapping[str, Holder]
    after: Mapping[str, Holder]

    @property
    def takeovers(self) -> int:
        """How often a pubend was taken over."""
        return sum(after.epoch - self.before[pubend].epoch for pubend, after in self.after.items())

    def pause_s(self, deliveries: Deliveries) -> float:
        """The longest pause that counts."""
        return self._longest_s(deliveries, self.counts_from_s)

    def whole_s(self, deliveries: Deliveries) -> float:
        """The longest pause with all that others needed."""
        return self._longest_s(deliveries, {})

    def _longest_s(self, deliveries: Deliveries, counts_from_s: Mapping[str, float]) -> float:
        return max(
            longest_gap(times, self.struck_s, self.until_s, counts_from_s=counts_from_s.get(pubend, -inf))
            for (_, pubend), times in deliveries.items()
        )


def longest_gap(times: Sequence[float], struck_s: float, until_s: float, *, counts_from_s: float = -inf) -> float:
    """The longest time without a delivery that ended after the blow, and began before the next one.

    >>> longest_gap([1.0, 2.0, 5.0, 6.0, 16.0], 2.5, 7.0)
    10.0
    >>> longest_gap([1.0, 2.0, 5.0, 6.0, 16.0], 2.5, 7.0, counts_from_s=8.5)
    7.5
    """
    # Deliveries before and after all others: nothing at all is a pause, too.
    edges = [min([struck_s, *times[:1]]), *times, max([until_s, *times[-1:]])]
    gaps = [(max(begin_s, counts_from_s), end_s) for begin_s, end_s in pairwise(edges) if begin_s < until_s]
    return max((end_s - begin_s for begin_s, end_s in gaps if end_s > struck_s), default=0.0)
