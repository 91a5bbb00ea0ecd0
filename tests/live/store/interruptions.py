"""Copies a folder before each step that changes its files: what a kill at any of these points would leave."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

STEPS = ("replace", "rename", "unlink", "link", "mkdir", "rmdir", "fsync")


class Interruptions:
    """Copies a folder before each call that changes files: what a kill at this point would leave."""

    def __init__(self, folder: Path, copies: Path) -> None:
        self._folder, self._copies = folder, copies
        self._is_copying = False
        self.taken: list[Path] = []

    def before(self, step: Callable[..., Any]) -> Callable[..., Any]:
        def stepped(*arguments: Any, **named: Any) -> Any:
            if not self._is_copying:
                self._copy()
            return step(*arguments, **named)

        return stepped

    def _copy(self) -> None:
        self._is_copying = True
        copy = self._copies / str(len(self.taken))
        shutil.copytree(self._folder, copy)
        self.taken.append(copy)
        self._is_copying = False
