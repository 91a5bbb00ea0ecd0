"""Mounts a small file system for the data of one broker, which can be filled up and freed.

It is a tmpfs, so it needs Linux and root. Where it cannot be mounted, the blow is left out, and the fuzz says why.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

__all__ = ["SmallDisk"]

_SIZE: Final = "160m"
"""The reserve of the store (48 MiB), its write-ahead log, and room for the messages of a round."""
_PIECE_BYTES: Final = 1 << 20


class SmallDisk:
    """A file system that is mounted inside ``with``, if possible."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._filler = folder / "filler"
        self.refusal = "not mounted"
        """Why it is not mounted; empty if it is."""

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        mount = shutil.which("mount")
        if mount is None:
            self.refusal = "there is no command mount"
            return self
        command = [mount, "-t", "tmpfs", "-o", f"size={_SIZE}", "tmpfs", str(self._folder)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        self.refusal = done.stderr.strip() if done.returncode else ""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.refusal:
            return
        umount = shutil.which("umount") or "umount"
        # Keep a copy for the analysis of faults; unmount lazily, as a broker may still be ending.
        kept = self._folder.with_name(f"{self._folder.name}.kept")
        with suppress(OSError, shutil.Error):
            shutil.copytree(self._folder, kept, ignore=shutil.ignore_patterns("reserve", "filler"))
        subprocess.run([umount, "-l", str(self._folder)], check=False, capture_output=True)

    def fill(self) -> None:
        """Use up all remaining space."""
        if self.refusal:
            return
        with self._filler.open("ab") as file, suppress(OSError):
            while True:
                os.write(file.fileno(), bytes(_PIECE_BYTES))

    def free(self) -> None:
        """Free the space again."""
        self._filler.unlink(missing_ok=True)
