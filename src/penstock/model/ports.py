"""The interface by which the pure rooms are given randomness instead of drawing it from the outside world."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Rng"]


class Rng(Protocol):
    """A source of randomness; ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int:
        """A random integer from 0 to below ``stop``."""

    def random(self) -> float:
        """A random number from 0 to below 1."""
