"""Measures two ways to record where a broker forwarded messages, against not recording it ([Tracking] section 3.3).

One broker with D neighbours routes messages of one origin, and forwards each to some of them. ``Hb`` is what brokers
record: that they had the message; all neighbours must be asked. ``Hb + Hb,d`` also records it in a history for each
neighbour that got it. ``(r, d)`` records it once, with the set of neighbours in the key: all 2^D sets must be tried, so
each must err that much less often. All are sized to be wrong about an unseen message with the same probability, with
two filters to ask; filters are full. Questions in vain are those to neighbours that never got a message.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from bench.report import Report
from penstock.model.reporting import Reporter
from penstock.tracking.accuracy import message_columns
from penstock.tracking.bloom import BloomFilter
from penstock.tracking.hashing import Column
from penstock.tracking.sizing import FilterShape, choose_shape

__all__ = ["run"]

_START_MS = 1_700_000_000_000
_FILTER_BYTES = 8_192
_EFPP = 0.01
_MATCHING = 2
_SETS = np.uint64(0x9E3779B97F4A7C15)
"""Spreads the number of a set of neighbours over the half of a key with which it is XORed."""
_Sets = NDArray[np.uint64]


@dataclass(slots=True)
class _Found:
    """The costs of one way of recording."""

    bytes_each: float
    record_us: float
    ask_us: float
    in_vain: float
    missed: int


def run(reporter: Reporter, *, seed: int = 0, quick: bool = False) -> Iterator[Report]:
    """Measure brokers with four and eight neighbours, and messages that go to few or to all of them."""
    messages, asked = (6_000, 200) if quick else (60_000, 2_000)
    for neighbours in (4, 8):
        report = Report(
            f"{neighbours} neighbours, efpp {_EFPP:g}: cost per message and question",
            ("forwarded to", "way", "bytes", "record us", "ask us", "questions in vain", "missed"),
        )
        for share in (0.25, 0.5, 1.0):
            reporter.stage(f"{neighbours} neighbours, {share:.0%} get a message")
            sets = _forwarded(Random(f"{seed}/{neighbours}/{share}"), messages, neighbours, share)
            columns = message_columns(messages, publisher=1 + seed, start_ms=_START_MS)
            for name, way in _WAYS.items():
                found = way(columns, sets, neighbours, asked)
                row = found.bytes_each, found.record_us, found.ask_us, found.in_vain, found.missed
                report.rows.append((f"{share * neighbours:.0f}", name, *row))
                figure = f"{neighbours}_{share * neighbours:.0f}_{name.replace(' ', '').replace(',', '')}"
                report.figures.update({f"bytes_{figure}": found.bytes_each, f"in_vain_{figure}": found.in_vain})
        yield report


def _forwarded(rng: Random, messages: int, neighbours: int, share: float) -> _Sets:
    """The set of neighbours that got each message, as bits."""
    wanted = round(share * neighbours)
    chosen = (rng.sample(range(neighbours), wanted) for _ in range(messages))
    return np.array([sum(1 << each for each in some) for some in chosen], dtype=np.uint64)


class _Filters:
    """The filters of one history, each full but the last."""

    def __init__(self, shape: FilterShape, high: Column, low: Column) -> None:
        self._shape = shape
        self._made: list[BloomFilter] = []
        for place in range(0, len(high), shape.n):
            made = BloomFilter(shape)
            made.add_columns(high[place : place + shape.n], low[place : place + shape.n])
            self._made.append(made)
        self.size_bytes = len(high) / shape.n * shape.size_bytes

    def claims(self, high: int, low: int, place: int) -> bool:
        """Whether one of the two filters around a message has it."""
        first = min(place // self._shape.n, max(len(self._made) - _MATCHING, 0))
        return any(each.contains(high, low) for each in self._made[first : first + _MATCHING])


def _plain(columns: tuple[Column, Column], sets: _Sets, neighbours: int, asked: int) -> _Found:
    """Record only that the broker had a message: all neighbours are asked."""
    shape = choose_shape(_EFPP, size_bytes_max=_FILTER_BYTES, matching_set=_MATCHING)
    started = thread_time()
    own = _Filters(shape, *columns)
    record_us = (thread_time() - started) / len(sets) * 1e6
    everybody = (1 << neighbours) - 1
    return _asked(
        own.size_bytes,
        record_us,
        columns,
        sets,
        asked,
        lambda high, low, place: everybody * own.claims(high, low, place),
    )


def _by_neighbour(columns: tuple[Column, Column], sets: _Sets, neighbours: int, asked: int) -> _Found:
    """Record a history per neighbour: those whose history claims the message are asked."""
    high, low = columns
    shape = choose_shape(_EFPP, size_bytes_max=_FILTER_BYTES, matching_set=_MATCHING)
    started = thread_time()
    own = _Filters(shape, high, low)
    chosen = [(sets >> np.uint64(each) & np.uint64(1)).astype(np.bool_) for each in range(neighbours)]
    each_own = [_Filters(shape, high[some], low[some]) for some in chosen]
    record_us = (thread_time() - started) / len(sets) * 1e6
    # How many messages of a neighbour came before each message: a broker would find the same filters by timestamp.
    places = [(np.cumsum(some) - 1).clip(0).tolist() for some in chosen]

    def ask(high: int, low: int, place: int) -> int:
        if not own.claims(high, low, place):
            return 0
        claims = (each.claims(high, low, places[number][place]) for number, each in enumerate(each_own))
        return sum(1 << number for number, claim in enumerate(claims) if claim)

    size_bytes = own.size_bytes + sum(each.size_bytes for each in each_own)
    return _asked(size_bytes, record_us, columns, sets, asked, ask)


def _by_set(columns: tuple[Column, Column], sets: _Sets, neighbours: int, asked: int) -> _Found:
    """Record the set of neighbours: all neighbours in a claimed set are asked."""
    high, low = columns
    every = 1 << neighbours
    shape = choose_shape(_EFPP / every, size_bytes_max=_FILTER_BYTES, matching_set=_MATCHING, k_max=24)
    started = thread_time()
    own = _Filters(shape, high ^ sets * _SETS, low)
    record_us = (thread_time() - started) / len(sets) * 1e6
    keys = [each * int(_SETS) & 2**64 - 1 for each in range(every)]

    def ask(high: int, low: int, place: int) -> int:
        found = 0
        for number, key in enumerate(keys):
            if own.claims(high ^ key, low, place):
                found |= number
        return found

    return _asked(own.size_bytes, record_us, columns, sets, asked, ask)


def _asked(
    size_bytes: float,
    record_us: float,
    columns: tuple[Column, Column],
    sets: _Sets,
    asked: int,
    ask: Callable[[int, int, int], int],
) -> _Found:
    high, low = columns
    places: Sequence[int] = range(0, len(sets), max(len(sets) // asked, 1))
    in_vain = missed = 0
    started = thread_time()
    found = [ask(int(high[place]), int(low[place]), place) for place in places]
    ask_us = (thread_time() - started) / len(places) * 1e6
    for place, some in zip(places, found, strict=True):
        in_vain += (some & ~int(sets[place])).bit_count()
        missed += (int(sets[place]) & ~some).bit_count()
    return _Found(size_bytes / len(sets), record_us, ask_us, in_vain / len(places), missed)


_WAYS = {"Hb": _plain, "Hb + Hb,d": _by_neighbour, "(r, d)": _by_set}
