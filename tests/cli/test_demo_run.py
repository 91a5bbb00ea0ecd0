"""The parts of a demo that need no broker; ``test_demo`` plays it as a whole."""

from __future__ import annotations

import re
from random import Random

from penstock.cli.demo_run import DemoSubscriber, Tally, assigned, demo_selectors
from penstock.client import Received
from penstock.model import Message, MessageId
from penstock.model.body import encode_body
from penstock.sim.workloads import QuoteWorkload


def test_the_selectors_of_a_demo_have_all_six_templates() -> None:
    workload = QuoteWorkload(Random(1), days=20)
    for count in (1, 6, 20, 150):
        selectors = demo_selectors(workload, count)
        shapes = {re.sub(r"'[^']*'|[\d.]+", "?", text) for text in selectors}
        assert len(selectors) == count
        assert len(shapes) == min(count, 6)


def test_subscribers_are_at_both_brokers() -> None:
    assert [each.broker for each in assigned(["a = 1", "a = 2", "a = 3"])] == ["sb1", "sb2", "sb1"]


def test_a_subscriber_notes_what_it_gets_and_how_long_it_took() -> None:
    subscriber = DemoSubscriber("sb1", "TRUE")
    message_id = MessageId(1, 2, 3, 4)
    for payload in (bytes(8) + bytes(range(92)), bytes(100), b""):
        subscriber.on_batch([Received("p", 1, encode_body(message_id, Message({}, payload)))])
    assert subscriber.ids == [message_id.to_bytes()] * 3
    assert len(subscriber.latencies_ns) == 1
    assert subscriber.latencies_ns[0] > 0
    assert subscriber.damaged == 2
    assert Tally([subscriber]).delivered == 3
