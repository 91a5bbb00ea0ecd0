"""Writing a growing file to the disk piece by piece."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from penstock.live.store import BackupError
from penstock.live.store import flushing as flushing_module
from penstock.live.store.flushing import FLUSH_PAGES, Flusher


def wait_for(flusher: Flusher, pages: int) -> int:
    """Wait until nothing is being flushed; returns how often that was asked."""
    pause = threading.Event()
    asked = 1
    while flusher.is_flushing(pages):
        assert asked < 10_000
        asked += 1
        pause.wait(0.001)
    return asked


def test_a_piece_is_waited_for_and_less_than_that_is_not(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"x")
    with Flusher(file) as flusher:
        assert not flusher.is_flushing(FLUSH_PAGES - 1)
        assert flusher.is_flushing(FLUSH_PAGES)
        assert wait_for(flusher, FLUSH_PAGES) >= 1
        assert not flusher.is_flushing(2 * FLUSH_PAGES - 1)
        # A copy that began anew.
        assert flusher.is_flushing(0)


def test_a_disk_that_fails_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    file = tmp_path / "file"
    file.write_bytes(b"x")
    monkeypatch.setattr(flushing_module, "_SYNC", fails)
    with Flusher(file) as flusher:
        assert flusher.is_flushing(FLUSH_PAGES)
        with pytest.raises(BackupError, match="cannot be made durable"):
            wait_for(flusher, FLUSH_PAGES)
