"""Puts a backup in the place of a store, as a whole or not at all.

The backup is copied first, and the copy is read whole, so the backup itself is only read. A store that is replaced is
put aside and never deleted; if that is interrupted, no broker opens the folder until it is done again (``swap``).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.live.store.backups import NOTE_NAME, Note, damages, read_note, refuse_inside, sync, unfinished
from penstock.live.store.errors import BackupError, StoreLockedError, StoreOwnerError, StoreRefusedError
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME, UNFINISHED, inspect, refuse_links, size_of
from penstock.live.store.private import open_private
from penstock.live.store.proving import OnRead, Proof, prove
from penstock.live.store.swap import swapping
from penstock.live.store.witness import WITNESS_NAME, Statement, Witness, locked, read_statement

__all__ = ["Restored", "Restoring", "restore"]

_COPIED: Final = (FILE_NAME, LOG_NAME, WITNESS_NAME)
_CHUNK_BYTES: Final = 1 << 20


@dataclass(slots=True, frozen=True)
class Restoring:
    """What to restore, and what may be done for it."""

    backup: Path
    folder: Path
    stamp: str
    """Part of the name of the folder to which a former store is put aside."""
    may_replace: bool = False
    """Whether a store that is in the folder may be put aside."""
    may_be_damaged: bool = False
    """Whether to restore a backup of which parts cannot be read."""
    on_copy: Callable[[int, int], None] = field(default=lambda _done, _total: None)
    """Called with the bytes copied, and all."""
    on_read: OnRead = field(default=lambda _done, _total: None)


@dataclass(slots=True, frozen=True)
class Restored:
    """The result of restoring."""

    proof: Proof
    note: Note | None
    """What the backup said about itself; None for a plain copy of a folder."""
    damaged: list[str]
    """What cannot be read."""
    aside: Path | None
    """The folder with the files of the store that was replaced."""


def restore(work: Restoring) -> Restored:
    """Restore a backup; raises ``StoreRefusedError`` if it may not be, and ``BackupError`` if that failed.

    A store of another broker or overlay is never replaced.
    """
    if not work.backup.is_dir():
        raise StoreRefusedError(f"there is no folder {work.backup}")
    refuse_links(work.backup)
    if not size_of(work.backup / FILE_NAME):
        raise StoreRefusedError(f"there is no backup in {work.backup}")
    refuse_inside(work.folder, work.backup)
    try:
        with _unused(work.backup):
            if work.folder.is_dir() and any(work.folder.iterdir()):
                return _replace(work)
            return _make(work)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise BackupError(f"{work.backup} could not be restored: {reason or error}; nothing was changed") from error


@contextmanager
def _unused(backup: Path) -> Iterator[None]:
    """Keep brokers out of the backup, which may be on a medium that cannot be written."""
    if not (backup / WITNESS_NAME).exists():
        yield
        return
    descriptor = os.open(backup / WITNESS_NAME, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise StoreLockedError(f"{backup} is in use by a broker: it is no backup") from None
    finally:
        os.close(descriptor)


def _make(work: Restoring) -> Restored:
    """Restore into a folder that is empty, or not there yet."""
    like = work.folder if work.folder.is_dir() else work.folder.parent
    with unfinished(work.folder, like=like) as made:
        proof, note = _bring(work, made.folder)
        made.rename()
    return Restored(proof, note, damages(proof), None)


def _replace(work: Restoring) -> Restored:
    """Restore into a folder that has a store, or other files of its broker."""
    folder = work.folder
    has_store = any((folder / name).exists() for name in (FILE_NAME, LOG_NAME, WITNESS_NAME, UNFINISHED))
    refuse_links(folder)
    if has_store and not work.may_replace:
        raise StoreRefusedError(f"{folder} has a store: --force puts it aside, and what it has is not served any more")
    with locked(folder) as witness, swapping(folder) as swap:
        owner = _owner(swap.source, witness.statement) if has_store else None
        swap.new.mkdir(0o700)
        proof, note = _bring(work, swap.new)
        if owner is not None and owner != (proof.overlay, proof.broker):
            raise StoreOwnerError(
                f"store {folder} belongs to broker {owner[1]!r} of overlay {owner[0]!r}, and the backup to broker "
                f"{proof.broker!r} of overlay {proof.overlay!r}"
            )
        aside = folder / f"replaced-{work.stamp}"
        if aside.exists():
            raise StoreRefusedError(f"{aside} exists already: move it elsewhere")
        swap.run(aside)
    _give(aside, folder)
    if not has_store:
        _drop(aside)
    return Restored(proof, note, damages(proof), aside if has_store else None)


def _owner(folder: Path, statement: Statement | None) -> tuple[str, str] | None:
    """The overlay and broker of a store; None if that cannot be read."""
    with suppress(StoreRefusedError):
        return inspect(folder, statement).owner
    return None


def _bring(work: Restoring, into: Path) -> tuple[Proof, Note | None]:
    """Copy the backup into an empty folder, and read the copy whole; it is durable then."""
    _copy(work, into)
    proof = prove(into, read_statement(into), work.on_read)
    note = read_note(work.backup)
    if note is not None and (note.store_id, note.commits) != (proof.totals.store_id.hex(), proof.totals.commits):
        raise StoreRefusedError(
            f"{work.backup} was made with {note.commits:,} commits and has {proof.totals.commits:,}: a broker has used "
            f"it since; remove its file {NOTE_NAME} to restore it as it is now"
        )
    known = () if note is None else note.damaged
    damaged = [each for each in damages(proof) if each not in known]
    if damaged and not work.may_be_damaged:
        raise BackupError(
            f"{work.backup} is damaged: {'; '.join(damaged[:3])}{' …' if len(damaged) > 3 else ''}; "
            "nothing was changed, and --damaged restores it all the same"
        )
    _fold_log(into)
    with closing(Witness(into)) as witness:
        witness.begin(proof.totals)
    for name in (FILE_NAME, WITNESS_NAME):
        _give(into / name, work.folder)
        sync(into / name)
    sync(into)
    return proof, note


def _copy(work: Restoring, into: Path) -> None:
    total = sum(size_of(work.backup / name) for name in _COPIED)
    done = 0
    for name in _COPIED:
        if not size_of(work.backup / name):
            continue
        with (work.backup / name).open("rb") as source, open(into / name, "wb", opener=open_private) as target:
            while chunk := source.read(_CHUNK_BYTES):
                target.write(chunk)
                done += len(chunk)
                work.on_copy(done, total)


def _fold_log(folder: Path) -> None:
    """Move the write-ahead log of a plain copy into its database."""
    if not size_of(folder / LOG_NAME):
        return
    with closing(sqlite3.connect(folder / FILE_NAME, isolation_level=None)) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


def _give(path: Path, folder: Path) -> None:
    """Give a file to whoever owns the folder, if we may: its broker has to write it."""
    like = folder if folder.exists() else folder.parent
    if os.geteuid() == 0 and path.exists():
        owner = like.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def _drop(folder: Path) -> None:
    """Remove what a swap put aside if there was nothing: the witness that locked the folder."""
    for each in folder.iterdir():
        each.unlink()
    folder.rmdir()
