"""Starts a relay process and controls bandwidth, delay and cuts of its link on loopback, at run time."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from types import TracebackType
from typing import IO, Final, Self

import msgspec

from penstock.lab.links.limits import LinkLimits
from penstock.lab.links.relay import Command, Figures, RelayPlan
from penstock.model.errors import PenstockError

__all__ = ["LinkProcessError", "ThrottledLink"]

_COMMAND: Final = (sys.executable, "-c", "from penstock.lab.links.relay import main; main()")
_STOP_S_MAX: Final = 5.0


class LinkProcessError(PenstockError):
    """The relay process of a link did not start, or has ended."""


class ThrottledLink:
    """A relay process from one loopback port to another; use it with ``with``."""

    def __init__(self, port: int, target_port: int, limits: LinkLimits | None = None) -> None:
        self._plan = RelayPlan(port, target_port, limits or LinkLimits())
        self.limits = self._plan.limits
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(  # noqa: S603 - our own command, no shell
            [*_COMMAND, msgspec.json.encode(self._plan).decode()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        try:
            self._read()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def limit(
        self,
        *,
        there_bytes_s: float | None = None,
        back_bytes_s: float | None = None,
        delay_ms: float | None = None,
    ) -> None:
        """Change the given limits: bytes per second of a direction (0 for no limit), delay of bytes from now on."""
        now = self.limits
        self.limits = replace(
            now,
            there_bytes_s=now.there_bytes_s if there_bytes_s is None else there_bytes_s,
            back_bytes_s=now.back_bytes_s if back_bytes_s is None else back_bytes_s,
            delay_ms=now.delay_ms if delay_ms is None else delay_ms,
        )
        self._say(Command(limits=self.limits))

    def cut(self, *, silent: bool = False) -> None:
        """Reset all connections, and new ones too; if silent, let nothing pass without telling either end."""
        self._say(Command(cut="silent" if silent else "loud"))

    def restore(self) -> None:
        """Let bytes pass and connections be made again."""
        self._say(Command(cut=""))

    def figures(self) -> Figures:
        """Ask for bytes passed so far and held now, and connections."""
        return self._say(Command())

    def close(self) -> None:
        """End the process, and all connections with it."""
        process, self._process = self._process, None
        if process is None:
            return
        with process:
            _pipe(process.stdin).close()
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()

    def _say(self, command: Command) -> Figures:
        assert self._process is not None, "the link has not been entered"
        try:
            stream = _pipe(self._process.stdin)
            stream.write(msgspec.json.encode(command) + b"\n")
            stream.flush()
        except OSError:
            raise self._error() from None
        return self._read()

    def _read(self) -> Figures:
        assert self._process is not None, "the link has not been entered"
        line = _pipe(self._process.stdout).readline()
        if not line:
            raise self._error()
        return msgspec.json.decode(line, type=Figures)

    def _error(self) -> LinkProcessError:
        assert self._process is not None
        self._process.kill()
        said = _pipe(self._process.stderr).read().decode(errors="replace").strip().splitlines()
        return LinkProcessError(
            f"the relay from port {self._plan.port} to {self._plan.target_port} has ended: {said[-1] if said else ''}"
        )


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream
