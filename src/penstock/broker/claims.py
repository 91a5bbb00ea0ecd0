"""The numbers by which hosts claim durable names: the highest claim owns the name."""

from __future__ import annotations

from typing import Final

__all__ = ["Claims", "claimed_ms"]

_BROKER_BITS: Final = 20


def claimed_ms(ownership: int) -> int:
    """When a claim was made, by the clock of the claiming broker."""
    return ownership >> _BROKER_BITS


class Claims:
    """Generates claim numbers for durable names: increasing, and distinct from those of all other brokers."""

    def __init__(self, broker: int) -> None:
        self._broker, self._last = broker % (1 << _BROKER_BITS), 0

    def next(self, *, above: int = 0, now_ms: int = 0) -> int:
        """Returns a number above the given one and, as far as clocks agree, above all earlier claims."""
        self._last = max(self._last + 1, (above >> _BROKER_BITS) + 1, now_ms)
        return self._last << _BROKER_BITS | self._broker
