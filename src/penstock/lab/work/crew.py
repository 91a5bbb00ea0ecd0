"""The workers of ``work-kill9`` as processes: starts and kills them, and reads what they write."""

from __future__ import annotations

import sys
import time
from typing import Final, Self

import msgspec

from penstock.lab.delivery.kill9.process import Kill9Process
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.work.judge import Life
from penstock.lab.work.pace import Span
from penstock.lab.work.plan import brokers_of
from penstock.lab.work.worker import Duty
from penstock.model.errors import PenstockError

__all__ = ["Crew", "WorkerError"]

_COMMAND: Final = (sys.executable, "-m", "penstock.lab.work.worker")


class WorkerError(PenstockError):
    """A worker ended although nobody killed it."""


class Crew:
    """All workers of one group; use it with ``with``, which kills those that are left."""

    def __init__(self, overlay: DemoOverlay, group: str, selector: str, *, at_once: int, job_s: float) -> None:
        self.group, self.selector = group, selector
        self.at_once, self.job_s = at_once, job_s
        self.lives: list[Life] = []
        """Every life that a worker had, in the order of their starts."""
        self.done = 0
        """Acknowledgements that count, as far as files have been read."""
        self._overlay = overlay
        self._folder = overlay.file.parent
        self._go = self._folder / f"{group}.go"
        self._processes: dict[str, tuple[Kill9Process, Life]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process, _life in self._processes.values():
            process.kill_all()

    def start(self, name: str) -> None:
        """Start a worker; it waits until all may begin."""
        life_name = f"{self.group}-{name}-{len(self.lives)}"
        path = self._folder / f"{life_name}.jobs"
        url = ",".join(self._overlay.url(each) for each in brokers_of(int(name[1:])))
        duty = Duty(url, life_name, self.group, self.selector, str(path), str(self._go), self.at_once, self.job_s)
        process = Kill9Process([*_COMMAND, msgspec.json.encode(duty).decode()], path.with_suffix(".log"))
        life = Life(path)
        self.lives.append(life)
        self._processes[name] = process, life
        process.start()

    @property
    def is_ready(self) -> bool:
        """Whether all workers are connected."""
        return all(life.ready_s is not None for _, life in self._processes.values())

    @property
    def is_answered(self) -> bool:
        """Whether every worker that lives knows what became of all its acknowledgements."""
        return not any(life.tried for _, life in self._processes.values())

    @property
    def in_doubt(self) -> int:
        """Acknowledgements of which nobody knows what became of them."""
        killed = [life for life in self.lives if life.killed_s is not None]
        return sum(life.tried.total() for life in killed) + sum(life.unknown.total() for life in self.lives)

    def go(self) -> float:
        """Let all workers begin; returns when that was."""
        self._go.touch()
        return time.monotonic()

    def kill(self, name: str) -> None:
        """Kill a worker."""
        process, life = self._processes.pop(name)
        process.kill()
        life.killed_s = time.monotonic()

    def look(self) -> int:
        """Read what workers have written; returns how many more acknowledgements count."""
        more = sum(life.read() for life in self.lives)
        self.done += more
        for name, (process, _life) in self._processes.items():
            if not process.is_running:
                raise WorkerError(f"worker {name} ended by itself; last lines of its log:\n  {process.log}")
        return more

    def done_s(self) -> list[float]:
        """When jobs were done, in order."""
        return sorted(at_s for life in self.lives for at_s, _, _ in life.done)

    def alive(self, until_s: float) -> list[Span]:
        """From when to when each worker was there, at most until a time."""
        return [
            (life.ready_s, until_s if life.killed_s is None else life.killed_s)
            for life in self.lives
            if life.ready_s is not None
        ]
