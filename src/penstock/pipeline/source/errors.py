"""What can go wrong between Spark and an overlay, as one readable line.

PenstockError
├── MisuseError
│   └── SourceOptionError   an option, a position or a column that cannot be
└── SourceError             the broker refuses or stays away, ticks are lost, or a value does not fit its column
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from penstock.model.errors import MisuseError, PenstockError
from penstock.selectors.errors import SelectorError

__all__ = ["SourceError", "SourceOptionError", "one_line", "readable"]

_WORKER_SIGNS: Final = ("PYTHON_WORKER_FACTORY_SECRET", "PYTHON_UNIX_DOMAIN_ENABLED", "SPARK_AUTH_SOCKET_TIMEOUT")
"""Spark sets some of these for the Python processes it starts."""
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""By this Spark is told to report an error without the calls that led to it."""


class SourceOptionError(MisuseError):
    """An option, a position or a column that cannot be."""


class SourceError(PenstockError):
    """The broker refuses or stays away, ticks are lost, or a value does not fit its column."""


def one_line(error: BaseException) -> str:
    """What an error says, on one line: Spark puts it into the middle of texts of its own."""
    if isinstance(error, SelectorError):
        return f"selector {error.text!r}: {error.problem} at character {error.position + 1}"
    lines = (line.strip() for line in str(error).splitlines())
    return "; ".join(line for line in lines if line.strip("^")) or type(error).__name__


@contextmanager
def readable() -> Iterator[None]:
    """Let errors that are no bugs reach Spark's user as one line without a trace of Python calls."""
    try:
        yield
    except (PenstockError, OSError) as error:
        # The process that Spark runs this in ends with the error, so nothing else loses its trace by this.
        if any(sign in os.environ for sign in _WORKER_SIGNS):
            os.environ[_HIDE] = "1"
        if isinstance(error, SourceOptionError | SourceError):
            raise
        kind = SourceOptionError if isinstance(error, MisuseError) else SourceError
        raise kind(one_line(error)) from None
