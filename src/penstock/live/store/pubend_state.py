"""The state of a pubend that a store knows without reading its log: bounds, lease and totals.

The totals are counted from the index of batches when the store is opened, and updated by every commit: no number on
disk can come to disagree with what is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.model.tick import TICK_MIN, Tick

__all__ = ["PubendState", "signed", "unsigned", "unsigned_or_none"]

_OFFSET = 2**63


@dataclass(slots=True)
class PubendState:
    """Bounds, lease and totals of a pubend's log."""

    number: int = 0
    """Its key in the tables; 0 while it has no row."""
    checksum: int = 0
    """The checksum of its row."""
    lease: Tick | None = None
    first_tick: Tick | None = None
    last_tick: Tick | None = None
    trimmed_below: Tick = TICK_MIN
    message_count: int = 0
    size_bytes: int = 0

    @property
    def next_tick(self) -> int:
        """The lowest tick that the next message may have."""
        return self.trimmed_below if self.last_tick is None else max(self.trimmed_below, self.last_tick + 1)


def signed(tick: int) -> int:
    """A tick as SQLite, which has no unsigned integers, can store it; preserves the order."""
    return tick - _OFFSET


def unsigned(stored: int) -> Tick:
    """The tick that was stored."""
    return Tick(stored + _OFFSET)


def unsigned_or_none(stored: int | None) -> Tick | None:
    """The tick that was stored, if there was one."""
    return None if stored is None else unsigned(stored)
