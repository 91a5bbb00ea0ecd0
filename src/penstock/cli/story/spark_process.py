"""Runs the worker process that uses Spark for the story: starts it before there is work, ends it whatever happens.

Spark takes seconds to start. It does so during the earlier chapters, and work is handed over once it is known.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

import msgspec

from penstock.cli.story.spark_worker import Finding, Work

__all__ = ["SparkProcess"]

_COMMAND: Final = (sys.executable, "-c", "from penstock.cli.story.spark_worker import main; main()")
_JAVA: Final = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:+IgnoreUnrecognizedVMOptions "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
}
"""For jobs of seconds, these do not pay off: compiling code twice, collecting garbage in several threads, and verifying
each of thousands of Spark's own classes."""
_STEP_S_MAX: Final = 600.0
_END_S_MAX: Final = 20.0
_END_POLL_S: Final = 0.05
_LINE_BYTES_MAX: Final = 16 * 1024 * 1024


class SparkProcess:
    """One worker, which leads a process group of its own; leaving the context ends it and its Java."""

    def __init__(self, command: Sequence[str] = _COMMAND) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            await _ended(self._process)

    async def start(self) -> asyncio.subprocess.Process:
        """Start the worker, unless it was started before."""
        if self._process is None:
            self._process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                limit=_LINE_BYTES_MAX,
                env={**os.environ, **_JAVA},
            )
        return self._process

    async def hand(self, work: Work) -> None:
        """Hand over work, which the worker does when it is ready."""
        process = await self.start()
        assert process.stdin is not None
        # If the worker has ended already, the end of its output shows that.
        with suppress(ConnectionError):
            process.stdin.write(msgspec.json.encode(work) + b"\n")
            await process.stdin.drain()

    async def findings(self) -> AsyncGenerator[Finding, None]:
        """Yield the findings of the worker as they come; no more work can be handed over."""
        process = await self.start()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        try:
            while True:
                async with asyncio.timeout(_STEP_S_MAX):
                    line = await process.stdout.readline()
                if not line:
                    break
                yield msgspec.json.decode(line, type=Finding)
        except TimeoutError:
            yield Finding("error", _STEP_S_MAX, [f"nothing was heard of Spark for {_STEP_S_MAX:.0f} s"], is_clean=False)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End the worker in order if it runs; then kill the rest of its group, above all its Java."""
    if process.stdin is not None:
        process.stdin.close()
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S_MAX):
                # Not `wait`: it also waits for the pipe, which Java may keep open as long as it lives.
                while process.returncode is None:
                    await asyncio.sleep(_END_POLL_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    # Read to the end, so that the pipe is closed while the event loop still runs.
    if process.stdout is not None:
        await process.stdout.read()
