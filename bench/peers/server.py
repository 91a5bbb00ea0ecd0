"""Starts brokers as children of this process, on a processor of their own, and reads their processor time.

A broker inherits its processor from us at the start, so that all its threads and children have it, too. The JVM and the
Erlang machine see one processor and choose their threads and collectors accordingly. The servers of a cluster are not
kept to one processor: in earnest each of them has a machine of its own.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Final

from bench.live import BrokerProcess
from bench.live_driver import DriverError
from penstock.lab.delivery.kill9.process import descendants, kill_processes

__all__ = ["Server", "as_broker", "as_driver", "running"]

_START_S_MAX: Final = 120.0
_STOP_S_MAX: Final = 20.0
_POLL_S: Final = 0.05
_QUOTED_CHARS: Final = 2_000


class Server:
    """A broker that runs: where it listens, and the processor time it takes."""

    def __init__(self, pid: int, port: int, *, others: Sequence[int] = ()) -> None:
        """With others, the processes of further servers that do their part of the work."""
        self.pid: Final = pid
        self.port: Final = port
        self._others = tuple(others)

    def cpu_s(self) -> float:
        """Processor time used so far, of all its processes and their descendants that still run."""
        return sum(_cpu_s(pid) for pid in (self.pid, *self._others))


@contextmanager
def running(
    command: Sequence[str],
    *,
    port: int,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    user: str | None = None,
    is_apart: bool = True,
) -> Iterator[Server]:
    """Start a broker, wait until it listens, and end it afterwards; as another user, if root names one.

    With ``is_apart`` it runs on the brokers' processor, otherwise wherever there is one.
    """
    log = folder / "log"
    with as_broker() if is_apart else nullcontext(), log.open("wb") as output:
        # Own process group: Ctrl-C at the terminal is for us, and we end the broker.
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            process_group=0,
            user=user,
        )
    try:
        _wait_until_it_listens(process, port, log)
        yield Server(process.pid, port)
    finally:
        _end(process)


@contextmanager
def as_broker() -> Iterator[None]:
    """Let children be started on the brokers' processor, if there are at least two."""
    ours = os.sched_getaffinity(0)
    if len(ours) > 1:
        os.sched_setaffinity(0, {min(ours)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


@contextmanager
def as_driver() -> Iterator[None]:
    """Leave the brokers' processor to them, if there are at least two."""
    ours = os.sched_getaffinity(0)
    if len(ours) > 1:
        os.sched_setaffinity(0, ours - {min(ours)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, ours)


def _cpu_s(pid: int) -> float:
    used_s = BrokerProcess(pid).cpu_s()
    for child in descendants(pid):
        with suppress(FileNotFoundError):
            used_s += BrokerProcess(child).cpu_s()
    return used_s


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline_s = time.monotonic() + _START_S_MAX
    while time.monotonic() < deadline_s:
        if process.poll() is not None:
            raise DriverError(f"{_name(process)} ended with code {process.returncode} at its start: {_quoted(log)}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
        except OSError:
            time.sleep(_POLL_S)
        else:
            return
    raise DriverError(f"{_name(process)} did not listen within {_START_S_MAX:.0f} s: {_quoted(log)}")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a broker and whatever it started."""
    children = descendants(process.pid)
    process.terminate()
    try:
        process.wait(_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    kill_processes(children)


def _name(process: subprocess.Popen[bytes]) -> str:
    assert isinstance(process.args, list | tuple)
    return Path(str(process.args[0])).name


def _quoted(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace")[-_QUOTED_CHARS:].strip() or "it printed nothing"
