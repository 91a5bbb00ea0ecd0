"""A command as a process that is killed again and again: watched from outside, with all that it has started.

What it starts itself (Java, and Spark's executors and Python workers) is found by its parents, so that nothing stays
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
    """One command, one life after the other."""

    def __init__(self, command: Sequence[str], log_path: Path) -> None:
        self._command, self._log_path = tuple(command), log_path
        self._process: subprocess.Popen[bytes] | None = None
        self._left_over: dict[int, str] = {}
        self._exit_code: int | None = None

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """With which code it has ended by itself; none if it runs, or was killed."""
        return self._exit_code

    @property
    def last_line(self) -> str:
        """What it told last."""
        return self.log.rpartition("\n")[2].strip()

    @property
    def log(self) -> str:
        """The last lines of what it has told, in all its lives."""
        path = self._log_path
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.exists() else []
        return "\n  ".join(lines[-_QUOTED_LINES:])

    def start(self, *more: str) -> None:
        """Begin another life."""
        assert not self.is_running, "it runs already"
        self._exit_code = None
        folder = str(self._log_path.parent)
        with self._log_path.open("ab") as log:
            # A group of its own: Ctrl-C at the terminal is for us. Who is killed leaves temporary files behind.
            self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
                [*self._command, *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                process_group=0,
                env={**os.environ, "TMPDIR": folder, "SPARK_LOCAL_DIRS": folder},
            )

    def family(self) -> dict[int, str]:
        """The processes that it has started, and those that they have."""
        return {} if self._process is None else descendants(self._process.pid)

    async def ended(self, *, patience_s: float) -> int | None:
        """Its exit code when it has ended by itself; none if that takes too long."""
        deadline_s = time.monotonic() + patience_s
        while self.is_running:
            if time.monotonic() > deadline_s:
                return None
            await asyncio.sleep(0.05)
        return None if self._process is None else self._process.returncode

    def kill(self, *, alone: bool = False) -> None:
        """End it with SIGKILL, with all that it has started unless it is to be alone in that."""
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
        """End everything that is left of all lives; answers with how many processes had to be killed for that."""
        self.kill(alone=True)
        deadline_s = time.monotonic() + _GONE_S_MAX
        while alive(self._left_over) and time.monotonic() < deadline_s:
            await asyncio.sleep(0.05)
        left = alive(self._left_over)
        kill_processes(left)
        return len(left)

    def kill_all(self) -> None:
        """End everything at once, when there is no time for order."""
        self.kill()
        kill_processes(alive(self._left_over))


def descendants(pid: int) -> dict[int, str]:
    """The processes that a process has started, and those that they have, each with what tells it from a later one."""
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
    """Those of the processes that have not ended."""
    return {pid: started for pid, started in processes.items() if _started(pid) == started}


def kill_processes(processes: dict[int, str]) -> None:
    """End processes with SIGKILL."""
    for pid in alive(processes):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _started(pid: int) -> str | None:
    """When a process was started, in the kernel's count; none if there is no such process, or only its exit code."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
