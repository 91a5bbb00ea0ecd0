"""What the pure rooms are handed instead of taking it from the world: chance, through this interface."""

from __future__ import annotations

from typing import Protocol

__all__ = ["Rng"]


class Rng(Protocol):
    """A source of chance; ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int:
        """An integer from 0 to below ``stop``."""

    def random(self) -> float:
        """A number from 0 to below 1."""
