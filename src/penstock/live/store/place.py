"""Where the SQLite store of a broker is: a folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from penstock.live.store.log import LogStore
from penstock.live.store.reserve import RESERVE_BYTES

__all__ = ["FolderPlace"]


@dataclass(slots=True, frozen=True)
class FolderPlace:
    """The folder of a broker's store."""

    folder: Path
    overlay: str
    broker: str
    bytes_max: int | None = None
    """The size of the file at which the store is full; None for no limit but the disk."""
    reserve_bytes: int = RESERVE_BYTES

    @property
    def shown(self) -> str:
        """The folder, for people."""
        return str(self.folder)

    def open(self, on_wait: Callable[[str], None]) -> LogStore:  # noqa: ARG002 - a disk says at once how it ended
        """Open or make the store; raises ``StoreRefusedError`` if that may not be, or is not possible."""
        return LogStore.open(
            self.folder,
            overlay=self.overlay,
            broker=self.broker,
            bytes_max=self.bytes_max,
            reserve_bytes=self.reserve_bytes,
        )
