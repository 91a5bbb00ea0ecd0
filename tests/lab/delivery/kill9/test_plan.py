"""What a seed draws for the live proof: enough blows, at everything, within the time, the same each time."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from penstock.lab.delivery.kill9.plan import BROKERS, HOSTS, LINKS, PLAN, SELECTORS, SOURCES, draw_blows, draw_quote
from penstock.selectors.selector import Selector


@pytest.mark.parametrize("seconds", [1.0, 8.0, 45.0, 120.0])
def test_blows_come_in_order_and_end_within_the_time(seconds: float) -> None:
    blows = draw_blows(Random(1), seconds)
    assert [each.at_s for each in blows] == sorted(each.at_s for each in blows)
    assert all(0 <= each.at_s <= seconds for each in blows)
    assert all((each.target in BROKERS) == (each.kind in {"kill", "stop"}) for each in blows)
    if seconds > 8:
        assert all(each.at_s + each.pause_s <= seconds for each in blows)


def test_kills_grow_with_the_time_and_hit_every_broker() -> None:
    blows = draw_blows(Random(1), 120)
    kinds = Counter(each.kind for each in blows)
    assert set(kinds) == {"kill", "stop", "cut", "stall", "silence"}
    assert kinds["kill"] == 48
    assert {each.target for each in blows if each.kind == "kill"} == set(BROKERS)


def test_the_same_seed_draws_the_same() -> None:
    assert draw_blows(Random(7), 45) == draw_blows(Random(7), 45) != draw_blows(Random(8), 45)


def test_no_broker_in_between_is_the_only_way() -> None:
    for end in (*SOURCES, *HOSTS):
        assert {other for link in LINKS if end in link for other in link} - {end} == {"ib1", "ib2"}
    assert set(PLAN.pubends) == set(BROKERS)


def test_selectors_fit_everything_some_or_little_of_what_is_published() -> None:
    rng = Random(1)
    quotes = [{**draw_quote(rng), "publisher": each % 4, "number": each + 1} for each in range(4_000)]
    shares = [sum(Selector.parse(text).matches(quote) for quote in quotes) / len(quotes) for text in SELECTORS]
    assert shares[0] == 1
    assert all(0 < share < 0.5 for share in shares[1:])
