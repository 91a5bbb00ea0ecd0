"""The simulator and live brokers give the same deliveries for the same scenario: one broker, two worlds."""

from __future__ import annotations

from contextlib import AsyncExitStack
from random import Random

from live.support import row, run, until, with_port
from penstock.client.client import connect
from penstock.live.node import BrokerNode
from penstock.model.values import AttributeValue
from penstock.selectors import Selector
from penstock.sim.topologies import chain
from penstock.sim.workloads import QuoteWorkload
from penstock.sim.world import World

Message = dict[str, AttributeValue]

NAMES = ("b1", "b2", "b3")
_MARKET = QuoteWorkload(Random(5), 6, days=50)
QUOTES = list(_MARKET.publications(200))
SELECTORS = [*_MARKET.subscriptions(15), *_MARKET.mixed_subscriptions(15)]


def home_of(number: int) -> str:
    return NAMES[number % 3]


def simulated() -> list[list[Message]]:
    world = World(1)
    world.add_overlay(chain(NAMES), latency_us=1_000)
    publisher = world.add_client("feed", "b1")
    subscribers = [world.add_client(f"s{number}", home_of(number)) for number in range(len(SELECTORS))]
    for subscriber, selector in zip(subscribers, SELECTORS, strict=True):
        subscriber.subscribe(selector)
    assert world.run_until_ready()
    world.feed((1_000 * place, publisher, quote, b"") for place, quote in enumerate(QUOTES))
    world.run_for(len(QUOTES) + 1_000)
    return [[dict(each.attributes) for each in client.deliveries] for client in subscribers]


async def live(expected: list[int]) -> list[list[Message]]:
    overlay = row(*NAMES)
    async with AsyncExitStack() as stack:
        addresses = {}
        nodes = []
        for name in NAMES:
            nodes.append(await stack.enter_async_context(BrokerNode(overlay, name)))
            addresses[name] = "penstock://{}:{}".format(*nodes[-1].address)
            overlay = with_port(overlay, name, nodes[-1].address[1])
        await until(lambda: all(len(node.broker.status().brokers) == 3 for node in nodes))
        subscriptions = []
        for number, selector in enumerate(SELECTORS):
            client = await stack.enter_async_context(connect(addresses[home_of(number)]))
            subscriptions.append(await client.subscribe(selector).ready())
        publisher = await stack.enter_async_context(connect(addresses["b1"]))
        for quote in QUOTES:
            await publisher.publish(quote)
        await publisher.flush()
        return [
            [dict((await subscription.get()).attributes) for _ in range(count)]
            for subscription, count in zip(subscriptions, expected, strict=True)
        ]


def test_both_worlds_deliver_what_a_naive_evaluation_says_in_the_same_order() -> None:
    naive = [[quote for quote in QUOTES if Selector.parse(text).matches(quote)] for text in SELECTORS]
    assert sum(map(len, naive)) > 500
    assert simulated() == naive
    assert run(live([len(each) for each in naive])) == naive
