"""Errors between Spark and an overlay, each as one readable line.

PenstockError
├── MisuseError
│   └── SourceOptionError   an invalid option, position or column
└── SourceError             the broker refuses or is away, ticks are lost, or a value does not fit its column
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
"""Environment variables, some of which Spark sets for the Python processes it starts."""
_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""Tells Spark to report an error without its traceback."""


class SourceOptionError(MisuseError):
    """An invalid option, position or column."""


class SourceError(PenstockError):
    """The broker refuses or is away, ticks are lost, or a value does not fit its column."""


def one_line(error: BaseException) -> str:
    """An error's message on one line, since Spark embeds it in its own text."""
    if isinstance(error, SelectorError):
        return f"selector {error.text!r}: {error.problem} at character {error.position + 1}"
    lines = (line.strip() for line in str(error).splitlines())
    return "; ".join(line for line in lines if line.strip("^")) or type(error).__name__


@contextmanager
def readable() -> Iterator[None]:
    """Let errors that are not bugs reach Spark's user as one line without a Python traceback."""
    try:
        yield
    except (PenstockError, OSError) as error:
        # The process that Spark runs this in ends with the error, so no other error loses its traceback.
        if any(sign in os.environ for sign in _WORKER_SIGNS):
            os.environ[_HIDE] = "1"
        if isinstance(error, SourceOptionError | SourceError):
            raise
        kind = SourceOptionError if isinstance(error, MisuseError) else SourceError
        raise kind(one_line(error)) from None
