"""Quotes, selectors and the estimate of traffic."""

from __future__ import annotations

from itertools import islice

import pytest

from penstock.cli.story.market import FEED, MARK, PUBENDS, Market, with_mark
from penstock.selectors.evaluate import compile_condition
from penstock.selectors.text import parse


def test_the_same_seed_is_the_same_market() -> None:
    one, other = (Market(7, rate=100.0, subscribers=20) for _ in range(2))
    assert one.selectors == other.selectors
    assert list(islice(one.quotes(one.feeds[0]), 5)) == list(islice(other.quotes(other.feeds[0]), 5))
    assert Market(8, rate=100.0, subscribers=20).selectors != one.selectors


def test_feeds_share_the_rate_and_the_pubends() -> None:
    market = Market(1, rate=200.0, subscribers=4)
    assert sum(each.rate for each in market.feeds) == pytest.approx(200.0)
    assert len({each.rate for each in market.feeds}) == len(market.feeds)
    assert {each.pubend for each in market.feeds} == set(PUBENDS)
    for feed in market.feeds:
        assert {quote[FEED] for quote in islice(market.quotes(feed), 10)} == {feed.name}


def test_nobody_wants_the_whole_market() -> None:
    market = Market(1, rate=100.0, subscribers=200)
    assert len(market.selectors) == 200
    assert all("symbol" in text for text in market.selectors)


def test_the_estimate_of_traffic_grows_with_rate_and_subscribers() -> None:
    small = Market(1, rate=100.0, subscribers=20).delivered_bytes_s()
    assert Market(1, rate=200.0, subscribers=20).delivered_bytes_s() == pytest.approx(2 * small)
    assert Market(1, rate=100.0, subscribers=100).delivered_bytes_s() > 2 * small > 0


def test_marks_are_for_everybody() -> None:
    fits = compile_condition(parse(with_mark("symbol = 'A' AND volume > 3")))
    assert fits({MARK: "gold"}) is True
    assert fits({"symbol": "A", "volume": 4}) is True
    assert fits({"symbol": "A", "volume": 2}) is not True


def test_a_feed_quotes_one_symbol_after_the_other() -> None:
    market = Market(1, rate=100.0, subscribers=4)
    for feed in market.feeds:
        symbols = [quote["symbol"] for quote in islice(market.quotes(feed), 40)]
        assert len(set(symbols[:20])) == 20
        assert symbols[:20] == symbols[20:]
