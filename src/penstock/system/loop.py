"""Runs a program on the fastest event loop available: uvloop where it is installed, asyncio's own elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from importlib.util import find_spec
from typing import Any, TypeVar

__all__ = ["has_uvloop", "run"]

_Result = TypeVar("_Result")


def run(coroutine: Coroutine[Any, Any, _Result], *, plain: bool = False) -> _Result:
    """Run the coroutine to its end; ``plain`` asks for asyncio's own loop."""
    with asyncio.Runner(loop_factory=None if plain else _loop_factory()) as runner:
        return runner.run(coroutine)


def has_uvloop() -> bool:
    """Whether uvloop is installed."""
    return find_spec("uvloop") is not None


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if not has_uvloop():
        return None
    import uvloop

    return uvloop.new_event_loop
