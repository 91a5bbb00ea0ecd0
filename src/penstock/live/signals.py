"""Notes the signals that a broker process gets before it can act on them, and passes them on when it can.

Loading a broker takes longer than starting Python. A SIGHUP in that time would kill the process, and a Ctrl-C would
print a traceback. This module imports next to nothing, so that the process can load it first. Before that, while Python
itself starts, nothing can be done.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

__all__ = ["ENDING", "Signals", "early"]

ENDING: Final = (signal.SIGINT, signal.SIGTERM)
"""The signals that end a broker."""


class Signals:
    """The signals that a process got, before and after there is a handler for them."""

    def __init__(self) -> None:
        self.must_end = False
        """Whether the process was asked to end."""
        self._was_hung_up = False
        self._on_hangup: Callable[[], object] | None = None

    def install(self) -> None:
        """Note signals from now on."""
        signal.signal(signal.SIGHUP, self.note_hangup)
        for each in ENDING:
            signal.signal(each, self.note_ending)

    def hand_hangups_to(self, on_hangup: Callable[[], object] | None) -> None:
        """Call this for each SIGHUP from now on, and once if there were any before; None to only note them."""
        self._on_hangup = on_hangup
        if self._was_hung_up and on_hangup is not None:
            self._was_hung_up = False
            on_hangup()

    def note_hangup(self, number: int, frame: FrameType | None) -> None:
        """Handle SIGHUP."""
        del number, frame
        if self._on_hangup is None:
            self._was_hung_up = True
        else:
            self._on_hangup()

    def note_ending(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal that ends the process; a second one ends it at once."""
        del frame
        if self.must_end:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.must_end = True


early: Final = Signals()
"""The signals of this process, if its main program has installed them."""
