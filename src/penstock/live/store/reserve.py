"""Sets disk space aside, so that a store can still trim when the disk is full to the last byte.

SQLite writes a deletion to its write-ahead log first, and must be able to move the log into the database: both need
space, just when there is none. The reserve is a file beside the store that is deleted for that, and made again later.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from penstock.live.store.private import open_private

__all__ = ["RESERVE_BYTES", "Reserve"]

RESERVE_BYTES: Final = 48 << 20
"""Enough for what the write-ahead log can hold when the disk gets full: two checkpoints of 16 MB, and a commit."""


class Reserve:
    """A file of a fixed size that is held or released; there is none if the size is 0."""

    def __init__(self, file: Path, size_bytes: int) -> None:
        self._file, self.size_bytes = file, size_bytes
        self._held = size_bytes == 0 or (file.exists() and file.stat().st_size == size_bytes)

    @property
    def held(self) -> bool:
        """Whether the space is set aside."""
        return self._held

    def hold(self) -> bool:
        """Set the space aside if it is not; returns whether it is now."""
        if not self._held:
            try:
                _allocate(self._file, self.size_bytes)
                self._held = True
            except OSError:
                self.release()
        return self._held

    def release(self) -> None:
        """Free the space."""
        if self.size_bytes:
            self._file.unlink(missing_ok=True)
            self._held = False


def _allocate(file: Path, size_bytes: int) -> None:
    with open(file, "wb", buffering=0, opener=open_private) as raw:
        # Not every system can reserve blocks without writing them, and a file with holes reserves none.
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(raw.fileno(), 0, size_bytes)
        else:
            raw.writelines(bytes(min(1 << 20, size_bytes - start)) for start in range(0, size_bytes, 1 << 20))
        os.fsync(raw.fileno())
