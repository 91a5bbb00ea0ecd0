"""Makes the messages of the live fuzz, and the selectors that match them.

A message follows from the seed, its publisher and its number alone, so that a publisher that was killed sends the same
message again. Each selector comes with an equivalent Python function: the judge uses the function, and so does not
trust the selector engine of Penstock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final
from zlib import crc32

__all__ = ["SELECTORS", "Quote", "Selecting", "draw_quote", "payload_of"]

_SYMBOLS: Final = 20
_PAYLOAD_BYTES_MAX: Final = 700


@dataclass(slots=True, frozen=True)
class Quote:
    """The attributes of one message."""

    publisher: str
    n: int
    symbol: str
    volume: int

    def attributes(self) -> dict[str, str | int]:
        """The attributes as clients publish them."""
        return {"publisher": self.publisher, "n": self.n, "symbol": self.symbol, "volume": self.volume}


@dataclass(slots=True, frozen=True)
class Selecting:
    """A selector, and the same condition in Python."""

    text: str
    fits: Callable[[Quote], bool]


SELECTORS: Final = (
    Selecting("n > 0", lambda quote: quote.n > 0),
    Selecting("volume < 100", lambda quote: quote.volume < 100),
    Selecting("symbol = 'S07'", lambda quote: quote.symbol == "S07"),
    Selecting("symbol LIKE 'S1%'", lambda quote: quote.symbol.startswith("S1")),
    Selecting(
        "symbol IN ('S01', 'S02') OR volume BETWEEN 500 AND 549",
        lambda quote: quote.symbol in {"S01", "S02"} or 500 <= quote.volume <= 549,
    ),
    Selecting("NOT (volume < 900 OR symbol > 'S12')", lambda quote: quote.volume >= 900 and quote.symbol <= "S12"),
)
"""From broad to narrow; the first one matches every message."""


def draw_quote(seed: int, publisher: str, n: int) -> Quote:
    """The message that this publisher sends under this number.

    >>> draw_quote(1, "p1", 7) == draw_quote(1, "p1", 7)
    True
    """
    rng = Random(f"{seed}/{publisher}/{n}")
    return Quote(publisher, n, f"S{rng.randrange(_SYMBOLS):02}", rng.randrange(1_000))


def payload_of(publisher: str, n: int) -> bytes:
    """The payload of a message: its name, repeated up to a length that differs from message to message.

    >>> payload_of("p1", 7)[:10]
    b'p1/7 p1/7 '
    """
    name = f"{publisher}/{n} ".encode()
    length = len(name) + crc32(name) % _PAYLOAD_BYTES_MAX
    return (name * (length // len(name) + 1))[:length]
