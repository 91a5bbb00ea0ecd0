"""Ends an experiment with real processes early: in order, whatever signal asks for it, and with one clear error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["ending_in_order", "first_error"]

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for an end; one that is ignored, as under nohup, stays ignored."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Make SIGTERM and SIGHUP act like Ctrl-C within the block, and raise only the first of several errors.

    So no process and no namespace is left behind, even when a terminal is closed. Signals are handled only if this is
    called in the main thread.
    """
    is_main = threading.current_thread() is threading.main_thread()
    wanted = [each for each in _ENDING if is_main and signal.getsignal(each) is not signal.SIG_IGN]
    former = {each: signal.signal(each, _interrupt) for each in wanted}
    try:
        yield
    except ExceptionGroup as group:
        raise first_error(group) from None
    finally:
        for each, handler in former.items():
            signal.signal(each, handler)


def _interrupt(*_: object) -> None:
    """Act like Ctrl-C, even in a background process of a script, which ignores Ctrl-C itself."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """The first error in a group: people want to read that, not how the tasks were nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
