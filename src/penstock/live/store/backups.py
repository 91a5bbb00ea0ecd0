"""Makes the folder of a backup: under a temporary name, until the copy has been read whole and is durable.

A backup is a folder like that of a store: the database, with its own witness, and a note that says whose it is, when it
was made and what it has. A broker could open it. ``Unfinished`` is the folder while it is being made.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from penstock.live.store.backing_up import Between, copy_database
from penstock.live.store.errors import BackupError, StoreDamagedError, StoreRefusedError
from penstock.live.store.inspecting import FILE_NAME, LOG_NAME, inspect, reading
from penstock.live.store.private import open_private
from penstock.live.store.proving import OnRead, Proof, check_found, prove
from penstock.live.store.witness import WITNESS_NAME, Witness

__all__ = [
    "NOTE_NAME",
    "SUFFIX",
    "Note",
    "Unfinished",
    "copy_closed",
    "damages",
    "finish",
    "read_note",
    "refuse_inside",
    "sync",
    "unfinished",
]

SUFFIX: Final = ".unfinished"
"""How the names of folders end in which a backup or a copy is being made."""
NOTE_NAME: Final = "backup.json"
_NOTE_FORMAT: Final = 1
_OURS: Final = frozenset(
    {FILE_NAME, LOG_NAME, f"{FILE_NAME}-shm", f"{FILE_NAME}-journal", WITNESS_NAME, NOTE_NAME, "reserve"}
)
"""All that an interrupted backup or copy may have left in its folder."""


class Note(msgspec.Struct, frozen=True, kw_only=True):
    """What a backup says about itself."""

    format: int
    overlay: str
    broker: str
    made_ms: int
    """When the copy was complete, by the clock of the machine on which it was made."""
    store_id: str
    commits: int
    messages: int
    damaged: list[str] = []
    """What could not be read in the store that was backed up."""


@dataclass(slots=True, frozen=True)
class Unfinished:
    """A folder that is being made, and what it is to be called."""

    folder: Path
    target: Path

    def rename(self) -> None:
        """Give the folder its name, durably; raises ``BackupError`` if somebody took that."""
        sync(self.folder)
        try:
            # An empty folder gives way, everything else does not.
            self.folder.rename(self.target)
        except OSError as error:
            raise BackupError(f"{self.target} cannot be made: {error.strerror or error}") from error
        sync(self.target.parent)


@contextmanager
def unfinished(target: Path, *, like: Path | None = None) -> Iterator[Unfinished]:
    """An empty folder beside the target, which is gone in the end unless it was renamed.

    It is only for its owner: whoever owns the folder ``like``, if we may give it away, since the broker writes into it.
    """
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise StoreRefusedError(f"{target} exists already: name a new folder")
    folder = target.with_name(target.name + SUFFIX)
    lock = -1
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(0o700, exist_ok=True)
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        _lock(lock, folder)
        _empty(folder)
        if like is not None and os.geteuid() == 0:
            owner = like.stat()
            os.chown(folder, owner.st_uid, owner.st_gid)
    except OSError as error:
        if lock >= 0:
            os.close(lock)
        raise StoreRefusedError(f"{folder} cannot be made: {error.strerror or error}") from error
    except BaseException:
        if lock >= 0:
            os.close(lock)
        raise
    try:
        yield Unfinished(folder, target)
    finally:
        # Of the folder that we locked: if it was renamed, nothing has its old name.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def refuse_inside(target: Path, source: Path) -> None:
    """Raise ``StoreRefusedError`` if the target lies in the folder that is only to be read."""
    if source.resolve() in target.resolve().parents:
        raise StoreRefusedError(f"{target} is inside of {source}: name a folder elsewhere")


def _lock(descriptor: int, folder: Path) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StoreRefusedError(f"{folder} is being written by another process") from None


def _empty(folder: Path) -> None:
    """Remove what an interrupted run left; raises if there is anything else."""
    found = sorted(folder.iterdir())
    for each in found:
        if each.name not in _OURS:
            raise StoreRefusedError(f"{folder} is not of a backup that was interrupted: move it elsewhere")
    for each in found:
        each.unlink()


def copy_closed(folder: Path, into: Path, between: Between) -> None:
    """Copy a store that no broker has open; raises ``StoreLockedError`` if one has."""
    if not folder.is_dir():
        raise StoreRefusedError(f"there is no folder {folder}")
    witness = Witness(folder)
    try:
        check_found(folder, inspect(folder, witness.statement))
        with reading(folder) as database:
            copy_database(database, into, between)
    finally:
        witness.withdraw()


def finish(made: Unfinished, *, now_ms: int, on_read: OnRead) -> tuple[Proof, Note]:
    """Read the copied database whole, give it a witness and a note, make all of it durable, and rename the folder."""
    try:
        proof = prove(made.folder, None, on_read)
    except StoreRefusedError as error:
        problem = "; ".join(error.problems) if isinstance(error, StoreDamagedError) else str(error)
        raise BackupError(f"the copy is damaged, and was thrown away: {problem}") from error
    note = Note(
        format=_NOTE_FORMAT,
        overlay=proof.overlay,
        broker=proof.broker,
        made_ms=now_ms,
        store_id=proof.totals.store_id.hex(),
        commits=proof.totals.commits,
        messages=proof.messages,
        damaged=damages(proof),
    )
    try:
        with closing(Witness(made.folder)) as witness:
            witness.begin(proof.totals)
        with open(made.folder / NOTE_NAME, "wb", opener=open_private) as file:
            file.write(msgspec.json.format(msgspec.json.encode(note), indent=2) + b"\n")
        for name in (FILE_NAME, NOTE_NAME, WITNESS_NAME):
            sync(made.folder / name)
    except OSError as error:
        raise BackupError(f"the copy in {made.folder} failed: {error.strerror or error}") from error
    made.rename()
    return proof, note


def damages(proof: Proof) -> list[str]:
    """What cannot be read in a store, in words."""
    texts = [
        f"messages of pubend {name}: ticks {ticks.first} to {ticks.last}"
        for name, pubend in proof.pubends.items()
        for ticks in pubend.damaged
    ]
    return texts + proof.records


def read_note(folder: Path) -> Note | None:
    """What a backup says about itself; None if it is a plain copy of a folder, or the note cannot be read."""
    with suppress(OSError, msgspec.MsgspecError):
        found: Any = msgspec.json.decode((folder / NOTE_NAME).read_bytes(), type=Note)
        return found if found.format == _NOTE_FORMAT else None
    return None


def sync(path: Path) -> None:
    """Make a file or a folder durable; raises ``BackupError`` if the disk refuses."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise BackupError(f"{path} cannot be made durable: {error.strerror or error}") from error
