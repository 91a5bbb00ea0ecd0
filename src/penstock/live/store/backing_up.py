"""Copies the database of an open store to another file, a slice of pages at a time.

Between two slices the store may commit: SQLite then also changes the pages that were copied already. So the copy is the
store as it is when the last slice is done, and no commit ever waits for more than one slice. Nothing is synced here:
whoever asked for the copy does that, and keeps the copy only if it proves whole.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, TypeAlias

from penstock.live.store.errors import BackupError
from penstock.live.store.inspecting import FILE_NAME, PAGE_BYTES
from penstock.live.store.private import FILE_MODE

__all__ = ["SLICE_PAGES", "Between", "copy_database"]

SLICE_PAGES: Final = 64
"""Pages copied at a time: 256 KiB, which takes well below a millisecond if the system has them in memory."""

Between: TypeAlias = Callable[[int, int], None]
"""Called after each slice with the pages that are left, and all; an exception ends the copy."""

# The file is thrown away if anything goes wrong, so it needs no journal.
_SETTINGS: Final = ("journal_mode=OFF", "synchronous=OFF", f"page_size={PAGE_BYTES}", "cache_size=-1024")


def copy_database(database: sqlite3.Connection, folder: Path, between: Between) -> None:
    """Copy the database into a folder that has none; raises ``BackupError``, and leaves no file then.

    What ``between`` raises comes through as it is.
    """
    file = folder / FILE_NAME
    try:
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, FILE_MODE))
    except OSError as error:
        raise BackupError(f"{file} cannot be made: {error.strerror or error}") from error
    try:
        _copy(database, file, between)
    except BaseException as error:
        with suppress(OSError):
            file.unlink()
        if isinstance(error, sqlite3.Error):
            raise BackupError(f"the copy in {folder} failed: {error}") from error
        raise


def _copy(database: sqlite3.Connection, file: Path, between: Between) -> None:
    def after_slice(_status: int, left: int, total: int) -> None:
        if left:
            between(left, total)

    with closing(sqlite3.connect(file, isolation_level=None)) as target:
        for setting in _SETTINGS:
            target.execute(f"PRAGMA {setting}")
        database.backup(target, pages=SLICE_PAGES, progress=after_slice)
