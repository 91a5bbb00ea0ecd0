"""The wandering token, stamped once when it is made, and the fencing numbers it gives out ([Token] section 4).

Beyond the paper: a token counts the operations it has enabled. That count, with who made the token and when, is the
fencing number of an operation. It grows with every operation of one generation, so that a resource that checks the
numbers notices when two generations are at work at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

__all__ = ["Fence", "FenceWatch", "Generation", "Token"]

Generation: TypeAlias = tuple[int, str]
"""When a token was made, and its id; the lesser one precedes."""

_GENERATIONS_MAX: Final = 16
"""Generations that a watch remembers; the least recently used is forgotten."""


@dataclass(slots=True, frozen=True)
class Token:
    """The right to operate, as it is passed from one component to the next."""

    timestamp_ms: int
    """When it was made, by its maker's clock; never refreshed."""
    id: str
    """Unique: who made it, in which of its lives, and a number."""
    count: int = 0
    """How many operations it has enabled."""

    @property
    def generation(self) -> Generation:
        """Identifies the token, and decides which of two precedes."""
        return self.timestamp_ms, self.id

    def precedes(self, other: Token) -> bool:
        """Whether this token is older than the other; the lower id decides between equal times."""
        return (self.timestamp_ms, self.id) < (other.timestamp_ms, other.id)

    def enabling(self) -> Token:
        """A copy of this token that counts one operation more."""
        return replace(self, count=self.count + 1)

    @property
    def fence(self) -> Fence:
        """The fencing number of the operation it enabled last."""
        return Fence(self.timestamp_ms, self.id, self.count)


@dataclass(slots=True, frozen=True)
class Fence:
    """The fencing number of one operation: grows within a generation."""

    timestamp_ms: int
    """When the token was made."""
    id: str
    """The token's id."""
    number: int
    """The operation's number."""

    @property
    def generation(self) -> Generation:
        """The generation within which numbers grow."""
        return self.timestamp_ms, self.id

    def __str__(self) -> str:
        return f"{self.timestamp_ms}/{self.id}/{self.number}"


class FenceWatch:
    """Remembers fencing numbers for a resource, to notice overlaps; bounded."""

    def __init__(self) -> None:
        self._last: dict[Generation, int] = {}
        self._current: Generation | None = None
        self.overlaps = 0
        """How many numbers came out of turn."""

    @property
    def last(self) -> Mapping[Generation, int]:
        """The last number of each remembered generation."""
        return self._last

    def admit(self, fence: Fence) -> bool:
        """Whether the number shows no overlap: it has grown, and no other generation was at work since its last one.

        A generation seen for the first time takes over: the former token may be lost.
        """
        last = self._last.pop(fence.generation, None)
        is_fine = last is None or (fence.number > last and fence.generation == self._current)
        if last is None and len(self._last) >= _GENERATIONS_MAX:
            self._last.pop(next(iter(self._last)))
        self._last[fence.generation] = fence.number if last is None else max(last, fence.number)
        self._current = fence.generation
        self.overlaps += not is_fine
        return is_fine
