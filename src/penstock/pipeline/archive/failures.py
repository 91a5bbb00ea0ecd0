"""Finds the one line that matters in Spark's output when a stream has failed.

Spark wraps an error several times, each time with a Python or Java stack trace as text. An error that Penstock raised
on purpose appears as the last line of a Python trace, after the name of its class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from penstock.model.errors import PenstockError

__all__ = ["ArchiveError", "telling", "told"]

_PYTHON_ERROR: Final = re.compile(
    r"^\s*(?:pyspark\S*PythonException: )?([A-Za-z_][\w.]*(?:Error|Exception)): (.+)$", re.MULTILINE
)
_OWN_ERROR: Final = re.compile(r"\bpenstock\.[\w.]*(?:Error|Exception): (.+)$", re.MULTILINE)
"""An error that Penstock raised on purpose, even in the middle of a line of Spark's."""
_CONDITION: Final = re.compile(r"^\[[\w.]+\]\s*")
_LINE_CHARS_MAX: Final = 500
_WRAPPERS: Final = ("PySparkRuntimeError", "Py4JJavaError", "Py4JError", "PythonException", "StreamingQueryException")


class ArchiveError(PenstockError):
    """The stream has failed; archived rows stay, and the next start resumes after them."""


@contextmanager
def telling(cause: Callable[[], Exception | None] = lambda: None) -> Iterator[None]:
    """Within the block, any error of Spark's becomes one line; ``cause`` may supply the real error."""
    try:
        yield
    except PenstockError:
        raise
    except Exception as error:  # noqa: BLE001 - of Spark, of Py4J, or of a batch
        known = cause()
        if isinstance(known, PenstockError):
            raise known from None
        if _is_java_gone(error):
            raise ArchiveError("Spark's Java process has ended") from None
        raise ArchiveError(told(str(known or error))) from None


def told(text: str) -> str:
    """Extract the line a person wants to read, without the class name if the error is Penstock's own.

    >>> told("[STREAM_FAILED] x\\nTraceback (most recent call last):\\n  File\\npenstock.x.RefusedError: no such token")
    'no such token'
    """
    own = _OWN_ERROR.findall(text)
    if own:
        return _short(own[-1])
    found = [(name, line) for name, line in _PYTHON_ERROR.findall(text) if not name.endswith(_WRAPPERS)]
    if found:
        name, line = found[-1]
        return _short(f"{name.rpartition('.')[2]}: {line}")
    first = next((line.strip() for line in text.splitlines() if line.strip()), "no reason is given")
    return _short(_CONDITION.sub("", first))


def _is_java_gone(error: Exception) -> bool:
    from py4j.protocol import Py4JNetworkError

    return isinstance(error, Py4JNetworkError | ConnectionError)


def _short(line: str) -> str:
    line = line.strip()
    return line if len(line) <= _LINE_CHARS_MAX else f"{line[:_LINE_CHARS_MAX]}…"
