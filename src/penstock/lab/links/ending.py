"""How an experiment with real processes ends early: in order, whoever asks for it, and with one clear error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["ending_in_order", "first_error"]

_ENDING: Final = (signal.SIGTERM, signal.SIGHUP)
"""Signals that ask for an end; who ignores one, as below nohup, has its reasons."""


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it SIGTERM and SIGHUP do what Ctrl-C does, and of several errors at once the first one is raised.

    So no process and no namespace is left behind, also when a terminal is closed. Only the main thread can ask for it.
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
    """Do what Ctrl-C does, also in a process of a script's background, which ignores Ctrl-C itself."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        raise KeyboardInterrupt
    signal.raise_signal(signal.SIGINT)


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """What went wrong first: people want to read that, and not how the tasks were nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
