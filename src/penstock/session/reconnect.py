"""Decides whether, when and where a client connects again after it lost its connection."""

from __future__ import annotations

from typing import Final, Protocol

from penstock.session.settings import ClientSettings

__all__ = ["FINAL_CODES", "Chance", "Reconnect"]

FINAL_CODES: Final = frozenset({"refused"})
"""With these codes a broker says that it will not have this client: trying again would get the same answer."""


class Chance(Protocol):
    """Where the jitter comes from; ``random.Random`` is one."""

    def random(self) -> float:
        """A number from 0 up to, but not including, 1."""


class Reconnect:
    """The attempts since the connection was lost, with twice the pause after each.

    >>> from random import Random
    >>> reconnect = Reconnect(ClientSettings(), Random(1))
    >>> reconnect.on_lost(now_ms=0)
    >>> 25 <= reconnect.pause_ms(now_ms=0) <= 50 <= reconnect.pause_ms(now_ms=100) <= 100
    True
    """

    __slots__ = ("_attempts", "_chance", "_lost_ms", "_settings", "_welcome_ms")

    def __init__(self, settings: ClientSettings, chance: Chance) -> None:
        self._settings, self._chance = settings, chance
        self._attempts = 0
        self._lost_ms: int | None = None
        self._welcome_ms: int | None = None

    @staticmethod
    def may_follow(code: str) -> bool:
        """Whether another attempt makes sense after a goodbye with this code (empty: none was said)."""
        return code not in FINAL_CODES

    def on_welcome(self, *, now_ms: int) -> None:
        """There is a connection."""
        self._lost_ms, self._welcome_ms = None, now_ms

    def on_lost(self, *, now_ms: int) -> None:
        """The connection is lost."""
        if self._lost_ms is None:
            self._lost_ms = now_ms
        # A connection that did not last counts as a failed attempt: else a broker that ends it at once gets no rest.
        if self._welcome_ms is not None and now_ms - self._welcome_ms >= self._settings.backoff_max_ms:
            self._attempts = 0
        self._welcome_ms = None

    def pause_ms(self, *, now_ms: int) -> int | None:
        """How long to wait before the next attempt; none to give up."""
        assert self._lost_ms is not None, "asked for a pause without a loss"
        settings = self._settings
        if settings.give_up_ms is not None and now_ms - self._lost_ms >= settings.give_up_ms:
            return None
        # Thirty doublings are above any limit; more would only make large numbers.
        longest_ms = min(settings.backoff_first_ms << min(self._attempts, 30), settings.backoff_max_ms)
        self._attempts += 1
        # Half of it by chance, so that the clients of a broker that died do not come back in step.
        return longest_ms // 2 + int(self._chance.random() * (longest_ms - longest_ms // 2))
