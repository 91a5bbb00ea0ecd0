"""The quote workload of the load balancing paper: stock quotes as publications, and six templates of subscriptions.

Without a file of quotes the market is made up: each symbol walks at random from a price of its own, trades volumes
with a heavy tail, and on about one day in twenty does not trade at all. Everything follows from the generator that is
passed in: subscriptions and publications are drawn from children of it, so that asking for one does not change the
other, and a longer list begins with the shorter one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date, timedelta
from functools import cached_property, partial
from itertools import chain, islice, repeat
from itertools import count as naturals
from random import Random
from typing import Final, TypeAlias, TypeVar

from penstock.model.errors import MisuseError
from penstock.model.values import AttributeValue

__all__ = ["SYMBOLS_MAX", "Publication", "QuoteWorkload"]

Publication: TypeAlias = dict[str, AttributeValue]
_Item = TypeVar("_Item")

SYMBOLS_MAX: Final = 10_000
"""Most symbols in a made-up market."""
DAYS_MAX: Final = 1_000_000
"""Most trading days in a made-up market."""

_FIRST_DAY: Final = date(1984, 9, 7)
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_IDLE_SHARE: Final = 0.05
_PRICE_MIN, _PRICE_MAX = 0.1, 999.0
_VOLUME_MAX: Final = 600_000_000

_SHARES: Final = {"high": 20, "low": 20, "volume": 20, "symbol": 34, "market": 5, "class": 1}
"""Of each hundred subscriptions, how many are made from each template."""


class QuoteWorkload:
    """A market of stocks: what it publishes, and what its subscribers want."""

    def __init__(
        self, rng: Random, symbols: int = 40, quotes: Sequence[Publication] | None = None, *, days: int = 1_000
    ) -> None:
        """Make up a market of some symbols and trading days, or take the given quotes with all their symbols."""
        _check_between("symbols", symbols, SYMBOLS_MAX)
        _check_between("days", days, DAYS_MAX)
        seeds = [rng.getrandbits(64) for _ in range(4)]
        market_seed, self._sample_seed, self._subscription_seed, self._mixed_seed = seeds
        if quotes is not None and not quotes:
            raise MisuseError("a quote workload needs at least one quote")
        self._given = quotes
        self._make_up = partial(_made_up_market, market_seed, symbols, days)

    @cached_property
    def symbols(self) -> tuple[str, ...]:
        """The symbols, in the order in which they were first quoted."""
        return tuple(self._by_symbol)

    def publications(self, count: int) -> Iterator[Publication]:
        """Quotes in the order of the market, from its first day on; after the last day it starts over."""
        # Generated again each time: a long market is streamed and need not fit into memory.
        return islice(chain.from_iterable(self._market() for _ in repeat(None)), count)

    def sample(self, count: int) -> list[Publication]:
        """Quotes drawn from the whole history of the market, as subscriptions are."""
        return Random(self._sample_seed).choices(self._quotes, k=count)

    def subscriptions(self, count: int) -> Iterator[str]:
        """Selectors made from the six templates; each hundred of them has exactly the shares of the paper."""
        rng = Random(self._subscription_seed)
        kinds = [kind for kind, share in _SHARES.items() for _ in range(share)]
        return islice((self._subscription(kind, rng) for kind in _shuffled_forever(kinds, rng)), count)

    def mixed_subscriptions(self, count: int) -> Iterator[str]:
        """Selectors with the other predicates: two ranges, BETWEEN, IN, a prefix, IS NOT NULL; in equal shares."""
        rng = Random(self._mixed_seed)
        kinds: list[Callable[[Random], str]] = [
            self._two_ranges,
            self._between,
            self._one_of,
            self._prefix,
            self._exists,
        ]
        return islice((f"class = 'STOCK' AND {make(rng)}" for make in _shuffled_forever(kinds, rng)), count)

    def _market(self) -> Iterable[Publication]:
        return self._make_up() if self._given is None else self._given

    @cached_property
    def _quotes(self) -> list[Publication]:
        return list(self._market())

    @cached_property
    def _by_symbol(self) -> dict[str, list[Publication]]:
        found: dict[str, list[Publication]] = {}
        for quote in self._quotes:
            found.setdefault(str(quote["symbol"]), []).append(quote)
        return found

    def _subscription(self, kind: str, rng: Random) -> str:
        if kind == "class":
            return "class = 'STOCK'"
        if kind == "market":
            return f"class = 'STOCK' AND volume > {_literal(rng.choice(self._quotes)['volume'])}"
        symbol = self._any_symbol(rng)
        if kind == "symbol":
            return f"class = 'STOCK' AND {_is(symbol)}"
        operator = "<" if kind == "low" else ">"
        return f"class = 'STOCK' AND {_is(symbol)} AND {kind} {operator} {self._value(symbol, kind, rng)}"

    def _two_ranges(self, rng: Random) -> str:
        symbol = self._any_symbol(rng)
        price, volume = self._value(symbol, "high", rng), self._value(symbol, "volume", rng)
        return f"{_is(symbol)} AND high > {price} AND volume < {volume}"

    def _between(self, rng: Random) -> str:
        symbol = self._any_symbol(rng)
        ends = sorted(_number(rng.choice(self._by_symbol[symbol])["close"]) for _ in range(2))
        return f"{_is(symbol)} AND close BETWEEN {_literal(ends[0])} AND {_literal(ends[1])}"

    def _one_of(self, rng: Random) -> str:
        some = rng.sample(self.symbols, k=min(len(self.symbols), rng.randint(2, 4)))
        listed = ", ".join(_literal(symbol) for symbol in some)
        return f"symbol IN ({listed}) AND volume > {self._value(some[0], 'volume', rng)}"

    def _prefix(self, rng: Random) -> str:
        return f"symbol LIKE {_literal(_escaped(self._any_symbol(rng)[:2]) + '%')}"

    def _exists(self, rng: Random) -> str:
        symbol = self._any_symbol(rng)
        return f"{_is(symbol)} AND volume IS NOT NULL AND low < {self._value(symbol, 'low', rng)}"

    def _any_symbol(self, rng: Random) -> str:
        return rng.choice(self.symbols)

    def _value(self, symbol: str, attribute: str, rng: Random) -> str:
        return _literal(rng.choice(self._by_symbol[symbol])[attribute])


def _check_between(what: str, value: int, most: int) -> None:
    if not 1 <= value <= most:
        raise MisuseError(f"{what} is {value:,}, but must be between 1 and {most:,}")


def _is(symbol: str) -> str:
    return f"symbol = {_literal(symbol)}"


def _escaped(text: str) -> str:
    # A symbol with a wildcard in it would make a pattern that means something else: the prefix ends before it.
    return re.split("[%_]", text, maxsplit=1)[0]


def _literal(value: AttributeValue) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)


def _number(value: AttributeValue) -> float:
    assert isinstance(value, int | float), f"not a number: {value!r}"
    return value


def _shuffled_forever(items: Sequence[_Item], rng: Random) -> Iterator[_Item]:
    while True:
        yield from rng.sample(items, k=len(items))


def _made_up_market(seed: int, symbols: int, days: int) -> Iterator[Publication]:
    """Quotes by day and symbol; the walk of a symbol is its own, so that more days only add to it."""
    rng = Random(seed)
    names = sorted(_names(rng, symbols))
    walks = [_walk(Random(rng.getrandbits(64)), name, days) for name in names]
    return chain.from_iterable(zip(*walks, strict=True))


def _names(rng: Random, count: int) -> dict[str, None]:
    names: dict[str, None] = {}
    while len(names) < count:
        length = rng.choice((3, 4, 4, 4, 4, 5))
        names["".join(rng.choices(_LETTERS, k=length))] = None
    return names


def _trading_days(count: int) -> Iterator[str]:
    days = (_FIRST_DAY + timedelta(days=offset) for offset in naturals())
    return islice((day.isoformat() for day in days if day.weekday() < 5), count)


def _walk(rng: Random, symbol: str, days: int) -> Iterator[Publication]:
    price = min(300.0, max(0.5, rng.lognormvariate(2.0, 1.3)))
    restlessness = rng.uniform(0.015, 0.05)
    usual_volume = rng.lognormvariate(11.2, 2.2)
    for day in _trading_days(days):
        opening, price = price, _moved(price, rng.gauss(0.0, restlessness))
        traded = rng.random() >= _IDLE_SHARE
        if not traded:
            price = opening
        swing = abs(rng.gauss(0.0, restlessness / 2)) if traded else 0.0
        volume = int(min(_VOLUME_MAX, 100 + 100 * (usual_volume * rng.lognormvariate(0.0, 1.0) // 100)))
        yield {
            "class": "STOCK",
            "symbol": symbol,
            "open": round(opening, 2),
            "high": round(max(opening, price) * (1 + swing), 2),
            "low": round(max(0.01, min(opening, price) * (1 - swing)), 2),
            "close": round(price, 2),
            "volume": volume if traded else 0,
            "date": day,
        }


def _moved(price: float, step: float) -> float:
    return min(_PRICE_MAX, max(_PRICE_MIN, price * (1.0 + step)))
