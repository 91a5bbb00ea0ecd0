"""Runs a command as a process that is killed again and again, and keeps track of its descendants.

Descendants (Java, and Spark's executors and Python workers) are found through their parents, so that none is left
behind.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["Kill9Process", "alive", "command_of", "descendants", "kill_processes"]

_GONE_S_MAX: Final = 20.0
_QUOTED_LINES: Final = 10


class Kill9Process:
    """A command that is run and killed again and again."""

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._command, self._log_path = tuple(command), log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._left_over: dict[int, str] = {}
        self._exit_code: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code if the process ended by itself; None if it runs, or was killed."""
        return self._exit_code

    @property
    def last_line(self) -> str:
        """The last line of the log."""
        return self.log.rpartition("\n")[2].strip()

    @property
    def log(self) -> str:
        """The last lines of the log, over all runs of the process."""
        path = self._log_path
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return "\n  ".join(lines[-_QUOTED_LINES:])

    def start(self, *more: str) -> None:
        """Start the process, with more arguments if given."""
        assert not self.is_running, "it runs already"
        self._exit_code = None
        folder = str(self._log_path.parent)
        with self._log_path.open("ab") as log:
            # Own process group: Ctrl-C at the terminal is for us. A killed process leaves temporary files behind.
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                [*self._command, *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                env={**os.environ, "TMPDIR": folder, "SPARK_LOCAL_DIRS": folder},
            )

    def family(self) -> dict[int, str]:
        """All descendants of the process."""
        return {} if self._process is None else descendants(self._process.pid)

    async def ended(self, *, patience_s: float) -> int | None:
        """Wait for the process to end by itself, and return its exit code; None if that takes too long."""
        deadline_s = time.monotonic() + patience_s
        while self.is_running:
            if time.monotonic() > deadline_s:
                return None
            await asyncio.sleep(0.05)
        return None if self._process is None else self._process.returncode

    def kill(self, *, alone: bool = False) -> None:
        """Kill the process with SIGKILL, along with its descendants unless ``alone``."""
        process, self._process = self._process, None
        if process is None:
            return
        self._exit_code = process.poll()
        family = descendants(process.pid)
        self._left_over |= family
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if not alone:
            kill_processes(family)

    async def close(self) -> int:
        """Kill the process and wait for left-over descendants to end; return how many of these had to be killed."""
        self.kill(alone=True)
        deadline_s = time.monotonic() + _GONE_S_MAX
        while alive(self._left_over) and time.monotonic() < deadline_s:
            await asyncio.sleep(0.05)
        left = alive(self._left_over)
        kill_processes(left)
        return len(left)

    def kill_all(self) -> None:
        """Kill the process and all left-over descendants at once, when there is no time for an orderly end."""
        self.kill()
        kill_processes(alive(self._left_over))


def descendants(pid: int) -> dict[int, str]:
    """All descendants of a process, by pid, each with its start time: a later process may get the same pid."""
    found: dict[int, str] = {}
    waiting = [pid]
    while waiting:
        parent = waiting.pop()
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                for child in map(int, (task / "children").read_text().split()):
                    if child not in found and (started := _started(child)) is not None:
                        found[child] = started
                        waiting.append(child)
    return found


def command_of(pid: int) -> str:
    """The command of a process, its words separated by spaces; empty if it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def alive(processes: dict[int, str]) -> dict[int, str]:
    """The processes that have not ended."""
    return {pid: started for pid, started in processes.items() if _started(pid) == started}


def kill_processes(processes: dict[int, str]) -> None:
    """End processes with SIGKILL."""
    for pid in alive(processes):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _started(pid: int) -> str | None:
    """The start time of a process, in the kernel's clock ticks; None if it does not exist or is a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
