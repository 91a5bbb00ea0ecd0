"""Who joins while quotes are published is owed what comes after; what is missing, repeated or strange is seen."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.lab.balancing.live.plan import PAYLOAD, PUBENDS, SELECTORS
from penstock.lab.balancing.live.traffic import Subscriber, Traffic, owed
from penstock.lab.delivery.kill9.oracle import Ledger
from penstock.system.loop import run


class Subscription:
    def __init__(self, *batches: list[Any]) -> None:
        self._batches = batches

    async def batches(self) -> Any:
        for each in self._batches:
            yield each


class Publisher:
    def __init__(self, acknowledged: int) -> None:
        self.counters = SimpleNamespace(acknowledged=acknowledged)

    async def flush(self) -> None:
        """All is acknowledged already."""


def market(count: int) -> tuple[Traffic, list[dict[str, Any]]]:
    """A market in which the first publisher has published so many quotes, all of which the first selector fits."""
    publishers = [Publisher(count), Publisher(0)]
    traffic = Traffic(cast("Any", None), cast("Any", publishers), {})
    quotes = [traffic.ledger.issue(0, {"symbol": "S0", "volume": 1}, now_s=0.0) for _ in range(count)]
    return traffic, cast("Any", quotes)


def reader(ledger: Ledger, *received: Any) -> Subscriber:
    client = SimpleNamespace(broker="B1", counters=SimpleNamespace(moves=2))
    return Subscriber(cast("Any", client), 0, cast("Any", Subscription(list(received))), ledger)


def delivery(quote: dict[str, Any], *, payload: bytes = PAYLOAD, pubend: str = PUBENDS[0]) -> Any:
    return SimpleNamespace(attributes=quote, payload=payload, pubend=pubend)


@pytest.mark.parametrize(
    ("floor", "got", "expected"),
    [
        (0, [], [2, 4, 6, 8]),
        (5, [], [6, 8]),
        (4, [], [6, 8]),
        (5, [6], [6, 8]),
        (5, [4], [4, 6, 8]),
        (5, [8], [6, 8]),
        (9, [8], [8]),
        (9, [], []),
    ],
)
def test_owed_is_what_was_published_later_and_all_behind_the_first_that_came(
    floor: int, got: list[int], expected: list[int]
) -> None:
    assert owed([2, 4, 6, 8], floor, got) == expected


def test_a_subscriber_keeps_what_it_got_and_notices_what_nobody_sent() -> None:
    traffic, quotes = market(4)
    wrong = [
        delivery({**quotes[1], "volume": 7}),
        delivery(quotes[1], payload=b"another"),
        delivery(quotes[1], pubend=PUBENDS[1]),
    ]
    subscriber = reader(traffic.ledger, delivery(quotes[0]), *wrong, delivery(quotes[3]))
    asyncio.run(subscriber.read())
    assert subscriber.strange == 3
    assert [each.numbers for each in subscriber.readings] == [[1, 4], []]
    assert subscriber.lacks()


def test_loss_repetition_and_disorder_are_judged_from_the_floor_on() -> None:
    traffic, quotes = market(6)
    places = (2, 4, 4, 3)
    subscriber = reader(traffic.ledger, *(delivery(quotes[place]) for place in places))
    subscriber.floors = [2, 0]
    traffic.subscribers.append(subscriber)
    asyncio.run(subscriber.read())
    first, second = traffic.verdicts()
    assert (first.lost, first.duplicated, first.reordered, first.wrongly_filtered) == (1, 1, 1, 0)
    assert (second.lost, second.duplicated, second.reordered) == (0, 0, 0)
    assert traffic.delivered == 4
    assert traffic.migrations == 2


def test_what_a_selector_does_not_fit_is_noticed() -> None:
    traffic, _ = market(0)
    other = traffic.ledger.issue(0, {"symbol": "S9", "volume": 1}, now_s=0.0)
    subscriber = reader(traffic.ledger, delivery(cast("Any", other)))
    traffic.subscribers.append(subscriber)
    asyncio.run(subscriber.read())
    assert SELECTORS[0] == "symbol = 'S0'"
    assert traffic.verdicts()[0].wrongly_filtered == 1


def test_who_has_not_got_everything_in_time_is_not_settled() -> None:
    traffic, quotes = market(2)
    subscriber = reader(traffic.ledger, delivery(quotes[0]), delivery(quotes[1]))
    traffic.subscribers.append(subscriber)
    assert not run(traffic.settle(0.01))
    asyncio.run(subscriber.read())
    assert run(traffic.settle(10.0))


def test_the_census_remembers_where_everybody_was() -> None:
    traffic, _ = market(0)
    subscriber = reader(traffic.ledger)
    traffic.subscribers.append(subscriber)
    assert traffic.census() == {"B1": 1, "B2": 0, "B3": 0}
    traffic.census()
    cast("Any", subscriber.client).broker = "B3"
    assert traffic.census() == {"B1": 0, "B2": 0, "B3": 1}
    assert subscriber.trail == ["B1", "B3"]
