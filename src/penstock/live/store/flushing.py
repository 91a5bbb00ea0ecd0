"""Writes a growing file to the disk piece by piece, in a thread of its own.

If a large copy is left to the system, it writes hundreds of megabytes at some time, and the next sync of the store may
have to wait for all of that.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.live.store.errors import BackupError

__all__ = ["FLUSH_PAGES", "Flusher"]

FLUSH_PAGES: Final = 256
"""Pages after which the copy waits until they are on the disk: 1 MiB."""
# macOS has no other one.
_SYNC: Final = getattr(os, "fdatasync", os.fsync)


class Flusher:
    """One file that grows; a context manager."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._descriptor = -1
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"flusher of {file.name}")
        self._flush: Future[None] | None = None
        self._flushed_pages = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def is_flushing(self, pages: int) -> bool:
        """Whether the copy, which has so many pages by now, is to wait; raises ``BackupError`` if the disk fails."""
        if self._flush is None and abs(pages - self._flushed_pages) >= FLUSH_PAGES:
            # Less than before if the copy had to begin anew.
            self._flushed_pages = pages
            try:
                if self._descriptor < 0:
                    self._descriptor = os.open(self._file, os.O_RDONLY | os.O_CLOEXEC)
                self._flush = self._thread.submit(_SYNC, self._descriptor)
            except (OSError, RuntimeError) as error:
                # Only the copy suffers: somebody removed it, or there are no descriptors or threads left.
                raise BackupError(f"{self._file} cannot be made durable: {error}") from error
        if self._flush is None or not self._flush.done():
            return self._flush is not None
        ended, self._flush = self._flush, None
        failure = ended.exception()
        if failure is not None:
            raise BackupError(f"{self._file} cannot be made durable: {failure}") from failure
        return False
