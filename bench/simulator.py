"""Measures how fast virtual time passes: bare hops over links, and an overlay of ten brokers against real time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from time import perf_counter

from bench.report import Report
from penstock.broker.outbox import Outbox
from penstock.model.reporting import Reporter
from penstock.protocol.frames import Forward, Frame
from penstock.sim.checkers import broken_laws, missing
from penstock.sim.client import SimClient
from penstock.sim.clock import Clock
from penstock.sim.topologies import broker_names, tree
from penstock.sim.wire import LinkOptions, Wire
from penstock.sim.workloads import TopicWorkload
from penstock.sim.world import World

__all__ = ["run"]

_BROKERS = 10
_RATE = 500
_CHAIN = 10


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure hops without brokers, then brokers with messages."""
    yield _hops(reporter, 100_000 if quick else 1_000_000, seed)
    yield _overlay(reporter, 2 if quick else 30, seed)


def _hops(reporter: Reporter, hops: int, seed: int) -> Report:
    report = Report("bare link hops: one frame each, nothing done with it", ("wire", "hops", "hops per second"))
    for name, key, bandwidth in (("unlimited", "unlimited", None), ("100 MB/s", "limited", 100_000_000)):
        reporter.stage(f"link hops, {name}")
        done, seconds = _timed_hops(hops, bandwidth, seed)
        report.rows.append((name, done, done / seconds))
        report.figures[f"hops_per_s_{key}"] = done / seconds
    return report


def _timed_hops(hops: int, bandwidth: int | None, seed: int) -> tuple[int, float]:
    """Time frames that circle in a ring of links, several at a time but never in one batch."""
    clock, rng, options = Clock(), Random(seed), LinkOptions(bandwidth=bandwidth)
    outboxes = [Outbox(control_bytes_max=1 << 20, data_bytes_max=1 << 20) for _ in range(_CHAIN)]
    wires: list[Wire] = []
    frame = Forward("pubend", [1], [bytes(150)])

    def passing_on(place: int) -> Callable[[list[Frame]], None]:
        push = outboxes[place].push_data

        def pass_on(frames: list[Frame]) -> None:
            for each in frames:
                push(each)  # type: ignore[arg-type]
            wires[place].wake()

        return pass_on

    wires += [Wire(clock, options, rng, deliver=passing_on((place + 1) % _CHAIN)) for place in range(_CHAIN)]
    for place, wire in enumerate(wires):
        wire.attach(outboxes[place])
        for turn in range(10):
            clock.after(97 * turn, partial(passing_on(place), [frame]))
    started = perf_counter()
    # A hundred frames hop about once per millisecond each.
    clock.run_for(hops // 100 * 1_000)
    seconds = perf_counter() - started
    return sum(wire.carried_bytes for wire in wires) // frame.size, seconds


def _overlay(reporter: Reporter, virtual_s: int, seed: int) -> Report:
    reporter.stage(f"{_BROKERS} brokers, {_RATE} messages per second, {virtual_s} virtual seconds")
    world, publishers, topics = _world(seed)
    assert world.run_until_ready()
    count = virtual_s * _RATE
    world.feed(
        (each.at_us, publishers[each.publisher], each.attributes, each.payload) for each in topics.publications(count)
    )
    started = perf_counter()
    world.run_for(virtual_s * 1_000)
    seconds = perf_counter() - started
    world.run_for(200)
    clients = list(world.clients.values())
    assert broken_laws(clients) == []
    assert missing(publishers, clients) == []
    delivered = sum(len(client.deliveries) for client in clients)
    report = Report(
        f"{_BROKERS} brokers in a tree, {_RATE} messages/s, 50 subscribers, checked against a naive evaluation",
        ("virtual s", "real s", "× real time", "published", "delivered", "µs per message"),
    )
    report.rows.append((virtual_s, seconds, virtual_s / seconds, count, delivered, 1e6 * seconds / count))
    report.figures.update(
        {"overlay_times_real_time": virtual_s / seconds, "overlay_us_per_message": 1e6 * seconds / count}
    )
    return report


def _world(seed: int) -> tuple[World, list[SimClient], TopicWorkload]:
    world, names = World(seed), broker_names(_BROKERS)
    world.add_overlay(tree(names, children=3), latency_us=2_000)
    topics = TopicWorkload(world.workload, publishers=20, subscribers=50, topics=50, rate=_RATE)
    publishers = [world.add_client(f"pub-{number}", names[number % _BROKERS]) for number in range(topics.publishers)]
    for number, selector in enumerate(topics.subscriptions()):
        world.add_client(f"sub-{number}", names[number * 7 % _BROKERS]).subscribe(selector)
    return world, publishers, topics
