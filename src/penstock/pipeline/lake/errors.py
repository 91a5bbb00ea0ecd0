"""What can be wrong with a lake.

PenstockError
├── LakeError          a file of the lake cannot be read or written, or is damaged
└── MisuseError
    ├── LakeBusyError      somebody else writes the same table
    └── LakeMismatchError  the lake was made for something else than what is asked of it
"""

from __future__ import annotations

from penstock.model.errors import MisuseError, PenstockError

__all__ = ["LakeBusyError", "LakeError", "LakeMismatchError"]


class LakeError(PenstockError):
    """A file of the lake cannot be read or written, or is damaged."""


class LakeBusyError(MisuseError):
    """Somebody else writes the same table."""


class LakeMismatchError(MisuseError):
    """The lake was made for something else than what is asked of it."""
