"""Keeps other users of the machine out of a store: its folder is 0700, its files are 0600.

Wider modes, left by an earlier version or set by hand, are tightened when the store is opened: only its broker has
business there, and a mere warning would leave it open. Stores can be copied as the broker's user, or as root. A folder
that also has somebody else's files keeps its mode.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

__all__ = ["FILE_MODE", "make_private_folder", "open_private", "tighten"]

FILE_MODE: Final = 0o600
_FOLDER_MODE: Final = 0o700
_OTHERS: Final = 0o077
_OWN: Final = (
    "store.sqlite",
    "witness",
    "reserve",
    "shipped.sqlite",
    "admin.token",
    "damaged-",
    "replaced-",
    "salvage",
    "homes",
)
"""Prefixes of the names of all that a broker ever puts into its data folder."""


def make_private_folder(folder: Path) -> None:
    """Make the folder if there is none; its parents are made with the usual mode."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(_FOLDER_MODE, exist_ok=True)


def open_private(file: str, flags: int) -> int:
    """Open a file, as ``opener`` of ``open``: a new file is for its owner only."""
    return os.open(file, flags | os.O_CLOEXEC, FILE_MODE)


def tighten(folder: Path) -> str:
    """Take away other users' access; returns what they could read, or still can, if anything."""
    found = sorted(folder.iterdir())
    own = [path for path in found if path.name.startswith(_OWN)]
    wide = [path for path in (*own, *([folder] if own == found else [])) if _is_wide(path)]
    kept = [path for path in wide if not _tightened(path)]
    if kept:
        return f"others can still read {', '.join(path.name for path in kept)}: change the owner or the mode"
    return f"others could read {', '.join(path.name for path in wide)}" if wide else ""


def _is_wide(path: Path) -> bool:
    # Files in subfolders are protected by their folder; links are not ours.
    found = path.lstat()
    return bool(found.st_mode & _OTHERS) and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


def _tightened(path: Path) -> bool:
    try:
        path.chmod(path.lstat().st_mode & ~_OTHERS)
    except OSError:
        return False
    return not _is_wide(path)
