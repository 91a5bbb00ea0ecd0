"""Starts, awaits and ends real broker processes on loopback, for the demo, tests and benchmarks.

Every process is a broker (``penstock.live``) on one overlay file in a separate folder. A broker's standard error is
kept beside the file, and quoted when something goes wrong. With detours every broker has its own overlay file, in which
the neighbours that it dials are at other ports, so that a proxy listening there can stand in between. Tables of their
own do the same for what else a broker dials, such as databases. Processes are ended by pid.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import SystemRandom
from selectors import EVENT_READ, DefaultSelector
from types import TracebackType
from typing import IO, Final, Self

from penstock.client.client import connect
from penstock.model.errors import PenstockError
from penstock.session.errors import ClientError

__all__ = ["DEMO_PLAN", "BrokerProcessError", "DemoOverlay", "OverlayPlan", "free_ports"]

_HOST: Final = "127.0.0.1"
_PORTS: Final = range(10_000, 30_000)
"""Below the ephemeral ports, as an outgoing connection could take one of those between choice and use."""
_START_S_MAX: Final = 240.0
_STOP_S_MAX: Final = 15.0
_LINK_S_MAX: Final = 120.0
_POLL_S: Final = 0.02
_COMMAND: Final = (sys.executable, "-m", "penstock.live")
_QUOTED_LINES: Final = 15


class BrokerProcessError(PenstockError):
    """A broker process did not start, did not find its neighbours, or ended before it should."""


@dataclass(slots=True, frozen=True)
class OverlayPlan:
    """The brokers and links of an overlay."""

    pubends: Mapping[str, tuple[str, ...]]
    """For each broker the pubends it hosts, maybe none."""
    links: Sequence[tuple[str, str]] = ()
    defaults: Mapping[str, int] = field(default_factory=dict)
    """Settings for all brokers that differ from Penstock's defaults."""
    service: str = "guaranteed"
    """The service class of all pubends: ``guaranteed`` or ``best-effort``."""
    own: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Settings for single brokers: an ``admin_port``, or a setting that differs from the common one."""
    words: Mapping[str, str] = field(default_factory=dict)
    """Text settings for all brokers, such as ``retain_policy``."""
    last_values: Mapping[str, str] = field(default_factory=dict)
    """The pubends that keep last values beyond their logs, each with the attribute whose values are the keys."""
    tracking: str = ""
    """The tracking strategy of all brokers; empty for Penstock's default."""

    def toml(self, ports: Mapping[str, int]) -> str:
        """The text of the overlay file."""
        lines = ['overlay = "demo"', "[defaults]", *(f"{key} = {value}" for key, value in self.defaults.items())]
        lines += [f'{key} = "{value}"' for key, value in self.words.items()]
        for name, pubends in self.pubends.items():
            listed = ", ".join(f'"{each}"' for each in pubends)
            lines += [f"[brokers.{name}]", f"port = {ports[name]}", f"pubends = [{listed}]"]
            lines.append(f'service = "{self.service}"')
            lines += [f"{key} = {value}" for key, value in self.own.get(name, {}).items()]
        for pubend, attribute in self.last_values.items():
            lines += [f'[pubends."{pubend}"]', f'last_values = "{attribute}"']
        if self.tracking:
            lines += ["[tracking]", f'strategy = "{self.tracking}"']
        for left, right in self.links:
            lines += ["[[links]]", f'between = ["{left}", "{right}"]']
        return "\n".join(lines) + "\n"


DEMO_PLAN: Final = OverlayPlan(
    {"pb1": ("pb1.a", "pb1.b"), "ib1": (), "sb1": (), "sb2": ()}, [("pb1", "ib1"), ("sb1", "ib1"), ("sb2", "ib1")]
)
"""One broker that hosts publishers, one in between, two that host subscribers."""


class DemoOverlay:
    """The brokers of a plan as processes on this machine; use it with ``with``."""

    def __init__(
        self,
        plan: OverlayPlan = DEMO_PLAN,
        *,
        command: Sequence[str] = _COMMAND,
        detours: bool = False,
        tables: Callable[[str], str] | None = None,
        folder: Path | None = None,
        admin: bool = False,
    ) -> None:
        """Keep all files in ``folder``, which stays; without one, in a temporary folder that is removed at the end.

        With ``admin`` every broker has an admin port. ``tables`` gives more text for the overlay file of each broker.
        """
        self.plan: Final = plan
        self.detours: dict[tuple[str, str], int] = {}
        """With detours, for each link the port at which the first broker dials the second one."""
        self._command = tuple(command)
        self._has_detours = detours
        self._tables = tables
        self._has_admin = admin
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}
        self._folder = folder
        self._temporary: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        if self._folder is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="penstock-", ignore_cleanup_errors=True)
            self._folder = Path(self._temporary.name)
        names, links = self.plan.pubends, self.plan.links if self._has_detours else ()
        # All at once, so that no two ports are the same.
        ports = iter(free_ports(2 * len(names) + len(links)))
        self._ports = {name: next(ports) for name in names}
        self.detours = {link: next(ports) for link in links}
        plan = self.plan
        if self._has_admin:
            plan = replace(plan, own={name: {**plan.own.get(name, {}), "admin_port": next(ports)} for name in names})
        self.file.write_text(plan.toml(self._ports), encoding="utf-8")
        for name in names if self._have_own_files else ():
            dialled = {right: port for (left, right), port in self.detours.items() if left == name}
            more = "" if self._tables is None else self._tables(name)
            self.file_of(name).write_text(plan.toml({**self._ports, **dialled}) + more, encoding="utf-8")
        try:
            self.start(*self.plan.pubends)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def file(self) -> Path:
        """The path of the overlay file."""
        assert self._folder is not None, "the overlay has not been entered"
        return self._folder / "overlay.toml"

    def file_of(self, name: str) -> Path:
        """The overlay file that a broker reads: with detours or tables, each broker has its own."""
        return self.file.with_name(f"overlay-{name}.toml") if self._have_own_files else self.file

    def url(self, name: str) -> str:
        """The URL at which clients reach a broker."""
        return f"penstock://{_HOST}:{self._ports[name]}"

    def pid(self, name: str) -> int:
        """The process id of a broker."""
        return self._processes[name].pid

    def port(self, name: str) -> int:
        """The port at which a broker listens."""
        return self._ports[name]

    def log(self, name: str) -> str:
        """The text that a broker has written to standard error."""
        path = self._log_path(name)
        return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""

    def start(self, *names: str) -> None:
        """Start brokers, all at once, and wait until each of them listens."""
        for name in names:
            assert name not in self._processes, f"broker {name} runs already"
            with self._log_path(name).open("ab") as log:
                # Own process group: Ctrl-C at the terminal is for us, and we end the brokers in order.
                self._processes[name] = subprocess.Popen(  # noqa: S603 - our own command, no shell
                    [*self._command, str(self.file_of(name)), "--name", name],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    process_group=0,
                )
        for name in names:
            self._wait_for_line(name)

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Send a signal to a broker, wait until it ends, and return its exit code."""
        process = self._processes.pop(name)
        with closing(_stdout(process)):
            _send(process, number)
            return _end_of(process)

    def pause(self, name: str) -> None:
        """Pause a broker (SIGSTOP)."""
        _send(self._processes[name], signal.SIGSTOP)

    def resume(self, name: str) -> None:
        """Resume a paused broker (SIGCONT)."""
        _send(self._processes[name], signal.SIGCONT)

    def hang_up(self, name: str) -> None:
        """Tell a broker to reread its overlay file (SIGHUP)."""
        _send(self._processes[name], signal.SIGHUP)

    def check(self, *, besides: Collection[str] = ()) -> None:
        """Raise ``BrokerProcessError`` if a broker has ended by itself, other than those in ``besides``."""
        # A list, since another thread may be starting a broker.
        for name, process in list(self._processes.items()):
            if name not in besides and process.poll() is not None:
                raise self._error(name, f"ended by itself with code {process.returncode}")

    async def linked(self) -> None:
        """Wait until every running broker knows every other, and has all its links."""
        await asyncio.gather(*(self._linked(name) for name in self._processes))

    def close(self) -> None:
        """End all brokers in order, by force if need be, and remove temporary files."""
        processes, self._processes = self._processes, {}
        with ExitStack() as files:
            for process in processes.values():
                files.enter_context(_stdout(process))
                _send(process, signal.SIGTERM)
                # A paused broker would not react otherwise.
                _send(process, signal.SIGCONT)
            for process in processes.values():
                _end_of(process)
        if self._temporary is not None:
            self._temporary.cleanup()

    @property
    def _have_own_files(self) -> bool:
        return self._has_detours or self._tables is not None

    def _log_path(self, name: str) -> Path:
        return self.file.with_name(f"{name}.log")

    def _wait_for_line(self, name: str) -> None:
        process = self._processes[name]
        deadline_s = time.monotonic() + _START_S_MAX
        with DefaultSelector() as selector:
            selector.register(_stdout(process), EVENT_READ)
            while not selector.select(timeout=1.0):
                if time.monotonic() > deadline_s:
                    raise self._error(name, f"did not listen within {_START_S_MAX:.0f} s")
        if b"listens" not in _stdout(process).readline():
            raise self._error(name, f"did not start (exit code {_end_of(process)})")

    async def _linked(self, name: str) -> None:
        running = sorted(self._processes)
        links = [right if name == left else left for left, right in self.plan.links if name in (left, right)]
        wanted = [each for each in links if each in running]
        try:
            async with asyncio.timeout(_LINK_S_MAX), connect(self.url(name)) as client:
                while True:
                    status = await client.status()
                    if set(wanted) <= set(status.links) and set(running) <= set(status.brokers):
                        return
                    await asyncio.sleep(_POLL_S)
        except (TimeoutError, ClientError) as error:
            why = str(error) or f"waited {_LINK_S_MAX:.0f} s"
            raise self._error(name, f"did not find its neighbours ({why})") from None

    def _error(self, name: str, what: str) -> BrokerProcessError:
        said = self.log(name).strip().splitlines()[-_QUOTED_LINES:]
        return BrokerProcessError("\n  ".join([f"broker {name} {what}; last lines of its log:", *said]))


def free_ports(count: int) -> list[int]:
    """Find ports on loopback that are free at the moment."""
    rng = SystemRandom()
    ports: list[int] = []
    for port in rng.sample(_PORTS, k=len(_PORTS)):
        if len(ports) == count:
            return ports
        with closing(socket.socket()) as probe:
            # As the broker does it: lingering connections of an earlier run do not count.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((_HOST, port))
            except OSError:
                continue
            ports.append(port)
    raise BrokerProcessError(f"cannot find {count} free ports in {_PORTS.start} .. {_PORTS.stop - 1}")


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _send(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is None:
        os.kill(process.pid, number)


def _end_of(process: subprocess.Popen[bytes]) -> int:
    try:
        return process.wait(_STOP_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
