"""Tells the whole story: waits for the brokers, connects the crowd, plays chapter by chapter, and ends with a verdict.

A chapter that does not show what it should says so, and the story continues. Only the verdict decides: what
subscribers received, and what the audit found. It is reached outside the brokers, by comparing what every selector
says of every message with what was received.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

from penstock.cli.demo_verdict import SentMessage, judge, latency_of
from penstock.cli.story.crowd import Crowd, Member
from penstock.cli.story.limit import limit
from penstock.cli.story.links import links
from penstock.cli.story.market import with_mark
from penstock.cli.story.narrator import Narrator
from penstock.cli.story.outcome import Judged, Outcome, Told
from penstock.cli.story.plan import HOSTS, JOINED, PUBLISHING
from penstock.cli.story.sampling import Sampler
from penstock.cli.story.settings import StorySettings
from penstock.cli.story.spark import rehearse, spark, warm_up
from penstock.cli.story.spark_process import SparkProcess
from penstock.cli.story.spreading import spreading
from penstock.cli.story.stage import Stage
from penstock.cli.story.token import token
from penstock.cli.story.trace import trace
from penstock.client.client import Client, connect
from penstock.lab.demo_overlay import BrokerProcessError
from penstock.lab.links.overlays import RelayedOverlay
from penstock.model.errors import PenstockError

__all__ = ["CHAPTERS", "judge_all", "tell"]

Play: TypeAlias = Callable[[Stage, Told], Awaitable[None]]

_STALLED_S_MAX: Final = 60.0
"""When nothing has arrived anywhere for this long, messages that are still missing count as lost."""


CHAPTERS: Final[tuple[tuple[str, str, str, Play], ...]] = (
    (
        "balancing",
        "Everybody at one broker: balancing",
        "Subscribers who all join one broker are moved, by the brokers themselves, to where there is power to spare.",
        spreading,
    ),
    (
        "links",
        "A narrow link and a cut one: guaranteed delivery, congestion control",
        "Publishers follow what the slowest link can carry; what a cut link has missed is asked for again.",
        links,
    ),
    (
        "limit",
        "One limit for all: Ajil",
        "A limit on all that is published is shared out among the publishers: those who send most slow down most.",
        limit,
    ),
    (
        "token",
        "Heavy chores, one at a time: the wandering token",
        "A token walks from broker to broker; who has it ships what it has on record to a lake of Parquet files.",
        token,
    ),
    (
        "trace",
        "Where did this message go? Tracking",
        "Brokers remember what passed them; asked about one message, they find its way and its receivers.",
        trace,
    ),
    (
        "spark",
        "The same at scale: Spark",
        "Spark archives all messages, traces many of them at once, and audits what durable subscribers received.",
        spark,
    ),
)
"""Key, title, introduction, and the function that plays it."""


async def tell(overlay: RelayedOverlay, settings: StorySettings, crowd: Crowd, narrator: Narrator) -> Outcome:
    """Play the whole story on running brokers; raises ``BrokerProcessError`` if one of them ends."""
    chapters: list[Told] = []
    async with SparkProcess() as process:
        await warm_up(process, settings)
        await overlay.linked()
        async with AsyncExitStack() as stack:
            await crowd.join(stack, overlay.brokers.url(JOINED), connect=_client)
            await crowd.hire(stack, overlay.brokers.url(PUBLISHING), connect=_client)
            sampler = Sampler(crowd, every_s=settings.sample_s)
            observer = await stack.enter_async_context(_client(overlay.brokers.url(HOSTS[-1]), "observer"))
            stage = Stage(settings, overlay, crowd, sampler, narrator, observer, process)
            samples = sampler.run(lambda: _show(stage))
            await _unless_failed(_flowing(stage, chapters), samples, *(crowd.read(each) for each in crowd.members))
            samples_taken = list(sampler.samples)
            narrator.clear()
            # Closing acknowledges what was read last, so that the audit can judge it.
            subscriptions = (each.subscription for each in crowd.members if each.subscription is not None)
            await asyncio.gather(*(each.close() for each in subscriptions))
        await _played(stage, chapters, len(CHAPTERS) - 1)
        narrator.chapter(len(CHAPTERS) + 1, "The verdict", _about_the_verdict(crowd))
        judged = await asyncio.to_thread(judge_all, crowd.members, crowd.sent)
    latencies = list(chain.from_iterable(each.latencies_ns for each in crowd.members))
    audit = chapters[-1].facts.get("audit_clean")
    return Outcome(settings, chapters, samples_taken, judged, len(crowd.sent), latency_of(latencies), audit)


def judge_all(members: Sequence[Member], sent: Sequence[SentMessage]) -> list[Judged]:
    """Judge every subscriber."""
    return [_judge_member(each, sent) for each in members]


def _judge_member(member: Member, sent: Sequence[SentMessage]) -> Judged:
    """Compare what one subscriber should have received with what it did."""
    verdict = judge(with_mark(member.selector), sent, member.ids, damaged=member.damaged)
    moves = member.client.counters.moves if member.client is not None else 0
    return Judged(member.name, member.broker, member.selector, moves, verdict)


def _client(url: str, name: str) -> Client:
    return connect(url, name=name)


async def _flowing(stage: Stage, chapters: list[Told]) -> None:
    """Play all chapters during which messages flow, and wait for the last message."""
    stop = asyncio.Event()
    publishing = asyncio.gather(*(each.run(stop) for each in stage.crowd.publishers))
    rehearsing = asyncio.create_task(rehearse(stage))
    try:
        for number in range(len(CHAPTERS) - 1):
            await _played(stage, chapters, number)
            if publishing.done():
                # Publishing ends early only if something went wrong.
                await publishing
        stop.set()
        await publishing
    finally:
        publishing.cancel()
        rehearsing.cancel()
        await asyncio.gather(publishing, rehearsing, return_exceptions=True)
    stage.narrator.say("publishers stop; waiting for the last message of each at every subscriber")
    await _arrived(stage)


async def _arrived(stage: Stage) -> None:
    """Wait until every subscriber has everything, as long as anything still arrives."""
    crowd, before = stage.crowd, -1
    while not crowd.is_done and crowd.delivered > before:
        before = crowd.delivered
        await stage.until(partial(_goes_on, crowd, before), _STALLED_S_MAX)


def _goes_on(crowd: Crowd, before: int) -> bool:
    return crowd.is_done or crowd.delivered > before


async def _played(stage: Stage, chapters: list[Told], number: int) -> None:
    key, title, about, play = CHAPTERS[number]
    told = Told(key, title, about, begun_s=stage.sampler.now_s)
    chapters.append(told)
    stage.narrator.chapter(number + 1, title, about)
    try:
        await play(stage, told)
    except BrokerProcessError:
        raise
    except PenstockError as error:
        told.as_expected = False
        stage.say(told, f"that did not work: {error}")
    told.ended_s = stage.sampler.now_s


def _show(stage: Stage) -> None:
    sample = stage.sampler.samples[-1]
    stage.narrator.figures(sample, published=stage.published_rate(), delivered=stage.delivered_rate())


def _about_the_verdict(crowd: Crowd) -> str:
    return (
        f"From outside the brokers: each of {len(crowd.members)} selectors is asked about each of "
        f"{len(crowd.sent):,} messages, and compared with what the subscriber got."
    )


async def _unless_failed(work: Coroutine[Any, Any, None], *endless: Coroutine[Any, Any, None]) -> None:
    """Do the work to its end beside endless tasks; if one of them fails, stop everything and raise."""
    tasks = [asyncio.create_task(each) for each in (work, *endless)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()
