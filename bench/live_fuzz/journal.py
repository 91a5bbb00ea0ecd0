"""Keeps journals of what processes of the live fuzz did and saw: one JSON array per line, written before they continue.

A line is one write to a file opened for appending. So a process that is killed loses at most the end of its last line,
and a line that was written stays written. Readers skip torn lines.

Every line begins with its kind and the time in milliseconds, by the clock that all processes of a machine share.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Final

__all__ = ["Journal", "now_ms", "read_journal"]

_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class Journal:
    """The journal of one process; several lives of the process append to the same file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, _FLAGS, 0o644)
        if _is_torn(path):
            os.write(self._file, b"\n")

    def write(self, kind: str, *fields: object) -> None:
        """Append a line."""
        line = json.dumps([kind, now_ms(), *fields], separators=(",", ":"))
        os.write(self._file, line.encode() + b"\n")


def now_ms() -> int:
    """The time of the clock that all processes of this machine share."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000_000


def read_journal(path: Path) -> list[list[Any]]:
    """The lines of a journal, without those torn by a kill."""
    if not path.exists():
        return []
    lines: list[list[Any]] = []
    for text in path.read_bytes().split(b"\n"):
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def _is_torn(path: Path) -> bool:
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return False
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
