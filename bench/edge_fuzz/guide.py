"""Guides fuzzing by coverage: keeps the inputs that reached new lines, and makes new inputs out of them.

A trace function sees the lines, and makes everything about five times as slow; so only a share of the inputs is
watched, and all profit from what those found.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from types import CodeType, FrameType
from typing import Any, Final, Generic, TypeVar

__all__ = ["Corpus", "Coverage"]

_KEPT_MAX: Final = 500
_Input = TypeVar("_Input")


class Coverage:
    """Counts the lines of some packages that were executed while watching."""

    def __init__(self, *packages: str) -> None:
        self._folders = tuple("/" + each.replace(".", "/") + "/" for each in packages)
        self._waiting: dict[CodeType, set[int] | None] = {}
        """Lines not reached yet, by code object; None for code of other packages."""
        self.lines = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count the lines that are executed inside."""
        sys.settrace(self._on_call)
        try:
            yield
        finally:
            sys.settrace(None)

    def _on_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        code = frame.f_code
        try:
            waiting = self._waiting[code]
        except KeyError:
            waiting = self._waiting[code] = self._lines_of(code)
        return self._on_line if waiting else None

    def _on_line(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "line":
            waiting = self._waiting[frame.f_code]
            if not waiting:
                return None
            if frame.f_lineno in waiting:
                waiting.remove(frame.f_lineno)
                self.lines += 1
        return self._on_line

    def _lines_of(self, code: CodeType) -> set[int] | None:
        if not any(each in code.co_filename for each in self._folders):
            return None
        return {line for _, line in dis.findlinestarts(code) if line is not None}


class Corpus(Generic[_Input]):
    """A bounded set of inputs that reached something new."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._inputs = rng, list[_Input]()

    def __len__(self) -> int:
        return len(self._inputs)

    def keep(self, found: _Input) -> None:
        """Keep an input; at the limit, it replaces a random one."""
        if len(self._inputs) < _KEPT_MAX:
            self._inputs.append(found)
        else:
            self._inputs[self._rng.randrange(_KEPT_MAX)] = found

    def pick(self) -> _Input:
        """Pick an input, later ones more often: they build on the earlier ones."""
        return self._inputs[max(self._rng.randrange(len(self._inputs)), self._rng.randrange(len(self._inputs)))]
