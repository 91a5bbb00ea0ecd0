"""A backup that a running broker makes of its own store, since no other process can read it.

A command asks for it at the admin API, and keeps asking how far it is: a backup that nobody asks about any more is
given up, so a command that was killed leaves nothing behind at the broker. The thread of the store copies a slice at a
time (``store_worker``). The command does everything else: it makes the folder, and checks, syncs and renames the copy.
"""

from __future__ import annotations

import os
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.live.errors import ConfigError
from penstock.live.store import BackupError
from penstock.live.store.backups import SUFFIX

__all__ = ["ASKED_S_MAX", "Backup", "check_folder"]

ASKED_S_MAX: Final = 15.0
"""How long a backup goes on that nobody asks about."""
_OTHERS: Final = 0o077


@dataclass(slots=True)
class Backup:
    """One backup: the event loop cancels it, the store's thread reports how far it is."""

    folder: Path
    state: str = "copying"
    """``copying``, then ``done`` or ``failed``."""
    reason: str = ""
    """Why it failed."""
    pages_done: int = 0
    pages_total: int = 0
    is_cancelled: bool = False
    asked_s: float = field(default_factory=time.monotonic)
    """When somebody last asked about it."""

    @property
    def is_over(self) -> bool:
        """Whether nothing happens any more."""
        return self.state != "copying"

    def note(self, left: int, total: int) -> None:
        """Note how far the copy is; raises ``BackupError`` if it is to end."""
        self.pages_done = total - left
        self.pages_total = total
        if self.is_cancelled:
            raise BackupError("it was cancelled")
        if time.monotonic() - self.asked_s > ASKED_S_MAX:
            raise BackupError("nobody asked about it any more")

    def finish(self) -> None:
        """The copy is complete."""
        self.pages_done = self.pages_total
        self.state = "done"

    def fail(self, reason: str) -> None:
        """The copy was given up."""
        self.reason = reason
        self.state = "failed"

    def as_dict(self) -> dict[str, Any]:
        """The figures, for the admin API."""
        return {
            "folder": str(self.folder),
            "state": self.state,
            "reason": self.reason,
            "pages_done": self.pages_done,
            "pages_total": self.pages_total,
        }


def check_folder(folder: Path) -> None:
    """Raise ``ConfigError`` unless somebody who may read the store has made the folder for a backup.

    The admin token lets its holders command the broker, but neither read messages nor write files: so the folder must
    be there, empty, under a name that only backups have, and the broker's user must have it for itself.
    """
    if not folder.is_absolute() or folder.suffix != SUFFIX:
        raise ConfigError(f"{folder} is not the absolute path of a folder whose name ends with {SUFFIX}")
    try:
        found = folder.lstat()
        is_empty = stat.S_ISDIR(found.st_mode) and not any(folder.iterdir())
    except OSError as error:
        raise ConfigError(f"the broker cannot use {folder}: {error.strerror or error}") from None
    if not is_empty or found.st_uid != os.geteuid() or found.st_mode & _OTHERS:
        raise ConfigError(f"{folder} is not an empty folder that belongs to the broker's user alone")
