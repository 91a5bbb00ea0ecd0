"""Runs the brokers of an attack as processes of one tree, and watches their memory, exit codes and logs."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from string import Template
from types import TracebackType
from typing import IO, Final, Self

from bench.hostile.trees import Tree
from penstock.lab.demo_overlay import free_ports

__all__ = ["OVERLAY", "Arena", "ArenaPlan", "memory_mib", "processor_s"]

OVERLAY: Final = "arena"
_START_S_MAX: Final = 60.0
_STOP_S_MAX: Final = 15.0
_SAMPLE_S: Final = 0.05


@dataclass(slots=True, frozen=True)
class ArenaPlan:
    """The brokers of an arena."""

    toml: str
    """The overlay file; ``$b1`` and the like are ports, ``$admin``, ``$stomp`` and ``$web`` others of the first broker.
    """
    brokers: tuple[str, ...] = ("b1",)
    """The brokers to start; the honest pair publishes at the first and subscribes at the last."""
    files_max: int = 0
    """Files a broker may have open; 0 for as many as the system allows."""
    tls: bool = False
    """Whether the file requires certificates, which are made in its folder."""
    waits_for_links: bool = False
    """Whether the attack waits until the brokers are linked."""


@dataclass(slots=True)
class Memory:
    """Memory of one broker in MiB."""

    before: float = 0.0
    peak: float = 0.0
    after: float = 0.0


@dataclass(slots=True)
class Arena:
    """Running brokers; use it with ``with``."""

    tree: Tree
    plan: ArenaPlan
    folder: Path
    ports: dict[str, int] = field(default_factory=dict)
    refusal: str = ""
    """Why a broker did not start, in its own words."""
    memory: Memory = field(default_factory=Memory)
    """Memory of the broker that needs most."""
    _begun: tuple[float, float] = (0.0, 0.0)
    """When the attack began, and the processor time that the busiest broker had used until then."""
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _over: threading.Event = field(default_factory=threading.Event)
    _sampler: threading.Thread | None = None

    def __enter__(self) -> Self:
        names = ("b1", "b2", "b3", "admin", "stomp", "web")
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
        if self.plan.tls:
            from bench.hostile.certificates import make_certificates

            make_certificates(self.folder, self.plan.brokers)
        self.file.write_text(Template(self.plan.toml).substitute(self._words()), encoding="utf-8")
        for name in self.plan.brokers:
            self._start(name)
        for name in self.plan.brokers:
            if not self._is_ready(name):
                self.refusal = self._last_words(name)
                break
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        if self._sampler is not None:
            self._sampler.join()
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_STOP_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            _stdout(process).close()

    @property
    def file(self) -> Path:
        """The overlay file."""
        return self.folder / "overlay.toml"

    @property
    def pids(self) -> dict[str, int]:
        """The processes by broker."""
        return {name: process.pid for name, process in self._processes.items()}

    def url(self, name: str) -> str:
        """The address of a broker for clients."""
        return f"{'penstocks' if self.plan.tls else 'penstock'}://127.0.0.1:{self.ports[name]}"

    def begin(self) -> None:
        """Measure memory and processor time from now on."""
        self._begun = time.monotonic(), self._processor_s()
        self.memory = Memory(before=max(map(memory_mib, self.pids.values()), default=0.0))

    def busy(self) -> float:
        """The share of a processor that the busiest broker has used since the attack began."""
        started_s, used_s = self._begun
        return (self._processor_s() - used_s) / max(time.monotonic() - started_s, 1e-9)

    def exits(self) -> dict[str, int]:
        """Exit codes of the brokers that have ended by themselves."""
        codes = {name: process.poll() for name, process in self._processes.items()}
        return {name: code for name, code in codes.items() if code is not None}

    def log(self, name: str) -> str:
        """What a broker has written to standard error."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def _processor_s(self) -> float:
        return max(map(processor_s, self.pids.values()), default=0.0)

    def _words(self) -> Mapping[str, str]:
        return {name: str(port) for name, port in self.ports.items()}

    def _start(self, name: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self.tree.penstock("broker", str(self.file), "--name", name),
                env=self.tree.environment(),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                process_group=0,
            )
        if self.plan.files_max:
            # The hard limit as well: a broker may raise its soft limit.
            limits = (self.plan.files_max, self.plan.files_max)
            resource.prlimit(self._processes[name].pid, resource.RLIMIT_NOFILE, limits)

    def _is_ready(self, name: str) -> bool:
        process = self._processes[name]
        with DefaultSelector() as selector:
            selector.register(_stdout(process), EVENT_READ)
            if not selector.select(timeout=_START_S_MAX):
                return False
        return b"listens" in _stdout(process).readline()

    def _last_words(self, name: str) -> str:
        process = self._processes[name]
        try:
            process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        lines = [line for line in self.log(name).splitlines() if line.strip()]
        return lines[-1] if lines else f"exit code {process.returncode}"

    def _sample(self) -> None:
        """Sample the memory, since it comes and goes, and the kernel's own peak would include the start."""
        while not self._over.is_set():
            now = max((memory_mib(pid) for pid in self.pids.values()), default=0.0)
            memory = self.memory
            memory.peak = max(memory.peak, now)
            memory.after = now or memory.after
            time.sleep(_SAMPLE_S)


def memory_mib(pid: int) -> float:
    """The resident memory of a process; 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)


def processor_s(pid: int) -> float:
    """The processor time that a process has used; 0 if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout
