"""How long it takes after a repair until messages flow again through what was repaired.

A repair concerns pairs of a subscriber-hosting broker and a publisher-hosting one: all those whose ways lead through
the broker or link. It has recovered when the subscriber to everything at each of these hosts has received a message
which was published after the repair at each of these sources. A pair of which one end is down itself, or is struck in
the meantime, does not count: the repair of that will tell. A further blow to what is in between does not end the
measurement, and so lengthens it.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from penstock.lab.delivery.kill9.plan import HOSTS, SOURCES, Blow, Kind, Link

__all__ = ["Recoveries", "Recovery", "pairs_behind", "percentile"]


@dataclass(slots=True, frozen=True)
class Recovery:
    """One repair, and how long it took until all was well."""

    kind: Kind
    repaired_s: float
    took_s: float


@dataclass(slots=True)
class _Pending:
    kind: Kind
    repaired_s: float
    pairs: dict[Link, None]


class Recoveries:
    """The repairs after which somebody still waits, and how long the others took."""

    def __init__(self) -> None:
        self._down: dict[str, None] = {}
        self._pending: list[_Pending] = []
        self.done: list[Recovery] = []

    @property
    def pending(self) -> int:
        """Repairs after which somebody still waits."""
        return len(self._pending)

    def on_blow(self, blow: Blow) -> None:
        """Something is harmed."""
        if isinstance(blow.target, str):
            self._down[blow.target] = None
            for each in self._pending:
                each.pairs = {pair: None for pair in each.pairs if blow.target not in pair}
            self._pending = [each for each in self._pending if each.pairs]

    def on_repaired(self, blow: Blow, *, now_s: float) -> None:
        """It has been repaired."""
        if isinstance(blow.target, str):
            self._down.pop(blow.target, None)
        pairs = [pair for pair in pairs_behind(blow.target) if not self._down.keys() & pair]
        if pairs:
            self._pending.append(_Pending(blow.kind, now_s, dict.fromkeys(pairs)))

    def on_received(self, host: str, source: str, *, published_s: float, now_s: float) -> None:
        """The subscriber to everything at the host got a message of the source."""
        for each in self._pending:
            if published_s >= each.repaired_s:
                had = each.pairs.pop((host, source), self) is None
                if had and not each.pairs:
                    self.done.append(Recovery(each.kind, each.repaired_s, now_s - each.repaired_s))
        self._pending = [each for each in self._pending if each.pairs]


def pairs_behind(target: str | Link) -> list[Link]:
    """The pairs (host, source) whose ways lead through a broker or a link, or may do so."""
    ends = (target,) if isinstance(target, str) else target
    hosts = [name for name in HOSTS if name in ends] or HOSTS
    sources = [name for name in SOURCES if name in ends] or SOURCES
    return [(host, source) for host in hosts for source in sources]


def percentile(values: list[float], percent: float) -> float:
    """The smallest value that so many per cent do not exceed; 0 if there are none.

    >>> percentile([3.0, 1.0, 2.0], 50), percentile([3.0, 1.0, 2.0], 99), percentile([], 99)
    (2.0, 3.0, 0.0)
    """
    return sorted(values)[max(0, ceil(len(values) * percent / 100) - 1)] if values else 0.0
