"""What is measured of the brokers: who publishes what at which pace, who subscribes to what, and which peers take part.

All messages have seven attributes and a payload of 100 bytes. A peer takes part where its protocol has what the
workload is about: selectors for content, synced storage for durable messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from random import Random
from typing import Final

from bench.live_load import Expected, Load, expected_of
from bench.peers.peer import Interest, Service
from penstock.model.values import AttributeValue
from penstock.sim.workloads import QuoteWorkload, TopicWorkload

__all__ = ["GROUPS", "QUOTES_TOPIC", "Group", "Pace", "Workload", "quotes", "workloads"]

QUOTES_TOPIC: Final = "quotes"
_RING: Final = 512
_STOMP: Final = ("Penstock by STOMP", "ActiveMQ")
_BOTH_WAYS: Final = ("Penstock", "Penstock, nothing recorded")
"""Where a record of each delivery is a large part of the work, Penstock is also measured without it."""
_Attributes = dict[str, AttributeValue]


class Pace(Enum):
    """How fast messages are published."""

    RATE = "at a rate"
    FLOOD = "as fast as the broker accepts and delivers"
    ONE_BY_ONE = "each when the last is acknowledged"
    PIPELINED = "as fast as the broker acknowledges"


@dataclass(slots=True, frozen=True)
class Group:
    """Workloads that make up one table."""

    title: str
    columns: Mapping[str, str]
    """The figures that the table shows, each with its heading."""
    headline: str
    """The figure that the chart shows."""


GROUPS: Final[dict[str, Group]] = {
    "topics": Group(
        "topics, best effort: publishers → subscribers at a fixed rate",
        {"messages_per_s": "messages/s", "cpu_us": "CPU µs/message", "p50_ms": "p50 ms", "p99_ms": "p99 ms"},
        "cpu_us",
    ),
    "fan-out": Group(
        "fan-out, best effort: one publisher, all subscribers want everything",
        {"deliveries_per_s": "deliveries/s", "cpu_us": "CPU µs/message", "busy": "busy"},
        "deliveries_per_s",
    ),
    "selectors": Group(
        "quotes against selectors, best effort: selectors / connections",
        {"messages_per_s": "messages/s in", "deliveries_per_s": "deliveries/s", "cpu_us": "CPU µs/message"},
        "messages_per_s",
    ),
    "stomp-selectors": Group(
        "STOMP: quotes against selectors, best effort: selectors / connections",
        {
            "messages_per_s": "messages/s in",
            "deliveries_per_s": "deliveries/s",
            "cpu_us": "CPU µs/message",
            "busy": "busy",
        },
        "messages_per_s",
    ),
    "stomp-topics": Group(
        "STOMP: topics, best effort: publishers → subscribers at a fixed rate",
        {"messages_per_s": "messages/s", "cpu_us": "CPU µs/message", "p50_ms": "p50 ms", "p99_ms": "p99 ms"},
        "cpu_us",
    ),
    "stomp-connections": Group(
        "STOMP: quotes against one selector on each of many connections",
        {
            "held": "connections held",
            "messages_per_s": "messages/s in",
            "deliveries_per_s": "deliveries/s",
            "cpu_us": "CPU µs/message",
        },
        "messages_per_s",
    ),
    "acknowledged": Group(
        "acknowledged durable publishes, synced",
        {"messages_per_s": "messages/s", "cpu_us": "CPU µs/message", "p50_ms": "ack p50 ms", "p99_ms": "ack p99 ms"},
        "messages_per_s",
    ),
    "durable-topics": Group(
        "topics, durable: publishers → subscribers at a fixed rate, every message synced",
        {"messages_per_s": "messages/s", "cpu_us": "CPU µs/message", "p50_ms": "p50 ms", "p99_ms": "p99 ms"},
        "cpu_us",
    ),
    "work": Group(
        "work queue: durable jobs, each for one of eight workers, who acknowledge it",
        {
            "jobs_per_s": "jobs/s",
            "cpu_us": "CPU µs/job",
            "busy": "busy",
            "publish_per_s": "published/s",
            "publish_cpu_us": "publishing CPU µs/job",
        },
        "jobs_per_s",
    ),
    "clients": Group(
        "client libraries: one Python program publishes messages and reads them back",
        {"messages_per_s": "messages/s end to end", "client_cpu_us": "client CPU µs/message"},
        "messages_per_s",
    ),
}
"""All tables, by the name that the command takes."""


@dataclass(frozen=True)
class Workload:
    """One row of a table, for each of its peers."""

    group: str
    key: str
    title: str
    service: Service
    pace: Pace
    peers: Sequence[str]
    messages: Sequence[_Attributes]
    interests: Sequence[Sequence[Interest]] = field(default_factory=list)
    """The subscriptions of each connection."""
    publishers: int = 1
    rate: float = 0.0
    """Messages per second, where the pace is a rate."""

    @cached_property
    def expected(self) -> Expected:
        """The deliveries that each message should cause."""
        return expected_of(Load(self.messages), [[each.selector for each in some] for some in self.interests])

    @property
    def is_uniform(self) -> bool:
        """Whether every delivery is of the same message to the only subscription of a connection."""
        is_same = all(each == self.messages[0] for each in self.messages)
        return is_same and all([each.selector for each in some] == ["TRUE"] for some in self.interests)


def workloads(group: str, *, seed: int, quick: bool) -> list[Workload]:
    """The workloads of a group; none for work queues and client libraries, which are driven otherwise."""
    match group:
        case "topics":
            brokers = (*_BOTH_WAYS, "mosquitto", "Redis", "NATS", "ActiveMQ", "RabbitMQ")
            return [_topics(group, Service.BEST_EFFORT, brokers, seed=seed, quick=quick)]
        case "fan-out":
            return list(_fan_out(seed))
        case "selectors":
            return list(_selectors(seed, quick=quick))
        case "stomp-selectors":
            return [_selected(group, _STOMP, count, 10, seed=seed) for count in _sizes(quick=quick)]
        case "stomp-topics":
            return [_topics(group, Service.BEST_EFFORT, _STOMP, seed=seed, quick=quick)]
        case "stomp-connections":
            alone = _alone(quick=quick)
            return [_selected(group, _STOMP, alone, alone, seed=seed)]
        case "acknowledged":
            return list(_acknowledged(seed))
        case "durable-topics":
            return [_topics(group, Service.DURABLE, ("Penstock", "RabbitMQ"), seed=seed, quick=quick)]
        case _:
            return []


def quotes(seed: int, count: int = _RING) -> list[_Attributes]:
    """Quotes with seven attributes."""
    sample = QuoteWorkload(Random(seed)).sample(count)
    return [{name: value for name, value in quote.items() if name != "date"} for quote in sample]


def _topics(group: str, service: Service, peers: Sequence[str], *, seed: int, quick: bool) -> Workload:
    publishers, subscribers, rate = (20, 50, 1_000.0) if quick else (200, 500, 5_000.0)
    workload = TopicWorkload(
        Random(seed), publishers=publishers, subscribers=subscribers, topics=subscribers, rate=rate
    )
    more: _Attributes = {"class": "SENSOR", "site": "north", "unit": "bar", "value": 1.5, "valid": True}
    return Workload(
        group,
        "topics",
        f"{publishers} → {subscribers}, {rate:,.0f} messages/s",
        service,
        Pace.RATE,
        peers,
        [each.attributes | more for each in workload.publications(10 * publishers)],
        [[Interest(text.split("'")[1], text)] for text in workload.subscriptions()],
        publishers,
        rate,
    )


def _fan_out(seed: int) -> Iterator[Workload]:
    message = quotes(seed, 1)
    for count in (1, 10, 100):
        yield Workload(
            "fan-out",
            f"fan_out_{count}",
            f"1 → {count}",
            Service.BEST_EFFORT,
            Pace.FLOOD,
            (*_BOTH_WAYS, "mosquitto", "Redis", "NATS"),
            message * _RING,
            [[Interest(QUOTES_TOPIC, "TRUE")]] * count,
        )


def _selectors(seed: int, *, quick: bool) -> Iterator[Workload]:
    peers = ("Penstock", "ActiveMQ")
    for count in _sizes(quick=quick):
        yield _selected("selectors", peers, count, 10, seed=seed)
    for count in _sizes(quick=quick):
        matching = _selected("selectors", peers, count, 10, seed=seed)
        others: list[_Attributes] = [{**quote, "class": "FUND"} for quote in matching.messages]
        yield replace(matching, key=f"no_match_{count}", title=f"{matching.title}, no match", messages=others)
    alone = _alone(quick=quick)
    yield _selected("selectors", peers, alone, alone, seed=seed)


def _selected(group: str, peers: Sequence[str], count: int, connections: int, *, seed: int) -> Workload:
    """Quotes against selectors, dealt to some connections."""
    texts = list(QuoteWorkload(Random(seed)).subscriptions(count))
    return Workload(
        group,
        f"selectors_{count}_alone" if connections == count else f"selectors_{count}",
        f"{count:,} / {connections:,}",
        Service.SELECTORS,
        Pace.FLOOD,
        peers,
        quotes(seed),
        [[Interest(QUOTES_TOPIC, text) for text in texts[hand::connections]] for hand in range(connections)],
    )


def _sizes(*, quick: bool) -> Sequence[int]:
    return (100,) if quick else (100, 1_000, 10_000)


def _alone(*, quick: bool) -> int:
    """How many connections have one selector each."""
    return 100 if quick else 1_000


def _acknowledged(seed: int) -> Iterator[Workload]:
    published = quotes(seed)
    peers = ("Penstock", "RabbitMQ", "PostgreSQL")
    for pace, key, title in (
        (Pace.ONE_BY_ONE, "window_1", "one message at a time"),
        (Pace.PIPELINED, "pipelined", "pipelined"),
    ):
        yield Workload("acknowledged", key, title, Service.DURABLE, pace, peers, published)
