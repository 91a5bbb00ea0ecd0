"""The root of Penstock's exceptions, and the errors of the model.

PenstockError
├── MisuseError          the caller asked for something invalid or impossible (exit code 2 on the command line)
│   ├── LimitError       a size or count is over its limit
│   └── InvalidMessageError   a message breaks a rule
└── PeerError            the other side of a connection, or a file, misbehaved

A broken invariant is an ``AssertionError``: a bug in Penstock, never the caller's.
"""

from __future__ import annotations

import struct

__all__ = ["InvalidMessageError", "LimitError", "MisuseError", "PeerError", "PenstockError", "plainly"]


class PenstockError(Exception):
    """Base class of every exception that Penstock raises on purpose."""


class MisuseError(PenstockError):
    """The caller asked for something invalid or impossible."""


class LimitError(MisuseError):
    """A size or a count is over its limit."""

    def __init__(self, what: str, actual: int, allowed: int) -> None:
        super().__init__(f"{what} is {actual:,}, over the limit of {allowed:,}")
        self.what, self.actual, self.allowed = what, actual, allowed


class InvalidMessageError(MisuseError):
    """The message is not allowed: it has a bad name, a bad type or a reserved attribute."""


class PeerError(PenstockError):
    """The other side of a connection, or the content of a file, broke a rule."""


def plainly(error: Exception) -> str:
    """A decoder's error in words for a peer: some errors are phrased in Python terms that mean nothing to it."""
    if isinstance(error, UnicodeDecodeError):
        return "a text in it is not UTF-8"
    if isinstance(error, struct.error):
        return "it ends too soon"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, TypeError):
        return "it has fields that are unknown or missing"
    return str(error)
