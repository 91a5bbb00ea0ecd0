"""Collects garbage in small steps, in a process that runs nothing but a broker.

Python scans all objects whenever a quarter of them is new. With ten thousand subscriptions that takes a third of a
second, in which nobody is served. A broker's objects are freed by their reference counts, and cycles among them are
the exception: so objects that survive a collection are frozen, and each collection scans new objects only. All objects
are scanned again when the broker has doubled in size, since there may be cycles among the frozen ones.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Collecting", "collecting_in_steps"]

_THRESHOLDS: Final = (700, 10, 2)
"""New containers before a collection of the youngest generation, and collections before one of the next: the oldest
has some 20,000 objects, which take about ten milliseconds."""
_BLOCKS_MIN: Final = 4_000_000
"""Blocks of memory below which frozen objects are never scanned again; about 400 MB."""


class Collecting:
    """Freezes the objects that survive a collection."""

    def __init__(
        self,
        *,
        blocks: Callable[[], int] = sys.getallocatedblocks,
        set_aside: Callable[[], None] = gc.freeze,
        take_back: Callable[[], None] = gc.unfreeze,
        blocks_min: int = _BLOCKS_MIN,
    ) -> None:
        self._blocks = blocks
        self._set_aside = set_aside
        self._take_back = take_back
        self._blocks_max = max(blocks_min, 2 * blocks())
        self._blocks_min = blocks_min
        self._is_complete = False
        """Whether the next collection scans all objects."""

    def on_look(self, phase: str, info: dict[str, Any]) -> None:
        """Handle the start or end of a collection (``gc.callbacks``)."""
        if phase != "stop" or info["generation"] < 2:
            return
        if self._is_complete:
            self._is_complete = False
            self._blocks_max = max(self._blocks_min, 2 * self._blocks())
        elif self._blocks() >= self._blocks_max:
            self._is_complete = True
            self._take_back()
            return
        self._set_aside()


@contextmanager
def collecting_in_steps() -> Iterator[None]:
    """Collect garbage in small steps within the block, and as before after it."""
    usual = gc.get_threshold()
    collecting = Collecting()
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_THRESHOLDS)
    gc.callbacks.append(collecting.on_look)
    try:
        yield
    finally:
        gc.callbacks.remove(collecting.on_look)
        gc.set_threshold(*usual)
        gc.unfreeze()
