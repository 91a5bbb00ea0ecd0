"""Garbage collection in small steps, for a process that is nothing but a broker.

Python looks at all objects whenever a quarter of them is new. With ten thousand subscriptions that is a third of a
second in which nobody is served. A broker's objects are freed by their reference counts, and cycles among them are the
exception: so what has survived one look is set aside, and each look is at new objects only. All of them are looked at
again when the broker has become twice as large, since there may be cycles among those set aside.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["Collecting", "collecting_in_steps"]

_THRESHOLDS: Final = (700, 10, 2)
"""New containers before a look at the youngest, and looks before one at the next older: the oldest number some 20,000,
which takes about ten milliseconds."""
_BLOCKS_MIN: Final = 4_000_000
"""Blocks of memory below which nothing that was set aside is looked at again; about 400 MB."""


class Collecting:
    """Sets aside what has survived a look."""

    def __init__(
        self,
        *,
        blocks: Callable[[], int] = sys.getallocatedblocks,
        set_aside: Callable[[], None] = gc.freeze,
        take_back: Callable[[], None] = gc.unfreeze,
        blocks_min: int = _BLOCKS_MIN,
    ) -> None:
        self._blocks, self._set_aside, self._take_back = blocks, set_aside, take_back
        self._blocks_max = max(blocks_min, 2 * blocks())
        self._blocks_min = blocks_min
        self._is_complete = False
        """Whether the next look is at all objects."""

    def on_look(self, phase: str, info: dict[str, Any]) -> None:
        """The interpreter begins or ends a look (``gc.callbacks``)."""
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
    """Within, garbage is collected in small steps; afterwards as before."""
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
