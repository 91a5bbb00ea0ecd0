"""Traces in simulated overlays agree with what the simulator saw, and are quick."""

from __future__ import annotations

import pytest

from penstock.lab.tracking.campaign import Tracer, TracingCampaign
from penstock.model.message_id import MessageId
from penstock.sim.topologies import broker_names, chain
from penstock.sim.world import World


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
    assert (verdict.claims.wrong, verdict.deliveries.wrong) == (0, 0)
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


def test_a_refusal_is_no_answer() -> None:
    campaign = TracingCampaign(1, brokers=3)
    assert campaign.world.run_until_ready()
    assert campaign.tracer.ask(MessageId(1, 99, 5, 0)) is None
    assert "broker number 99" in campaign.tracer.refusal


def test_damaged_records_are_gaps_and_never_a_wrong_answer() -> None:
    campaign = TracingCampaign(3, brokers=5)
    world = campaign.world
    world.run_until_ready(limit_ms=60_000)
    campaign._trade(400)
    world.run_for(5_000)
    for broker in world.brokers.values():
        disk = broker.device.disk
        for name in disk.kept_names():
            if name.startswith(("filter/", "attachment/", "since/", "mark")):
                disk.damage_kept(name)
    # Some notice when they start, the others when they are asked.
    for name in list(world.brokers)[::2]:
        world.crash(name)
        world.restart(name)
    world.run_for(60_000)
    verdict = campaign._trace(100)
    assert (verdict.traced, verdict.misses, verdict.refused) == (100, [], [])
    assert verdict.excused > 50
    assert verdict.incomplete == 100
    assert "damaged" in verdict.reasons
    assert (verdict.extra_hops, verdict.extra_receivers) == (0, 0)


def test_harm_is_done_to_records_too() -> None:
    campaign = TracingCampaign(1, brokers=3)
    campaign.world.run_until_ready(limit_ms=60_000)
    campaign._trade(20)
    campaign.world.run_for(3_000)
    campaign._damage()
    assert campaign.blows
    assert all(blow.startswith("damage ") for blow in campaign.blows)
