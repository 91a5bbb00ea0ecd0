"""Traces over a made-up overlay: nothing true is missed outside of declared gaps, and little false is claimed."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest

from penstock.model.message_id import MessageId
from penstock.tracking.answering import Answerer
from penstock.tracking.answers import Trace
from penstock.tracking.attachment import AttachmentMap
from penstock.tracking.hashing import subscriber_key
from penstock.tracking.reconstruct import Reconstruction
from penstock.tracking.recorder import Recorder
from penstock.tracking.settings import TrackingSettings
from penstock.tracking.sizing import FilterShape
from tracking.ids import joined

BROKERS = 16
SUBSCRIBERS = 4
SETTINGS = TrackingSettings(
    shape=FilterShape(512, 60, 5),
    efpp=0.05,
    buffer_bytes=2_000,
    publish_rate_max=500,
    delivery_rate_max=500,
    skew_tolerance_ms=20,
    jitter_ms=30,
)


class Node:
    """One broker with its store."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.values: dict[str, bytes] = {}
        self.is_down = False
        self.attachments = AttachmentMap()
        self.start(now_ms=0)
        for each in range(SUBSCRIBERS):
            self.attachments.attach(f"s{number}-{each}", {}, now_ms=0)

    def start(self, *, now_ms: int) -> None:
        self.tracking = Recorder(self.number, SETTINGS, now_ms=now_ms)
        self.tracking.load(self.values, now_ms=now_ms)
        self.answerer = Answerer(f"b{self.number}", self.number, self.tracking, self.attachments, slack_ms=50)
        self.turn(now_ms)

    def turn(self, now_ms: int) -> None:
        self.tracking.on_deadline(now_ms=now_ms)
        taken = self.tracking.take()
        for keep in taken:
            assert keep.value is not None
            self.values[keep.name] = keep.value
        self.tracking.on_kept(taken)


class World:
    """Brokers in a tree; messages go from their origin to where they are wanted."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.nodes = [Node(number) for number in range(1, BROKERS + 1)]
        self.links: dict[int, list[int]] = defaultdict(list)
        for number in range(2, BROKERS + 1):
            other = rng.randrange(max(1, number - 4), number)
            self.links[number].append(other)
            self.links[other].append(number)
        self.routed: dict[MessageId, set[str]] = {}
        self.received: dict[MessageId, set[tuple[str, str]]] = {}

    def path(self, start: int, end: int) -> list[int]:
        ways = [[start]]
        while ways[0][-1] != end:
            way = ways.pop(0)
            ways += [[*way, each] for each in self.links[way[-1]] if each not in way]
        return ways[0]

    def publish(self, message_id: MessageId, *, now_ms: int) -> None:
        origin = message_id.broker
        ends = self.rng.sample(range(1, BROKERS + 1), 3)
        brokers = {origin, *(each for end in ends for each in self.path(origin, end))}
        self.routed[message_id] = {f"b{each}" for each in brokers}
        self.received[message_id] = set()
        for number in sorted(brokers):
            node = self.nodes[number - 1]
            if number == origin:
                node.tracking.record_published(message_id.to_bytes(), now_ms=now_ms)
            node.tracking.record_routed(origin, message_id.to_bytes(), now_ms=now_ms)
            if number in ends:
                names = [f"s{number}-{each}" for each in range(SUBSCRIBERS) if self.rng.random() < 0.5]
                self.received[message_id] |= {(f"b{number}", name) for name in names}
                keys = [subscriber_key(name) for name in names]
                node.tracking.record_delivered(origin, joined([message_id] * len(names)), keys, now_ms=now_ms)

    def trace(self, message_id: MessageId, *, now_ms: int) -> Trace:
        topology = {f"b{number}": [f"b{each}" for each in others] for number, others in self.links.items()}
        search = Reconstruction(message_id, f"b{message_id.broker}", topology=topology)
        while not search.is_done:
            for ask in search.asks():
                node = self.nodes[int(ask.broker[1:]) - 1]
                if node.is_down:
                    search.on_unreachable(ask.broker)
                    continue
                upstream = [f"b{each}" for each in self.path(node.number, message_id.broker)[1:2]]
                links = topology[ask.broker]
                inquiry = node.answerer.inquire(
                    message_id, ask.origins, neighbours=links, upstream=upstream, now_ms=now_ms
                )
                while inquiry.answer is None:
                    inquiry.on_loaded({name: node.values.get(name) for name in inquiry.needs})
                search.on_answer(inquiry.answer)
        return search.result()


def run(rng: Random, *, crashes: int) -> tuple[World, int]:
    world, now_ms = World(rng), 1_000
    crash_at = {rng.randrange(200, 2_800) for _ in range(crashes)}
    for number in range(3_000):
        now_ms += rng.randrange(6)
        origin = rng.randrange(1, BROKERS + 1)
        skew_ms = rng.randrange(-20, 21)
        world.publish(MessageId(100 + origin, origin, now_ms + skew_ms, number), now_ms=now_ms)
        if number in crash_at:
            rng.choice(world.nodes).start(now_ms=now_ms)
        if number % 10 == 0:
            for node in world.nodes:
                node.turn(now_ms)
    return world, now_ms


@pytest.mark.parametrize(("seed", "crashes"), [(1, 0), (2, 6)])
def test_traces_miss_nothing_outside_of_gaps_and_claim_little_that_is_false(seed: int, crashes: int) -> None:
    rng = Random(seed)
    world, now_ms = run(rng, crashes=crashes)
    false_hops, false_receivers, expected, counted, with_gaps = 0, 0, 0.0, 0, 0
    for message_id in rng.sample(list(world.routed), 200):
        trace = world.trace(message_id, now_ms=now_ms)
        excused = {*(gap.broker for gap in trace.gaps)}
        with_gaps += bool(excused)
        missed = world.routed[message_id] - {*trace.routed_by}
        assert missed <= excused
        missed_receivers = world.received[message_id] - {*trace.receivers}
        assert {broker for broker, _ in missed_receivers} <= excused
        false_hops += len({*trace.routed_by} - world.routed[message_id])
        false_receivers += len({*trace.receivers} - world.received[message_id])
        expected += trace.error_probability
        counted += 1
        assert trace.published_at is not None or excused
    # Every check may be wrong by its own probability, which the trace states.
    assert 0 < false_hops + false_receivers < 1.5 * expected + 10
    assert expected / counted < 0.7
    assert (with_gaps > 0) == (crashes > 0)


def test_brokers_that_are_down_hide_nothing_but_themselves() -> None:
    rng = Random(3)
    world, now_ms = run(rng, crashes=0)
    for number in (3, 7):
        world.nodes[number - 1].is_down = True
    for message_id in rng.sample(list(world.routed), 100):
        trace = world.trace(message_id, now_ms=now_ms)
        missed = world.routed[message_id] - {*trace.routed_by}
        assert missed <= {*trace.unreachable} <= {"b3", "b7"}
        assert all(broker in trace.unreachable for broker, _ in world.received[message_id] - {*trace.receivers})
