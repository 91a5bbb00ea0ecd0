"""Measures how long it takes after a repair until messages flow again through the repaired broker or link.

A repair concerns pairs of a subscriber-hosting and a publisher-hosting broker: all those whose paths lead through the
broker or link. Recovery is complete when the subscriber to everything at each of these hosts has received a message
published after the repair at each of these sources. A pair does not count if one end is down itself, or is struck in
the meantime: that end's own repair is measured instead. A further blow to anything in between does not end the
measurement, and so lengthens it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from penstock.lab.delivery.kill9.plan import HOSTS, SOURCES, Blow, Kind, Link

__all__ = ["Recoveries", "Recovery", "pairs_behind", "percentile"]


@dataclass(slots=True, frozen=True)
class Recovery:
    """A repair, and how long it took until messages flowed again."""

    kind: Kind
    repaired_s: float
    took_s: float


@dataclass(slots=True)
class _Pending:
    kind: Kind
    repaired_s: float
    pairs: dict[Link, None]


class Recoveries:
    """Repairs after which some pair has no new message yet, and how long the others took to recover."""

    def __init__(self) -> None:
        self._down: dict[str, None] = {}
        self._pending: list[_Pending] = []
        self.done: list[Recovery] = []

    @property
    def pending(self) -> int:
        """The number of repairs after which some pair has no new message yet."""
        return len(self._pending)

    def on_blow(self, blow: Blow) -> None:
        """Note that a broker or link is struck."""
        if isinstance(blow.target, str):
            self._down[blow.target] = None
            for each in self._pending:
                each.pairs = {pair: None for pair in each.pairs if blow.target not in pair}
            self._pending = [each for each in self._pending if each.pairs]

    def on_repaired(self, blow: Blow, *, now_s: float) -> None:
        """Note that a broker or link has been repaired."""
        if isinstance(blow.target, str):
            self._down.pop(blow.target, None)
        pairs = [pair for pair in pairs_behind(blow.target) if not self._down.keys() & pair]
        if pairs:
            self._pending.append(_Pending(blow.kind, now_s, dict.fromkeys(pairs)))

    def on_received(self, host: str, source: str, *, published_s: float, now_s: float) -> None:
        """Note that the subscriber to everything at the host got a message from the source."""
        for each in self._pending:
            if published_s >= each.repaired_s:
                had = each.pairs.pop((host, source), self) is None
                if had and not each.pairs:
                    self.done.append(Recovery(each.kind, each.repaired_s, now_s - each.repaired_s))
        self._pending = [each for each in self._pending if each.pairs]


def pairs_behind(target: str | Link) -> list[Link]:
    """The pairs (host, source) whose paths lead, or may lead, through a broker or a link."""
    ends = (target,) if isinstance(target, str) else target
    hosts = [name for name in HOSTS if name in ends] or HOSTS
    sources = [name for name in SOURCES if name in ends] or SOURCES
    return [(host, source) for host in hosts for source in sources]


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that ``percent`` per cent of the values do not exceed; 0 if there are no values.

    >>> percentile([3.0, 1.0, 2.0], 50), percentile([3.0, 1.0, 2.0], 99), percentile([], 99)
    (2.0, 3.0, 0.0)
    """
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)] if values else 0.0
