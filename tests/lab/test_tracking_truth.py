"""Traces in simulated overlays agree with what the simulator saw, and are quick."""

from __future__ import annotations

from dataclasses import replace

import pytest

from penstock.lab.tracking_truth import Tracer, TracingCampaign, TracingVerdict, compare
from penstock.model.message_id import MessageId
from penstock.sim.topologies import broker_names, chain
from penstock.sim.world import World
from penstock.tracking.answers import BrokerAnswer, Hop, Trace, Verdict

TRACE = Trace(
    message_id=MessageId(7, 1, 5, 3),
    origin="a",
    published_at="a",
    published=Verdict.YES,
    hops=tuple(Hop(name, None, Verdict.YES, is_counted=True, answer=BrokerAnswer(name, Verdict.YES)) for name in "ab"),
    routed_by=("a", "b"),
    delivered_by=("b",),
    receivers=(("b", "x"),),
    probable_false_positives=(),
    unreachable=(),
    unknown=(),
    gaps=(),
    asked=2,
    error_probability=0.01,
    is_truncated=False,
)


@pytest.mark.parametrize("seed", [1, 2, 4])
def test_traces_agree_with_what_really_happened(seed: int) -> None:
    campaign = TracingCampaign(seed, brokers=8)
    verdict = campaign.run(messages=300, blows=8, traces=50)
    story = f"{campaign.blows} {verdict}"
    assert (verdict.misses, verdict.refused) == ([], []), story
    assert verdict.traced == 50
    assert verdict.hops > 150, story
    assert verdict.receivers > 50, story
    # With so few messages in its filters no broker may be wrong.
    assert verdict.expected < 1e-6
    assert (verdict.extra_hops, verdict.extra_receivers) == (0, 0), story


def test_without_harm_every_answer_is_complete() -> None:
    verdict = TracingCampaign(1, brokers=6).run(messages=100, blows=0, traces=30)
    assert (verdict.traced, verdict.misses, verdict.excused, verdict.incomplete) == (30, [], 0, 0)


def test_a_long_chain_is_traced_within_a_second() -> None:
    world = World(1)
    names = broker_names(20)
    world.add_overlay(chain(names), guaranteed=True, latency_us=10_000)
    feed, alice = world.add_client("feed", names[0]), world.add_client("alice", names[-1])
    alice.subscribe("")
    tracer = Tracer(world, "tracer", names[0])
    assert world.run_until_ready()
    world.run_for(10_000)
    feed.publish({"number": 1}, pubend=f"{names[0]}-pubend")
    world.run_for(5_000)
    before_ms = world.clock.now_ms
    trace = tracer.ask(alice.deliveries[0].message_id)
    assert trace is not None
    assert trace.routed_by == tuple(names)
    assert trace.receivers == ((names[-1], "alice"),)
    assert trace.is_complete
    assert world.clock.now_ms - before_ms < 1_000


def test_what_is_missing_counts_unless_the_answer_says_that_it_may_be() -> None:
    verdict = TracingVerdict()
    compare(TRACE, ["a", "b"], [("b", "x")], verdict)
    assert (verdict.misses, verdict.excused, verdict.extra_hops, verdict.extra_receivers) == ([], 0, 0, 0)
    compare(TRACE, ["a", "c"], [("b", "y")], verdict)
    assert len(verdict.misses) == 2
    assert (verdict.extra_hops, verdict.extra_receivers) == (1, 1)
    compare(replace(TRACE, unreachable=("c",)), ["a", "b", "c"], [("b", "x"), ("c", "y")], verdict)
    assert (len(verdict.misses), verdict.excused, verdict.incomplete) == (2, 2, 1)
    gap = replace(TRACE.hops[1], answer=BrokerAnswer("b", Verdict.YES, delivered=Verdict.GAP))
    compare(replace(TRACE, hops=(TRACE.hops[0], gap), receivers=()), ["a", "b"], [("b", "x")], verdict)
    assert (len(verdict.misses), verdict.excused) == (2, 3)
    assert (verdict.traced, verdict.expected) == (4, 0.04)


def test_a_refusal_is_no_answer() -> None:
    campaign = TracingCampaign(1, brokers=3)
    assert campaign.world.run_until_ready()
    assert campaign.tracer.ask(MessageId(1, 99, 5, 0)) is None
    assert "broker number 99" in campaign.tracer.refusal
