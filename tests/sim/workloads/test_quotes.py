"""The quote workload has the paper's shares, the real data's shape, and follows from its seed alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from random import Random

import pytest

from penstock.model import MisuseError
from penstock.selectors import Selector
from penstock.sim.workloads import QuoteWorkload
from penstock.sim.workloads.quotes import Publication

SCRIPT = """
from hashlib import sha256
from random import Random
from penstock.sim.workloads import QuoteWorkload
market = QuoteWorkload(Random(7), 10, days=20)
content = [*market.publications(200), *market.subscriptions(200), *market.mixed_subscriptions(200), *market.sample(50)]
print(sha256(repr(content).encode()).hexdigest())
"""


def template_of(text: str) -> str:
    return re.sub(r"'(?!STOCK)[A-Z]+'|-?\d+(\.\d+)?", "?", text)


def test_each_hundred_subscriptions_have_exactly_the_shares_of_the_paper() -> None:
    texts = list(QuoteWorkload(Random(1), days=50).subscriptions(500))
    for start in range(0, 500, 100):
        assert Counter(map(template_of, texts[start : start + 100])) == {
            "class = 'STOCK' AND symbol = ? AND high > ?": 20,
            "class = 'STOCK' AND symbol = ? AND low < ?": 20,
            "class = 'STOCK' AND symbol = ? AND volume > ?": 20,
            "class = 'STOCK' AND symbol = ?": 34,
            "class = 'STOCK' AND volume > ?": 5,
            "class = 'STOCK'": 1,
        }


def test_thresholds_are_values_of_the_stocks_own_publications() -> None:
    market = QuoteWorkload(Random(2), 5, days=30)
    own = {
        (quote["symbol"], name, quote[name]) for quote in market.publications(150) for name in ("high", "low", "volume")
    }
    for text in market.subscriptions(300):
        found = re.fullmatch(r"class = 'STOCK' AND symbol = '(\w+)' AND (\w+) [<>] (.+)", text)
        if found:
            symbol, name, value = found.groups()
            assert (symbol, name, float(value)) in own


def test_mixed_subscriptions_have_equal_shares_of_five_kinds_and_all_parse() -> None:
    texts = list(QuoteWorkload(Random(3), days=30).mixed_subscriptions(100))
    kinds = Counter(
        next(word for word in ("BETWEEN", " IN ", "LIKE", "IS NOT NULL", "high") if word in text) for text in texts
    )
    assert set(kinds.values()) == {20}
    assert len(kinds) == 5
    for text in texts:
        Selector.parse(text)


def test_a_longer_list_begins_with_the_shorter_one_whatever_else_was_asked() -> None:
    market, other = QuoteWorkload(Random(4), days=30), QuoteWorkload(Random(4), days=30)
    market.sample(10)
    assert list(market.subscriptions(150))[:40] == list(other.subscriptions(40))
    assert list(market.mixed_subscriptions(50))[:7] == list(other.mixed_subscriptions(7))
    assert list(market.publications(90))[:50] == list(other.publications(50))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_made_up_quotes_have_the_shape_of_real_ones(seed: int) -> None:
    quotes = list(QuoteWorkload(Random(seed), days=250).publications(10_000))
    for quote in quotes:
        opening, high, low, close = (quote[name] for name in ("open", "high", "low", "close"))
        assert isinstance(opening, float)
        assert isinstance(high, float)
        assert isinstance(low, float)
        assert isinstance(close, float)
        assert 0 < low <= min(opening, close) <= max(opening, close) <= high
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", str(quote["date"]))
        assert quote["class"] == "STOCK"
    volumes = sorted(int(str(quote["volume"])) for quote in quotes)
    assert 0.03 < sum(volume == 0 for volume in volumes) / len(volumes) < 0.07
    assert sum(volumes) / len(volumes) > 2 * volumes[len(volumes) // 2], "the tail is not heavy"


def test_quotes_come_by_date_then_symbol_and_start_over_at_the_end() -> None:
    quotes = list(QuoteWorkload(Random(5), 3, days=4).publications(24))
    keys = [(str(quote["date"]), str(quote["symbol"])) for quote in quotes[:12]]
    assert keys == sorted(keys)
    assert quotes[:12] == quotes[12:]


def test_ten_thousand_symbols_are_all_different() -> None:
    market = QuoteWorkload(Random(6), 10_000, days=1)
    assert len(set(market.symbols)) == 10_000
    assert all(re.fullmatch("[A-Z]{3,5}", symbol) for symbol in market.symbols)


def test_given_quotes_replace_the_made_up_market() -> None:
    prices: Publication = {"open": 2.0, "high": 2.5, "low": 1.5, "close": 2.0}
    quote: Publication = {"class": "STOCK", "symbol": "O'X%", **prices, "volume": 7, "date": "2004-12-28"}
    market = QuoteWorkload(Random(7), quotes=[quote])
    assert market.symbols == ("O'X%",)
    for text in [*market.subscriptions(100), *market.mixed_subscriptions(10)]:
        Selector.parse(text)
    assert "class = 'STOCK' AND symbol = 'O''X%' AND volume > 7" in set(market.subscriptions(100))


@pytest.mark.parametrize("symbols", [0, 10_001])
def test_an_impossible_number_of_symbols_is_refused(symbols: int) -> None:
    with pytest.raises(MisuseError, match="must be between 1 and 10,000"):
        QuoteWorkload(Random(0), symbols)


def test_a_market_without_quotes_is_refused() -> None:
    with pytest.raises(MisuseError, match="at least one quote"):
        QuoteWorkload(Random(0), quotes=[])


def test_the_workload_does_not_depend_on_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
