"""Errors about a lake.

PenstockError
├── LakeError          a file of the lake cannot be read or written, or is damaged
└── MisuseError
    ├── LakeBusyError      another process is writing the same table
    └── LakeMismatchError  the lake was made for something other than what is asked of it
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError

__all__ = ["LakeBusyError", "LakeError", "LakeMismatchError"]


class LakeError(PenstockError):
    """A file of the lake cannot be read or written, or is damaged."""


class LakeBusyError(MisuseError):
    """Another process is writing the same table."""


class LakeMismatchError(MisuseError):
    """The lake was made for something other than what is asked of it."""
