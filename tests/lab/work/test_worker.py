"""A worker does the jobs of its group, and writes down what became of each acknowledgement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from live.support import guaranteed, run, until
from penstock.client.client import connect
from penstock.lab.work.judge import Life, judge
from penstock.lab.work.worker import WORK_MS, Duty, work
from penstock.live.node import BrokerNode

JOBS = 20


def test_all_jobs_are_done_once_and_none_before_the_start(tmp_path: Path) -> None:
    async def scenario() -> Life:
        async with BrokerNode(guaranteed(tmp_path / "data"), "b1") as node:
            return await worked(node)

    async def worked(node: BrokerNode) -> Life:
        host, port = node.address
        url = f"penstock://{host}:{port}"
        duty = Duty(url, "w0", "g", "number >= 0", str(tmp_path / "jobs"), str(tmp_path / "go"), 4, 0.001)
        life = Life(tmp_path / "jobs")
        async with connect(url) as client:
            group = client.subscribe(duty.selector, shared=duty.group, work_ms=WORK_MS, start="earliest")
            await group.ready()
            await group.close()
            for number in range(JOBS):
                await client.publish({"number": number})
            await client.flush()
            working = asyncio.create_task(work(duty))
            await until(read(life, lambda: life.ready_s is not None))
            assert not life.tried
            assert not life.done
            Path(duty.go).touch()
            await until(read(life, lambda: len(life.done) >= JOBS))
            working.cancel()
            with suppress(asyncio.CancelledError):
                await working
        return life

    life = run(scenario())
    verdict = judge(JOBS, [life])
    assert (verdict.done, verdict.doubled, verdict.lost, verdict.unanswered) == (JOBS, [], [], 0)
    assert verdict.repeated == 0


def read(life: Life, is_enough: Callable[[], bool]) -> Callable[[], bool]:
    def look() -> bool:
        life.read()
        return is_enough()

    return look
