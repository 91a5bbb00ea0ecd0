"""Runs something in a forked child, and brings back what it came to."""

from __future__ import annotations

import os
import signal
import traceback
import warnings
from collections.abc import Callable

import msgspec

__all__ = ["Child", "in_child"]

_LIMIT_S = 60


class Child:
    """A forked child at work; its result is a value of plain types."""

    def __init__(self, work: Callable[[], object]) -> None:
        self._reading, writing = os.pipe()
        with warnings.catch_warnings():
            # Newer Pythons warn of threads, which is what these tests are about.
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(self._reading)
            _be_child(work, writing)
        os.close(writing)

    def result(self) -> object:
        """Waits for the end of the child; fails if it has failed."""
        with os.fdopen(self._reading, "rb") as reading:
            said = reading.read()
        os.waitpid(self.pid, 0)
        assert said, "the child has hung, or died"
        is_good, result = msgspec.msgpack.decode(said)
        assert is_good, result
        return result


def in_child(work: Callable[[], object]) -> object:
    """Runs something in a forked child to its end."""
    return Child(work).result()


def _be_child(work: Callable[[], object], writing: int) -> None:
    """Never returns: the child must not run the rest of the tests."""
    # A child that hangs is what some tests are about: then it ends by this signal, and has said nothing.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(_LIMIT_S)
    try:
        said = msgspec.msgpack.encode((True, work()))
    except BaseException:  # noqa: BLE001 - whatever it is, the parent must hear of it
        said = msgspec.msgpack.encode((False, traceback.format_exc()))
    try:
        os.write(writing, said)
    finally:
        os._exit(0)
