"""Opens the SQLite file of a store, makes sure that it is the right one, and alone.

The write-ahead log is synced by every commit (synchronous=FULL), and torn frames at its end are left out by SQLite when
the store is opened after a crash. The lock is held until the store is closed, so no second process can write.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.live.store.errors import (
    NotAStoreError,
    StoreLockedError,
    StoreOwnerError,
    StoreRefusedError,
    StoreVersionError,
)
from penstock.live.store.kept import KEPT_SCHEMA

__all__ = ["FILE_NAME", "FORMAT_VERSION", "Recovery", "open_database"]

FILE_NAME: Final = "store.sqlite"
"""The file in a store's folder; while the store is open its write-ahead log lies beside it."""
FORMAT_VERSION: Final = 2
"""Changes with every change that an older Penstock could not read; 2 since there are kept records."""

_FORMAT_OLDEST: Final = 1
"""Stores since this format are brought up to date when they are opened."""
_APPLICATION_ID: Final = 0x50454E53
_PAGE_BYTES: Final = 4_096

# The index of batches is apart from their bytes: totals and ranges are found without reading messages, and the ticks of
# a damaged batch are still known.
_SCHEMA: Final = (
    "CREATE TABLE owner (overlay TEXT NOT NULL, broker TEXT NOT NULL)",
    """CREATE TABLE pubends (
        number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, lease INTEGER, last INTEGER, trimmed INTEGER NOT NULL
    )""",
    """CREATE TABLE batches (
        pubend INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, messages INTEGER NOT NULL,
        bytes INTEGER NOT NULL, place INTEGER NOT NULL, PRIMARY KEY (pubend, first)
    ) WITHOUT ROWID""",
    "CREATE TABLE bodies (place INTEGER PRIMARY KEY, stored BLOB NOT NULL)",
    """CREATE TABLE publishers (
        pubend INTEGER NOT NULL, publisher BLOB NOT NULL, sequence INTEGER NOT NULL, tick INTEGER NOT NULL,
        PRIMARY KEY (pubend, publisher)
    ) WITHOUT ROWID""",
    "CREATE TABLE named (name TEXT PRIMARY KEY, stored BLOB NOT NULL) WITHOUT ROWID",
    *KEPT_SCHEMA,
)


@dataclass(slots=True, frozen=True)
class Recovery:
    """What opening a store found."""

    created: bool
    """Whether there was none before."""
    clean: bool
    """Whether it had been closed; otherwise its broker was killed, or the machine went down."""
    replayed_bytes: int
    """Bytes of the write-ahead log that were whole, and count; a torn rest was never acknowledged."""
    dropped_bytes: int
    """Bytes behind them: torn, or left from before."""


def open_database(
    folder: Path, *, overlay: str, broker: str, bytes_max: int | None = None
) -> tuple[sqlite3.Connection, Recovery]:
    """The connection, to be used by this thread only, and what was found; makes the store if there is none."""
    file = folder / FILE_NAME
    try:
        folder.mkdir(parents=True, exist_ok=True)
        log_bytes = _size(file.with_name(f"{FILE_NAME}-wal"))
        # No waiting for a lock: whoever holds it is another broker and keeps it.
        database = sqlite3.connect(file, timeout=0, isolation_level=None, cached_statements=64)
    except (OSError, sqlite3.Error) as error:
        raise StoreRefusedError(f"store {folder} cannot be opened: {error}") from error
    try:
        created = _prepare(database, folder, overlay, broker)
        _check_owner(database, folder, overlay, broker)
        _bring_up_to_date(database)
        replayed_bytes = _replay(database)
        if bytes_max is not None:
            database.execute(f"PRAGMA max_page_count={max(1, bytes_max // _PAGE_BYTES)}")
    except BaseException as error:
        database.close()
        # A damaged schema can make SQLite complain in words that are no text.
        if isinstance(error, sqlite3.Error | UnicodeDecodeError | TypeError):
            raise _refusal(folder, error) from error
        raise
    found = (0, 0) if created else (replayed_bytes, max(0, log_bytes - replayed_bytes))
    return database, Recovery(created, created or not log_bytes, *found)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _prepare(database: sqlite3.Connection, folder: Path, overlay: str, broker: str) -> bool:
    """Lock it, check what it is, and fill it if it is new; says whether it was."""
    database.execute("PRAGMA locking_mode=EXCLUSIVE")
    database.execute(f"PRAGMA page_size={_PAGE_BYTES}")
    # Its first look into the file, also a foreign one; nothing is changed before the checks.
    (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    is_new = int(tables) == 0
    if not is_new:
        _check_format(database, folder)
    for setting in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "fullfsync=ON",  # on macOS a plain fsync leaves the bytes in the drive's cache
        "checkpoint_fullfsync=ON",
        "wal_autocheckpoint=4000",
        "journal_size_limit=67108864",
        "cache_size=-16384",
        "secure_delete=OFF",
        "cell_size_check=ON",
        "trusted_schema=OFF",
        "temp_store=MEMORY",
    ):
        database.execute(f"PRAGMA {setting}")
    database.execute("BEGIN EXCLUSIVE")
    if is_new:
        for statement in _SCHEMA:
            database.execute(statement)
        database.execute("INSERT INTO owner VALUES (?, ?)", (overlay, broker))
        database.execute(f"PRAGMA application_id={_APPLICATION_ID}")
        database.execute(f"PRAGMA user_version={FORMAT_VERSION}")
    database.execute("COMMIT")
    return is_new


def _check_format(database: sqlite3.Connection, folder: Path) -> None:
    if _pragma(database, "application_id") != _APPLICATION_ID:
        raise NotAStoreError(f"{folder / FILE_NAME} is a database, but not a store of Penstock")
    version = _pragma(database, "user_version")
    if not _FORMAT_OLDEST <= version <= FORMAT_VERSION:
        raise StoreVersionError(
            f"store {folder} has format {version}, and this Penstock reads formats up to {FORMAT_VERSION}: "
            "use the version that wrote it"
        )


def _check_owner(database: sqlite3.Connection, folder: Path, overlay: str, broker: str) -> None:
    owner = database.execute("SELECT overlay, broker FROM owner").fetchone()
    if owner != (overlay, broker):
        found = "nobody" if owner is None else f"broker {owner[1]!r} of overlay {owner[0]!r}"
        raise StoreOwnerError(
            f"store {folder} belongs to {found}, not to broker {broker!r} of overlay {overlay!r}: "
            "a copied store would repeat ticks"
        )


def _bring_up_to_date(database: sqlite3.Connection) -> None:
    """Give a store of an older format what it lacks; an older Penstock cannot open it from then on."""
    if _pragma(database, "user_version") == FORMAT_VERSION:
        return
    database.execute("BEGIN EXCLUSIVE")
    for statement in KEPT_SCHEMA:
        database.execute(statement)
    database.execute(f"PRAGMA user_version={FORMAT_VERSION}")
    database.execute("COMMIT")


def _replay(database: sqlite3.Connection) -> int:
    """Move what the write-ahead log holds into the database, and say how many bytes of it counted."""
    with closing(database.execute("PRAGMA wal_checkpoint(RESTART)")) as cursor:
        _, frames, _ = cursor.fetchone()
    # Each page in the log has a head of 24 bytes, and the log one of 32.
    return frames * (_PAGE_BYTES + 24) + 32 if frames > 0 else 0


def _pragma(database: sqlite3.Connection, name: str) -> int:
    (value,) = database.execute(f"PRAGMA {name}").fetchone()
    return int(value)


def _refusal(folder: Path, error: Exception) -> StoreRefusedError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLockedError(f"store {folder} is held by a process: only one broker may open it at a time")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or not isinstance(error, sqlite3.OperationalError):
        return NotAStoreError(f"{folder / FILE_NAME} is not a store of Penstock, or damaged: {error}")
    return StoreRefusedError(f"store {folder} cannot be opened: {error}")
