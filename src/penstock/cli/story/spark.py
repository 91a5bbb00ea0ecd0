"""Chapter 6: Spark archives what was published, traces many messages at once, and audits the deliveries.

The audit is a second judge: it knows only the brokers' records, and nothing of the crowd's ledger.
"""

from __future__ import annotations

import time
from contextlib import aclosing
from random import Random
from typing import Final

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story.outcome import Told
from penstock.cli.story.plan import PUBLISHING, can_ship
from penstock.cli.story.settings import StorySettings
from penstock.cli.story.spark_process import SparkProcess
from penstock.cli.story.spark_worker import Work
from penstock.cli.story.stage import Stage
from penstock.cli.story.token import shipped_since
from penstock.pipeline.errors import JavaMissingError, SparkMissingError
from penstock.pipeline.session import check_requirements

__all__ = ["missing_for_spark", "rehearse", "spark", "warm_up"]

_STORED: Final = 1.5
"""Store intervals to wait for: by then the last records are stored, and go with the next turn."""
_SHIPPED_S_MAX: Final = 60.0
_SLACK_MS: Final = 5_000
_TITLES: Final = {"session": "start", "archive": "archive", "trace": "bulk trace", "audit": "audit", "error": "failed"}


def missing_for_spark() -> str:
    """What Spark needs and is missing, with the fix; empty if nothing is missing."""
    try:
        check_requirements()
    except (SparkMissingError, JavaMissingError) as error:
        return str(error)
    return ""


async def warm_up(process: SparkProcess, settings: StorySettings) -> None:
    """Start Spark, if there will be work for it, while other chapters are shown."""
    if not _reason_against(settings):
        await process.start()


async def rehearse(stage: Stage) -> None:
    """Once every broker has shipped something, let Spark rehearse its work."""
    names = set(stage.overlay.plan.pubends)
    if _reason_against(stage.settings):
        return
    if await stage.until(lambda: shipped_since(stage, 0.0) >= names and bool(stage.crowd.sent), _SHIPPED_S_MAX):
        for steps in stage.settings.rehearsed:
            some = stage.crowd.sent[: stage.settings.traced]
            await stage.spark.hand(_work(stage, list(steps), some, is_rehearsal=True))


async def spark(stage: Stage, told: Told) -> None:
    """Have Spark do the work, and report its findings."""
    if problem := _reason_against(stage.settings):
        stage.say(told, f"left out: {problem}")
        return
    sent = stage.crowd.sent
    some = Random(stage.settings.seed).sample(sent, k=min(stage.settings.traced, len(sent)))
    # The archive contains what publishers sent: it need not wait for shipments.
    await stage.spark.hand(_work(stage, ["archive"], some))
    await _all_shipped(stage, told)
    await stage.spark.hand(_work(stage, ["trace", "audit"], some))
    told.facts["audit_clean"] = None
    steps: list[str] = []
    async with aclosing(stage.spark.findings()) as findings:
        async for each in findings:
            steps.append(each.step)
            for line in each.lines:
                stage.say(told, f"{_TITLES.get(each.step, each.step)}: {line}")
            told.facts[each.step] = {**each.facts, "seconds": each.seconds}
            if each.step == "archive":
                # These steps take some seconds, in which there is nothing else to see.
                stage.narrator.say(f"Spark traces {len(some):,} messages, and audits the table")
            if each.step == "audit":
                told.facts["audit_clean"] = each.is_clean
                # This is the last finding, and waiting for Java to end takes a second.
                break
    if "audit" not in steps:
        stage.say(told, "Spark did not get to the end of its work")
        told.as_expected = False
        return
    traced, rows = told.facts["trace"], told.facts["archive"]["rows"]
    if rows != len(sent):
        stage.say(told, f"{len(sent):,} messages were published, and {rows:,} archived")
    told.as_expected = told.facts["audit_clean"] is True and traced["ids"] == traced["found"] and rows == len(sent)


def _reason_against(settings: StorySettings) -> str:
    if not settings.with_spark:
        return "it was not asked for (--no-spark)"
    return missing_for_spark() or ("" if can_ship() else "brokers cannot ship without pyarrow")


async def _all_shipped(stage: Stage, told: Told) -> None:
    """Wait until the latest records are in the lake, too."""
    await stage.view(_STORED * stage.settings.persist_ms / 1_000)
    since_ms = time.time() * 1_000
    names = set(stage.overlay.plan.pubends)
    if not await stage.until(lambda: shipped_since(stage, since_ms) >= names, 4 * stage.settings.token_s):
        stage.say(told, "not all brokers have shipped their last records; the results below may be incomplete")


def _work(stage: Stage, steps: list[str], traced: list[SentMessage], *, is_rehearsal: bool = False) -> Work:
    times = [each.id.timestamp_ms for each in stage.crowd.sent]
    return Work(
        # The broker that messages come from, so that no link has more to carry.
        brokers=stage.overlay.brokers.url(PUBLISHING),
        lake=str(stage.lake),
        out=str(stage.lake.with_name("rehearsal" if is_rehearsal else "traces")),
        ids=[str(each.id) for each in traced],
        first_ms=min(times) - _SLACK_MS,
        end_ms=max(times) + 60_000,
        steps=steps,
        is_rehearsal=is_rehearsal,
    )
