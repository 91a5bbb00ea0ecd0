"""Opens the SQLite file of a store, and makes sure that it is the right one, whole, and not in use.

The write-ahead log is synced by every commit (synchronous=FULL), and SQLite ignores torn frames at its end when the
store is opened after a crash. The locks are held until the store is closed, so no second process can write.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from penstock.live.store.books import Books
from penstock.live.store.errors import StoreDamagedError, StoreOwnerError, StoreRefusedError
from penstock.live.store.index import Index, read_index
from penstock.live.store.inspecting import (
    FILE_NAME,
    LOG_NAME,
    PAGE_BYTES,
    Inspection,
    inspect,
    refusal,
    size_of,
)
from penstock.live.store.private import FILE_MODE, make_private_folder, tighten
from penstock.live.store.pubend_state import PubendState
from penstock.live.store.schema import FORMAT_VERSION, bring_up_to_date, make_tables
from penstock.live.store.witness import Witness

__all__ = ["FILE_NAME", "FORMAT_VERSION", "OpenDatabase", "Recovery", "limit_pages", "open_database"]

_SETTINGS: Final = (
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
)


@dataclass(slots=True, frozen=True)
class Recovery:
    """What opening a store found."""

    created: bool
    """Whether the store was new."""
    clean: bool
    """Whether it had been closed properly; otherwise its broker was killed, or the machine went down."""
    replayed_bytes: int
    """Bytes of the write-ahead log that were whole, and replayed; a torn rest was never acknowledged."""
    dropped_bytes: int
    """Bytes of the write-ahead log not replayed: torn, or left from before."""
    repaired: str = ""
    """Damage that was repaired without loss; empty if there was none."""
    tightened: str = ""
    """What other users of the machine could read, or still can; empty if there was nothing."""


@dataclass(slots=True)
class OpenDatabase:
    """A store that is open, whole and locked."""

    connection: sqlite3.Connection
    """For the thread that opened it only."""
    books: Books
    states: dict[str, PubendState]
    """The states of all pubends, by name."""
    recovery: Recovery


def open_database(folder: Path, *, overlay: str, broker: str, bytes_max: int | None = None) -> OpenDatabase:
    """Open the store in a folder, or make it if there is none; a refused store is left as it was."""
    try:
        make_private_folder(folder)
        witness = Witness(folder)
    except OSError as error:
        raise StoreRefusedError(f"store {folder} cannot be opened: {error}") from error
    try:
        found = inspect(folder, witness.statement)
        _check(found, folder, overlay, broker)
        log_bytes = size_of(folder / LOG_NAME)
        return _opened(folder, witness, found, log_bytes, bytes_max=bytes_max, owner=(overlay, broker))
    except BaseException as error:
        witness.withdraw()
        if isinstance(error, OSError):
            raise StoreRefusedError(f"store {folder} cannot be opened: {error}") from error
        raise


def _check(found: Inspection, folder: Path, overlay: str, broker: str) -> None:
    """Refuse a store that is damaged, or belongs to another broker."""
    if found.problems:
        raise StoreDamagedError(folder, found.problems, can_be_salvaged=found.version == FORMAT_VERSION)
    if not found.is_new and found.owner != (overlay, broker):
        owner = "nobody" if found.owner is None else f"broker {found.owner[1]!r} of overlay {found.owner[0]!r}"
        raise StoreOwnerError(
            f"store {folder} belongs to {owner}, not to broker {broker!r} of overlay {overlay!r}: "
            "a copied store would repeat ticks"
        )


def _opened(
    folder: Path,
    witness: Witness,
    found: Inspection,
    log_bytes: int,
    *,
    bytes_max: int | None,
    owner: tuple[str, str],
) -> OpenDatabase:
    tightened = tighten(folder)
    if found.is_new:
        # Files that SQLite makes beside this one get the same mode.
        (folder / FILE_NAME).touch(FILE_MODE)
    try:
        # Do not wait for the lock: another broker holds it, and keeps it.
        database = sqlite3.connect(folder / FILE_NAME, timeout=0, isolation_level=None, cached_statements=64)
    except sqlite3.Error as error:
        raise refusal(folder, error) from error
    try:
        index = _prepared(database, found, owner)
        replayed_bytes = _replay(database)
        if bytes_max is not None:
            limit_pages(database, bytes_max)
    except BaseException as error:
        database.close()
        # A damaged schema can make SQLite's error message undecodable.
        if isinstance(error, sqlite3.Error | UnicodeDecodeError | TypeError):
            raise refusal(folder, error) from error
        raise
    if witness.statement is None:
        witness.begin(index.totals)
    counted = (0, 0) if found.is_new else (replayed_bytes, max(0, log_bytes - replayed_bytes))
    is_clean = found.is_new or not log_bytes
    recovery = Recovery(found.is_new, is_clean, *counted, repaired="; ".join(found.repairs), tightened=tightened)
    return OpenDatabase(database, Books(database, index.totals, witness), index.states, recovery)


def _prepared(database: sqlite3.Connection, found: Inspection, owner: tuple[str, str]) -> Index:
    """Lock the database, and fill it or bring it up to date; returns its index."""
    database.execute("PRAGMA locking_mode=EXCLUSIVE")
    database.execute(f"PRAGMA page_size={PAGE_BYTES}")
    for setting in _SETTINGS:
        database.execute(f"PRAGMA {setting}")
    database.execute("BEGIN EXCLUSIVE")
    if found.is_new:
        make_tables(database, *owner)
    database.execute("COMMIT")
    if not found.is_new and found.version < FORMAT_VERSION:
        bring_up_to_date(database)
    elif not found.is_new:
        return found.index
    index = read_index(database)
    assert not index.problems, index.problems
    return index


def limit_pages(database: sqlite3.Connection, bytes_max: int) -> None:
    """Let the file grow up to a size; one that is already larger does not grow."""
    database.execute(f"PRAGMA max_page_count={max(1, bytes_max // PAGE_BYTES)}")


def _replay(database: sqlite3.Connection) -> int:
    """Move the write-ahead log into the database; returns how many bytes of it were whole."""
    with closing(database.execute("PRAGMA wal_checkpoint(RESTART)")) as cursor:
        _, frames, _ = cursor.fetchone()
    # Each page in the log has a header of 24 bytes, and the log one of 32.
    return frames * (PAGE_BYTES + 24) + 32 if frames > 0 else 0
