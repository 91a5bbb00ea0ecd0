"""Where subscribers have been: for a while nobody is sent back to a broker that it has left (ours).

The paper's brokers forget; a subscriber that is handed back and forth is what its authors call instability. Trails go
with the subscribers from broker to broker, in the letter that announces them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["Trails"]

_CLIENTS_MAX: Final = 100_000
_BROKERS_MAX: Final = 32


class Trails:
    """By client: the brokers that it must not go back to, and until when."""

    def __init__(self, *, return_ms: int) -> None:
        self._return_ms = return_ms
        self._left: dict[str, dict[str, int]] = {}

    def __len__(self) -> int:
        return len(self._left)

    def may_go(self, client: str, broker: str, *, now_ms: int) -> bool:
        """Whether a client may move to a broker."""
        return self._left.get(client, {}).get(broker, 0) <= now_ms

    def of(self, clients: Iterable[str], *, now_ms: int) -> dict[str, tuple[str, ...]]:
        """The trails of clients that are to move."""
        return {
            client: tuple(broker for broker, until_ms in self._left.get(client, {}).items() if until_ms > now_ms)
            for client in clients
        }

    def learn(self, trails: Mapping[str, Iterable[str]], left: str, *, now_ms: int) -> None:
        """These clients come from a broker, and have been at others before; the oldest known are forgotten."""
        until_ms = now_ms + self._return_ms
        for client, brokers in trails.items():
            known = self._left.pop(client, {})
            known |= dict.fromkeys(list(brokers)[:_BROKERS_MAX], until_ms)
            known[left] = until_ms
            self._left[client] = known
        while len(self._left) > _CLIENTS_MAX:
            del self._left[next(iter(self._left))]
