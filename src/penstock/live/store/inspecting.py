"""Examines the files of a store before anything in them is changed.

SQLite replays the write-ahead log into the database when it closes, and overwrites the log with the first commit. That
would destroy the evidence of what is missing, so all checks come first, on a connection that cannot write.

Three signs tell damage from the torn end that a power failure leaves. The witness saw more commits than the store reads
back. Or the log has totals of a later commit than the one that may be torn, since each commit is synced before the next
begins. Or the totals show that the database and its log are of different times.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.live.store.errors import NotAStoreError, StoreLockedError, StoreRefusedError, StoreVersionError
from penstock.live.store.index import Index, read_index
from penstock.live.store.schema import APPLICATION_ID, FORMAT_OLDEST, FORMAT_VERSION, old_problems
from penstock.live.store.totals import ROW_ERRORS, Totals, find_totals, row_problem
from penstock.live.store.wal import WriteAheadLog
from penstock.live.store.witness import WITNESS_NAME, Statement

__all__ = [
    "FILE_NAME",
    "JOURNAL_NAME",
    "LOG_NAME",
    "PAGE_BYTES",
    "RESERVE_NAME",
    "UNFINISHED",
    "Inspection",
    "inspect",
    "reading",
    "refusal",
    "refuse_links",
    "size_of",
]

FILE_NAME: Final = "store.sqlite"
"""The file in a store's folder; while the store is open its write-ahead log lies beside it."""
LOG_NAME: Final = f"{FILE_NAME}-wal"
JOURNAL_NAME: Final = f"{FILE_NAME}-journal"
"""A rollback journal. SQLite writes one while it makes the file of a store, and never later."""
RESERVE_NAME: Final = "reserve"
UNFINISHED: Final = Path("salvaging", "damaged")
"""Holds the former files while new ones are moved in: until it is gone, the folder may have some of both."""
PAGE_BYTES: Final = 4_096
_STALE_JOURNAL: Final = f"{JOURNAL_NAME} does not belong to this store, and would overwrite parts of it"


@dataclass(slots=True)
class Inspection:
    """The result of inspecting a store's folder."""

    is_new: bool = False
    """Whether there is no store, or one whose creation was never finished."""
    version: int = FORMAT_VERSION
    owner: tuple[str, str] | None = None
    """Overlay and broker."""
    index: Index = field(default_factory=Index)
    """The store's index; empty for an older format."""
    problems: list[str] = field(default_factory=list)
    """Damage that forbids using the store."""
    repairs: list[str] = field(default_factory=list)
    """Damage that can be repaired without loss."""


def inspect(folder: Path, statement: Statement | None) -> Inspection:
    """Examine a folder whose lock is held; raises if it is not a store, or its format is unknown here."""
    refuse_links(folder)
    if problem := _problem_beside(folder):
        return Inspection(problems=[problem])
    file = folder / FILE_NAME
    log_bytes = size_of(folder / LOG_NAME)
    if not size_of(file):
        return _without_database(folder, statement)
    log = WriteAheadLog((folder / LOG_NAME).read_bytes()) if log_bytes else None
    try:
        with reading(folder) as database:
            found = _read(database, folder)
            root = _root_of_totals(database) if found.version == FORMAT_VERSION and not found.is_new else 0
    except (*ROW_ERRORS, sqlite3.Error) as error:
        refused = refusal(folder, error)
        if statement is None or isinstance(refused, StoreLockedError):
            raise refused from error
        return Inspection(problems=[f"{FILE_NAME} cannot be read: {row_problem(error)}"])
    except NotAStoreError:
        if statement is None:
            raise
        return Inspection(problems=[f"the header of {FILE_NAME} is damaged"])
    if found.version < FORMAT_VERSION or found.is_new:
        found.problems += _problems_without_totals(found, statement, log)
        return found
    if not found.index.totals.commits:
        # Without totals there is nothing to compare.
        return found
    found.problems += _missing_commits(found.index.totals, statement, log)
    if log is not None:
        found.problems += _mixed_times(found.index.totals, _totals_of_file(file, root), log)
    if statement is None:
        found.repairs.append("the witness was missing or damaged, and was made anew")
    return found


def refuse_links(folder: Path) -> None:
    """Raise if a file of the store is a symbolic link: SQLite keeps the log beside the target, not beside the link."""
    for name in (FILE_NAME, LOG_NAME, JOURNAL_NAME):
        if (folder / name).is_symlink():
            raise StoreRefusedError(
                f"{folder / name} is a symbolic link: link the whole folder, or give the folder that has the files"
            )


def _problem_beside(folder: Path) -> str:
    """Why the database must not even be read; empty if it may be."""
    if (folder / UNFINISHED).exists():
        return "salvaging or restoring it was interrupted, and must be run again"
    return _STALE_JOURNAL if _has_stale_journal(folder) else ""


def _without_database(folder: Path, statement: Statement | None) -> Inspection:
    """Inspect a folder without a database: it is new if no file shows that there was a store."""
    if statement is not None or size_of(folder / LOG_NAME):
        left = WITNESS_NAME if statement is not None else LOG_NAME
        return Inspection(is_new=True, problems=[f"{FILE_NAME} is missing or empty, but {left} is there"])
    if size_of(folder / RESERVE_NAME):
        raise StoreRefusedError(
            f"{folder} had a store, but only its file {RESERVE_NAME!r} is left: restore a copy, or remove the folder "
            "to let the broker start without its data"
        )
    return Inspection(is_new=True)


def _has_stale_journal(folder: Path) -> bool:
    """Whether there is a rollback journal that was not left by a kill while the store was being made."""
    journal = folder / JOURNAL_NAME
    if not size_of(journal):
        return False
    with journal.open("rb") as raw:
        header = raw.read(20)
    # The last of these words is the number of pages that the database had: 0 if it was being made.
    return header[16:] != bytes(4)


@contextmanager
def reading(folder: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads the store and leaves its files as they are."""
    shared = folder / f"{FILE_NAME}-shm"
    was_shared = shared.exists()
    # Without a log nothing else can belong to the database, and SQLite must not make one.
    mode = "mode=ro" if size_of(folder / LOG_NAME) else "mode=ro&immutable=1"
    address = f"{(folder / FILE_NAME).absolute().as_uri()}?{mode}"
    try:
        with closing(sqlite3.connect(address, uri=True, timeout=0, isolation_level=None)) as database:
            database.execute("PRAGMA cell_size_check=ON")
            database.execute("PRAGMA trusted_schema=OFF")
            yield database
    finally:
        if not was_shared:
            shared.unlink(missing_ok=True)


def size_of(file: Path) -> int:
    """Size of a file in bytes; 0 if it does not exist."""
    return file.stat().st_size if file.exists() else 0


def refusal(folder: Path, error: Exception) -> StoreRefusedError:
    """The reason for not opening a store, made from an error of SQLite."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLockedError(f"store {folder} is already in use: only one broker may open it at a time")
    if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT) or not isinstance(error, sqlite3.OperationalError):
        return NotAStoreError(f"{folder / FILE_NAME} is not a store of Penstock, or damaged: {row_problem(error)}")
    return StoreRefusedError(f"store {folder} cannot be opened: {row_problem(error)}")


def _read(database: sqlite3.Connection, folder: Path) -> Inspection:
    (tables,) = database.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables:
        return Inspection(is_new=True)
    if _pragma(database, "application_id") != APPLICATION_ID:
        raise NotAStoreError(f"{folder / FILE_NAME} is a database, but not a store of Penstock")
    found = Inspection(version=_pragma(database, "user_version"))
    if size_of(folder / JOURNAL_NAME):
        found.problems.append(_STALE_JOURNAL)
    if not FORMAT_OLDEST <= found.version <= FORMAT_VERSION:
        raise StoreVersionError(
            f"store {folder} has format {found.version}, and this Penstock reads formats up to {FORMAT_VERSION}: "
            "use the version that wrote it"
        )
    if found.version < FORMAT_VERSION:
        found.problems += old_problems(database)
    else:
        found.index = read_index(database)
        found.problems += found.index.problems
    found.owner = database.execute("SELECT overlay, broker FROM owner").fetchone()
    return found


def _problems_without_totals(
    found: Inspection, statement: Statement | None, log: WriteAheadLog | None
) -> Iterator[str]:
    """Problems of a store without totals: it was never finished, or its format is older."""
    if statement is not None:
        what = "has no tables" if found.is_new else f"has format {found.version}"
        yield f"{FILE_NAME} {what}, but its witness saw {statement.commits:,} commits of format {FORMAT_VERSION}"
    if log is not None and log.has_commits_behind_damage():
        yield f"{LOG_NAME} has commits behind a damaged place"


def _missing_commits(totals: Totals, statement: Statement | None, log: WriteAheadLog | None) -> Iterator[str]:
    """Signs that the store once had commits that can no longer be read."""
    if statement is not None and statement.store_id != totals.store_id:
        yield f"{WITNESS_NAME} and {FILE_NAME} are of different stores"
    elif statement is not None and statement.commits > totals.commits:
        yield f"{statement.commits - totals.commits:,} of {statement.commits:,} commits are missing"
    if log is None:
        return
    # The last commit may be torn. Not if the header is damaged: it is synced before any commit is written.
    torn = 1 if log.has_header else 0
    newest = max((each.commits for each in log.totals(totals.store_id)), default=0)
    if newest > totals.commits + torn or log.has_commits_behind_damage():
        yield f"{LOG_NAME} has commits behind a damaged place"


def _mixed_times(totals: Totals, of_file: Totals | None, log: WriteAheadLog) -> Iterator[str]:
    """Signs that the database and its log do not belong together."""
    if of_file is None:
        return
    if of_file.commits and of_file.store_id != totals.store_id:
        yield f"{FILE_NAME} and {LOG_NAME} are of different stores"
    elif of_file.commits > totals.commits:
        yield f"{LOG_NAME} is older than {FILE_NAME}"
    elif log.has_header:
        # A log continues where the last one was moved into the database.
        oldest = min((each.commits for each in log.totals(totals.store_id)), default=0)
        if of_file.commits + 1 < oldest:
            yield f"{FILE_NAME} is older than {LOG_NAME}"


def _root_of_totals(database: sqlite3.Connection) -> int:
    found = database.execute("SELECT rootpage FROM sqlite_schema WHERE name='totals'").fetchone()
    return int(found[0]) if found else 0


def _totals_of_file(file: Path, root: int) -> Totals | None:
    """The totals in the database without its log: empty if their page is not there yet, None if unreadable."""
    start = (root - 1) * PAGE_BYTES
    if root < 1 or start >= size_of(file):
        return Totals()
    with file.open("rb") as raw:
        raw.seek(start)
        return find_totals(raw.read(PAGE_BYTES))


def _pragma(database: sqlite3.Connection, name: str) -> int:
    (value,) = database.execute(f"PRAGMA {name}").fetchone()
    return int(value)
