"""The right to run a home: an epoch that a candidate has taken, and until when it may act in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

__all__ = ["Tenure"]


@dataclass(slots=True, frozen=True)
class Tenure:
    """What a candidate has taken."""

    epoch: int
    life: str
    """Which taking it was: after a database has lost one, the same epoch may have been taken twice."""
    may_act: Callable[[], bool] = lambda: True
    """Whether the lease has not run out yet."""
