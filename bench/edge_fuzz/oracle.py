"""Checks what must hold for every answer: which errors may occur, how long a turn may take, which words are allowed."""

from __future__ import annotations

import re
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.fuzzing import Fault

__all__ = ["TURN_S_MAX", "Findings", "check_words", "turn"]

TURN_S_MAX: Final = 1.0
"""Processor time of one turn: wall-clock time would blame the broker for a busy machine."""
_PYTHON: Final = re.compile(
    r"Traceback|object at 0x|<class |\b[A-Za-z]\w*(?:Error|Exception)\b|NoneType|codec can't|unpack(?:_from)? requires"
    r"|\bmsgspec\b|\bdataclass\b|__\w+__|not subscriptable|object has no attribute|positional argument"
)
_FINDINGS_MAX: Final = 20


def check_words(text: str, *, besides: str = "") -> None:
    """Fail if a message mentions Python; ``besides`` is what the peer wrote itself, which may be quoted."""
    found = _PYTHON.search(text)
    if found is not None and found.group() not in besides:
        raise Fault(f"a message speaks of Python: {text[:300]!r}")


@contextmanager
def turn() -> Iterator[None]:
    """Fail if the body takes too much processor time."""
    started_s = time.process_time()
    yield
    took_s = time.process_time() - started_s
    if took_s > TURN_S_MAX:
        raise Fault(f"one turn took {took_s:.1f} s of processor time")


class Findings:
    """The faults of one campaign, each kind once: the first must not hide the others."""

    def __init__(self) -> None:
        self._stories: dict[str, str] = {}
        self._crash: Exception | None = None

    def add(self, error: Exception, story: str) -> None:
        """Record a fault, and how to reproduce it."""
        key = kind_of(error)
        if key not in self._stories and len(self._stories) < _FINDINGS_MAX:
            self._stories[key] = f"{type(error).__name__}: {str(error)[:500]}\n  at {key}\n  {story}"
            if not isinstance(error, AssertionError):
                self._crash = error

    def has(self, error: Exception) -> bool:
        """Whether a fault of this kind was recorded already."""
        return kind_of(error) in self._stories

    def raise_if_any(self) -> None:
        """Raise one error with all recorded faults."""
        if not self._stories:
            return
        text = f"{len(self._stories)} kinds of fault\n" + "\n".join(self._stories.values())
        raise RuntimeError(text) if self._crash is not None else Fault(text)


def kind_of(error: Exception) -> str:
    """The kind of a fault: its type, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if "penstock" in Path(each.filename).parts] or frames
    where = f"{Path(own[-1].filename).name}:{own[-1].name}" if own else "nowhere"
    # Numbers in a message differ from case to case.
    said = re.sub(r"\d+", "#", str(error))[:60] if isinstance(error, Fault) else ""
    return f"{type(error).__name__} in {where} {said}".rstrip()
