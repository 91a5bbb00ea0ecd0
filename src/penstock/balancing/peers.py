"""The brokers or clusters that sent PIE messages lately ([PADRES] section 3.2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from penstock.balancing.pie import Pie

__all__ = ["Peers"]

_PEERS_MAX: Final = 1_000


class Peers:
    """The latest PIE message of each peer; peers that fall silent are forgotten."""

    def __init__(self, *, peer_ms: int) -> None:
        self._peer_ms = peer_ms
        self._heard: dict[str, tuple[Pie, int]] = {}

    def __len__(self) -> int:
        return len(self._heard)

    def hear(self, pie: Pie, *, now_ms: int) -> None:
        """Record a PIE message; beyond a bound, unknown peers are ignored."""
        if pie.broker in self._heard or len(self._heard) < _PEERS_MAX:
            self._heard[pie.broker] = (pie, now_ms)

    def known(self, *, now_ms: int, clusters: Iterable[str] | None = None) -> dict[str, Pie]:
        """The peers heard lately, by name; only those of these clusters, if given."""
        self._heard = {
            name: (pie, heard_ms) for name, (pie, heard_ms) in self._heard.items() if now_ms - heard_ms < self._peer_ms
        }
        wanted = None if clusters is None else frozenset(clusters)
        return {name: pie for name, (pie, _) in sorted(self._heard.items()) if wanted is None or pie.cluster in wanted}
