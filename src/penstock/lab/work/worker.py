"""A worker of ``work-kill9``: a process of its own that does jobs, several at a time, and can be killed at any moment.

It writes a line before it acknowledges a job, and another one when it knows what became of that. Lines go to the file
system at once, so that none that was written is lost when the process is killed. Times are of the monotonic clock,
which is the same for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from penstock.client.client import connect
from penstock.client.subscription import Subscription
from penstock.session.errors import WorkLostError
from penstock.session.received import Received
from penstock.session.settings import ClientSettings
from penstock.system.loop import run

__all__ = ["DONE", "LOST", "READY", "TRIED", "UNKNOWN", "WORK_MS", "Duty", "main", "work"]

READY: Final = "ready"
"""The worker is connected."""
TRIED: Final = "tried"
"""The worker acknowledges a job now."""
DONE: Final = "done"
"""The acknowledgement counts."""
LOST: Final = "lost"
"""It does not, because somebody else was handed the job."""
UNKNOWN: Final = "unknown"
"""The job was done long ago, and nobody knows by whom."""
WORK_MS: Final = 5_000
"""How long a worker may take for a job; short, since a job of a dead worker may have to wait for that long."""

_PATIENT: Final = ClientSettings(backoff_max_ms=250)
_POLL_S: Final = 0.01


@dataclass(slots=True, frozen=True)
class Duty:
    """What a worker is to do."""

    url: str
    """The brokers at which it tries to connect, in turn."""
    name: str
    group: str
    selector: str
    log: str
    """The file for its lines."""
    go: str
    """It begins when this file exists."""
    at_once: int
    """How many jobs it does at the same time; it is handed twice as many."""
    job_s: float
    """How long it sleeps for a job."""


async def work(duty: Duty) -> None:
    """Do jobs until killed."""
    log = os.open(duty.log, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    async with connect(duty.url, name=duty.name, settings=_PATIENT) as client:
        _say(log, READY)
        while not Path(duty.go).exists():
            await asyncio.sleep(_POLL_S)
        room = asyncio.Semaphore(duty.at_once)
        subscription = client.subscribe(
            duty.selector, shared=duty.group, work_ms=WORK_MS, prefetch=2 * duty.at_once, start="earliest"
        )
        # If a job fails, so does the worker.
        async with asyncio.TaskGroup() as group:
            async for message in subscription:
                await room.acquire()
                group.create_task(_do(log, subscription, message, duty.job_s, room))


async def _do(log: int, subscription: Subscription, message: Received, job_s: float, room: asyncio.Semaphore) -> None:
    try:
        await asyncio.sleep(job_s)
        job = f"{message.attributes['number']} {message.attempt}"
        _say(log, f"{TRIED} {job}")
        try:
            await subscription.acknowledge(message)
            _say(log, f"{DONE} {job}")
        except WorkLostError as error:
            _say(log, f"{UNKNOWN if error.is_done else LOST} {job}")
    finally:
        room.release()


def _say(log: int, what: str) -> None:
    os.write(log, f"{what} {time.monotonic():.6f}\n".encode())


def main() -> None:
    """Do the duty that the only argument has as JSON."""
    run(work(msgspec.json.decode(sys.argv[1], type=Duty)))


if __name__ == "__main__":
    main()
