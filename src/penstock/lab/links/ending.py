"""How an experiment with real processes ends early: in order, whoever asks for it, and with one clear error."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["ending_in_order", "first_error"]


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Within it SIGTERM does what Ctrl-C does, and of several errors at once the first one is raised.

    So no process and no namespace is left behind. Only the main thread can ask for the former.
    """
    is_main = threading.current_thread() is threading.main_thread()
    former = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT)) if is_main else None
    try:
        yield
    except ExceptionGroup as group:
        raise first_error(group) from None
    finally:
        if is_main:
            signal.signal(signal.SIGTERM, former)


def first_error(group: ExceptionGroup[Exception]) -> Exception:
    """What went wrong first: people want to read that, and not how the tasks were nested."""
    error = group.exceptions[0]
    return first_error(error) if isinstance(error, ExceptionGroup) else error
