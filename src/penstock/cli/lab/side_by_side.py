"""Runs the experiments of a quick report in parallel, as many at a time as there are processors.

Each is a ``penstock lab report`` process of its own, so Ctrl-C reaches all of them, and each ends the processes that
it has started. Their findings end up in the folder of results.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import Final

from penstock.cli.processors import processors

__all__ = ["COMMAND", "run_side_by_side"]

COMMAND: Final = (sys.executable, "-c", "from penstock.cli import main; main()", "lab", "report", "--quick")
_END_S_MAX: Final = 10.0


def run_side_by_side(
    names: Sequence[str],
    folder: Path,
    on_done: Callable[[str], None],
    *,
    command: Sequence[str] = COMMAND,
    jobs: int | None = None,
) -> dict[str, str]:
    """Run these experiments, call ``on_done`` after each, and return the output of those that failed, by name."""
    work = _Work(folder, on_done, command)
    with ThreadPoolExecutor(jobs or processors()) as pool:
        try:
            said = dict(zip(names, pool.map(work.run, names), strict=True))
        except BaseException:
            work.stop()
            raise
    return {name: text for name, text in said.items() if text}


class _Work:
    """State that all threads share: the running processes, and whether to start more."""

    def __init__(self, folder: Path, on_done: Callable[[str], None], command: Sequence[str]) -> None:
        self._folder, self._on_done, self._command = folder, on_done, command
        self._lock = Lock()
        self._running: list[subprocess.Popen[str]] = []
        self._is_stopping = False

    def run(self, name: str) -> str:
        """Run one experiment to its end; return its output if it failed."""
        process = self._started(name)
        if process is None:
            return ""
        with process:
            said, _ = process.communicate()
        try:
            self._on_done(name)
        except BaseException:
            self.stop()
            raise
        return said.strip() or f"ended with {process.returncode}" if process.returncode else ""

    def stop(self) -> None:
        """Start no more processes, and end the running ones."""
        with self._lock:
            self._is_stopping = True
        _end(self._running)

    def _started(self, name: str) -> subprocess.Popen[str] | None:
        with self._lock:
            if self._is_stopping:
                return None
            process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                [*self._command, "--only", name, "--results", str(self._folder), "--out", os.devnull],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self._running.append(process)
            return process


def _end(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Interrupt all processes, since only a Ctrl-C at a terminal reaches them by itself; kill those that do not end."""
    for process in processes:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
    for process in processes:
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_S_MAX)
        if process.poll() is None:
            process.kill()
