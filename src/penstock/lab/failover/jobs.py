"""The work queue of ``failover-kill9``: jobs in both pubends, and workers that have some of them at any time.

A worker sleeps for each job, so whatever is struck, some jobs are leased. The workers and their judge are those of
``work-kill9``; here nobody kills them, so they run in this process.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import DemoOverlay
from penstock.lab.failover.plan import CANDIDATES, GROUP, HOSTS, JOBS, REPLICAS_MIN
from penstock.lab.work.judge import Life, WorkVerdict, judge
from penstock.lab.work.worker import WORK_MS, Duty, work
from penstock.live.overlay import Home
from penstock.session.errors import ClientError
from penstock.session.settings import ClientSettings

__all__ = ["Workshop"]

_AT_EACH: Final = 2
"""Workers at each host."""
_AT_ONCE: Final = 10
_JOB_S: Final = 0.5
_PAYLOAD: Final = bytes(100)
_PATIENT: Final = ClientSettings(backoff_max_ms=250, close_ms=1_000, connect_timeout_ms=5_000)
_TURN_S: Final = 0.01
_POLL_S: Final = 0.1


class Workshop:
    """All workers of the group, and the publisher of their jobs; use it with ``async with``."""

    def __init__(self, overlay: DemoOverlay) -> None:
        self._overlay = overlay
        self._folder: Final = overlay.file.parent
        self.lives: list[Life] = []
        self.published = 0
        self._done = 0
        self._is_enough = False
        self._publisher: Client = self._client(HOSTS[0], "jobs")
        self._workers: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.callback(self._dismiss)
            await self._publisher.open()
            stack.push_async_callback(self._publisher.close, flush=False)
            # Makes the group, which then keeps the logs.
            group = self._publisher.subscribe(JOBS, shared=GROUP, work_ms=WORK_MS, prefetch=1, start="earliest")
            await group.ready()
            await group.close()
            go = self._folder / f"{GROUP}.go"
            go.touch()
            for host in HOSTS:
                for number in range(_AT_EACH):
                    self._employ(host, f"{host}-{number}", go)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()

    async def publish(self, rate: float) -> None:
        """Publish jobs to both pubends in turn until it is enough."""
        pubends = list(REPLICAS_MIN)
        began_s = time.monotonic()
        first = self.published
        while not self._is_enough:
            while self.published - first <= (time.monotonic() - began_s) * rate:
                pubend = pubends[self.published % len(pubends)]
                await self._publisher.publish({"run": GROUP, "number": self.published}, _PAYLOAD, pubend=pubend)
                self.published += 1
            await asyncio.sleep(_TURN_S)

    def enough(self) -> None:
        """Let ``publish`` return."""
        self._is_enough = True

    def check(self) -> None:
        """Raise what ended a worker, if any has ended."""
        for worker in self._workers:
            if worker.done():
                worker.result()

    async def settle(self) -> None:
        """Wait until nothing is left in the group, and workers know that."""
        await self._publisher.flush()
        while self._is_open() or await self.left():
            await asyncio.sleep(_POLL_S)

    async def left(self) -> int:
        """How many messages the pubends still have for the group; some if that cannot be known."""
        return sum([await self._left_in(pubend) for pubend in REPLICAS_MIN])

    def verdict(self) -> WorkVerdict:
        """How often jobs were acknowledged."""
        self._look()
        return judge(self.published, self.lives)

    def _employ(self, host: str, name: str, go: Path) -> None:
        log = self._folder / f"{GROUP}-{name}.jobs"
        self.lives.append(Life(log))
        duty = Duty(self._overlay.url(host), name, GROUP, JOBS, str(log), str(go), _AT_ONCE, _JOB_S)
        self._workers.append(asyncio.create_task(work(duty), name=f"worker {name}"))

    def _dismiss(self) -> None:
        for worker in self._workers:
            worker.cancel()

    def _look(self) -> None:
        self._done += sum(life.read() for life in self.lives)

    def _is_open(self) -> bool:
        """Whether workers have not been told of all jobs yet."""
        self._look()
        in_doubt = sum(life.unknown.total() for life in self.lives)
        return self._done + in_doubt < self.published or any(life.tried for life in self.lives)

    async def _left_in(self, pubend: str) -> int:
        for candidate in CANDIDATES:
            try:
                async with self._client(candidate, "asking") as client:
                    homes = (await client.status()).homes
            except ClientError:
                continue
            if Home.name_for(pubend) in homes:
                status = homes[Home.name_for(pubend)].guaranteed.pubends[pubend]
                group = status.groups[GROUP]
                return max(group.known, int(group.position <= status.last_tick))
        return 1

    def _client(self, broker: str, name: str) -> Client:
        return connect(self._overlay.url(broker), name=name, settings=_PATIENT)
