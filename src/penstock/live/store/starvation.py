"""Tells a lack of descriptors or memory from a failed disk: the first passes, and says nothing about what is stored."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Final

from penstock.live.store.inspecting import FILE_NAME

__all__ = ["DATABASE_ERRORS", "is_starved"]

DATABASE_ERRORS: Final = (sqlite3.DatabaseError, MemoryError)
"""What a query may raise: the module says ``MemoryError`` itself where SQLite has no memory."""


def is_starved(error: BaseException, folder: Path) -> bool:
    """Whether the process or the system had no descriptor or memory left: the disk is as good as before."""
    if isinstance(error, MemoryError):
        return True
    code = getattr(error, "sqlite_errorcode", 0)
    if code & 0xFF == sqlite3.SQLITE_CANTOPEN:
        return (folder / FILE_NAME).exists()
    return code in {sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR_NOMEM}
