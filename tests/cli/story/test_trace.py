"""The chapter on tracing compares what brokers say with what subscribers have noted."""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import cast

from penstock.cli.demo_verdict import SentMessage
from penstock.cli.story.trace import receivers_in, trace
from penstock.client.client import Client
from penstock.model.message_id import MessageId
from penstock.tracking.answers import BrokerAnswer, Evidence, Hop, Trace
from stages import World


def sent_at(age_ms: int, number: int) -> SentMessage:
    return SentMessage(MessageId(1, 1, int(time.time() * 1_000) - age_ms, number), {"feed": "gold"})


def answered(sent: SentMessage, receivers: list[str]) -> Trace:
    answer = BrokerAnswer("sb1", Evidence.YES, delivered=Evidence.YES, receivers=tuple(receivers))
    return Trace(
        message_id=sent.id,
        origin="pb1",
        published_at="pb1",
        published=Evidence.YES,
        hops=(Hop("sb1", None, Evidence.YES, is_counted=True, answer=answer),),
        routed_by=("pb1", "sb1"),
        delivered_by=("sb1",),
        receivers=tuple(("sb1", name) for name in receivers),
        probable_false_positives=(),
        unreachable=(),
        unknown=(),
        gaps=(),
        asked=2,
        error_probability=0.0,
        is_truncated=False,
    )


def world_with(receivers: list[str]) -> tuple[World, SentMessage]:
    """Three messages of which the second one has two receivers, and brokers that say who they are."""
    world = World()
    world.crowd.sent += [sent_at(9_000, 1), sent_at(8_000, 2), sent_at(10, 3)]
    chosen = world.crowd.sent[1]
    for place, member in enumerate(world.crowd.members):
        member.ids += [each.id.to_bytes() for each in world.crowd.sent if each is not chosen or place < 2][:1]
        if place < 2:
            member.ids.append(chosen.id.to_bytes())
    world.crowd.members[2].ids.clear()

    async def ask(message_id: MessageId) -> Trace:
        sent = next(each for each in world.crowd.sent if each.id == message_id)
        return answered(sent, receivers or sorted(receivers_in(world.stage, sent)))

    world.stage.observer = cast("Client", SimpleNamespace(trace=ask))
    return world, chosen


def test_a_trace_that_names_the_receivers_is_as_expected() -> None:
    world, _ = world_with([])
    asyncio.run(trace(world.stage, world.told))
    assert world.told.as_expected
    # The one with most receivers that is old enough.
    assert world.told.facts["id"] == str(world.crowd.sent[0].id)
    assert len(world.told.facts["receivers"]) == 7
    assert "subscriber-001" in world.told.drawing


def test_a_trace_that_names_somebody_else_is_told() -> None:
    world, _ = world_with(["stranger"])
    asyncio.run(trace(world.stage, world.told))
    assert world.told.as_expected is False
    assert any("not the same" in line for line in world.told.lines)


def test_without_old_messages_nothing_is_traced() -> None:
    world = World()
    world.crowd.sent.append(sent_at(0, 1))
    asyncio.run(trace(world.stage, world.told))
    assert world.told.as_expected is False
    assert "no message is old enough" in world.told.lines[0]


def test_receivers_are_those_who_have_it() -> None:
    world, chosen = world_with([])
    assert receivers_in(world.stage, chosen) == {"subscriber-001", "subscriber-002"}
