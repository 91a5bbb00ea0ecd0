"""Writing a growing file to the disk piece by piece."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.live.store import BackupError
from penstock.live.store import flushing as flushing_module
from penstock.live.store.flushing import FLUSH_PAGES, Flusher


class Disk:
    """Counts syncs, and may fail."""

    def __init__(self, error: OSError | None = None) -> None:
        self.syncs = 0
        self._error = error

    def sync(self, _descriptor: int) -> None:
        self.syncs += 1
        if self._error is not None:
            raise self._error


def wait_for(flusher: Flusher, pages: int) -> None:
    """Wait until nothing is being flushed."""
    pause = threading.Event()
    asked = 0
    while flusher.is_flushing(pages):
        assert asked < 10_000
        asked += 1
        pause.wait(0.001)


def test_a_piece_is_waited_for_and_less_than_that_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk()
    monkeypatch.setattr(flushing_module, "_SYNC", disk.sync)
    (tmp_path / "file").write_bytes(b"x")
    with Flusher(tmp_path / "file") as flusher:
        # The last one is a copy that began anew.
        for pages, syncs in ((FLUSH_PAGES - 1, 0), (FLUSH_PAGES, 1), (2 * FLUSH_PAGES - 1, 1), (0, 2)):
            wait_for(flusher, pages)
            assert disk.syncs == syncs


def test_a_disk_that_fails_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flushing_module, "_SYNC", Disk(OSError(5, "Input/output error")).sync)
    (tmp_path / "file").write_bytes(b"x")
    with Flusher(tmp_path / "file") as flusher, pytest.raises(BackupError, match="cannot be made durable"):
        wait_for(flusher, FLUSH_PAGES)


def test_a_copy_that_somebody_has_removed_ends_it(tmp_path: Path) -> None:
    with Flusher(tmp_path / "file") as flusher, pytest.raises(BackupError, match="cannot be made durable"):
        flusher.is_flushing(FLUSH_PAGES)
