"""A worker that is no Spark: it gets its work when there is some, and is ended with whoever listens."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from select import select

from penstock.cli.story.spark_process import SparkProcess
from penstock.cli.story.spark_worker import Work

WORK = Work("penstock://a", "lake", "out", ["x"], 1, 2, ["trace"])
READY = """print('{"step": "ready", "seconds": 1, "lines": []}', flush=True)"""
ECHO = f"""import json, sys
{READY}
work = json.loads(sys.stdin.readline())
print(json.dumps({{"step": "work", "seconds": 0, "lines": [work["brokers"], repr(sys.stdin.read())]}}))
"""
CHILD = """import os, subprocess, sys, time
os.setpgid(0, 0)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
print('{"step": "child", "seconds": %d, "lines": []}' % child.pid, flush=True)
time.sleep(600)
"""


def python(script: str) -> tuple[str, ...]:
    return sys.executable, "-c", script


def test_it_gets_ready_before_there_is_work_and_nothing_more_comes_after_it() -> None:
    async def listen() -> list[tuple[str, list[str]]]:
        async with SparkProcess(python(ECHO)) as process:
            started = await process.start()
            assert await process.start() is started
            await process.hand(WORK)
            return [(each.step, each.lines) async for each in process.findings()]

    assert asyncio.run(listen()) == [("ready", []), ("work", ["penstock://a", "''"])]


def test_a_worker_that_has_ended_finds_nothing() -> None:
    async def listen() -> list[str]:
        async with SparkProcess(python("pass")) as process:
            await (await process.start()).wait()
            await process.hand(WORK)
            return [each.step async for each in process.findings()]

    assert asyncio.run(listen()) == []


def test_what_was_never_started_is_not_ended() -> None:
    async def pass_by() -> None:
        async with SparkProcess(python("pass")):
            pass

    asyncio.run(pass_by())


def test_a_worker_and_its_children_are_ended_with_whoever_listens() -> None:
    async def listen() -> int:
        async with SparkProcess(python(CHILD)) as process, aclosing(process.findings()) as findings:
            async for each in findings:
                return int(each.seconds)
        raise AssertionError("did not tell of its child")

    assert has_ended(asyncio.run(listen()))


def has_ended(pid: int) -> bool:
    """Whether a process ends that was killed: it may take the kernel a moment."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with os.fdopen(watched):
        return bool(select([watched], [], [], 30.0)[0])
