"""Tells a lack of descriptors or memory from a failed disk: the lack passes, and says nothing about stored data."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from penstock.live.store.inspecting import FILE_NAME

__all__ = ["DATABASE_ERRORS", "is_starved"]

DATABASE_ERRORS: Final = (sqlite3.DatabaseError, MemoryError)
"""What a query may raise: the sqlite3 module raises ``MemoryError`` itself if SQLite has no memory."""


def is_starved(error: BaseException, folder: Path) -> bool:
    """Whether the process or the system ran out of descriptors or memory, and the disk is fine."""
    if isinstance(error, MemoryError):
        return True
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return (folder / FILE_NAME).exists()
    return code in {sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR_NOMEM}
