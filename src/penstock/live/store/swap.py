"""Moves the files of a salvaged or restored store into place, so that an interruption at any point loses nothing.

The new store is built in ``salvaging/new`` while the former files stay where they are: damaged ones, or those that a
backup replaces. Then the former files get a second name in ``salvaging/damaged``, which appears with all of them at
once. As long as it is there no broker opens the folder, and doing it again starts over from the files in it. Finally it
is renamed to ``damaged-…`` or ``replaced-…``.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Final

from penstock.live.store.errors import StoreRefusedError
from penstock.live.store.inspecting import FILE_NAME, JOURNAL_NAME, LOG_NAME, UNFINISHED
from penstock.live.store.witness import WITNESS_NAME, Witness

__all__ = ["Swap", "swapping"]

_WORK: Final = UNFINISHED.parent.name
_GATHERED: Final = "gathered"
_OURS: Final = frozenset({UNFINISHED.name, _GATHERED, "new", "forced", "alone"})
"""All that salvaging ever puts into its work folder."""
_BESIDE: Final = (LOG_NAME, f"{FILE_NAME}-shm", JOURNAL_NAME)


class Swap:
    """A folder whose files are being replaced."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._damaged = folder / UNFINISHED
        self.work = folder / _WORK
        """The folder for temporary files."""
        self.new = self.work / "new"
        """Where the new store is to be built."""
        self.source = self._damaged if self._damaged.exists() else folder
        """Where the damaged files are: in the folder, unless a swap was interrupted."""

    def run(self, aside: Path) -> None:
        """Replace the damaged files by the new ones, which nobody has open, and put the damaged ones aside."""
        for name in (FILE_NAME, WITNESS_NAME):
            _sync(self.new / name)
        if self.source == self._folder:
            self._gather()
        # The witness carries the lock of the folder, so the new one is locked before it is moved in.
        with closing(Witness(self.new)):
            (self.new / WITNESS_NAME).replace(self._folder / WITNESS_NAME)
            for name in _BESIDE:
                (self._folder / name).unlink(missing_ok=True)
            (self.new / FILE_NAME).replace(self._folder / FILE_NAME)
            _sync(self._folder)
            self._damaged.replace(aside)
            _sync(self._folder)

    def _gather(self) -> None:
        """Give all damaged files a second name, durably, before the first one is touched."""
        gathered = self.work / _GATHERED
        gathered.mkdir()
        for name in (FILE_NAME, *_BESIDE, WITNESS_NAME):
            if (self._folder / name).exists():
                _link(self._folder / name, gathered / name)
        _sync(gathered)
        gathered.replace(self._damaged)
        _sync(self.work)
        _sync(self._folder)

    def is_ours(self) -> bool:
        """Whether the work folder has only what salvaging puts there."""
        return self.work.is_dir() and _OURS.issuperset(each.name for each in self.work.iterdir())

    def tidy(self) -> None:
        """Remove all but the damaged files."""
        for name in _OURS - {UNFINISHED.name}:
            shutil.rmtree(self.work / name, ignore_errors=True)
        if self.work.exists() and not any(self.work.iterdir()):
            self.work.rmdir()


@contextmanager
def swapping(folder: Path) -> Iterator[Swap]:
    """Prepare a swap in a locked folder; its work folder is tidied before and after."""
    swap = Swap(folder)
    if swap.work.exists() and not swap.is_ours():
        raise StoreRefusedError(f"{swap.work} is not of a salvage or restore that was interrupted: move it elsewhere")
    swap.tidy()
    swap.work.mkdir(exist_ok=True)
    try:
        yield swap
    finally:
        swap.tidy()


def _link(file: Path, to: Path) -> None:
    try:
        os.link(file, to)
    except OSError:
        # Not every file system has hard links.
        shutil.copy2(file, to)
    _sync(to)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
