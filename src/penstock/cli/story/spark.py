"""Chapter 6: Spark archives what was published, traces many messages at once, and audits the deliveries.

The audit is a second judge: it knows what brokers have on record, and nothing of the ledger of the crowd.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing, suppress
from random import Random
from typing import Final

import msgspec

from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import HOSTS, can_ship
from penstock.cli.story.spark_worker import Finding, Work
from penstock.cli.story.stage import Stage
from penstock.cli.story.token import shipped_since
from penstock.pipeline.errors import JavaMissingError, SparkMissingError
from penstock.pipeline.session import check_requirements

__all__ = ["findings_of", "missing_for_spark", "spark"]

_COMMAND: Final = (sys.executable, "-c", "from penstock.cli.story.spark_worker import main; main()")
_JAVA: Final = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For jobs of seconds: code is not worth being compiled twice, nor memory being collected by several threads."""
_STORED_S: Final = 1.5
"""What was recorded last is stored by then, and shipped at the turn after that."""
_STEP_S_MAX: Final = 600.0
_END_S_MAX: Final = 20.0
_END_POLL_S: Final = 0.05
_SLACK_MS: Final = 5_000
_LINE_BYTES_MAX: Final = 16 * 1024 * 1024
_TITLES: Final = {"session": "start", "archive": "archive", "trace": "bulk trace", "audit": "audit", "error": "failed"}


def missing_for_spark() -> str:
    """What Spark would need and is not there, with the fix; empty if all is there."""
    try:
        check_requirements()
    except (SparkMissingError, JavaMissingError) as error:
        return str(error)
    return ""


async def spark(stage: Stage, told: Told) -> None:
    """Have the work done, and tell what came of it."""
    problem = missing_for_spark() if stage.settings.with_spark else "it was not asked for (--no-spark)"
    if problem or not can_ship():
        stage.say(told, f"left out: {problem}")
        return
    await _all_shipped(stage, told)
    told.facts["audit_clean"] = None
    steps: list[str] = []
    async with aclosing(findings_of(_COMMAND, _work(stage))) as findings:
        async for each in findings:
            steps.append(each.step)
            for line in each.lines:
                stage.say(told, f"{_TITLES.get(each.step, each.step)}: {line}")
            told.facts[each.step] = {**each.facts, "seconds": each.seconds}
            if each.step == "audit":
                told.facts["audit_clean"] = each.is_clean
    if "audit" not in steps:
        stage.say(told, "Spark did not get to the end of its work")
        told.as_expected = False
        return
    traced, rows, sent = told.facts["trace"], told.facts["archive"]["rows"], len(stage.crowd.sent)
    if rows != sent:
        stage.say(told, f"{sent:,} messages were published, and {rows:,} archived")
    told.as_expected = told.facts["audit_clean"] is True and traced["ids"] == traced["found"] and rows == sent


async def _all_shipped(stage: Stage, told: Told) -> None:
    """Wait until what happened last is in the lake as well."""
    await stage.view(_STORED_S)
    since_ms = time.time() * 1_000
    names = set(stage.overlay.plan.pubends)
    if not await stage.until(lambda: shipped_since(stage, since_ms) >= names, 4 * stage.settings.token_s):
        stage.say(told, "not all brokers have shipped their last records; what is missing is missing below")


def _work(stage: Stage) -> Work:
    sent = stage.crowd.sent
    some = Random(stage.settings.seed).sample(sent, k=min(stage.settings.traced, len(sent)))
    times = [each.id.timestamp_ms for each in sent]
    return Work(
        brokers=",".join(stage.overlay.brokers.url(name) for name in HOSTS[:2]),
        lake=str(stage.lake),
        out=str(stage.lake.with_name("traces")),
        ids=[str(each.id) for each in some],
        first_ms=min(times) - _SLACK_MS,
        end_ms=max(times) + 60_000,
    )


async def findings_of(command: Sequence[str], work: Work) -> AsyncGenerator[Finding, None]:
    """What the worker says, line by line; it is ended whatever happens here."""
    process = await asyncio.create_subprocess_exec(
        *command,
        msgspec.json.encode(work).decode(),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        limit=_LINE_BYTES_MAX,
        env={**os.environ, **_JAVA},
        # A session of its own: Ctrl-C at the terminal is for us, and we end it in order.
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        while True:
            async with asyncio.timeout(_STEP_S_MAX):
                line = await process.stdout.readline()
            if not line:
                break
            yield msgspec.json.decode(line, type=Finding)
    except TimeoutError:
        yield Finding("error", _STEP_S_MAX, [f"nothing was heard of Spark for {_STEP_S_MAX:.0f} s"], is_clean=False)
    finally:
        await _ended(process)


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End the worker in order if it runs; then whatever is left of its group, its Java above all."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.terminate()
        with suppress(TimeoutError):
            async with asyncio.timeout(_END_S_MAX):
                # Not `wait`: it waits for the pipe as well, which Java may hold on to for as long as it lives.
                while process.returncode is None:
                    await asyncio.sleep(_END_POLL_S)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    # To its end, so that the pipe is closed while there is somebody to do it.
    if process.stdout is not None:
        await process.stdout.read()
