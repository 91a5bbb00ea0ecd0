"""The chapter on Spark, with a worker that is no Spark: what it says, what it leaves out, how it is ended."""

from __future__ import annotations

import asyncio
import sys
import time

import msgspec
import pytest

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story import spark as chapter
from penstock.cli.story.spark import missing_for_spark, rehearse, spark, warm_up
from penstock.cli.story.spark_process import SparkProcess
from penstock.cli.story.spark_worker import Finding
from penstock.model.message_id import MessageId
from penstock.pipeline.errors import JavaMissingError
from stages import World

CLEAN = [
    Finding("session", 1.0, ["Spark is there"]),
    Finding("archive", 1.0, ["3 rows"], {"rows": 3}),
    Finding("trace", 1.0, ["3 found"], {"ids": 3, "found": 3}),
    Finding("audit", 1.0, ["all delivered"], {}),
]


def worker(findings: list[Finding]) -> tuple[str, ...]:
    lines = [msgspec.json.encode(each).decode() for each in findings]
    return sys.executable, "-c", f"print(*{lines!r}, sep='\\n')"


def played(monkeypatch: pytest.MonkeyPatch, findings: list[Finding]) -> World:
    monkeypatch.setattr(chapter, "missing_for_spark", lambda: "")
    world, later_ms = World(), int(time.time() * 1_000) + 60_000
    for name in world.plan.pubends:
        world.logs[name] = f" operated broker={name} fence=1.1 begun_ms={later_ms} ended_ms={later_ms + 1}\n"
    world.crowd.sent += [SentMessage(MessageId(1, 1, later_ms, number), {}) for number in range(3)]

    async def play() -> None:
        async with SparkProcess(worker(findings)) as world.stage.spark:
            await warm_up(world.stage.spark, world.stage.settings)
            await rehearse(world.stage)
            await spark(world.stage, world.told)

    asyncio.run(play())
    return world


def test_a_clean_audit_is_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    told = played(monkeypatch, CLEAN).told
    assert told.as_expected
    assert told.facts["audit_clean"] is True
    assert told.facts["archive"] == {"rows": 3, "seconds": 1.0}
    assert told.lines[-1] == "audit: all delivered"


def test_an_audit_with_faults_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = Finding("audit", 1.0, ["1 lost"], {}, is_clean=False)
    told = played(monkeypatch, [*CLEAN[:3], faulty]).told
    assert (told.as_expected, told.facts["audit_clean"]) == (False, False)


def test_messages_that_were_not_found_are_not_as_expected(monkeypatch: pytest.MonkeyPatch) -> None:
    told = played(monkeypatch, [*CLEAN[:2], Finding("trace", 1.0, [], {"ids": 3, "found": 2}), CLEAN[3]]).told
    assert (told.as_expected, told.facts["audit_clean"]) == (False, True)


def test_messages_that_are_not_in_the_archive_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    told = played(monkeypatch, [CLEAN[0], Finding("archive", 1.0, ["2 rows"], {"rows": 2}), *CLEAN[2:]]).told
    assert told.as_expected is False
    assert told.lines[-1] == "3 messages were published, and 2 archived"


def test_a_worker_that_fails_leaves_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    told = played(monkeypatch, [CLEAN[0], Finding("error", 0.0, ["no space"], is_clean=False)]).told
    assert (told.as_expected, told.facts["audit_clean"]) == (False, None)
    assert "failed: no space" in told.lines
    assert told.lines[-1] == "Spark did not get to the end of its work"


def test_without_java_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise JavaMissingError("Spark needs Java; sudo apt-get install it")

    monkeypatch.setattr(chapter, "check_requirements", missing)
    assert missing_for_spark() == "Spark needs Java; sudo apt-get install it"
    world = World()
    asyncio.run(warm_up(world.stage.spark, world.stage.settings))
    asyncio.run(rehearse(world.stage))
    asyncio.run(spark(world.stage, world.told))
    assert world.told.as_expected is None
    assert world.told.lines == ["left out: Spark needs Java; sudo apt-get install it"]
