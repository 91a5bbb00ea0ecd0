"""Runs the client processes of a round: starts, kills and restarts them, and never leaves one behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from penstock.lab.delivery.kill9.process import descendants

__all__ = ["ClientProcess"]

_ENDED_S_MAX: Final = 20.0
_POLL_S: Final = 0.02


class ClientProcess:
    """A publisher or subscriber as a process with a group of its own, one life after the other."""

    def __init__(self, module: str, name: str, spec: bytes, folder: Path) -> None:
        self.name = name
        self.journal = folder / f"{name}.jsonl"
        spec_path = folder / f"{name}.json"
        spec_path.write_bytes(spec)
        self._command = [sys.executable, "-m", module, str(spec_path), str(self.journal)]
        self._log = folder / f"{name}.log"
        self._process: subprocess.Popen[str] | None = None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs, or before its first life."""
        return None if self._process is None else self._process.poll()

    @property
    def is_running(self) -> bool:
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def children(self) -> dict[int, str]:
        """The processes that it has forked, each with a mark that tells it from a later one."""
        return {} if self._process is None else descendants(self._process.pid)

    def start(self) -> None:
        """Start the process for another life."""
        assert not self.is_running, f"{self.name} runs already"
        with self._log.open("ab") as log:
            # A group of its own: Ctrl-C is for us, and we end it with everything it has forked.
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=log, stderr=log, process_group=0, text=True
            )

    def say(self, word: str, value: object = None) -> None:
        """Tell it to ``leave`` or to ``finish``."""
        if self._process is None or self._process.stdin is None:
            return
        # It may have ended by itself: its exit code shows that.
        with suppress(OSError, ValueError):
            self._process.stdin.write(f"{word} {json.dumps(value)}\n" if value is not None else f"{word}\n")
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it and everything it has forked with SIGKILL."""
        process = self._process
        if process is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        self.abandon()

    def abandon(self) -> None:
        """Close its standard input, as if this program had died: the process ends by itself."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()

    async def ended(self, *, patience_s: float = _ENDED_S_MAX) -> bool:
        """Wait for its end; return False if that takes too long."""
        deadline_s = time.monotonic() + patience_s
        while self.is_running:
            if time.monotonic() > deadline_s:
                return False
            await asyncio.sleep(_POLL_S)
        return True
