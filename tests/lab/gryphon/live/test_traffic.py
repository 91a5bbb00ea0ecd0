"""Publishers keep their rate, and have no debts; everybody is judged by what was published."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.lab.delivery.kill9.oracle import Ledger
from penstock.lab.gryphon.live.plan import HOSTS, OFFERED_MSG_S, PUBENDS
from penstock.lab.gryphon.live.traffic import CLIENTS, Host, Traffic, pause_s
from penstock.system.loop import run

PAYLOAD = bytes(range(100))


def test_a_publisher_in_time_publishes_at_its_rate() -> None:
    due_s, now_s, sent = 0.0, 0.0, 0
    while now_s < 10:
        due_s, wait_s = pause_s(due_s, now_s)
        now_s += wait_s
        sent += 1
    assert sent == pytest.approx(10 * OFFERED_MSG_S, abs=2)


def test_a_publisher_that_was_held_back_does_not_make_up_for_it() -> None:
    due_s, _ = pause_s(0.0, 0.0)
    burst = 0
    while True:
        due_s, wait_s = pause_s(due_s, 60.0)
        if wait_s > 0:
            break
        burst += 1
    assert burst <= 0.05 * OFFERED_MSG_S + 1


def test_every_client_has_a_name_of_its_own() -> None:
    assert len(set(CLIENTS)) == len(CLIENTS) == len(PUBENDS) + len(HOSTS) + 4


class Subscription:
    def __init__(self, *batches: list[Any]) -> None:
        self._batches = batches

    async def batches(self) -> Any:
        for each in self._batches:
            yield each


def test_a_host_keeps_what_it_got_and_notices_what_nobody_sent() -> None:
    ledger = Ledger(len(PUBENDS), ["TRUE"] * len(HOSTS))
    first, second = (ledger.issue(2, {"header": "h"}, now_s=0.0) for _ in range(2))
    received = [
        SimpleNamespace(attributes=first, payload=PAYLOAD),
        SimpleNamespace(attributes={**second, "header": "x"}, payload=PAYLOAD),
        SimpleNamespace(attributes=second, payload=b"another"),
    ]
    host = Host("sb1", 0, cast("Any", Subscription(received)), ledger)
    asyncio.run(host.read())
    assert (host.delivered, host.strange, host.readings[2].numbers) == (3, 2, [1])
    publishers = [SimpleNamespace(counters=SimpleNamespace(acknowledged=2 * (number == 2))) for number in range(4)]
    traffic = Traffic(ledger, cast("Any", publishers), [host], {})
    assert traffic.acked() == dict(zip(PUBENDS, (0, 0, 2, 0), strict=True))
    assert [verdict.lost for verdict in traffic.verdicts()] == [0, 0, 1, 0]


def test_who_has_not_got_everything_in_time_is_not_settled() -> None:
    ledger = Ledger(len(PUBENDS), ["TRUE"] * len(HOSTS))
    ledger.issue(0, {}, now_s=0.0)
    host = Host("sb1", 0, cast("Any", Subscription()), ledger)
    traffic = Traffic(ledger, [], [host], {})
    assert not run(traffic.settle(0.01))
    host.delivered = 1
    assert run(traffic.settle(10.0))
