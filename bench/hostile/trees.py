"""Runs code of a given source tree, so that two trees can be attacked and compared in one run."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "Tree"]

ROOT: Final = Path(__file__).resolve().parents[2]
"""The folder from which this package is imported, whichever tree is attacked."""


@dataclass(slots=True, frozen=True)
class Tree:
    """A checkout's ``src``; brokers, honest clients and attackers all run its code, since protocols may differ."""

    label: str
    src: Path = ROOT / "src"

    def environment(self) -> dict[str, str]:
        """The environment of a process that imports Penstock from this tree."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join((str(self.src), str(ROOT)))}

    def penstock(self, *arguments: str) -> list[str]:
        """The command line of ``penstock`` in this tree."""
        return [sys.executable, "-c", "from penstock.cli import main; main()", *arguments]

    def module(self, name: str, *arguments: str) -> list[str]:
        """A program of this package, with the tree's Penstock."""
        return [sys.executable, "-m", name, *arguments]
