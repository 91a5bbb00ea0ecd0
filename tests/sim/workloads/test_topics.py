"""The topic workload has the paper's numbers, shares its rate evenly, and follows from its seed alone."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from penstock.model import MisuseError
from penstock.selectors import Selector
from penstock.sim.workloads import TopicWorkload


def test_the_numbers_are_those_of_the_paper() -> None:
    workload = TopicWorkload(Random(1))
    assert (len(workload.topics), workload.publishers, len(workload.subscriptions())) == (500, 200, 500)
    assert all(len(set(workload.topics_of(publisher))) == 10 for publisher in range(200))
    subscribed = Counter(workload.subscriptions())
    assert 250 < len(subscribed) < 400


def test_five_thousand_messages_take_a_second_and_each_publisher_and_topic_gets_its_share() -> None:
    messages = list(TopicWorkload(Random(2)).publications(5_000))
    assert messages[0].at_us == 0
    assert messages[-1].at_us == 999_800
    assert all(before.at_us <= after.at_us for before, after in pairwise(messages))
    assert set(Counter(message.publisher for message in messages).values()) == {25}
    by_topic = Counter(message.attributes["topic"] for message in messages)
    assert len(by_topic) == 500
    assert max(by_topic.values()) <= 12


def test_each_message_matches_the_subscribers_of_its_topic() -> None:
    workload = TopicWorkload(Random(3), publishers=4, subscribers=20, topics=8, rate=100, payload_bytes=7)
    selectors = [Selector.parse(text) for text in workload.subscriptions()]
    matched = [sum(each.matches(message.attributes) for each in selectors) for message in workload.publications(80)]
    assert sum(matched) / 80 == pytest.approx(20 / 8, rel=0.3)
    assert {len(message.payload) for message in workload.publications(5)} == {7}


def test_a_longer_list_begins_with_the_shorter_and_seeds_differ() -> None:
    first, again, other = (TopicWorkload(Random(seed)) for seed in (4, 4, 5))
    assert list(first.publications(300))[:100] == list(again.publications(100))
    assert first.subscriptions() == again.subscriptions() != other.subscriptions()
    assert first.topics_of(0) != other.topics_of(0)


@pytest.mark.parametrize("wrong", [{"publishers": 0}, {"topics": 0}, {"rate": 0}, {"payload_bytes": -1}])
def test_workloads_that_cannot_be_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(MisuseError):
        TopicWorkload(Random(1), **wrong)
