"""The witness: a small file beside the database that says how many commits the store has at least.

SQLite silently ends the write-ahead log at the first damaged frame, as it must after a power failure. The witness tells
damage from a torn end: it is written after the sync of every commit has returned. It is not synced itself, so after a
power failure it may lag behind, which does no harm. After a mere kill it is exact.

It has two slots, written in turn, so that a torn write leaves the other. The file also carries the lock of the folder:
SQLite's own lock comes too late, since the files are checked before SQLite may change them.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from typing import Final

from penstock.live.store.errors import StoreLockedError
from penstock.live.store.private import FILE_MODE
from penstock.live.store.totals import Totals

__all__ = ["WITNESS_NAME", "Statement", "Witness", "locked", "read_statement"]

WITNESS_NAME: Final = "witness"

_MAGIC: Final = b"PenWitns"
_SLOT: Final = Struct(">8s16sQQ")
_CHECKSUM_BYTES: Final = 8
_SLOT_BYTES: Final = _SLOT.size + _CHECKSUM_BYTES
_SLOT_AT: Final = (0, 4_096)
"""The slots are in different pages, so that one bad sector cannot take both."""
_FILE_BYTES: Final = 8_192


@dataclass(slots=True, frozen=True)
class Statement:
    """What a witness says about its store."""

    store_id: bytes
    commits: int
    """The store has at least this many."""
    highest_tick: int
    """At that commit, no pubend had used or promised a tick above this one."""

    def encode(self) -> bytes:
        """The bytes of a slot, which end with their checksum."""
        return _encoded(self.store_id, self.commits, self.highest_tick)

    @classmethod
    def decode(cls, slot: bytes) -> Statement | None:
        """What a slot says; None if these are not the bytes that were written."""
        packed = slot[: _SLOT.size]
        if len(slot) != _SLOT_BYTES or blake2b(packed, digest_size=_CHECKSUM_BYTES).digest() != slot[_SLOT.size :]:
            return None
        magic, store_id, commits, highest_tick = _SLOT.unpack(packed)
        return cls(store_id, commits, highest_tick) if magic == _MAGIC else None


class Witness:
    """The open witness file; the folder is locked until it is closed."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / WITNESS_NAME
        self._was_there = self._path.exists()
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._file)
            raise StoreLockedError(
                f"store {folder} is already in use: only one broker may open it at a time"
            ) from error
        self._is_open = True
        self.statement = self._read()
        """What was found when the file was opened; None if it was missing, empty or damaged."""

    def _read(self) -> Statement | None:
        return _newest([os.pread(self._file, _SLOT_BYTES, at) for at in _SLOT_AT])

    def begin(self, totals: Totals) -> None:
        """Rewrite the whole file, durably."""
        said = _encoded(totals.store_id, totals.commits, totals.highest_tick)
        os.ftruncate(self._file, _FILE_BYTES)
        for at, end in ((0, _SLOT_AT[1]), (_SLOT_AT[1], _FILE_BYTES)):
            os.pwrite(self._file, said.ljust(end - at, b"\0"), at)
        os.fsync(self._file)

    def note(self, totals: Totals) -> None:
        """Note that a commit is durable.

        A failed write does no harm, as the witness may lag behind: if the disk fails, the next sync reports it.
        """
        said = _encoded(totals.store_id, totals.commits, totals.highest_tick)
        with suppress(OSError):
            os.pwrite(self._file, said, _SLOT_AT[totals.commits & 1])

    def close(self) -> None:
        """Sync the file, and unlock the folder."""
        if self._is_open:
            self._is_open = False
            with suppress(OSError):
                os.fsync(self._file)
            os.close(self._file)

    def withdraw(self) -> None:
        """Close the file, and remove it if it was not there before: the folder is somebody else's."""
        if not self._was_there:
            self._path.unlink(missing_ok=True)
        self.close()


@contextmanager
def locked(folder: Path) -> Iterator[Witness]:
    """Lock a folder whose files are to be replaced; if that fails, no witness stays that was not there before."""
    witness = Witness(folder)
    try:
        yield witness
    except BaseException:
        witness.withdraw()
        raise
    witness.close()


def read_statement(folder: Path) -> Statement | None:
    """What the witness in a folder says, without locking it; None if it is missing, empty or damaged."""
    path = folder / WITNESS_NAME
    content = path.read_bytes() if path.exists() else b""
    return _newest([content[at : at + _SLOT_BYTES] for at in _SLOT_AT])


def _newest(slots: list[bytes]) -> Statement | None:
    whole = [said for slot in slots if (said := Statement.decode(slot)) is not None]
    return max(whole, key=lambda said: said.commits, default=None)


def _encoded(store_id: bytes, commits: int, highest_tick: int) -> bytes:
    packed = _SLOT.pack(_MAGIC, store_id, commits, highest_tick)
    return packed + blake2b(packed, digest_size=_CHECKSUM_BYTES).digest()
