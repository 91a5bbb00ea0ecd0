"""Lets the fuzz control its client processes by lines on their standard input.

``finish`` means that all harm is repaired: publish no more, or read to the given end, and leave. ``leave`` means to
leave now. If the input ends without a word, the fuzz has died, and the process ends at once: nothing stays behind.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Final

__all__ = ["Control"]

_ORPHANED: Final = 99


class Control:
    """The commands received so far; a thread listens."""

    def __init__(self, file: int | None = None) -> None:
        """Listen to a file descriptor whose end means ``finish``, or to standard input."""
        self.targets: dict[str, int] | None = None
        """The tick, by pubend, up to which a subscriber must read before it leaves; None until ``finish``."""
        self._finished = threading.Event()
        self._leaving = threading.Event()
        listen = self._listen if file is None else lambda: self._await_end(file)
        threading.Thread(target=listen, name="control", daemon=True).start()

    @property
    def is_finishing(self) -> bool:
        """Whether the round is ending."""
        return self._finished.is_set()

    @property
    def is_leaving(self) -> bool:
        """Whether this process must leave in the middle of the round."""
        return self._leaving.is_set()

    @property
    def is_over(self) -> bool:
        """Whether a publisher must stop."""
        return self.is_finishing or self.is_leaving

    def wait_over(self) -> None:
        """Block until ``is_over``."""
        while not self.is_over:
            self._finished.wait(0.1)

    def _listen(self) -> None:
        for line in sys.stdin:
            word, _, rest = line.strip().partition(" ")
            if word == "leave":
                self._leaving.set()
            elif word == "finish":
                self.targets = json.loads(rest) if rest else {}
                self._finished.set()
        os._exit(_ORPHANED)

    def _await_end(self, file: int) -> None:
        while os.read(file, 1):
            pass
        self._finished.set()
